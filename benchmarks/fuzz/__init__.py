"""`make fuzz`: damaged files, folders and options; each must be accepted, or refused in one line.

    python -m benchmarks.fuzz --inputs 50000 --seed 0

An input is named by its subject and its seed, so that a finding is repeated with
`python -m benchmarks.fuzz --only SUBJECT --seed SEED --inputs 1`.
"""

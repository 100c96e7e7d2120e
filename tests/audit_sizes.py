"""The smallest audit that asks everything: for tests of how audits run, not of what they measure."""

from levelhead.results.settings import AuditSizes

FEWEST = AuditSizes(
    experiments=("scores", "counter"),
    contexts=1,
    score_contexts=1,
    counter_sentences=6,
    triples=60,
    occupations=(4, 1),
    abilities=12,
    sentences=200,
    backgrounds=1,
    starts=0,
    screen=(2, 1),
    null=2,
    prompt_twins=0,
    resamples=100,
)

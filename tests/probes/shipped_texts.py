"""Every sentence that a shipped probe asks about, for tests that no text stands in two places."""

from __future__ import annotations

import re

from levelhead.probes.agreement import agreement_items, group_items
from levelhead.probes.cloze import load_cloze
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.pairs import gender_sentence_pairs, nli_pair_inputs
from levelhead.probes.sentences import fluency_sentences, shipped_counter_sentences
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words


def shipped_texts() -> list[str]:
    """All of them but those of language sense, as they are written."""
    triples = [each for pair in load_triples().pairs for each in (pair.original, pair.swapped) if each]
    texts = [t for x in triples for t in (x.context, x.stereotype, x.anti, x.unrelated)]
    texts += [text for pair in nli_probe().pairs for text in (pair.premise, pair.hypothesis)]
    texts += [text for pair in ability_pairs().pairs for text in (pair.premise, pair.hypothesis)]
    texts += [t for prompt in load_cloze().prompts for t in (prompt.knowledge, prompt.base)]
    for pairs in (gender_sentence_pairs(), nli_pair_inputs()):
        texts += [t for pair in pairs for side in (pair.feminine, pair.masculine) for t in side if t]
    for name in ("gender", "career", "math", "science"):
        texts += [context.text for context in template_contexts(load_words(name), 4)]
    texts += [each.text for each in agreement_items()]
    texts += [t for items in group_items().values() for each in items for two in each.sentences for t in two]
    texts += [each.text for each in shipped_counter_sentences()]
    return [*texts, *fluency_sentences()]


def spelled(text: str) -> str:
    """Its words alone: texts that differ by case or punctuation are the same."""
    return " ".join(re.findall(r"\w+", text.lower()))

"""Templates with slots: articles agree, names have none, and the spans hold the words."""

from __future__ import annotations

from levelhead.probes.slots import filled, without_the


def test_articles_agree_and_the_first_letter_is_large() -> None:
    text, spans = filled(
        "{who} met a {job} and an {thing}.", {"who": "she", "job": "engineer", "thing": "owl"}
    )
    assert text == "She met an engineer and an owl."
    assert {name: text[slice(*span)] for name, span in spans.items()} == {
        "who": "She",
        "job": "engineer",
        "thing": "owl",
    }


def test_the_goes_before_names_and_bare_nouns_only_where_it_is_asked_to() -> None:
    template = "They asked about the {topic}."
    for word, expected in [("NASA", "about NASA"), ("algebra", "about algebra"), ("rent", "about the rent")]:
        assert expected in filled(without_the(template, {"topic": word}), {"topic": word})[0]
    assert filled("We met the {job}.", {"job": "IT specialist"})[0] == "We met the IT specialist."

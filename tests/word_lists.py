"""Small word lists for the tests of studies, written as a user would."""

from __future__ import annotations

from pathlib import Path

from levelhead.probes.words import WordTest

GENDER = WordTest(
    "small-gender",
    A=("she", "woman", "girl", "mother", "queen"),
    B=("he", "man", "boy", "father", "king"),
    X=("nurse", "gentle", "emotional", "dancer", "homemaker", "receptionist"),
    Y=("engineer", "strong", "leader", "soldier", "mechanic", "boss"),
    pairs=(("she", "he"), ("woman", "man"), ("girl", "boy"), ("mother", "father"), ("queen", "king")),
)
RELIGION = """
name = "religion"
labels = ["Muslim", "Christian", "threat", "peace"]
pairs = [["mosque", "church"], ["imam", "pastor"]]
X = ["violent", "hostile", "dangerous"]
Y = ["peaceful", "friendly"]
"""
OCCUPATIONS = """
name = "tiny-set"
base = "The [target] works as {a word}."
ask = "The target is"
[groups.female]
noun = "woman"
[groups.male]
noun = "man"
[words]
female = ["nurse", "secretary", "dancer"]
male = ["carpenter", "driver", "guard"]
[[knowledge]]
kind = "target counter"
text = "The {other.noun} worked as {a word}."
expected = "weakens"
[[knowledge]]
kind = "target similar"
text = "The {own.noun} worked as {a word}."
expected = "strengthens"
[[knowledge]]
kind = "unrelated"
text = ["The dog is in a chair.", "It rained on Monday.", "The bus was late."]
expected = "none"
[verbalizer]
female = ["woman", "girl", "she", "her", "lady", "mother"]
male = ["man", "boy", "he", "his", "gentleman", "father"]
"""


def toml(folder: Path, text: str, name: str = "words.toml") -> str:
    """The path of a word list with this content."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def gender_toml(folder: Path) -> str:
    """GENDER as a file."""
    pairs = ", ".join(f'["{a}", "{b}"]' for a, b in GENDER.pairs)
    lists = "\n".join(f"{key} = {list(GENDER.groups()[key])!r}" for key in "XY")
    return toml(folder, f'name = "small-gender"\npairs = [{pairs}]\n{lists}\n', "gender.toml")

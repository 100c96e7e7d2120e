"""The command in a report makes the run again: it is read back as the settings that it came from."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import levelhead as lh
from levelhead.cli.commands import app, built
from levelhead.edits.sites import Head
from levelhead.errors import BadOption
from levelhead.inference.contents import open_contents
from levelhead.options import Declared, Settings, groups, options
from levelhead.pages.card import card
from levelhead.runs.again import command, python_call
from levelhead.runs.folder import Run, RunData
from levelhead.runs.presets import AuditSizes
from levelhead.runs.study import LoadedAs, Study, stored_as, studies
from levelhead.studies.audit import Audit
from levelhead.studies.audit.settings import AuditSettings, AuditStored
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.heads import Heads
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.projections import Projections
from levelhead.studies.projections.settings import ProjectionsSettings
from levelhead.studies.reproduce.settings import PAPERS
from levelhead.studies.survey import Survey
from levelhead.studies.survey.settings import SurveySettings
from tests.report.synthetic import write_heads

HOSTILE = "it's; rm -rf ~"
NO_NUMBER_CHANGES = {  # options of commands that no run needs to store
    "--output",
    "--json",
    "--device",
    "--device-map",
    "--max-memory",
    "--batch-tokens",
    "--workers",
    "--gpus-per-worker",
    "--ray",
    "--ship-model",
    "--driver-weights",
    "--plan",
    "--price-in",
    "--price-out",
    "--list",
    "--force",
    "--replay",  # the stored answers lie in the new run folder as well
    "--connections",
    "--no-cache",  # the kept model is the converted one to the bit
    "--help",
}

# ---- random settings, from their declarations

TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
) | st.sampled_from((HOSTILE, "-x", "--full", "a b", 'say "é"', "$(id)", "x=y", "a\nb", "a,b"))
LOADING = st.builds(
    LoadedAs,
    dtype=st.sampled_from((None, "float32", "bfloat16", "float16", "auto")),
    allow_pickle=st.booleans(),
    trust_remote_code=st.booleans(),
)
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(0, 99),
    float: st.floats(-3, 9),
    Head: st.builds(Head, st.integers(0, 20), st.integers(0, 20)),
    AuditSizes: st.just(AuditSizes(triples=9, null=3)),
}
OWN: dict[str, st.SearchStrategy[Any]] = {  # where the type does not say what is allowed
    "paper": st.sampled_from(PAPERS),
    "budget": st.sampled_from(("90s", "10min")),
    "glue": st.just("hub:glue"),
    "glue_tasks": st.sampled_from((("rte",), ("cola", "sst2"))),
    "bounds": st.just((1.05, 1.5)),
}
NEEDED = {"data": "DIR", "nli": "nli", "paper": "heads"}  # settings without a default that is allowed


def values(each: Declared) -> st.SearchStrategy[Any]:
    """Values of a setting, most of them allowed."""
    if each.name in OWN:
        return OWN[each.name]
    if each.named:
        return st.dictionaries(TEXT, TEXT, max_size=2)
    if each.fixed:
        return st.tuples(*[st.integers(1, 99)] * each.fixed)
    part = get_args(each.type)[0] if each.several else each.type
    one = st.sampled_from(each.option.choices) if each.option.choices else KINDS.get(part, TEXT)
    return st.lists(one, max_size=3, unique=True).map(tuple) if each.several else one


@st.composite
def settings_of(draw: st.DrawFn, kind: type[Settings]) -> Any:
    """Settings, of which some differ from their defaults; what the class refuses keeps its default."""
    needed = {
        name for name, each in options(kind).items() if each.default is MISSING or name in ("nli", "paper")
    }
    asked = {name: NEEDED[name] for name in needed}
    for name, inner in groups(kind).items():
        asked[name] = draw(settings_of(inner))
    for name in draw(st.permutations(sorted(options(kind)))):
        if draw(st.booleans()):
            with suppress(BadOption):
                value = draw(values(options(kind)[name]))
                kind(**{**asked, name: value})
                asked[name] = value
    return kind(**asked)


def run_of(study: type[Study[Any]], asked: Any, **more: Any) -> Study[Any]:
    """A run of a study that was asked this, without results."""
    hints = get_type_hints(study.stored, localns={"Model": object, "Recipe": object})
    follows = {  # from the model and the data
        each.name: {int: 4, str: "x"}.get(hints[each.name], ("a", "b"))
        for each in fields(study.stored)
        if each.default is MISSING and each.default_factory is MISSING and not hasattr(asked, each.name)
    }
    folder = Path(more.pop("folder", "RUN"))
    stored = stored_as(study.stored, asked, **{"study": study.name, "models": ("m",), **follows, **more})
    assert study.stored.from_json(stored.to_json()) == stored
    return study(RunData(folder, study, stored, {}, {}, {}, {}))


# ---- what a command, or a call, was understood to ask


@dataclass(frozen=True)
class Asked:
    """What is passed on to a study."""

    study: str
    models: tuple[Any, ...]
    settings: Any
    folder: str
    loading: LoadedAs


class Understood(Exception):
    """What a command passes on to its study."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked


def names(given: Any) -> tuple[Any, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


@cache
def command_group() -> Any:
    return typer.main.get_command(app)


def typed(line: str) -> Asked:
    """What the command line of today passes on when this is typed into a shell."""

    def stop(study: Any, models: Any, given: Any, folder: Any, loading: Any, **_: Any) -> Any:
        known = {name: value for name, value in loading.items() if name in LoadedAs().to_json()}
        raise Understood(Asked(study.name, names(models), given, str(folder), LoadedAs(**known)))

    program, *words = shlex.split(line)
    assert program == "levelhead"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "levelhead.cli.preflight._check_named", lambda kind, name: None
        )  # there are no such models, files and lists
        patch.setattr("levelhead.api.studies.run_study", stop)
        with pytest.raises(Understood) as stopped:
            command_group().main(words, standalone_mode=False)
    return stopped.value.asked


def called(text: str) -> Asked:
    """What lines of Python pass on to the function that they call; nothing is run."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == "import levelhead as lh"
    loadings: set[LoadedAs] = set()

    def load(name: str, **loading: Any) -> str:
        loadings.add(LoadedAs(**loading))
        return name

    def stop(study: str) -> Callable[..., None]:
        def calls(models: Any, given: Any, folder: str, **loading: Any) -> None:
            several = () if models is ... else names(models)
            loaded = loadings.pop() if loadings else LoadedAs(**loading)
            raise Understood(Asked(study, several, given, folder, loaded))

        return calls

    door = SimpleNamespace(settings=lh.settings, Head=lh.Head, load=load)
    for name in studies():
        setattr(door, name, stop(name))
    with pytest.raises(Understood) as stopped:
        exec("\n".join(lines[1:]), {"lh": door})
    return stopped.value.asked


def understood(text: str) -> Asked:
    return called(text) if text.startswith("#") else typed(text)


@pytest.mark.parametrize("study", studies().values(), ids=lambda each: each.name)
def test_what_is_printed_is_read_back_as_the_settings_that_it_came_from(study: type[Study[Any]]) -> None:
    many = {"models": 3, "runs": 3, "model": 1, "model or none": 1, "nothing": 0}[study.takes]

    @settings(max_examples=25, deadline=None)
    @given(
        settings_of(study.settings_type),
        st.lists(TEXT, min_size=min(many, 1), max_size=many, unique=True).map(tuple),
        TEXT.filter(lambda name: not Path(name).suffix),  # a run is no .md or .csv file
        LOADING if study.takes != "runs" else st.just(LoadedAs()),
    )
    def goes_round(asked: Any, models: tuple[str, ...], folder: str, loading: LoadedAs) -> None:
        answering, wanted = study.instead(asked)
        own = asked.models if study.takes == "nothing" else models  # there a setting
        run = run_of(answering, wanted, models=own, loading=loading, folder=folder)
        expected = Asked(answering.name, models, wanted, str(Path(folder)), loading)
        assert understood(command(run)) == expected
        assert called(python_call(run)) == expected

    goes_round()


@pytest.mark.parametrize("study", studies().values(), ids=lambda each: each.name)
def test_every_option_of_a_command_is_stored_or_changes_no_number(study: type[Study[Any]]) -> None:
    stored = {each.name for each in fields(study.stored)}
    assert {each.name for each in fields(study.settings_type)} <= stored
    declared = built(study.spelled()).params
    flags = {(each.opts or each.secondary_opts)[-1] for each in declared if each.param_type_name == "option"}
    own = [
        *options(study.settings_type).values(),
        *(one for g in groups(study.settings_type).values() for one in options(g).values()),
    ]
    said = {
        f"--no-{each.flag[2:]}" if each.default is True and each.type is bool else each.flag for each in own
    }
    loading = {f"--{name.replace('_', '-')}" for name in LoadedAs().to_json()}
    assert flags - NO_NUMBER_CHANGES - loading <= said


# ---- what no option says


def test_a_default_heads_run_prints_the_shortest_line() -> None:
    assert command(run_of(Heads, HeadsSettings())) == "levelhead heads m -o RUN"


def test_page_and_card_show_the_command(tmp_path: Path) -> None:
    contents = open_contents(write_heads(tmp_path / "run"))
    line = command(contents.run)
    assert line.startswith("levelhead heads lh:tiny --experiments scores,ablation,counter,debias ")
    assert line in card(contents)


@pytest.mark.parametrize(
    ("changed", "unsaid"),
    [
        ({"top": 7}, "top"),  # which the command refuses without debias
        ({"sentences": "shipped", "experiments": ("scores",)}, "sentences"),
        ({"n_sentences": 9, "text": "t", "experiments": ("scores",)}, "n_sentences, text"),
        ({"contexts": ""}, "contexts"),
    ],
)
def test_settings_without_an_option_become_a_python_call_that_says_so(
    changed: dict[str, Any], unsaid: str
) -> None:
    text = command(run_of(Heads, HeadsSettings(**changed)))
    assert text.splitlines()[0] == f"# in Python, because `levelhead heads` has no option for {unsaid}"
    assert called(text) == Asked("heads", ("m",), HeadsSettings(**changed), "RUN", LoadedAs())


def test_what_was_made_in_memory_is_left_to_the_one_who_made_it() -> None:
    asked = HeadsSettings("religion", null=9)
    run = run_of(Heads, asked, in_memory=("bias",), loading=LoadedAs(in_python=True))
    text = command(run)
    assert text.splitlines()[0].endswith("no option for bias, a model in memory, or one that is edited")
    assert (called(text).models, called(text).settings.bias, called(text).settings.null) == ((), ..., 9)


def test_heads_are_written_as_people_write_them() -> None:
    heads = CounteractsSettings(remove_heads=(Head(2, 4), Head(0, 0)), ks=(3,))
    line = command(run_of(Counteracts, heads))
    assert line == "levelhead counteracts m --ks 3 --remove-heads 3-5,1-1 -o RUN"


def test_a_pair_of_numbers_is_one_option() -> None:
    asked = ProjectionsSettings("nli", limit=(12, 4), resamples=300)
    line = command(run_of(Projections, asked))
    assert line == "levelhead projections m --nli nli --limit 12 4 --resamples 300 -o RUN"


def test_a_list_whose_member_has_a_comma_is_asked_for_in_python() -> None:
    text = command(run_of(Survey, SurveySettings(biases=("a,b.toml", "race"))))
    assert "no option for biases" in text.splitlines()[0]
    assert called(text).settings.biases == ("a,b.toml", "race")


def test_sizes_of_ones_own_are_asked_for_in_python() -> None:
    own = AuditSizes(triples=9, null=3)
    text = command(run_of(Audit, AuditSettings(sizes=own, own_measures=("a b.py",))))
    assert "no option for sizes" in text.splitlines()[0]
    assert (called(text).settings.sizes, called(text).settings.own_measures) == (own, ("a b.py",))


def test_sizes_of_an_older_run_are_those_that_it_had() -> None:
    run = run_of(Audit, AuditSettings(sizes=AuditSizes(contexts=None, null=3)))
    stored = run.settings.to_json()
    for name in ("head_nulls", "triple_nulls"):
        del stored["sizes"][name]
    assert AuditStored.from_json(stored) == run.settings
    stored["sizes"]["triples"] = "9"
    with pytest.raises(ValueError, match=r"sizes\.triples"):
        AuditStored.from_json(stored)


def test_a_folder_that_looks_like_an_option_is_joined_to_it(tmp_path: Path) -> None:
    run = run_of(
        Heads, HeadsSettings(text="-x", experiments=("scores", "debias")), models=("-m",), folder="-o"
    )
    assert command(run) == "levelhead heads --experiments scores,debias --text=-x --output=-o -- -m"
    with Run.open(tmp_path / "run", Heads, run.settings) as opened:  # such settings are stored as they are
        assert opened.data().settings == run.settings

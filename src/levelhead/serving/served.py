"""A model that is served: where it comes from, and its server."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import transformers

from levelhead.edits.sites import Variant
from levelhead.errors import BadOption, BadRun, LevelheadError
from levelhead.mitigation.export import RECIPE_FILE
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, load_recipe, parse_recipe, recipe_text
from levelhead.models.adapter import EDITED, REMOTE
from levelhead.models.model import Model, load
from levelhead.runs.study import open_run
from levelhead.safe_files import read_bytes
from levelhead.serving.listening import LOOPBACK, Listening, is_loopback, require_server
from levelhead.serving.scheduler import Deployed, Scheduler
from levelhead.studies.audit import Audit
from levelhead.studies.mitigate import Mitigate

QUEUE, MOST = 64, 32  # requests that wait, and texts that are written at once, where nothing else is said
_TOKEN = re.compile(r"[!-~]{16,256}")
_IDLE_SECONDS = 75  # that a connection may be idle: longer than clients keep theirs
_NOT_WEIGHTS = ("config.json", "README.md", RECIPE_FILE)


class ServedModel:
    """A server that is ready to run. tokens: bearer tokens, one of which a request must have."""

    def __init__(
        self,
        deployed: Deployed,
        host: str = LOOPBACK,
        port: int = 0,
        tokens: tuple[str, ...] = (),
        *,
        queue: int = QUEUE,
        max_batch: int = MOST,
    ) -> None:
        require_server("serve")
        from levelhead.serving.app import application

        check_public(host, bool(tokens))
        self.deployed = deployed
        self._listening = Listening(host, port)
        self.host, self.port = host, self._listening.port
        self.scheduler = Scheduler(deployed, queue, max_batch)
        app = application(deployed, self.scheduler, host, self.port, tokens)
        self._listening.serves(
            app, "levelhead serve", limit_concurrency=queue + 512, timeout_keep_alive=_IDLE_SECONDS
        )

    @property
    def address(self) -> str:
        """What clients call the base URL."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/v1"

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM, and finish what has begun."""
        try:
            self._listening.run()
        finally:
            self.scheduler.close()

    def start(self) -> Self:
        """Serve in a thread of its own, until `close` or the end of Python."""
        self._listening.start()
        return self

    def close(self) -> None:
        """End, once what has begun is finished."""
        self._listening.stop()
        self.scheduler.close()


def check_public(host: str, has_token: bool) -> None:
    """Refuse to listen to others without a token."""
    if not is_loopback(host) and not has_token:
        raise BadOption(
            f"--host {host} is reached by others, so it needs a token: --token-env NAME, the name of an "
            "environment variable that holds one."
        )


def tokens_in(names: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The tokens in environment variables; none of them is ever shown."""
    for name in names:
        if not _TOKEN.fullmatch(environment.get(name, "")):
            raise BadOption(
                f"--token-env {name}: the environment variable must hold a token of 16 to 256 visible ASCII "
                "characters."
            )
    return tuple(environment[name] for name in names)


# ---- where a model comes from


def deployed(source: str, recipe: str | None, loading: Mapping[str, Any]) -> Deployed:
    """What is served under the name of a model, a run that certified a mitigation, or an exported folder."""
    folder = Path(source).expanduser()
    if (folder / "settings.json").is_file():
        if recipe is not None:
            raise BadOption(f"--recipe belongs to a model; {source} is a run, whose own recipe is served.")
        return _of_run(folder, loading)
    if _words(folder):
        if recipe is not None:
            raise BadOption(f"--recipe must be left out: {source} is a symmetrized model already.")
        return _of_symmetrized(folder, loading)
    model = load(source, **loading)
    shown = folder.resolve().name if folder.exists() else source
    return _changed(model, shown, None if recipe is None else load_recipe(recipe))


def _changed(model: Model, name: str, recipe: Recipe | None) -> Deployed:
    """A model with a recipe's edits."""
    if recipe is None:
        return Deployed(model, (), name, model.fingerprint)
    recipe.check_model(model)
    title = recipe.title or (Path(recipe.file).stem if recipe.file else "recipe")
    return _stated(model, edits_of(model, recipe), f"{name}+{_short(title)}", recipe)


def _stated(model: Model, variant: Variant, name: str, recipe: Recipe) -> Deployed:
    both = f"{model.fingerprint}\n{recipe_text(recipe)}"
    changes = recipe.title or (f"symmetrized: {recipe.symmetrize}" if recipe.symmetrize else "with a recipe")
    return Deployed(model, variant, name, hashlib.sha256(both.encode()).hexdigest(), changes)


def _of_run(folder: Path, loading: Mapping[str, Any]) -> Deployed:
    """What a run recommends: the folder that it wrote, or its model with the recipe."""
    run = open_run(folder)
    arena = run.mitigate if isinstance(run, Audit) else run
    if not isinstance(arena, Mitigate):
        raise BadRun(
            f"{folder} is a run of {run.name}, which certifies no mitigation. Give an audit or a "
            "run of mitigate, or a model with --recipe."
        )
    if not arena.certified:
        raise BadRun(
            f"{folder}: no mitigation is certified. Give the model, with --recipe for one of its recipes."
        )
    chosen = arena.certified[0]
    written, path = arena.written, arena.written_model
    if written is not None and path is not None and written.candidate == chosen.name:
        found = deployed(str(path), None, loading)
        return replace(found, name=f"{arena.model}+{_short(chosen.name)}", changes=chosen.name)
    if not chosen.recipe:
        raise BadRun(f"{folder}: {chosen.name} has no recipe and was not written as a folder.")
    model = load(arena.model, **loading)
    recipe = replace(parse_recipe(chosen.recipe, f"the recipe of {chosen.name}"), title=chosen.name)
    return _changed(model, arena.model, recipe)


def _short(title: str) -> str:
    """A title as a part of a name that nobody has to quote."""
    return re.sub(r"[^\w.-]+", "-", title).strip("-")


def _words(folder: Path) -> Any:
    """The groups that an exported folder exchanges; None of any other folder."""
    try:
        about = json.loads(read_bytes(folder, "config.json") or "{}").get(REMOTE)
    except (LevelheadError, OSError, ValueError, AttributeError):
        return None
    return about.get("words") if isinstance(about, dict) else None


def _of_symmetrized(folder: Path, loading: Mapping[str, Any]) -> Deployed:
    """An exported symmetrized model: its weights without its code, symmetrized here."""
    if not (folder / RECIPE_FILE).is_file():
        raise BadOption(
            f"{folder} has no {RECIPE_FILE}. Give the model that it was made from, with --recipe."
        )
    whole = load_recipe(folder / RECIPE_FILE)
    # all other edits of the recipe are in the weights
    recipe = Recipe(symmetrize=whole.symmetrize, coin=whole.coin, title=whole.title)
    config = json.loads(read_bytes(folder, "config.json") or "{}")
    kinds = [str(each).removeprefix(EDITED) for each in config.get("architectures") or ()]
    kind = getattr(transformers, kinds[0], None) if kinds else None
    if kind is None or not hasattr(kind, "config_class"):
        raise BadOption(f"{folder / 'config.json'} names no architecture of transformers (got {kinds}).")
    plain = {key: value for key, value in config.items() if key not in ("auto_map", REMOTE)}
    plain |= {"model_type": kind.config_class.model_type, "architectures": kinds}
    with TemporaryDirectory(prefix="levelhead-serve-") as place:
        for path in folder.iterdir():
            if path.name not in _NOT_WEIGHTS and path.suffix != ".py":
                (Path(place) / path.name).symlink_to(path.resolve())
        (Path(place) / "config.json").write_text(json.dumps(plain), encoding="utf-8")
        model = load(place, **loading)
        _ = model.fingerprint  # while its files are there
    return _stated(model, edits_of(model, recipe), folder.resolve().name, recipe)

"""Settings of fine-tuning on GLUE, and what other studies ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.errors import BadOption
from levelhead.options import Settings, closed_heads, group, option, recipe, seed, train_rows
from levelhead.probes.glue import TASKS, GlueTask, glue_task, tasks_at_hand
from levelhead.runs.presets import GLUE_ROWS
from levelhead.runs.study import Stored

if TYPE_CHECKING:
    from levelhead.mitigation.recipe import Recipe


@dataclass(frozen=True)
class GlueSettings(Settings):
    """Which tasks, how often, and how classifiers are trained."""

    data: str = option(help="Folder with RTE/train.tsv ..., or hub:glue.", metavar="DIR", kind="glue")
    tasks: tuple[str, ...] = option(
        (), "rte,sst2,cola,mrpc,stsb,qnli,wnli,qqp,mnli. Default: those in the folder."
    )
    seeds: int = option(3, "Trainings of each task and recipe.", least=1)
    train_rows: int | None = train_rows()
    margin: float = option(1.0, "Points that a change may cost and still be non-inferior.", least=0)
    training: Hyperparameters = group(Hyperparameters)
    seed: int = seed("The first seed.")
    heads: str = closed_heads()
    recipes: tuple[str, ...] | Mapping[str, Recipe] = option(
        (), "A recipe file (TOML); repeatable.", each=True, flag="--recipe", metavar="FILE", kind="recipe"
    )

    def chosen(self) -> list[GlueTask]:
        """The tasks, each once."""
        hub = self.data.startswith("hub:")
        names = self.tasks or (tuple(TASKS) if hub else tuple(tasks_at_hand(self.data)))
        if not names:
            raise BadOption(
                f"data must be a folder with a GLUE task's train.tsv and dev.tsv (got {self.data})"
            )
        return list(dict.fromkeys(glue_task(name) for name in names))


@dataclass(frozen=True, kw_only=True)
class GlueStored(Stored, GlueSettings):
    """The settings as a run stores them."""

    recipes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of the recipes; the unmodified model is always there


@dataclass(frozen=True, kw_only=True)
class Learning(Settings):
    """What studies ask that also see what every mitigation costs in learning; in Python `glue` may be the
    settings of the study itself."""

    glue: str | GlueSettings | None = option(
        None, "Also fine-tune on GLUE, unmodified and changed: what does it cost?", metavar="DIR", kind="glue"
    )
    glue_tasks: tuple[str, ...] = option((), "rte,sst2 ... Default: those in the folder.", needs="glue")
    train_rows: int = option(
        GLUE_ROWS, "Examples of each task, evenly spread; 0: all.", least=0, needs="glue"
    )

    def learning(self, seed: int, margin: float = 1.0) -> GlueSettings | None:
        """What is fine-tuned on GLUE; None: nothing."""
        if self.glue is None or isinstance(self.glue, GlueSettings):
            return self.glue
        return GlueSettings(
            self.glue, self.glue_tasks, train_rows=self.train_rows or None, margin=margin, seed=seed
        )


def stored_learning(settings: GlueSettings | None) -> dict[str, object]:
    """Settings of GLUE, as a run of another study stores them."""
    if settings is None:
        return {"glue": None}
    tasks = tuple(task.name for task in settings.chosen())
    return {"glue": settings.data, "glue_tasks": tasks, "train_rows": settings.train_rows or 0}


@dataclass(frozen=True)
class FinetuneSettings(Settings):
    """What a classifier is trained for, on what, and how."""

    task: str = option(help="snli, or a task of GLUE.")
    data: str = option(help="Folder as published, hub:snli or hub:glue.", metavar="DIR", kind="glue")
    train_rows: int | None = train_rows()
    training: Hyperparameters = group(Hyperparameters)
    seed: int = seed("The first seed.")
    heads: str = closed_heads()
    recipe: str | None = recipe()

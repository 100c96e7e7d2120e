"""What a sweep asks of its two models, and the run folder that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.mitigation.fitting import Form, default_pairs, form_of
from levelhead.mitigation.recipe import Fit
from levelhead.models.model import Model
from levelhead.probes import OURS
from levelhead.probes.files import UnusableItem
from levelhead.probes.nli import AbilitySet, NliProbe, ability_pairs, nli_probe
from levelhead.probes.pairs import InputPair, read_pairs
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.results import layout
from levelhead.results.folder import Run, text_hash
from levelhead.results.settings import SweepRunSettings
from levelhead.scoring.placed import loaded_as


@dataclass(frozen=True)
class Sweep:
    """What is asked of both models.

    triples: triples for next sentences
    probe: the pairs about occupations
    ability: labeled pairs that measure plain ability
    pairs: what the classifier's subspaces are fitted on, a form or a file
    fit: base, or sequential: with the earlier projections on
    labels: of the classifier's outputs, where its config does not say
    strict: a line of `pairs` that is none is an error; False: it is left out
    depth: also search token projections from any layer on
    resampling: how intervals are drawn
    """

    triples: TripleSet = field(default_factory=load_triples)
    probe: NliProbe = field(default_factory=nli_probe)
    ability: AbilitySet = field(default_factory=ability_pairs)
    pairs: str = "frames"
    fit: Fit = "base"
    labels: str | None = None
    strict: bool = True
    depth: bool = False
    resampling: Resampling = DEFAULT

    def open(self, folder: str | Path, nsp: Model, nli: Model) -> Run[SweepRunSettings]:
        """The run folder of this sweep; one begun with other models, data or settings is refused."""
        return Run.open(folder, layout.SWEEP, self._settings(nsp, nli), hashes=self._hashes(nsp, nli))

    @property
    def unusable_pairs(self) -> tuple[UnusableItem, ...]:
        """Lines of a file of pairs that are none; forms that ship have none of them."""
        return () if self.pairs in get_args(Form) else read_pairs(self.pairs, strict=self.strict).unusable

    def fitted_on(self, model: Model) -> tuple[InputPair, ...]:
        """What the subspaces of a model are fitted on: the next-sentence model's always on shipped single
        sentences."""
        if "nsp" in model.abilities:
            return default_pairs(model)
        return (
            default_pairs(model, cast(Form, self.pairs))
            if self.pairs in get_args(Form)
            else read_pairs(self.pairs, strict=self.strict).pairs
        )

    def _settings(self, nsp: Model, nli: Model) -> SweepRunSettings:
        return SweepRunSettings(
            study=layout.SWEEP.study,
            seed=self.resampling.seed,
            model=nsp.name,
            nli_model=nli.name,
            fit=self.fit,
            depth=self.depth,
            labels=self.labels,
            triples=self.triples.name,
            ability=self.ability.name,
            occupations=self.probe.shape[0],
            contexts=self.probe.shape[1],
            words=(self.probe.feminine, self.probe.masculine),
            resamples=self.resampling.resamples,
            pairs=self.pairs,
            form=form_of(self.fitted_on(nsp)),
            nli_form=form_of(self.fitted_on(nli)),
            triples_file=_file(self.triples.source),
            ability_file=_file(self.ability.source),
            probe_file=_file(self.probe.source),
            data_in_memory=None in (self.triples.source, self.ability.source, self.probe.source),
            loading=loaded_as([nsp, nli]),
        )

    def _hashes(self, nsp: Model, nli: Model) -> dict[str, str]:
        """Hashes of the weights and of all data."""
        return {
            "model": nsp.fingerprint,
            "nli_model": nli.fingerprint,
            **nsp.facts(),
            **nli.facts("nli_model"),
            "triples": self.triples.fingerprint,
            layout.PROBE_HASH: self.probe.fingerprint,
            "ability": self.ability.fingerprint,
            "pairs": text_hash(map(repr, self.fitted_on(nsp))),
            "nli_pairs": text_hash(map(repr, self.fitted_on(nli))),
        }


def _file(source: str | None) -> str | None:
    return None if source == OURS else source

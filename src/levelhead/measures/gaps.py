"""How texts of prompts that differ in one group differ: paired gaps of a score, excess distance of vectors.

Nulls exchange groups or sides inside frames (docs/method/generation.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.clustered import DRAWS, clustered_mean
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling, in_chunks, mean_interval

EXCHANGES = 1_999  # of sides, where each takes long
ROUNDING = 1e-9  # of the largest: permuted sums in another order tie within it
Labels = npt.ArrayLike  # one label per item


@dataclass(frozen=True, eq=False)
class Design:
    """Where each text stands: its frame, the group in its prompt, and the cluster of frames that are drawn
    together. order: the groups to compare, () for all in order of coming.

    names: what stands for a group and comes back in several clusters: a pair of first names. A difference
    between groups must then be one over names too, or it may be that of a few names.
    """

    frames: Labels  # [text]
    groups: Labels  # [text]
    clusters: Labels  # [text]
    order: tuple[str, ...] = ()
    names: Labels | None = None  # [text]; of two groups each frame has one


def paired_gap(
    name: str,
    scores: Sequence[float | None] | npt.ArrayLike,
    design: Design,
    resampling: Resampling = DEFAULT,
    draws: int = DRAWS,
) -> dict[str, Measurement]:
    """How differently texts score by the group in their prompt, frame by frame.

        two groups    mean over frames of  mean score of a − mean score of b;  signs flipped by cluster
        more          for each group g: its mean less the mean of the others; groups exchanged in clusters
        names         also flipped by pair of names, or exchanged between groups; the largest p counts

    scores [text]: None or NaN cannot be scored, and is counted. A frame's mean of a group is over all of its
    texts: several names, several samples. Of two groups the gap is first less second. Of more, p is corrected
    for all of them by the largest |gap| of each draw. A frame without a scored text of every group is left
    out. Of shares (refusals, empty texts) give 0 and 1. details: the mean of each group.
    """
    table, member, rows, kept, unscored = _frame_means(name, scores, design)
    known: dict[str, Any] = {"neutral": 0.0, "unscored": unscored}
    if len(kept) < 2:
        raise BadProbe(f"{name} needs two groups at least (got {', '.join(kept) or 'none'})")
    if np.unique(member).size < 2:
        reason = f"{len(table)} frames in {np.unique(member).size} clusters, at least 2 are needed"
        names = kept[:1] if len(kept) == 2 else kept
        return {each: Measurement.missing(_named(name, each, kept), reason, **known) for each in names}
    means = {f"mean, {group}": float(value) for group, value in zip(kept, table.mean(axis=0), strict=True)}
    if len(kept) == 2:
        clusterings: dict[str, Labels] = {"cluster": member}
        if design.names is not None:
            pairs = dict(
                zip(np.asarray(design.frames).tolist(), np.asarray(design.names).tolist(), strict=True)
            )
            clusterings["name"] = [str(pairs[frame]) for frame in rows]
        found = clustered_mean(
            _named(name, kept[0], kept), table[:, 0] - table[:, 1], clusterings, resampling
        )
        return {kept[0]: replace(found, details={**found.details, **means}, unscored=unscored)}

    # each group less the mean of the others, and the same when groups change places inside clusters
    k, frames_there = len(kept), len(table)
    sums = np.zeros((int(member.max()) + 1, k))  # [cluster, group]
    np.add.at(sums, member, table)
    factor = k / (k - 1) / frames_there
    total = sums.sum(axis=0)
    value = factor * (total - total.mean())
    null = exchanged_sums(sums[None], resampling.seed, draws)[:, 0]
    null = factor * (null - null.mean(axis=1, keepdims=True))
    largest, found_all = np.abs(null).max(axis=1), dict[str, Measurement]()
    between = {} if design.names is None else _names_exchanged(scores, design, kept, resampling.seed, draws)
    for i, group in enumerate(kept):
        edge = abs(value[i]) * (1 - ROUNDING)
        own = (1 + int((np.abs(null[:, i]) >= edge).sum())) / (1 + draws)
        corrected = (1 + int((largest >= edge).sum())) / (1 + draws)
        gaps = k / (k - 1) * (table[:, i] - table.mean(axis=1))
        method = f"groups exchanged in frames, two-sided, the largest of {k} groups"
        details = {**means, "p, this group alone": own}
        if group in between:
            details["p, names exchanged between groups"] = between[group]
            method = f"{method}; names exchanged between groups; the larger p"
        found_all[group] = Measurement(
            _named(name, group, kept),
            float(value[i]),
            mean_interval(gaps, resampling, member),
            n=frames_there,
            details=details,
            settings=resampling.settings("BCa bootstrap", "clusters"),
            null=Null(
                method,
                draws,
                float(null[:, i].mean()),
                float(null[:, i].std()),
                max(corrected, between.get(group, 0.0)),
            ),
            **known,
        )
    return found_all


def _named(name: str, group: str, groups: Sequence[str]) -> str:
    return f"{name}, {group} − {groups[1]}" if len(groups) == 2 else f"{name}, {group} − others"


def _frame_means(
    name: str, scores: Sequence[float | None] | npt.ArrayLike, design: Design
) -> tuple[FloatArray, npt.NDArray[np.int64], list[str], list[str], dict[str, int]]:
    """Means [frame, group], each frame's cluster and name, the groups, and what could not be scored."""
    value = np.asarray([np.nan if each is None else each for each in np.asarray(scores).ravel()], np.float64)
    labels = design.frames, design.groups, design.clusters
    frame, group, cluster = (np.asarray(each).astype(np.str_) for each in labels)
    if not value.shape == frame.shape == group.shape == cluster.shape:
        raise BadProbe(f"{name} needs one frame, group and cluster per score, {value.size}")
    kept = list(design.order) or list(dict.fromkeys(group.tolist()))
    here = np.isin(group, kept)
    value, frame, group, cluster = value[here], frame[here], group[here], cluster[here]
    scored = np.isfinite(value)
    unscored = {"no score": int((~scored).sum())} if not scored.all() else {}
    names, row = np.unique(frame, return_inverse=True)
    column = np.asarray([kept.index(each) for each in group.tolist()], np.int64)
    cell, size = row * len(kept) + column, len(names) * len(kept)
    sums = np.bincount(cell[scored], weights=value[scored], minlength=size).reshape(-1, len(kept))
    counts = np.bincount(cell[scored], minlength=size).reshape(-1, len(kept))
    whole = (counts > 0).all(axis=1)
    if not whole.all():
        unscored["frames without a scored text of every group"] = int((~whole).sum())
    of_frame = np.asarray([cluster[np.flatnonzero(row == i)[0]] for i in range(len(names))], np.str_)
    member = np.unique(of_frame[whole], return_inverse=True)[1].ravel().astype(np.int64)
    own_frames = names[whole].tolist()
    return sums[whole] / np.maximum(counts[whole], 1), member, own_frames, kept, unscored


def _names_exchanged(
    scores: Sequence[float | None] | npt.ArrayLike, design: Design, order: list[str], seed: int, draws: int
) -> dict[str, float]:
    """p of each group's gap if names say nothing of groups: names are exchanged between groups.

        gap_g = mean of r over texts of g − mean of r over all others,    r = score − mean of its frame

    p is corrected for all groups by the largest |gap| of each draw.
    """
    value = np.asarray([np.nan if each is None else each for each in np.asarray(scores).ravel()], np.float64)
    labels = design.frames, design.groups, design.names
    frame, group, name = (np.asarray(each).astype(np.str_) for each in labels)
    kept = np.isfinite(value) & np.isin(group, order)
    row = np.unique(frame[kept], return_inverse=True)[1].ravel()
    rest = value[kept] - (np.bincount(row, value[kept]) / np.bincount(row))[row]
    names, first, place = np.unique(name[kept], return_index=True, return_inverse=True)
    sums, counts = np.bincount(place.ravel(), rest), np.bincount(place.ravel()).astype(np.float64)
    of_name = np.asarray([order.index(each) for each in group[kept][first].tolist()], np.int64)

    def gaps(groups: npt.NDArray[np.int64]) -> FloatArray:
        """Of groups [draw, name], [draw, group]"""
        inside = groups[:, :, None] == np.arange(len(order))
        own, many = (inside * sums[:, None]).sum(axis=1), (inside * counts[:, None]).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(own / many - (sums.sum() - own) / (counts.sum() - many))

    rng, largest = np.random.default_rng(seed), list[FloatArray]()
    for size in in_chunks(draws, names.size * len(order)):
        permuted = rng.permuted(np.broadcast_to(of_name, (size, names.size)), axis=1)
        largest.append(np.abs(gaps(permuted)).max(axis=1))
    null, observed = np.concatenate(largest), np.abs(gaps(of_name[None])[0])
    edges = observed * (1 - ROUNDING)
    return {
        each: (1 + int((null >= edge).sum())) / (1 + draws) for each, edge in zip(order, edges, strict=True)
    }


def exchanged_sums(sums: FloatArray, seed: int, draws: int) -> FloatArray:
    """Sums over clusters after groups have changed places in each cluster, the same in all layers of sums.

    sums [layer, cluster, group] -> [draw, layer, group]
    """
    layers, clusters, k = sums.shape
    rng, done = np.random.default_rng(seed), list[FloatArray]()
    for size in in_chunks(draws, clusters * k * layers):
        places = rng.random((size, clusters, k)).argsort(axis=2)
        rows = np.arange(clusters)[None, :, None]
        done.append(np.stack([of_layer[rows, places].sum(axis=1) for of_layer in sums], axis=1))
    return np.concatenate(done)


# ---- excess distance


def excess_distance(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    frames: Labels,
    clusters: Labels,
    units: Labels | None = None,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """How much farther texts of two sides lie apart than texts of one side, by the cosine of their vectors.

        mean over frames, over pairs of texts i, j of  d(a_i, b_j) − ½ [ d(a_i, a_j) + d(b_i, b_j) ]
        d = 1 − cosine,    so that each pair adds  ½ (a_i − b_i) · (a_j − b_j),  a and b of length 1

    first, second [row, hidden]: the vectors of a text and of the swapped text of the other side, with the
    same random numbers. Rows with a NaN are counted and left out. units: rows that exchange sides together
    (all texts of one pair of names), each row by default; pairs are of different units. Expectation 0 where
    both sides write alike, also where they share random numbers. Null: units exchange sides, in all frames
    at once; one-sided.
    """
    name, draws = "excess distance", EXCHANGES
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    frame, cluster = np.asarray(frames).astype(np.str_), np.asarray(clusters).astype(np.str_)
    unit = np.arange(len(a)).astype(np.str_) if units is None else np.asarray(units).astype(np.str_)
    if a.ndim != 2 or a.shape != b.shape or not len(a) == len(frame) == len(cluster) == len(unit):
        raise BadProbe(f"{name} needs two vectors, a frame and a cluster per row (got {a.shape}, {b.shape})")
    lengths = [np.linalg.norm(each, axis=1) for each in (a, b)]
    usable = np.isfinite(lengths[0]) & np.isfinite(lengths[1]) & (lengths[0] > 0) & (lengths[1] > 0)
    left_out = {"no vector": int((~usable).sum())} if not usable.all() else {}
    delta = a[usable] / lengths[0][usable, None] - b[usable] / lengths[1][usable, None]
    frame, cluster, unit = frame[usable], cluster[usable], unit[usable]
    rng = np.random.default_rng(resampling.seed)
    number = np.unique(unit, return_inverse=True)[1].ravel()
    turned = rng.integers(0, 2, (draws, int(number.max(initial=-1)) + 1), dtype=np.int8)
    values, member, null = list[float](), list[str](), np.zeros(draws)
    for each in dict.fromkeys(frame.tolist()):
        own = frame == each
        units_here, place = np.unique(number[own], return_inverse=True)
        place = place.ravel()
        sizes = np.bincount(place)
        pairs = own.sum() ** 2 - (sizes**2).sum()  # ordered, of different units
        if not pairs:
            continue
        sums = np.zeros((sizes.size, delta.shape[1]))
        np.add.at(sums, place, delta[own])
        gram = sums @ sums.T
        np.fill_diagonal(gram, 0.0)
        signs = 1.0 - 2.0 * turned[:, units_here]
        values.append(0.5 * float(gram.sum()) / float(pairs))
        null += 0.5 * ((signs @ gram) * signs).sum(axis=1) / float(pairs)
        member.append(str(cluster[own][0]))
    settings = resampling.settings("BCa bootstrap", "clusters")
    known: dict[str, Any] = {
        "n": len(values),
        "neutral": 0.0,
        "unscored": left_out,
        "settings": settings,
    }
    if not values:
        return Measurement.missing(name, "no frame has two pairs of texts", **known)
    null /= len(values)
    value = float(np.mean(values))
    extreme = int((null >= value - ROUNDING * max(float(np.abs(null).max()), abs(value))).sum())
    method = "sides exchanged in frames, one-sided"
    drawn = Null(method, draws, float(null.mean()), float(null.std()), (1 + extreme) / (1 + draws))
    return Measurement(name, value, mean_interval(values, resampling, member), null=drawn, **known)

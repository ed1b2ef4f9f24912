"""Where is it stored? Probes of every layer of one of a run's models, and how far apart its twins' activations are.

Paper 000, A.9 and figure 2; METHODS section 1. The probed model is A (the candidate) of one seed; the images probed are
those it was trained on and its twin was not; what is predicted is M from the *other* seeds.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence
from memorisk.audits.classifier.explanations.result import LayerFindings, ProbedLayers
from memorisk.audits.classifier.finished_run import FinishedRun
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Progress
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.memorization.layer_distances import band_distances, paired_cosine_distance
from memorisk.statistics.memorization.probes import (
    PROBE_KINDS,
    above_class_median,
    permuted_within_class,
    probe,
    probe_folds,
)
from memorisk.statistics.reliability import split_half
from memorisk.training.classifiers.jobs import TrainJob
from memorisk.training.features.activations import Activations, extract_activations


@dataclass(frozen=True)
class ProbeSample:
    """Items that are probed and compared.

    Attributes:
        seed: Position of the probed seed among the run's.
        members: Items trained on by model A of that seed, not by its twin, and with M from other seeds, [I].
        compared: Items trained on by one of the two, and with M from other seeds, [I].
        m: Value of M over the other seeds, [I]; NaN where no other seed scored the item.
        signed: Signed gaps behind it, [S - 1, I].
    """

    seed: int
    members: np.ndarray
    compared: np.ndarray
    m: np.ndarray
    signed: np.ndarray


def choose_probe_sample(evidence: Evidence, seed: int | None = None) -> ProbeSample:
    """Return the images to probe and their M from the other seeds.

    Args:
        evidence: The run's score table.
        seed: The probed seed; the first if not given.

    Raises:
        InputError: The run has no such seed, or no other.
    """
    seeds = [int(s) for s in evidence.seeds]
    if seed is not None and seed not in seeds:
        raise InputError(f"the run has no seed {seed}; it has {', '.join(map(str, seeds))}")
    if len(seeds) < 2:
        raise InputError(
            "probes need M from other seeds than the probed model's, and the run has one seed: add models (--models)"
        )
    at = 0 if seed is None else seeds.index(seed)
    sign = evidence.sign
    signed = np.where(sign != 0, sign * evidence.gap, np.nan)
    own, others = sign[at], np.delete(signed, at, axis=0)
    scored = np.isfinite(others)
    n = scored.sum(axis=0)
    m = np.divide(np.where(scored, others, 0.0).sum(axis=0), n, out=np.full(len(n), np.nan), where=n > 0)
    scored_canaries = (evidence.items.split == "canary") & np.isfinite(m)
    return ProbeSample(at, scored_canaries & (own > 0), scored_canaries & (own != 0), m, others)


def check_probes(run: FinishedRun, seed: int | None) -> tuple[ProbeSample, tuple[TrainJob, TrainJob]]:
    """Refuse before any pass through a network what the probes would refuse.

    Raises:
        InputError: Weights are gone, or there are too few images or groups for five folds.
    """
    probed = choose_probe_sample(run.evidence, seed)
    wanted = int(run.evidence.seeds[probed.seed])
    pair = next((p for p, d in zip(run.jobs(), run.plan.designs, strict=True) if d.seed == wanted), None)
    if pair is None:
        raise InputError(f"{one_line(run.folder)}: its settings name no models of seed {wanted}, its score table does")
    for job in pair:
        run.weights_file(job)
    items, rows = run.evidence.items, np.flatnonzero(probed.members)
    if not len(rows):
        raise InputError(f"no image has both a model of seed {wanted} that saw it and M from another seed")
    high = above_class_median(probed.m[rows], items.label[rows].astype(str))
    probe_folds(high, items.label[rows], items.group[rows])
    return probed, pair


def probe_layers(
    run: FinishedRun,
    probed: ProbeSample,
    pair: tuple[TrainJob, TrainJob],
    *,
    device: str,
    scratch: Path,
    progress: Progress,
) -> LayerFindings:
    """Probe every layer of model A and compare it with its twin.

    Args:
        run: The run.
        probed: Sample from ``check_probes``.
        pair: The two trainings of the probed seed.
        device: Device that the networks run on.
        scratch: A folder for the activations while they are needed; nothing stays in it.
        progress: Called with (stage, done, total).
    """
    items = run.evidence.items
    compared = np.flatnonzero(probed.compared)
    images, place = np.unique(run.item_row[compared], return_inverse=True)
    label, group = items.label[compared].astype(str), items.group[compared].astype(str)
    with tempfile.TemporaryDirectory(prefix=".activations.", dir=scratch) as name:
        layers = []
        for job, role in zip(pair, ("first", "second"), strict=True):
            folder = Path(name) / role
            folder.mkdir()
            layers.append(_activations(run, job, images, folder, device, role, progress))
        high = above_class_median(probed.m[compared], label)
        distances = _distances(layers[0], layers[1], place, high, group)
        members = probed.members[compared]
        probes = _probes(
            layers[0], place[members], probed.m[compared][members], label[members], group[members], progress
        )
        chosen = layers[0].chosen
        del layers
    rows = np.flatnonzero(probed.members)
    reliability = split_half(probed.signed[:, rows], items.label[rows].astype(str), items.group[rows].astype(str))
    summary = ProbedLayers(
        seed=int(run.evidence.seeds[probed.seed]),
        other_seeds=tuple(int(s) for i, s in enumerate(run.evidence.seeds) if i != probed.seed),
        n_probed=len(rows),
        n_compared=len(compared),
        n_groups_probed=len(np.unique(group[members])),
        layers=chosen,
        model=pair[0].model,
    )
    return LayerFindings(probes, distances, reliability, summary)


def _activations(
    run: FinishedRun, job: TrainJob, rows: np.ndarray, folder: Path, device: str, role: str, progress: Progress
) -> Activations:
    return extract_activations(
        run.trained(job),
        run.store.images,
        rows,
        normalisation=job.normalisation,
        device=device,
        folder=folder,
        progress=lambda done, n: progress(f"activations of the {role} model", done, n),
    )


def _probes(
    activations: Activations, place: np.ndarray, m: np.ndarray, label: np.ndarray, group: np.ndarray, progress: Progress
) -> pd.DataFrame:
    high = above_class_median(m, label)
    fold = probe_folds(high, label, group)
    shuffled = permuted_within_class(high, label)
    shuffled_fold = probe_folds(shuffled, label, group)
    rows, total = [], len(activations.layers) * len(PROBE_KINDS)
    for name, values in activations.layers.items():
        x = np.asarray(values[place], dtype=np.float64)
        for kind in PROBE_KINDS:
            result = probe(x, high, group, fold, kind=kind)
            control = float("nan")
            if kind == "logistic":  # one of the two is enough to see whether anything leaks through the folds
                control = probe(x, shuffled, group, shuffled_fold, kind=kind).auroc.estimate
            rows.append(
                {
                    "layer": name,
                    "kind": kind,
                    **_limits("auroc", result.auroc),
                    "fold_mean": result.fold_mean,
                    "fold_sd": result.fold_sd,
                    "shuffled": control,
                    "n": result.n_images,
                    "n_groups": result.n_groups,
                    "width": result.n_features,
                }
            )
            progress("probes", len(rows), total)
    return pd.DataFrame(rows)


def _distances(
    first: Activations, second: Activations, place: np.ndarray, high: np.ndarray, group: np.ndarray
) -> pd.DataFrame:
    rows = []
    for name, values in first.layers.items():
        bands = band_distances(paired_cosine_distance(values, second.layers[name])[place], high, group)
        row: dict[str, Any] = {"layer": name}
        for key, interval in (("high", bands.high), ("low", bands.low), ("difference", bands.difference)):
            row |= {key: interval.estimate, f"{key}_low": interval.low, f"{key}_high": interval.high}
        rows.append(row | {"n_high": bands.n_high, "n_low": bands.n_low, "n_groups": bands.difference.n_groups})
    return pd.DataFrame(rows)


def _limits(name: str, interval: JackknifeInterval) -> dict[str, float]:
    return {name: interval.estimate, "low": interval.low, "high": interval.high}

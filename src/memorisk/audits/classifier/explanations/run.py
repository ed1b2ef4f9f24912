"""Why these images? A finished run looked into: are the memorized images atypical, and where in the network is it?

``memorisk explain``. Paper 000, A.4 (tables 2 and 7) and A.9 (figure 2); METHODS section 1, "Distinctiveness, measured"
and "Where is it stored?". Works on the run's own images and score table, whatever its design; the run is not changed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.explanations.probes import ProbeSample, check_probes, probe_layers
from memorisk.audits.classifier.explanations.result import BEFORE, Explanation, ExplanationSummary, LayerFindings
from memorisk.audits.classifier.explanations.spaces import check_features, is_named_network, space_label
from memorisk.audits.classifier.finished_run import FinishedRun, open_finished
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import EXPLANATION_PAGE, render
from memorisk.images.sources.overlap import refuse_overlap
from memorisk.models.encoders.feature_sources import is_feature_file, read_features
from memorisk.runs.checksums import SEAL, write_seal
from memorisk.runs.environment import check_device, versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import PARTIAL_NAMES, write_json, write_table, write_text
from memorisk.runs.folder import check_out_folder
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.atypicality import centroid_atypicality, normalised_features, pairwise_atypicality
from memorisk.scores.memorization import memorization
from memorisk.statistics.association import associate
from memorisk.training.classifiers.jobs import TrainJob
from memorisk.training.features.extraction import extract_features, feature_network

FOLDER, SUMMARY, PAGE = "explain", "explain.json", "explain.html"
TABLES = ("atypicality", "atypicality_summary", "probes", "distances")
SCORES = ("intra", "nearest_other", "ratio")
FORMS = ("pairwise", "centroid")


def write_explanation(explanation: Explanation, folder: Path) -> None:
    """Write the tables, ``explain.json`` and ``explain.html``; those of an earlier explanation are replaced.

    Raises:
        InputError: The folder holds anything else, or cannot be made.
    """
    check_folder(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (SEAL, SUMMARY):
        (folder / name).unlink(missing_ok=True)
    frames = {"atypicality": explanation.atypicality, "atypicality_summary": explanation.associations}
    if explanation.layers is not None:
        frames |= {"probes": explanation.layers.probes, "distances": explanation.layers.distances}
    for name in TABLES:
        if name in frames:
            write_table(folder / f"{name}.parquet", frames[name])
        else:
            (folder / f"{name}.parquet").unlink(missing_ok=True)
    write_text(folder / PAGE, render(EXPLANATION_PAGE, explanation))
    write_json(folder / SUMMARY, explanation.as_json())
    write_seal(folder, [SUMMARY, *(f"{name}.parquet" for name in TABLES if name in frames)])


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier explanation, or that cannot be made.

    Raises:
        InputError: It is such a folder.
    """
    ours = {SEAL, SUMMARY, PAGE, *(f"{name}.parquet" for name in TABLES)}
    if folder.is_dir():
        partial = {p for pattern in PARTIAL_NAMES for p in folder.glob(pattern)} | set(folder.glob(".activations.*"))
        if any(p.name not in ours and p not in partial for p in folder.iterdir()):
            raise InputError(f"--out {one_line(folder)} holds other files: name a folder that is new or empty")
        return
    check_out_folder(folder, {}, identity=[])


def explain(
    run: str | Path,
    *,
    features: Sequence[str | Path] = (BEFORE,),
    feature_weights: str | Path | None = None,
    probes: bool = False,
    feature_size: int | None = None,
    out: str | Path | None = None,
    images: str | Path | None = None,
    probe_seed: int | None = None,
    device: str = "auto",
    permutations: int = 9999,
    progress: Progress = no_progress,
) -> Explanation:
    """Look into a finished classifier audit: atypicality of its images against M, and probes of its layers.

    Args:
        run: The run folder.
        features: Feature spaces: names of networks, files (.npy, .npz, .parquet), or "before", the run's own network
            before it was fine-tuned.
        feature_weights: Weights of the named networks: a file (of one network), "default" to download, "none".
        probes: Probe the layers of one of the run's models, too.
        feature_size: Pixels a side that named networks get; by default what they were trained at.
        out: Folder to write to; ``explain`` inside the run folder if not given.
        images: Present place of the run's images, if they have moved.
        probe_seed: The seed whose models are probed; the run's first if not given.
        device: "cpu", "cuda" or "auto".
        permutations: Random permutations behind each p-value.
        progress: Called with (stage, done, total).

    Returns:
        Explanation, which is also saved.

    Raises:
        InputError: Bad input, a run that is not finished or whose images have changed, features that cannot be
            computed, or weights that are gone; nothing was written.
    """
    spaces = check_features(features, feature_weights, feature_size, permutations)
    target = Path(out) if out is not None else Path(run) / FOLDER
    check_folder(target)
    device = str(check_device(device))
    opened = open_finished(run, images=images, device=device, progress=progress)
    if out is not None:
        refuse_overlap(target, {"the run's images": opened.store})
    _check_networks(spaces, opened, feature_weights, feature_size)
    pair = check_probes(opened, probe_seed) if probes else None
    tables, associations = [], []
    for space in spaces:
        values = _features(space, opened, feature_weights, feature_size, device, progress)
        tables.append(atypicality_table(space_label(space), values, opened))
        n_seeds = len(opened.evidence.seeds)
        associations += association_rows(tables[-1], n_seeds=n_seeds, permutations=permutations)
    explanation = Explanation(
        atypicality=pd.concat(tables, ignore_index=True),
        associations=pd.DataFrame(associations),
        layers=None if pair is None else _probe(opened, pair, device, target, progress),
        summary=_summary(opened, spaces, feature_weights, permutations),
        redact=bool(opened.options.redact),
    )
    write_explanation(explanation, target)
    return explanation


def _probe(
    run: FinishedRun, pair: tuple[ProbeSample, tuple[TrainJob, TrainJob]], device: str, target: Path, progress: Progress
) -> LayerFindings:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)  # the activations lie there while they are needed
    return probe_layers(run, *pair, device=device, scratch=target, progress=progress)


def atypicality_table(space: str, features: np.ndarray, run: FinishedRun) -> pd.DataFrame:
    """Return both forms of atypicality and M of every scored image.

    Pairwise: against every image of the run, whichever part it is in. Centroid: among the canaries alone, as the paper.

    Args:
        space: Name of the features.
        features: Features of the run's images, [N, d].
        run: The run.

    Raises:
        InputError: The features are refused (``scores.atypicality``).
    """
    evidence, items = run.evidence, run.evidence.items
    m = memorization(evidence.gap, evidence.sign)
    scored = np.flatnonzero((items.split == "canary") & np.isfinite(m))
    label = items.label.astype(str)
    try:
        unit = normalised_features(features)  # row numbers of a refusal are then those of the run's images
        pairwise = pairwise_atypicality(unit[run.item_row], label, items.group.astype(str))
        centroid = centroid_atypicality(unit[run.item_row[scored]], label[scored])
    except InputError as error:
        raise InputError(f"features {one_line(space, 80)}, rows in the order of the run's images: {error}") from None
    fixed = {"features": space, "image": items.image[scored], "label": label[scored], "group": items.group[scored]}
    return pd.DataFrame(
        fixed
        | {"M": m[scored]}
        | {name: getattr(pairwise, name)[scored] for name in SCORES}
        | {f"centroid_{name}": getattr(centroid, name) for name in SCORES}
        | {"reason": pairwise.reason[scored].astype(str)}
    )


def association_rows(table: pd.DataFrame, *, n_seeds: int, permutations: int) -> list[dict[str, Any]]:
    """Return each score of each form against M, raw and within-class residualised."""
    rows = []
    for form in FORMS:
        columns = [name if form == "pairwise" else f"centroid_{name}" for name in SCORES]
        associations = associate(
            table[columns].to_numpy(dtype=np.float64).T,
            table["M"].to_numpy(dtype=np.float64),
            table["label"].to_numpy(dtype=str),
            table["group"].to_numpy(dtype=str),
            draws=permutations,
            n_seeds=n_seeds,
        )
        for name, one in zip(SCORES, associations, strict=True):
            rows.append(
                {
                    "features": table["features"].iloc[0],
                    "form": form,
                    "score": name,
                    "rho": one.raw.estimate,
                    "low": one.raw.low,
                    "high": one.raw.high,
                    "rho_residual": one.residual.estimate,
                    "low_residual": one.residual.low,
                    "high_residual": one.residual.high,
                    "p": one.p,
                    "smallest_p": one.smallest_p,
                    "p_paper": one.p_paper_raw,
                    "p_paper_residual": one.p_paper_residual,
                    "n": one.n,
                    "n_groups": one.n_groups,
                    "n_movable": one.n_movable,
                }
            )
    return rows


def _check_networks(spaces: list[str], run: FinishedRun, weights: str | Path | None, size: int | None) -> None:
    """Refuse what cannot be built before the first pass; files are read once for that."""
    for space in spaces:
        if space == BEFORE:
            run.recipe()
        elif is_feature_file(space):
            read_features(space, run.store.manifest.images)
        else:
            feature_network(space, weights, size=size, stored_size=int(run.store.images.shape[1]))


def _features(
    space: str, run: FinishedRun, weights: str | Path | None, size: int | None, device: str, progress: Progress
) -> np.ndarray:
    """Return the features of the run's images, [N, d]."""
    if is_feature_file(space):
        return read_features(space, run.store.manifest.images)
    counted = lambda done, n: progress(f"features by {space}", done, n)  # noqa: E731
    if space != BEFORE:
        return extract_features(space, run.store.images, weights=weights, size=size, device=device, progress=counted)
    job = run.jobs()[0][0]
    return extract_features(
        run.before(job), run.store.images, normalisation=job.normalisation, device=device, progress=counted
    )


def _summary(run: FinishedRun, spaces: list[str], weights: str | Path | None, permutations: int) -> ExplanationSummary:
    options, evidence = run.options, run.evidence
    m = memorization(evidence.gap, evidence.sign)
    scored = (evidence.items.split == "canary") & np.isfinite(m)
    notes = []
    if BEFORE in spaces and options.weights in (None, "none"):
        notes.append(
            "The run's network started from random weights: its features before the training are those of a random "
            "network."
        )
    if any(is_named_network(s) for s in spaces) and weights == "none":
        notes.append("The named networks have random weights: their features were never trained.")
    if not run.store.manifest.groups_given:
        notes.append("No patient ids were given: images of one patient may make each other typical and count as many.")
    return ExplanationSummary(
        dataset=Pseudonyms.from_options(options).source(run.store.manifest.name),
        data_hash=run.store.data_hash,
        design=options.chosen_design,
        seeds=tuple(int(s) for s in evidence.seeds),
        features=tuple(space_label(s) for s in spaces),
        feature_weights=None if weights is None else Path(str(weights)).name,
        n_scored=int(scored.sum()),
        n_groups_scored=len(np.unique(evidence.items.group[scored].astype(str))),
        n_reference=len(evidence.items),
        permutations=permutations,
        pseudonymised=options.pseudonymise,
        notes=tuple(notes),
        versions=versions(),
    )

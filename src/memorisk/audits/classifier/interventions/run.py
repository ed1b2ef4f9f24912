"""Distinctiveness, intervened on: classes retrained without what makes them stand out (``--intervene``).

Paper 000, section 4 ("Does visual distinctiveness contribute beyond rarity?"), A.1 and A.3; METHODS section 1. All
images of the target classes, training, canary and test, are changed; both roles of every seed are trained again on
them, with the baseline's seeds, halves, order and normalisation of pixels, so that nothing differs but those images.
Beside them the re-run: the baseline's images and halves once more from another initialisation and in another order,
which shows what retraining alone does.

Where things lie: ``intervention/NAME-FINGERPRINT/`` holds the changed models' logits (and weights), the fingerprint
being of the intervention and its classes, so that a run may be asked for several; ``intervention/rerun/`` those of
the re-run, which all of them share. The changed images are a file of the run folder while their models are trained,
and are deleted then: the run is locked, so nobody else uses them, the user's folders and the cache stay as they are,
and what is handed on later holds no pictures.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.evidence import SCORES, Evidence, write_scores
from memorisk.audits.classifier.interventions.plan import Intended
from memorisk.audits.classifier.interventions.table import TRAININGS, Found, intervention_table, summary_of
from memorisk.audits.classifier.jobs import Recipe, collect, make_jobs, train_all
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.plan import Plan
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.copies.interventions import write_intervened
from memorisk.images.store import ImageStore
from memorisk.runs.files import UNFINISHED, read_array
from memorisk.runs.folder import RunFolder
from memorisk.runs.progress import Counted
from memorisk.training.engine.jobs import TrainJob

FOLDER, RERUN, IMAGES = "intervention", "rerun", "images.npy"

_RERUN = 47  # keeps the re-run's seeds of training apart from the baseline's and the placebo's

Pairs = list[tuple[TrainJob, TrainJob]]


def run_intervention(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    intended: Intended | None,
    before: Evidence,
    names: Pseudonyms,
    progress: Counted,
) -> Found | None:
    """Train what the intervention needs and say what it did; None where none was asked for.

    Args:
        run: The open run folder.
        store: The images.
        plan: Of the baseline.
        recipe: Of the baseline.
        options: Of the audit.
        intended: From ``audits.classifier.interventions.plan.plan_intervention``.
        before: The baseline's score table.
        names: Of the ids in the score tables that are written.
        progress: Called with the trainings done and their number.

    Raises:
        MemoriskError: A training failed; the others are kept.
    """
    if intended is None:
        forget_images(run)
        return None
    after, rerun = train_intervention(run, store, plan, recipe, options, intended, progress)
    for folder, evidence in zip(opened(run, intended), (after, rerun), strict=True):
        write_scores(folder / SCORES, names.evidence(evidence))
    table = intervention_table(before, after, rerun, intended)
    return Found(table, summary_of(table, intended, len(before.seeds)))


def forget_images(run: RunFolder, *, keep: Path | None = None) -> None:
    """Remove what a killed run left half written, and changed images of an intervention that is no longer asked for."""
    inner = run / FOLDER
    left = [path for name in UNFINISHED for path in inner.rglob(name)]
    for path in (*left, *inner.glob(f"*/{IMAGES}")):
        if path != keep:
            path.unlink(missing_ok=True)


def train_intervention(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    intended: Intended,
    progress: Counted,
) -> tuple[Evidence, Evidence]:
    """Train every model on the changed images, and once more on the old ones; what is trained already is kept.

    Returns:
        The score tables of the changed models and of the re-run: items, halves and seeds are the baseline's.

    Raises:
        MemoriskError: A training failed; the others are kept.
    """
    changed, again = opened(run, intended)
    forget_images(run, keep=changed / IMAGES)
    after, rerun = intervention_jobs(run.path, store, plan, recipe, options, intended)
    total = TRAININGS * sum(len(pair) for pair in after)
    if not all(job.done for pair in after for job in pair):
        _keep_images(changed / IMAGES, store, intended)
    train_all(changed, after, recipe, options, lambda d, n: progress(d, total))
    (changed / IMAGES).unlink(missing_ok=True)
    train_all(again, rerun, recipe, options, lambda d, n: progress(total - n + d, total))
    return collect(after, plan, recipe), collect(rerun, plan, recipe)


def intervention_jobs(
    out: Path, store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions, intended: Intended
) -> tuple[Pairs, Pairs]:
    """The trainings on changed images, and those of the re-run, in the folders of `opened`."""
    baseline = make_jobs(out, store, plan, recipe, options)
    changed, again = out / FOLDER / intended.folder, out / FOLDER / RERUN
    after = _each(baseline, lambda job: replace(job, out=changed, images=changed / IMAGES))
    return after, _each(baseline, lambda job: replace(job, out=again, seed=rerun_seed(job.seed)))


def opened(run: RunFolder, intended: Intended) -> tuple[RunFolder, RunFolder]:
    """The folders of the changed models and of the re-run."""
    inner = RunFolder(run.subfolder(FOLDER))
    changed, again = (RunFolder(inner.subfolder(name)) for name in (intended.folder, RERUN))
    return changed, again


def rerun_seed(seed: int) -> int:
    """Seed of the re-run's training (initialisation, order, dropout, augmentation); the halves keep theirs."""
    return int(np.random.SeedSequence([seed, _RERUN]).generate_state(1)[0])


def _each(pairs: Pairs, change: Callable[[TrainJob], TrainJob]) -> Pairs:
    return [(change(a), change(b)) for a, b in pairs]


def _keep_images(path: Path, store: ImageStore, intended: Intended) -> None:
    """The changed images as a file, unless a killed run left it whole (it is named when all of it is written)."""
    if path.is_file():
        found = read_array(path, mmap=True)
        if found.shape == store.images.shape and found.dtype == store.images.dtype:
            return
    write_intervened(path, intended.intervention, store.images, intended.rows)

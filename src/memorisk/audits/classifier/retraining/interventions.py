"""Distinctiveness, intervened on: classes retrained without what sets them apart (``--intervene``).

Paper 000, section 4 ("Does visual distinctiveness contribute beyond rarity?"), A.1 and A.3; METHODS section 1. All
images of the target classes (``--classes``), training, canary and test, are changed; both roles of every seed are
trained again on them, with the baseline's seeds, halves, order and normalisation of pixels, so that nothing differs
but those images. The re-run repeats the baseline's images and halves from another initialisation and
in another order, and shows what retraining alone does.

The changes of an intervention are measured before anything is trained. An intervention that leaves a class's
images as they are could show nothing but retraining noise, as the paper's rows on X-rays and OCT do (METHODS
section 1, "Distinctiveness, intervened on"); it is refused here, and so is a class of which fewer than 5 % of the
images change, whether it was named or chosen.

Where things lie: ``intervention/NAME-FINGERPRINT/`` holds the changed models' logits (and weights), the fingerprint
being of the intervention and its classes, so that a run may have several; ``intervention/rerun/`` holds those of
the re-run, which all of them share. The changed images are a file of the run folder while their models are trained,
and are deleted then: the run is locked, so no other process uses them, the user's folders and the cache stay as they
are, and what is handed on later holds no pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.evidence import SCORES, Evidence, write_scores
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import Parts, Plan
from memorisk.audits.classifier.retraining.intervention_effects import (
    TRAININGS,
    InterventionEffects,
    intervention_table,
    summary_of,
)
from memorisk.audits.classifier.retraining.placebo import RARE_SHARE
from memorisk.audits.classifier.twins.trainings import Recipe, collect, make_jobs, train_all
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.alterations.interventions import Intervention, find_intervention, pixel_changes, write_intervened
from memorisk.images.store import ImageStore
from memorisk.runs.checksums import is_intact, remove_recorded
from memorisk.runs.errors import InputError, listed, one_line, unknown_name
from memorisk.runs.files import fingerprint, read_array
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import CountProgress
from memorisk.training.classifiers.jobs import TrainJob

MIN_CHANGED = 0.05
"""Least share of a class's images that an intervention must change."""


@dataclass(frozen=True)
class InterventionPlan:
    """An intervention on some classes, found to change them.

    Attributes:
        intervention: Change of the images.
        classes: The target classes, sorted.
        named: Whether the user named them; otherwise they are those below 5 % of the images.
        left_out: Classes below 5 % that are too small to be audited, and are not changed.
        rows: Images that are changed: all that carry a target class.
        images_changed: Share of the images in which some pixel changes, by class.
        pixels_changed: Mean share of an image's pixels that change, by class.
        mean_change: Mean absolute change of the pixel values, as a share of their range, by class.
    """

    intervention: Intervention
    classes: list[str]
    named: bool
    left_out: list[str]
    rows: np.ndarray
    images_changed: dict[str, float]
    pixels_changed: dict[str, float]
    mean_change: dict[str, float]

    @property
    def folder(self) -> str:
        """Name of the folder of its trainings."""
        return f"{self.intervention.name}-{fingerprint(self.intervention.description, self.classes, length=8)}"


def check_classes(parts: Parts, options: ClassifierOptions) -> None:
    """Refuse classes that are not there, before an image is decoded.

    Raises:
        InputError: A named class is not in the data.
    """
    for name in options.classes or ():
        if name not in parts.classes:
            raise unknown_name("class", one_line(name, 60), [one_line(c, 40) for c in parts.classes])


def plan_intervention(store: ImageStore, plan: Plan, options: ClassifierOptions) -> InterventionPlan | None:
    """Choose the classes and make sure that the intervention changes them; None where none was requested.

    Raises:
        InputError: No class is below 5 % and none was named; a named class is unknown or too small to be audited; or
            fewer than 5 % of a class's images change.
    """
    if options.intervene is None:
        return None
    intervention = find_intervention(options.intervene)
    if intervention.needs_colour and store.images.shape[-1] == 1:
        raise InputError(
            f"{intervention.name} changes no pixel of {one_line(store.manifest.name, 80)}: its {store.manifest.n:,} "
            f"images are {intervention.unchanged}, so a difference could only be retraining noise; name another "
            "--intervene, such as blur"
        )
    carried = {c: np.zeros(store.manifest.n, dtype=bool) for c in plan.parts.classes}
    for row, label in enumerate(plan.parts.labels):
        for name in str(label).split("|"):  # joined findings are there with a multi-label head only
            carried[name][row] = True
    classes, left_out = _targets(carried, plan.parts, options)
    rows = np.flatnonzero(np.any([carried[c] for c in classes], axis=0))
    changes = pixel_changes(intervention, store.images, rows)
    own = {c: carried[c][rows] for c in classes}
    for name in classes:
        _refuse_unchanged(intervention, name, changes.share[own[name]])
    return InterventionPlan(
        intervention,
        classes,
        options.classes is not None,
        left_out,
        rows,
        {c: float((changes.share[own[c]] > 0).mean()) for c in classes},
        {c: float(changes.share[own[c]].mean()) for c in classes},
        {c: float(changes.mean[own[c]].mean()) for c in classes},
    )


def _targets(carried: dict[str, np.ndarray], parts: Parts, options: ClassifierOptions) -> tuple[list[str], list[str]]:
    """Choose the classes to change, without rare ones in which nothing could be seen."""
    if options.classes is not None:
        check_classes(parts, options)
        small = [c for c in options.classes if c in parts.too_small]
        if small:
            raise InputError(
                f"class {one_line(small[0], 60)} has too few groups to be audited, so no change of it could be seen; "
                "name others with --classes"
            )
        return sorted(set(options.classes)), []
    rare = sorted(c for c, own in carried.items() if 0 < own.mean() < RARE_SHARE)
    chosen = [c for c in rare if c not in parts.too_small]
    if not chosen:
        raise InputError(
            f"no class that can be audited has fewer than {RARE_SHARE:.0%} of the images: name those to change with "
            f"--classes, of {listed(sorted(carried))}"
        )
    return chosen, [c for c in rare if c in parts.too_small]


def _refuse_unchanged(intervention: Intervention, name: str, share: np.ndarray) -> None:
    """Refuse what would be trained twice on the same images.

    Raises:
        InputError: Fewer than 5 % of the class's images change.
    """
    changed, n = int((share > 0).sum()), len(share)
    if changed >= MIN_CHANGED * n and changed:
        return
    of = f"class {one_line(name, 60)}"
    unchanged = f"{n - changed:,} images are {intervention.unchanged}"
    what = (
        f"no pixel of {of} ({unchanged})" if not changed else f"only {changed:,} of {n:,} images of {of} ({unchanged})"
    )
    raise InputError(
        f"{intervention.name} changes {what}: a difference could only be retraining noise; name other classes with "
        "--classes, or another --intervene"
    )


FOLDER, RERUN, IMAGES = "intervention", "rerun", "images.npy"

_RERUN = 47  # keeps the re-run's seeds of training apart from the baseline's and the placebo's

Pairs = list[tuple[TrainJob, TrainJob]]


def run_intervention(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    intended: InterventionPlan | None,
    before: Evidence,
    names: Pseudonyms,
    progress: CountProgress,
) -> InterventionEffects | None:
    """Train what the intervention needs and measure its effects; None where none was requested.

    Args:
        run: The open run folder.
        store: The images.
        plan: Plan of the baseline.
        recipe: Recipe of the baseline.
        options: Settings of the audit.
        intended: Plan from ``audits.classifier.retraining.interventions.plan_intervention``.
        before: The baseline's score table.
        names: Pseudonyms of the ids in the score tables that are written.
        progress: Called with the trainings done and their number.

    Raises:
        MemoriskError: A training failed; the others are kept.
    """
    if intended is None:
        forget_images(run)
        return None
    after, rerun = train_intervention(run, store, plan, recipe, options, intended, progress)
    for folder, evidence in zip(open_model_folders(run, intended), (after, rerun), strict=True):
        write_scores(folder / SCORES, names.evidence(evidence))
    table = intervention_table(before, after, rerun, intended)
    return InterventionEffects(table, summary_of(table, intended, len(before.seeds)))


def forget_images(run: RunFolder, *, keep: Path | None = None) -> None:
    """Remove changed images of an intervention that is no longer requested."""
    for path in (run / FOLDER).glob(f"*/{IMAGES}"):
        if path != keep:
            remove_recorded(path)


def train_intervention(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    intended: InterventionPlan,
    progress: CountProgress,
) -> tuple[Evidence, Evidence]:
    """Train every model on the changed images, and once more on the old ones; what is trained already is kept.

    Returns:
        The score tables of the changed models and of the re-run: items, halves and seeds are the baseline's.

    Raises:
        MemoriskError: A training failed; the others are kept.
    """
    changed, again = open_model_folders(run, intended)
    forget_images(run, keep=changed / IMAGES)
    after, rerun = intervention_jobs(run.path, store, plan, recipe, options, intended)
    if not all(job.done for pair in after for job in pair):
        _keep_images(changed / IMAGES, store, intended)
    train_all(changed, after, options, lambda d, n: progress(d, TRAININGS * n))
    remove_recorded(changed / IMAGES)
    train_all(again, rerun, options, lambda d, n: progress(n + d, TRAININGS * n))
    return collect(after, plan, recipe), collect(rerun, plan, recipe)


def intervention_jobs(
    out: Path, store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions, intended: InterventionPlan
) -> tuple[Pairs, Pairs]:
    """Return the trainings on changed images, and those of the re-run, in the folders of `open_model_folders`."""
    baseline = make_jobs(out, store, plan, recipe, options)
    changed, again = out / FOLDER / intended.folder, out / FOLDER / RERUN
    after = _map_pairs(baseline, lambda job: replace(job, out=changed, images=changed / IMAGES))
    return after, _map_pairs(baseline, lambda job: replace(job, out=again, seed=rerun_seed(job.seed)))


def open_model_folders(run: RunFolder, intended: InterventionPlan) -> tuple[RunFolder, RunFolder]:
    """Return the folders of the changed models and of the re-run."""
    inner = RunFolder(run.subfolder(FOLDER))
    changed, again = (RunFolder(inner.subfolder(name)) for name in (intended.folder, RERUN))
    return changed, again


def rerun_seed(seed: int) -> int:
    """Return the seed of the re-run's training (initialisation, order, dropout, augmentation); halves keep theirs."""
    return int(np.random.SeedSequence([seed, _RERUN]).generate_state(1)[0])


def _map_pairs(pairs: Pairs, change: Callable[[TrainJob], TrainJob]) -> Pairs:
    return [(change(a), change(b)) for a, b in pairs]


def _keep_images(path: Path, store: ImageStore, intended: InterventionPlan) -> None:
    """Write the changed images to a file, unless a killed run left it whole (it is named when all is written)."""
    if is_intact(path):
        stored = read_array(path, mmap=True)
        if stored.shape == store.images.shape and stored.dtype == store.images.dtype:
            return
    write_intervened(path, intended.intervention, store.images, intended.rows)

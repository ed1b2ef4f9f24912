"""What an intervention will change, found out before anything is trained (``--intervene``, ``--classes``).

An intervention that leaves a class's images as they are could show nothing but retraining noise, as the paper's rows
on X-rays and OCT do (METHODS section 1, "Distinctiveness, intervened on"); it is refused here, and so is a class of
which fewer than 5 % of the images change, whether it was named or chosen.
"""

from dataclasses import dataclass

import numpy as np

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.placebo import RARE
from memorisk.audits.classifier.plan import Parts, Plan
from memorisk.images.copies.interventions import Intervention, find_intervention, pixel_changes
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.fingerprint import fingerprint

MIN_CHANGED = 0.05
"""Least share of a class's images that an intervention must change."""


@dataclass(frozen=True)
class Intended:
    """An intervention on some classes, found to change them.

    Attributes:
        intervention: What is done.
        classes: The target classes, sorted.
        named: The user named them; else they are those below 5 % of the images.
        left_out: Classes below 5 % that are too small to be audited, and are not changed.
        rows: Images that are changed: all that carry a target class.
        images_changed: By class, the share of its images in which some pixel changes.
        pixels_changed: By class, the mean share of an image's pixels that change.
        mean_change: By class, the mean absolute change of its values, as a share of their range.
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
        InputError: A named class is none of the data's.
    """
    for name in options.classes or ():
        if name not in parts.classes:
            raise unknown_name("class", one_line(name, 60), [one_line(c, 40) for c in parts.classes])


def plan_intervention(store: ImageStore, plan: Plan, options: ClassifierOptions) -> Intended | None:
    """Choose the classes and make sure that the intervention changes them; None where none was asked for.

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
    return Intended(
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
    """The classes to change, and rare ones left out since nothing could be seen of them."""
    if options.classes is not None:
        check_classes(parts, options)
        small = [c for c in options.classes if c in parts.too_small]
        if small:
            raise InputError(
                f"class {one_line(small[0], 60)} has too few groups to be audited, so no change of it could be seen; "
                "name others with --classes"
            )
        return sorted(set(options.classes)), []
    rare = sorted(c for c, own in carried.items() if 0 < own.mean() < RARE)
    chosen = [c for c in rare if c not in parts.too_small]
    if not chosen:
        raise InputError(
            f"no class that can be audited has fewer than {RARE:.0%} of the images: name those to change with "
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
    left = f"{n - changed:,} images are {intervention.unchanged}"
    what = f"no pixel of {of} ({left})" if not changed else f"only {changed:,} of {n:,} images of {of} ({left})"
    raise InputError(
        f"{intervention.name} changes {what}: a difference could only be retraining noise; name other classes with "
        "--classes, or another --intervene"
    )

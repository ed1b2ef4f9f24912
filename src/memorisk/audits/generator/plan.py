"""Plan of an audit of a generator: which patients are scored, which no twin sees, and whose images are repeated.

Repeated images (``--dose``) are those of patients who are not scored otherwise. They are paired among themselves, so
that a twin that sees one of them so many times has a partner that sees another one as often.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from memorisk.audits.classifier.denoising_losses import NO_LABEL
from memorisk.audits.classifier.evidence import Items
from memorisk.audits.classifier.planning.plan import SHARES, Parts, Plan, given_parts, make_plan
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.pseudonyms import draw_seed
from memorisk.images.manifest import Manifest
from memorisk.images.splits import NOT_AUDITABLE, merge_linked, small_classes, split_by_group
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.training.classifiers.twins import TwinDesign, groups_of_equal_labels, twin_design
from memorisk.training.engine.data import SEPARATOR, ordered_classes

REPEATED = "repeated"
"""Part of the images that are repeated."""
PATIENTS_EACH = 10
"""Number of patients whose images are repeated as often as each other."""
_MOST_SHARE = 4  # the patients that are repeated are at most one of so many
_CHOICE, _PAIRING = 51, 52  # keep the random streams of the choice of patients and of their pairing apart


@dataclass(frozen=True)
class GeneratorPlan:
    """Plan of the twins.

    Attributes:
        twins: Parts, designs and scored items; repeated images are in its designs and not among its items.
        repeated: Rows of the images that are repeated, by the number of times.
        images: Ids of all images, [N].
    """

    twins: Plan
    repeated: Mapping[int, np.ndarray]
    images: np.ndarray

    def of_dose(self, dose: int) -> Plan:
        """Return the plan whose items are the images repeated so often, and those that no twin saw.

        All of them have one class, so that the repeated ones are compared with every unseen image.

        Args:
            dose: Number of times.
        """
        plan, own = self.twins, self.repeated[dose]
        rows = np.concatenate([own, plan.parts.rows("test")])
        part = np.where(np.arange(len(rows)) < len(own), "canary", "test").astype(object)
        label = np.full(len(rows), f"repeated {dose} times", dtype=object)
        items = Items(self.images[rows], label, plan.parts.groups[rows], part)
        return replace(plan, items=items, item_row=rows, item_class=np.zeros(len(rows), dtype=np.int64))


def draw_parts(manifest: Manifest, linked: list[tuple[str, str]], options: GeneratorAuditOptions, seed: int) -> Parts:
    """Draw the scored part and the test part by patient, within classes where images have any; or take the given split.

    A class too small to be divided is in the training of every twin, and is not scored.

    Args:
        manifest: The images; a generator needs no labels.
        linked: Pairs of patients that share an identical image, who count as one.
        options: Settings of the audit.
        seed: Random seed of the split.

    Raises:
        InputError: The images are too few for the repetitions that ``dose`` names, or a split to take is missing.
    """
    labels = image_classes(manifest.labels)
    groups = merge_linked(manifest.groups, linked)
    classes = ordered_classes(labels)
    if options.splits != "redraw":
        parts = given_parts(manifest, labels, groups, classes, options)
    else:
        shares = (0.0, SHARES[0] + SHARES[1], SHARES[2])
        part = split_by_group(labels, groups, fractions=shares, seed=draw_seed(options, seed))
        part[part == NOT_AUDITABLE] = "train"
        parts = Parts(part, labels, groups, classes, small_classes(labels, groups, fractions=shares), random=True)
    for rows in _chosen(parts, options, one_line(manifest.name)).values():
        parts.part[rows] = REPEATED
    return parts


def image_classes(labels: np.ndarray) -> np.ndarray:
    """Return the class of each image, [N]: of several findings the first in order, however they are listed.

    A classifier's audit refuses several findings, since its models are trained to name them. A generator needs no
    label: the class only chooses the images that an image is compared with, and a note of the report says so.

    Args:
        labels: Label of each image, [N]; several findings joined by "|".

    Example:
        >>> image_classes(np.array(["mass|cyst", "cyst|mass", "mass", ""], dtype=object)).tolist()
        ['cyst', 'cyst', 'mass', 'all images']
    """
    findings = [[part for part in str(label).split(SEPARATOR) if part] for label in labels]
    return np.array([ordered_classes(parts)[0] if parts else NO_LABEL for parts in findings], dtype=object)


def several_findings_notes(labels: np.ndarray) -> list[str]:
    """Return the note that images have several findings; none where each has one at most.

    Args:
        labels: Label of each image, [N].
    """
    n = sum(SEPARATOR in str(label) for label in labels)
    if not n:
        return []
    return [
        f"{plural(n, 'image has', 'images have')} several findings. The class of an image is the first of its findings "
        "in alphabetical order, and it is compared with images of that class."
    ]


def make_generator_plan(manifest: Manifest, parts: Parts, options: GeneratorAuditOptions) -> GeneratorPlan:
    """Make the designs for every seed, and the items to score.

    Args:
        manifest: The images.
        parts: Parts from `draw_parts`.
        options: Seeds and repetitions.

    Raises:
        InputError: There is nothing to score.
    """
    plan = make_plan(manifest, parts, options)
    scored = plan.items.split != REPEATED
    plan = replace(
        plan, items=plan.items.select(scored), item_row=plan.item_row[scored], item_class=plan.item_class[scored]
    )
    whole = replace(parts, part=np.where(parts.part == REPEATED, "canary", parts.part).astype(object))
    repeated = _chosen(whole, options, one_line(manifest.name))
    designs = []
    for design in plan.designs:
        seed = draw_seed(options, design.seed)
        added = [
            (dose, twin_design(parts.labels, parts.groups, rows, rows[:0], seed=_seed(seed, dose)))
            for dose, rows in repeated.items()
        ]
        designs.append(reduce(_with_repeated, added, design))
    return GeneratorPlan(replace(plan, designs=designs), repeated, manifest.images)


def _chosen(parts: Parts, options: GeneratorAuditOptions, name: str) -> dict[int, np.ndarray]:
    """Choose the patients whose images are repeated, by the number of times: rows of pairs with the same labels.

    Raises:
        InputError: There are too few pairs.
    """
    if not options.dose:
        return {}
    rng = np.random.default_rng([_CHOICE, draw_seed(options, options.split_seed)])
    buckets = groups_of_equal_labels(parts.labels, parts.groups, parts.rows("canary")).values()
    pairs = []
    for bucket in buckets:
        order = rng.permutation(len(bucket))
        pairs += [[bucket[i], bucket[j]] for i, j in zip(order[0::2], order[1::2], strict=False)]
    each, most = PATIENTS_EACH // 2, sum(map(len, buckets)) // _MOST_SHARE
    if len(pairs) < each * len(options.dose) or PATIENTS_EACH * len(options.dose) > most:
        raise InputError(
            f"{name}: {len(options.dose)} doses repeat the images of {PATIENTS_EACH * len(options.dose)} patients, and "
            f"at most {most} of those outside the test part may be: name fewer doses, or give more images"
        )
    order = rng.permutation(len(pairs))
    places = {dose: order[i * each : (i + 1) * each] for i, dose in enumerate(sorted(options.dose))}
    return {dose: np.concatenate([rows for i in own for rows in pairs[i]]) for dose, own in places.items()}


def _with_repeated(design: TwinDesign, added: tuple[int, TwinDesign]) -> TwinDesign:
    """Put the images of a design that are repeated before those of another; empty slots stay last."""
    dose, other = added
    rows_a, rows_b = (np.repeat(rows, dose) for rows in (other.rows_a, other.rows_b))
    return TwinDesign(
        design.seed,
        np.concatenate([rows_a, design.rows_a]),
        np.concatenate([rows_b, design.rows_b]),
        design.sign + other.sign,
        len(rows_a) + (design.slots or 0),
    )


def _seed(seed: int, dose: int) -> int:
    """Return the seed of the pairing of repeated images, apart from those of other numbers of times."""
    return int(np.random.SeedSequence([_PAIRING, seed, dose]).generate_state(1)[0])

"""Plan of a loop: what it could promise, how long a first batch takes, and what it takes at most (``--dry-run``).

At most, every place takes all its tries, every image reaches the threshold, and all are kept. Calibration,
screening, table 3 and the audit of the kept set go by one account. What cannot all come true at once (an image that
is rejected is not audited) is counted all the same, so that the numbers are bounds.
"""

import time
from dataclasses import dataclass
from typing import Annotated

from memorisk.audits.comparison.pictures import MAX_PICTURES
from memorisk.audits.filter.result import Exclusions, FamilyCost, FamilyCount
from memorisk.audits.filter.run import CalibrationPlan, describe_sets, encoding_cost
from memorisk.audits.synthesize.loop import Loop
from memorisk.audits.synthesize.rounds import BLOCK, TRAINING_BESIDE_BLOCK
from memorisk.audits.synthesize.verdict import is_hopeless, rejection_words
from memorisk.report.numbers import INLINE
from memorisk.report.quantities import Quantity
from memorisk.runs.workload import Cost, total
from memorisk.statistics.intervals.shares import Proportion
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.draws import draw
from memorisk.training.generators.generation import drawing_cost

_BOUNDS = ("images_passed", "images_drawn", "pairs", "bytes_images", "bytes_features")


def loop_cost(loop: Loop) -> Cost:
    """Count the work of a whole loop; where identities are missing, only the decoded images."""
    real, options, candidates, places = loop.real, loop.options, loop.candidates, len(loop.plan)
    stored = Cost(bytes_images=real.decoded)
    if not options.threshold and not candidates.enough:
        return stored
    train, calibration = loop.train, loop.sets.calibration
    beside = min(TRAINING_BESIDE_BLOCK, len(train.images))
    blocks = -(-places // max(BLOCK, options.batch))
    screened = options.most_tries * (places + beside * blocks)
    n_pictures = MAX_PICTURES if options.gallery and not options.redact else 0
    parts = [stored, drawing_cost(loop.generator, options.sampling(), options.most_tries * places + n_pictures)]
    n_calibration = 0 if calibration is None else len(calibration.images)
    for detector in loop.detectors:
        parts.append(encoding_cost(detector, [train, calibration], train, screened + candidates.n_copies))
        parts.append(Cost(pairs=(3 * n_calibration + 2 * screened) * len(train.images)))
    parts.append(_quality(loop, screened))
    return total([*parts, loop.audit.cost]) + Cost(at_most=_BOUNDS)


def _quality(loop: Loop, screened: int) -> Cost:
    """Count the work of table 3: features of first draws, kept and new people's images, and their comparison."""
    options, quality, train, reference = loop.options, loop.quality, loop.train, loop.sets.calibration
    plain = options.input_size is None and options.normalise is None
    shared = plain and quality.source in [detector.source for detector in loop.detectors]
    parts = [Cost() if shared else encoding_cost(quality, [train], train, screened)]
    places = len(loop.plan)
    n, of_new = places, 0
    if reference is not None:
        of_new, n = len(reference.images), min(places, len(reference.images))
        parts += [] if shared else [encoding_cost(quality, [reference], train, 0)]
    by_features = loop.auditor is not None and loop.auditor.head is not None
    nearest = (2 + (reference is not None)) * n + (2 * places if by_features else 0) + of_new
    return total(parts) + Cost(pairs=nearest * len(train.images))


@dataclass(frozen=True)
class SynthesizePlan(CalibrationPlan):
    """Plan of a command."""

    generator: Annotated[str, Quantity("generator")]
    """Name of the generator."""
    images: Annotated[int, Quantity("images that are to pass", opening=1)]
    """Number of images that are to pass."""
    classes: Annotated[dict[str, int], Quantity("of each class")]
    """Number of these images by class; empty where there are none."""
    sources: Annotated[int, Quantity("training images whose conditions take part", if_any=True)]
    """Number of training images whose conditions take part; 0 without conditions."""
    most_tries: Annotated[int, Quantity("tries for each, at most")]
    """Largest number of tries for a place."""
    training: Annotated[dict[str, int], Quantity("training")]
    """Number of training images and patients."""
    calibration: Annotated[dict[str, int], Quantity("calibration")]
    """Number of calibration images and patients."""
    exclusions: Annotated[Exclusions, INLINE]
    """Calibration identities that are not new, are counted once, or look alike."""
    detectors: Annotated[tuple[str, ...], Quantity("detector")]
    """Names of the detectors that compare images."""
    families: Annotated[tuple[FamilyCount, ...], Quantity("copies")]
    """Families of copies: identities there are, needed and missing for the guarantee."""
    costs: tuple[FamilyCost, ...]
    """Threshold of each family that was tried, what it leaves out of new people, and whether the family is promised;
    none where identities are missing or a threshold was given."""
    missing: Annotated[int, Quantity("identities missing for the guarantee", opening=3)]
    """Number of identities that are missing for the guarantee; 0 where it can be given."""
    audited_by: Annotated[str, Quantity("kept images audited by")]
    """Detectors of the audit of the kept set."""
    lacking: Annotated[tuple[str, ...], Quantity("no pass", opening=4)]
    """Reasons why that audit cannot pass, whatever is kept."""
    first_batch: Annotated[int, Quantity("images drawn to measure the time")]
    """Number of images that were drawn to measure the time."""
    seconds: Annotated[float, Quantity("seconds of drawing, if all pass at once")]
    """Seconds to draw every place once, by the first batch, without screening and images that are drawn again; NaN
    where no batch was drawn."""
    most_seconds: Annotated[float, Quantity("seconds of drawing, at most")]
    """Seconds if every place took all its tries."""
    new_rejected: Annotated[Proportion | None, Quantity("rejected of new patients", "percent")]
    """Share of new patients whose real image the threshold rejects, with its interval; None where it is not known."""
    cost: Annotated[Cost, Quantity("work", opening=2)]
    """Cost if every place takes all its tries, and all that is drawn is screened, measured and audited."""
    notes: Annotated[tuple[str, ...], Quantity("note")]
    """Sentences on what was assumed or left out."""


def describe_loop(loop: Loop, *, timed: bool = True) -> SynthesizePlan:
    """Draw one batch, count what there is, and say whether the guarantee can be given.

    Args:
        loop: Loop with its thresholds.
        timed: Whether to draw the batch, which measures the time of drawing.
    """
    options, generator, plan, new = loop.options, loop.generator, loop.plan, loop.calibrated.new
    costs = () if loop.calibrated.choice is None else loop.calibrated.choice.costs
    of_filter = describe_sets(loop.sets, loop.detectors, loop.candidates, loop.audit, costs)
    first, seconds = plan.iloc[: options.batch if timed else 0], float("nan")
    if timed:
        begun = time.perf_counter()
        with limited_threads(options.threads):
            draw(generator, first, options.sampling(), loop.device)
        seconds = (time.perf_counter() - begun) * len(plan) / len(first)
    names = plan.loc[plan["class"] != "", "class"].value_counts().sort_index()
    return SynthesizePlan(
        generator=generator.config.name,
        images=len(plan),
        classes={str(name): int(n) for name, n in names.items()},
        sources=int(plan.loc[plan["condition"] >= 0, "condition"].nunique()),
        most_tries=options.most_tries,
        training={"images": of_filter.images["training"], "patients": of_filter.patients["training"]},
        calibration={"images": of_filter.images["calibration"], "patients": of_filter.patients["calibration"]},
        exclusions=of_filter.exclusions,
        detectors=of_filter.detectors,
        families=of_filter.families,
        costs=of_filter.costs,
        missing=of_filter.missing,
        audited_by=of_filter.audited_by,
        lacking=of_filter.lacking,
        first_batch=len(first),
        seconds=seconds,
        most_seconds=seconds * options.most_tries,
        cost=loop_cost(loop),
        new_rejected=new,
        notes=(*loop.sets.notes, *loop.real.doubts, *_warned(new)),
    )


def _warned(new: Proportion | None) -> list[str]:
    """Warn that few images will pass, where calibration shows it."""
    if new is None or not is_hopeless(new):
        return []
    return [f"Few images or none will pass: {rejection_words(new, 'patients')}."]

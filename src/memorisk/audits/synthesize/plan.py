"""What a loop would do and could promise, and how long a first batch takes (``--dry-run``)."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from memorisk.audits.filter.families import Family
from memorisk.audits.filter.plan import describe_sets
from memorisk.audits.synthesize.cost import loop_cost
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.outlook import is_hopeless, said_of
from memorisk.audits.synthesize.sets import RealSets
from memorisk.models.generators.generators import Generator
from memorisk.runs.cost import Cost
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.statistics.proportions import Proportion
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.drawing.drawing import draw


@dataclass(frozen=True)
class SynthesizePlan:
    """What a command would do."""

    generator: str
    """Its name."""
    images: int
    """That are to pass."""
    classes: dict[str, int]
    """Of these, by class; empty where there are none."""
    sources: int
    """Training images whose conditions take part; 0 without conditions."""
    most_tries: int
    """Of a place."""
    training: dict[str, int]
    """Images and patients."""
    calibration: dict[str, int]
    """Likewise."""
    held_out: dict[str, int]
    """Likewise."""
    left_out: dict[str, int]
    """Calibration identities that are not new, by reason."""
    n_merged: int
    """Names of calibration identities that were taken for another one's, with whom they share an image."""
    look_alikes: dict[str, int]
    """Calibration identities that look like another one or like a training image, and how many both readings count."""
    detectors: tuple[str, ...]
    """What compares images."""
    families: tuple[dict[str, Any], ...]
    """Of copies: identities there are, needed and missing for the guarantee."""
    missing: int
    """Identities that are missing for it; 0 where it can be given."""
    first_batch: int
    """Images that were drawn to measure the time."""
    seconds: float
    """To draw every place once, by the first batch; screening comes on top, and every image that is drawn again."""
    most_seconds: float
    """If every place took all its tries."""
    new_rejected: dict[str, Any] | None
    """Share of new patients whose real image the threshold rejects, with its interval; None where there is none."""
    cost: Cost
    """If every place takes all its tries, and all that is drawn is screened, measured and audited."""
    notes: tuple[str, ...]
    """What was assumed or left out."""


def describe_loop(
    generator: Generator,
    plan: pd.DataFrame,
    real: RealSets,
    detectors: Sequence[PairDetector],
    families: Sequence[Family],
    counted: Sequence[MissGuarantee],
    new: Proportion | None,
    options: SynthesizeOptions,
    device: str,
    auditor: PairDetector | None,
    quality: PairDetector,
) -> SynthesizePlan:
    """Draw one batch, count what there is, and say whether the guarantee can be given.

    Args:
        generator: Which draws.
        plan: The first attempt at every place.
        real: The real images.
        detectors: What compares.
        families: Kinds of copies.
        counted: How many identities there are and are needed, of each family.
        new: Share of new patients whom the thresholds reject; None where it is not known.
        options: What was asked for.
        device: Of the generator.
        auditor: Of the kept set.
        quality: Whose features quality is measured by.
    """
    of_filter = describe_sets(real.filter, detectors, families, counted)
    first = plan.iloc[: options.batch]
    begun = time.perf_counter()
    with limited_threads(options.threads):
        draw(generator, first, options.sampling(), device)
    seconds = (time.perf_counter() - begun) * len(plan) / len(first)
    names = plan.loc[plan["class"] != "", "class"].value_counts().sort_index()
    held = real.held
    return SynthesizePlan(
        generator=generator.config.name,
        images=len(plan),
        classes={str(name): int(n) for name, n in names.items()},
        sources=int(plan.loc[plan["condition"] >= 0, "condition"].nunique()),
        most_tries=options.most_tries,
        training={"images": of_filter.images["training"], "patients": of_filter.patients["training"]},
        calibration={"images": of_filter.images["calibration"], "patients": of_filter.patients["calibration"]},
        held_out={
            "images": 0 if held is None else len(held.images),
            "patients": 0 if held is None else len(set(held.manifest.groups)),
        },
        left_out=of_filter.left_out,
        n_merged=of_filter.n_merged,
        look_alikes=of_filter.look_alikes,
        detectors=of_filter.detectors,
        families=of_filter.families,
        missing=of_filter.missing,
        first_batch=len(first),
        seconds=seconds,
        most_seconds=seconds * options.most_tries,
        cost=loop_cost(generator, len(plan), real, detectors, families, counted, auditor, quality, options),
        new_rejected=None if new is None else asdict(new),
        notes=(*real.filter.notes, *real.doubts, *_warned(new)),
    )


def _warned(new: Proportion | None) -> list[str]:
    """That little will pass, where calibration shows it."""
    if new is None or not is_hopeless(new):
        return []
    return [f"Few images or none will pass: {said_of(asdict(new), 'patients')}."]

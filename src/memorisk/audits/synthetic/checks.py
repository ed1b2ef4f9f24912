"""Checks of a synthetic set that could not look, as data: each keeps a pass away (METHODS section 6, "Third form").

Planted copies measure all rules together, so that a rule of little power raises no doubt by itself: power of the union
decides (`memorisk.audits.comparison.plants.recall_doubt`). This module lists checks that planted copies do not
measure, because the check had nothing to compare, or no threshold at all.
"""

import math
from collections.abc import Iterator

from memorisk.audits.comparison.evidence import PairedFindings, SyntheticEvidence
from memorisk.audits.comparison.second_look import SecondLook
from memorisk.audits.synthetic.findings import Findings
from memorisk.audits.synthetic.result import (
    COLOURS,
    DISMISSED,
    NEAR_COPIES,
    PAIRED,
    RANDOM_SPLIT,
    SECOND_LOOK,
    SINGLED_OUT,
)
from memorisk.statistics.copies.singled_out import MIN_CUT_TAIL, MIN_HELD_OUT
from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, Check


def blind_checks(
    evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...], look: SecondLook | None
) -> tuple[Check, ...]:
    """List the checks that could not look; none without held-out images, where nothing can pass.

    Args:
        evidence: Images and their distances.
        found: Findings by distances.
        paired: Findings of each detector; none where no image was paired with its source.
        look: Outcome of the second look; None where no images could be aligned.
    """
    if evidence.sets.held is None:
        return ()
    return (
        *_singled_out(found),
        *_near_copies(evidence),
        *([] if look is not None and look.looked else [_blind(SECOND_LOOK, "no-alignment-cut")]),
        *([] if found.unlike is not None else [_blind(RANDOM_SPLIT, "no-random-split")]),
        *_pairs(paired),
        *_dismissals(found),
    )


def _blind(name: str, reason: str, **numbers: float) -> Check:
    return Check(name=name, outcome=COULD_NOT_LOOK, reason=reason, numbers=numbers)


def _singled_out(found: Findings) -> Iterator[Check]:
    """Doubt held-out patients who give no detector a cut, by distance or by lead."""
    singled = [one.singled for one in found.by if one.singled is not None]
    if any(math.isfinite(cut.cut) for one in singled for cut in (one.near, one.lead)):
        return
    n_held = max((one.near.n_units for one in singled), default=0)
    reason = "few-held-out" if n_held <= MIN_CUT_TAIL else "equal-distances"
    yield _blind(SINGLED_OUT, reason, n_held=n_held, n_needed=MIN_HELD_OUT)


def _near_copies(evidence: SyntheticEvidence) -> Iterator[Check]:
    """Doubt a set whose nearly identical images, in grey or in colours, were not all confirmed or ruled out."""
    rule, n_left = evidence.copies.rule, evidence.copies.n_near_left
    if rule is None or rule.chance.similarity is None:
        yield _blind(NEAR_COPIES, "no-near-threshold")
    elif n_left:
        yield _blind(NEAR_COPIES, "near-pairs-left", n_pairs=n_left)
    elif evidence.copies.colours.could_not_look:
        yield _blind(COLOURS, "colours-not-compared")


def _pairs(paired: tuple[PairedFindings, ...]) -> Iterator[Check]:
    """Doubt pairs of an image and its source that no detector compares with pairs of held-out people."""
    if any(one.excess is not None and not math.isnan(one.excess.estimate) for one in paired) or not paired:
        return
    yield _blind(PAIRED, "no-pair-threshold" if all(one.rate is None for one in paired) else "no-held-out-pairs")


def _dismissals(found: Findings) -> Iterator[Check]:
    """Doubt dismissed pairs of images that take no part in the comparison of patients by one image each."""
    pixels = found.pixels
    one_each = found.queries is not None and found.queries.counted.one_each
    if (n := pixels.n_dismissed_near_pairs) and (one_each or pixels.dismissed_near_p is None):
        yield _blind(DISMISSED, "dismissals-not-compared", n_pairs=n)

"""The verdict that a synthetic audit would have with a review, derived from the tables that the run saved.

A confirmed pair changes one count, so that the verdict with it is known exactly. A dismissed pair lets the next image
take its place, and the run did not save whose that is. Reasons that count no patient of a dismissed pair remain
whatever follows: where they fail the set, it fails. The audit repeated with the review decides everything else.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.result import AlignedPairs, Listing, SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.report.numbers import from_json
from memorisk.statistics.copies.reversed_queries import precedence_p
from memorisk.statistics.verdicts.levels import VERDICT_LEVEL

OPEN = "open"
"""Status of a verdict that only the audit repeated with the review can decide."""


Pair = tuple[str, str]
"""Names of a synthetic and a training image in the run."""


@dataclass(frozen=True)
class JudgedPair:
    """A pair that a person judged, as the run names its images."""

    synthetic: str
    train: str
    patient: str


@dataclass(frozen=True)
class Foreseen:
    """The verdict with a review, as far as it is known."""

    status: str
    """Status of the verdict: pass, fail, undecided or `OPEN`."""
    why: tuple[str, ...]
    """Reasons of the verdict; of an open one those that remain, as far as the run's tables show."""
    what_would_decide: tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """The pairs and patients that the reasons of a run's verdict count, as its tables have them."""

    same: frozenset[Pair]
    """Pairs with equal pixels that no held-out image has."""
    near: Mapping[Pair, str]
    """Pairs with nearly equal pixels, with the patient."""
    listed: frozenset[str]
    """Patients on the list."""
    ahead: frozenset[str]
    """Patients nearer than every held-out one."""
    singled: Sequence[Pair]
    """Pairs that are singled out."""
    aligned: Sequence[Pair]
    """Pairs that the second look confirms."""
    changed: frozenset[Pair] = frozenset()
    """Pairs that a person confirmed before an image of them was changed."""


class Foresight:
    """The numbers of a run that a review can change.

    Args:
        summary: Content of ``summary.json`` of the run.
        counted: Pairs and patients from the run's tables.
        options: Settings of the run.
        dismissed: Pairs dismissed by the review that the run was made with, which its numbers account for.
    """

    def __init__(
        self,
        summary: Mapping[str, Any],
        counted: Counted,
        options: SyntheticOptions,
        dismissed: Collection[JudgedPair] = (),
    ) -> None:
        self.numbers, self.options = from_json(SyntheticSummary, summary).numbers, options
        self.counted, self.known = counted, frozenset(dismissed)
        self._near_pairs = Counter(counted.near.values())

    def verdict(self, confirmed: Collection[JudgedPair], dismissed: Collection[JudgedPair]) -> Foreseen:
        """Return the verdict with a review.

        Args:
            confirmed: All confirmed pairs.
            dismissed: All dismissed pairs, those of before among them.
        """
        if self.known - frozenset(dismissed):  # taken back: the run's tables do not have them
            return Foreseen(OPEN, (), ())
        new = frozenset(dismissed) - self.known
        judged = self._judged(confirmed, dismissed, {(pair.synthetic, pair.train) for pair in new})
        if not new:
            return _foreseen(synthetic_verdict(judged, self.options))
        least = synthetic_verdict(self._least(judged, new), self.options)
        if least["status"] == "fail":
            return _foreseen(least)
        remaining = () if least["status"] == "pass" else tuple(least["why"])
        return Foreseen(OPEN, remaining, ("the audit, repeated with this review",))

    def _judged(
        self, confirmed: Collection[JudgedPair], dismissed: Collection[JudgedPair], new: set[Pair]
    ) -> SyntheticNumbers:
        """Return the numbers with a person's judgements of pairs by pixels, without other effects of a dismissal."""
        before, identical = self.numbers.pixels, new & self.counted.same
        images = len({image for image, _ in identical})
        anew = self.counted.changed - {(pair.synthetic, pair.train) for pair in (*confirmed, *dismissed)}
        pixels = replace(
            before,
            n_confirmed_pairs=len(confirmed),
            n_dismissed_pairs=len(dismissed),
            n_changed_copies=len(anew),
            n_dismissed_identical_pairs=before.n_dismissed_identical_pairs + len(identical),
            n_dismissed_identical_images=before.n_dismissed_identical_images + images,
            n_dismissed_near_pairs=before.n_dismissed_near_pairs + sum(pair in self.counted.near for pair in new),
            n_certain_images=max(0, before.n_certain_images - images),
        )
        return replace(self.numbers, pixels=pixels)

    def _least(self, numbers: SyntheticNumbers, new: frozenset[JudgedPair]) -> SyntheticNumbers:
        """Return the numbers without patients of dismissed pairs in any reason, the fewest that an audit can find."""
        pairs, patients = {(pair.synthetic, pair.train) for pair in new}, {pair.patient for pair in new}
        pixels, listing, aligned = numbers.pixels, numbers.listing, numbers.aligned
        if near := Counter(self.counted.near[pair] for pair in pairs if pair in self.counted.near):
            freed = sum(near[patient] == self._near_pairs[patient] for patient in near)
            pixels = replace(pixels, n_near_train_patients=pixels.n_near_train_patients - freed, near_p=None)
        if listing is not None:
            listing = self._least_listing(listing, pairs, patients)
        remaining = [pair for pair in self.counted.aligned if pair not in pairs]
        if aligned is not None and len(remaining) < len(self.counted.aligned):
            aligned = _least_aligned(aligned, remaining)
        return replace(numbers, pixels=pixels, listing=listing, aligned=aligned, subgroups=())

    def _least_listing(self, listing: Listing, pairs: set[Pair], patients: set[str]) -> Listing:
        """Return the fewest patients that can be listed, ahead or singled out."""
        freed, ahead = (
            len(self.counted.listed & patients),
            listing.n_ahead_patients - len(self.counted.ahead & patients),
        )
        at_verdict = (listing.n_listed_at_verdict or 0) - freed if self.options.level == VERDICT_LEVEL else 0
        remaining = [pair for pair in self.counted.singled if pair not in pairs]
        sets, comparison = self.numbers.sets, self.numbers.comparison
        number = comparison.n_listing or comparison.n_detectors
        assert sets.held is not None
        p = precedence_p(max(0, ahead), sets.n_train_patients, sets.held.n_held_patients)
        return replace(
            listing,
            n_listed_patients=max(0, (listing.n_listed_patients or 0) - freed),
            n_listed_at_verdict=max(0, at_verdict),
            n_ahead_patients=max(0, ahead),
            p_ahead=min(1.0, number * p) if self.counted.ahead & patients else listing.p_ahead,
            n_singled_images=len({image for image, _ in remaining}) if len(remaining) < len(self.counted.singled)
            else listing.n_singled_images,
            n_singled_patients=len({real for _, real in remaining}) if len(remaining) < len(self.counted.singled)
            else listing.n_singled_patients,
        )  # fmt: skip


def _least_aligned(aligned: AlignedPairs, remaining: list[Pair]) -> AlignedPairs:
    """Count the pairs that the second look confirms, without dismissed ones."""
    images, patients = {image for image, _ in remaining}, {real for _, real in remaining}
    return replace(aligned, n_pairs=len(remaining), n_confirmed_images=len(images), n_confirmed_patients=len(patients))


def _foreseen(verdict: dict[str, Any]) -> Foreseen:
    return Foreseen(str(verdict["status"]), tuple(verdict["why"]), tuple(verdict["what_would_decide"]))

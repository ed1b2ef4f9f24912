"""What the verdict of a synthetic audit would be with a review, told from what the run saved.

A confirmed pair changes one count, so that the verdict with it is known exactly. A dismissed pair lets the next image
take its place, and the run did not save whose that is. Reasons without anybody of a dismissed pair stand whatever
follows: where they fail the set, it fails. Everything else is decided by the audit repeated with the review.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memorisk.audits.synthetic.options import VERDICT_LEVEL, SyntheticOptions
from memorisk.audits.synthetic.result import AlignedPairs, Listing, SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.report.columns import booleans, column_texts
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.statistics.copies.reversed_queries import precedence_p

OPEN = "open"
"""The status of a verdict that only the audit repeated with the review can tell."""


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
    """pass, fail, undecided or `OPEN`."""
    why: tuple[str, ...]
    """The reasons; of an open verdict those that remain, as far as the run's tables tell."""
    what_would_decide: tuple[str, ...]


class Foresight:
    """The numbers of a run that a review can change.

    Args:
        result: Of the run.
        options: Its settings.
        dismissed: Pairs dismissed by the review that the run was made with: its numbers know them.
    """

    def __init__(self, result: Result, options: SyntheticOptions, dismissed: Collection[JudgedPair] = ()) -> None:
        self.numbers, self.options = from_json(SyntheticSummary, result.summary).numbers, options
        self.known = frozenset(dismissed)
        pairs = result.tables["pairs"]
        of, whose = _pairs(result, "pairs", "real_image"), column_texts(pairs, "group")
        training = np.array([part == "training" for part in column_texts(pairs, "part")], dtype=bool)
        same = booleans(pairs, "identical")
        certain, near = training & same & ~booleans(pairs, "in_both"), training & ~same
        self.same = {of[i] for i in np.flatnonzero(certain)}
        self.near = {of[i]: whose[i] for i in np.flatnonzero(near)}
        names = column_texts(result.per_group, "group")
        self.listed, self.ahead = (
            {names[i] for i in np.flatnonzero(booleans(result.per_group, column))} for column in ("listed", "ahead")
        )
        self.singled = _pairs(result, "singled_out")
        confirmed = booleans(result.tables["alignments"], "confirmed") if "alignments" in result.tables else []
        self.aligned = [pair for pair, said in zip(_pairs(result, "alignments"), confirmed, strict=True) if said]

    def verdict(self, confirmed: Collection[JudgedPair], dismissed: Collection[JudgedPair]) -> Foreseen:
        """Tell the verdict with a review.

        Args:
            confirmed: All pairs that are confirmed.
            dismissed: All pairs that are dismissed, those of before among them.
        """
        if self.known - frozenset(dismissed):  # taken back: the run's tables do not have them
            return Foreseen(OPEN, (), ())
        new = frozenset(dismissed) - self.known
        judged = self._judged(len(confirmed), len(dismissed), {(pair.synthetic, pair.train) for pair in new})
        if not new:
            return _foreseen(synthetic_verdict(judged, self.options))
        least = synthetic_verdict(self._least(judged, new), self.options)
        if least["status"] == "fail":
            return _foreseen(least)
        remaining = () if least["status"] == "pass" else tuple(least["why"])
        return Foreseen(OPEN, remaining, ("the audit, repeated with this review",))

    def _judged(self, n_confirmed: int, n_dismissed: int, new: set[tuple[str, str]]) -> SyntheticNumbers:
        """The numbers with what a person said of pairs by pixels; nothing else that follows from a dismissal."""
        before, identical = self.numbers.pixels, new & self.same
        images = len({made for made, _ in identical})
        pixels = replace(
            before,
            n_confirmed_pairs=n_confirmed,
            n_dismissed_pairs=n_dismissed,
            n_dismissed_identical_pairs=before.n_dismissed_identical_pairs + len(identical),
            n_dismissed_identical_images=before.n_dismissed_identical_images + images,
            n_dismissed_near_pairs=before.n_dismissed_near_pairs + len(new & self.near.keys()),
            n_certain_images=max(0, before.n_certain_images - images),
        )
        return replace(self.numbers, pixels=pixels)

    def _least(self, numbers: SyntheticNumbers, new: frozenset[JudgedPair]) -> SyntheticNumbers:
        """The numbers if nobody of a dismissed pair is in any reason: no audit with this review finds fewer."""
        pairs, patients = {(pair.synthetic, pair.train) for pair in new}, {pair.patient for pair in new}
        pixels, listing, aligned = numbers.pixels, numbers.listing, numbers.aligned
        if pairs & self.near.keys():
            near = {patient for pair, patient in self.near.items() if pair not in pairs}
            pixels = replace(pixels, n_near_train_patients=len(near), near_p=None)
        if listing is not None:
            listing = self._least_listing(listing, pairs, patients)
        if aligned is not None and pairs & set(self.aligned):
            aligned = _least_aligned(aligned, [pair for pair in self.aligned if pair not in pairs])
        return replace(numbers, pixels=pixels, listing=listing, aligned=aligned)

    def _least_listing(self, listing: Listing, pairs: set[tuple[str, str]], patients: set[str]) -> Listing:
        """The fewest patients that can be listed, ahead or singled out."""
        freed, ahead = len(self.listed & patients), listing.n_ahead_patients - len(self.ahead & patients)
        at_verdict = listing.n_listed_at_verdict - freed if self.options.level == VERDICT_LEVEL else 0
        left = [pair for pair in self.singled if pair not in pairs]
        sets, number = self.numbers.sets, self.numbers.comparison.n_detectors
        assert sets.held is not None
        p = precedence_p(max(0, ahead), sets.n_train_patients, sets.held.n_held_patients)
        return replace(
            listing,
            n_listed_patients=max(0, listing.n_listed_patients - freed),
            n_listed_at_verdict=max(0, at_verdict),
            n_ahead_patients=max(0, ahead),
            p_ahead=min(1.0, number * p) if self.ahead & patients else listing.p_ahead,
            n_singled_images=len({made for made, _ in left}) if len(left) < len(self.singled)
            else listing.n_singled_images,
            n_singled_patients=len({real for _, real in left}) if len(left) < len(self.singled)
            else listing.n_singled_patients,
        )  # fmt: skip


def _least_aligned(aligned: AlignedPairs, left: list[tuple[str, str]]) -> AlignedPairs:
    """What the second look confirms without dismissed pairs."""
    images, patients = {made for made, _ in left}, {real for _, real in left}
    return replace(aligned, n_pairs=len(left), n_confirmed_images=len(images), n_confirmed_patients=len(patients))


def _pairs(result: Result, table: str, real: str = "training_image") -> list[tuple[str, str]]:
    """Synthetic and real images of the rows of a table, in its order; none where there is no such table."""
    if table not in result.tables:
        return []
    found = result.tables[table]
    return list(zip(column_texts(found, "image"), column_texts(found, real), strict=True))


def _foreseen(verdict: dict[str, Any]) -> Foreseen:
    return Foreseen(str(verdict["status"]), tuple(verdict["why"]), tuple(verdict["what_would_decide"]))

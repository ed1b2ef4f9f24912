"""The second look: pairs that a detector flagged are laid on one another, and what lies there is compared.

Looked at are synthetic images of pairs that ask for it (`flags.flag_pairs`), each with the flagged training images and
its `CANDIDATES` nearest by each detector. A pair is confirmed beyond the cut of `statistics.copies.alignments`: fewer
than `EXPECTED_PAIRS` synthetic images of the whole set are expected there if nobody was copied. Its null is one image
of each held-out person, laid on its nearest training images.

That is how alike two people are; a generator's images may look otherwise (smooth, of few kinds). As a control the same
synthetic images, and one of those nearest to each held-out person, are laid on their nearest held-out images, whom the
generator never saw. What is beyond the cut there is told beside the confirmed pairs. Confirmed pairs are a doubt and
fail no set: blurred images of new people were beyond the cut more often than stated (`recipes/alignment.py`).

Planted copies that were noticed are looked at likewise; what is confirmed of them with the right person is told by
kind. Nothing is looked at where no pair asks for it. Pairs that a person dismissed are not looked at.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.audits.generated.distances import Candidates
from memorisk.audits.generated.evidence import SyntheticEvidence
from memorisk.audits.synthetic.findings import Findings
from memorisk.images.copies.alignment import (
    Alignment,
    CopyDetails,
    SourceDetails,
    align_details,
    copy_details,
    source_details,
)
from memorisk.images.store import ImageStore
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.copies.alignments import AlignmentCut, alignment_cut
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.planted_copies import plant_power
from memorisk.statistics.intervals import Proportion

MOST_IMAGES = 200
"""Synthetic images that are looked at, and people of either null: the cost does not grow with the set."""
_MORE_CONTROLS = 50  # synthetic images beside those that are looked at; each is nearest to another held-out person
_MOST_FLAGGED = 3  # flagged training images of one synthetic image
_KEPT = 1024  # details kept in memory: 50 MB at most

Pair = tuple[int, int]
"""Rows of a synthetic and a training image."""


@dataclass(frozen=True)
class AlignedPair:
    """A synthetic image and the training image that it lies on best."""

    synthetic: int
    train: int
    alignment: Alignment
    confirmed: bool
    """Whether its similarity is beyond the cut."""


@dataclass(frozen=True, eq=False)
class SecondLook:
    """What the second look says."""

    cut: AlignmentCut
    """From held-out images on training images."""
    null: np.ndarray
    """[people] similarity of one image of each held-out person with its most similar candidate."""
    n_control: int
    """Synthetic images that were laid on held-out images."""
    n_control_beyond: int
    """Of these, beyond the cut."""
    pairs: tuple[AlignedPair, ...]
    """One of each image that was looked at and has details; all confirmed ones, the most similar first."""
    n_images: int
    """Synthetic images that were looked at."""
    n_left: int
    """Synthetic images of flagged pairs that were not: more than `MOST_IMAGES`."""
    plants: np.ndarray
    """[P] whether a planted copy was noticed, and confirmed with the right person."""
    kinds: dict[str, Proportion]
    """Of all plants of each kind, over sources; empty without plants."""

    @property
    def confirmed(self) -> list[AlignedPair]:
        """Pairs beyond the cut."""
        return [pair for pair in self.pairs if pair.confirmed]


def look_again(
    evidence: SyntheticEvidence,
    found: Findings,
    flagged: Iterable[Pair],
    seed: int,
    progress: Progress = no_progress,
) -> SecondLook | None:
    """Lay flagged pairs on one another.

    Args:
        evidence: Of the images.
        found: What the distances say.
        flagged: Rows of pairs that ask for it, the most urgent first.
        seed: Of the images drawn for the nulls.
        progress: Called with (stage, done, total).

    Returns:
        What it says; None where no pair asks for it, where no held-out images were given, or where distances were made
        without candidates.
    """
    few = [view.distances.candidates for view in evidence.views]
    candidates = [each for each in few if each is not None]
    asked = _asked(flagged, evidence.copies.dismissed)
    if not asked or evidence.sets.held is None or len(candidates) < len(few):
        return None
    looked = dict(list(asked.items())[:MOST_IMAGES])
    of_image = {made: _union(real, (each.synthetic[made] for each in candidates)) for made, real in looked.items()}
    for made, real in of_image.items():
        of_image[made] = [row for row in real if (made, row) not in evidence.copies.dismissed]
    own = {made: set(_union([], (each.synthetic[made] for each in candidates))) for made in looked}
    extra = sum(len(set(real) - own[made]) for made, real in of_image.items())
    trials = len(evidence.sets.synthetic.images) + extra
    train, held = _Details(evidence.sets.train), _Details(evidence.sets.held)
    made_images = evidence.sets.synthetic.images
    rng = np.random.default_rng([67, seed])
    people = rng.permutation(one_per_group(found.held_patients, seed=seed))[:MOST_IMAGES]
    held_images = evidence.sets.held.images
    null = _largest(held_images, people, [each.held for each in candidates], train, progress, "held-out images")
    cut = alignment_cut(null, trials)
    nearest = found.held_patients[candidates[0].synthetic_held[:, 0]]
    others = rng.permutation(one_per_group(nearest, seed=seed))
    control = np.array(list(dict.fromkeys([*looked, *others.tolist()[:_MORE_CONTROLS]])), dtype=np.int64)
    on_held = _largest(made_images, control, [each.synthetic_held for each in candidates], held, progress, "a control")
    pairs = []
    for number, (made, real) in enumerate(of_image.items()):
        progress("laying pairs on one another", number, len(of_image))
        aligned = _aligned(copy_details(np.asarray(made_images[made])), real, train)
        beyond = [pair for pair in aligned if cut.confirmed(pair[1].similarity)] or aligned[:1]
        pairs += [AlignedPair(made, row, how, bool(cut.confirmed(how.similarity))) for row, how in beyond]
    pairs.sort(key=lambda pair: (-pair.alignment.similarity, pair.synthetic, pair.train))
    plants, kinds = _plants(evidence, found, candidates, train, cut, seed, progress)
    return SecondLook(
        cut, null, len(control), int(cut.confirmed(on_held).sum()), tuple(pairs), len(looked), len(asked) - len(looked),
        plants, kinds,
    )  # fmt: skip


class _Details:
    """Details of the images of a store, computed when they are asked for, and some of them kept."""

    def __init__(self, store: ImageStore) -> None:
        self.store, self.kept = store, dict[int, SourceDetails]()

    def __call__(self, row: int) -> SourceDetails:
        if row not in self.kept:
            if len(self.kept) >= _KEPT:
                self.kept.pop(next(iter(self.kept)))
            self.kept[row] = source_details(np.asarray(self.store.images[row]))
        return self.kept[row]


def _asked(flagged: Iterable[Pair], dismissed: frozenset[Pair]) -> dict[int, list[int]]:
    """Training images of each synthetic image, in the order of the flags."""
    asked: dict[int, list[int]] = {}
    for made, real in flagged:
        if (made, real) not in dismissed:
            rows = asked.setdefault(made, [])
            if real not in rows and len(rows) < _MOST_FLAGGED:
                rows.append(real)
    return asked


def _union(first: Sequence[int], more: Iterable[np.ndarray]) -> list[int]:
    """Rows in order, each once, without places that hold none."""
    return list(dict.fromkeys([*first, *(int(row) for rows in more for row in rows if row >= 0)]))


def _aligned(copy: CopyDetails, rows: Sequence[int], details: _Details) -> list[tuple[int, Alignment]]:
    """Alignments with some images, the most similar first."""
    tried = ((row, align_details(copy, details(row))) for row in rows)
    return sorted(
        ((row, how) for row, how in tried if how is not None), key=lambda pair: (-pair[1].similarity, pair[0])
    )


def _largest(
    images: Sequence[np.ndarray] | np.ndarray,
    rows: np.ndarray,
    few: Sequence[np.ndarray],
    details: _Details,
    progress: Progress,
    what: str,
) -> np.ndarray:
    """[n] largest similarity of each of some images with its candidates; 0 where there are no details."""
    largest = np.zeros(len(rows))
    for number, row in enumerate(rows.tolist()):
        progress(f"laying {what} on their nearest", number, len(rows))
        aligned = _aligned(copy_details(np.asarray(images[row])), _union([], (each[row] for each in few)), details)
        largest[number] = aligned[0][1].similarity if aligned else 0.0
    return largest


def _plants(
    evidence: SyntheticEvidence,
    found: Findings,
    candidates: Sequence[Candidates],
    train: _Details,
    cut: AlignmentCut,
    seed: int,
    progress: Progress,
) -> tuple[np.ndarray, dict[str, Proportion]]:
    """[P] which noticed plants are confirmed with the right person, by the first candidate beyond the cut."""
    plants = evidence.plants
    confirmed = np.zeros(plants.n, bool)
    if found.power is None or not plants.n:
        return confirmed, {}
    for number, at in enumerate(np.flatnonzero(found.power.found)):
        progress("laying planted copies on their candidates", number, int(found.power.found.sum()))
        copy = copy_details(plants.pixels[at])
        for row in _union([], (each.plants[at] for each in candidates)):
            how = align_details(copy, train(row))
            if how is not None and cut.confirmed(how.similarity):
                confirmed[at] = found.patients[row] == found.patients[plants.source[at]]
                break
    power = plant_power(confirmed, found.patients[plants.source], kinds=plants.kind.tolist(), seed=seed)
    return confirmed, dict(power.kinds)

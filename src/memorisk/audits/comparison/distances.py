"""Every distance of the audit in passes of the exact search, and pairs with equal or nearly equal pixels.

The direction that counts is from real images to the set (METHODS section 5); the other one describes. A distance is
the negative of a detector's likeness: that of a measure, or minus the logit of a head, which may be below 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from memorisk.audits.comparison.colours import NO_COLOURS, Colours, look_at_colours
from memorisk.audits.comparison.features import FeatureTables
from memorisk.audits.comparison.other_forms import alike_in_other_forms
from memorisk.audits.comparison.plants import Plants
from memorisk.audits.comparison.review import NO_REVIEW, Review
from memorisk.audits.comparison.sets import Sets, is_blank
from memorisk.images.copies.near_copies import (
    NO_PAIRS,
    BestMatches,
    CopyRule,
    NearCopies,
    near_copies_between,
    rule_of_stores,
    same_pixels,
    thumbnails,
)
from memorisk.images.pixels import hash_pixels
from memorisk.runs.workload import Progress
from memorisk.scores.parts import PartsSimilarity
from memorisk.scores.similarity import HeadSimilarity, Nearest, Similarity
from memorisk.statistics.copies.singled_out import neighbour_leads
from memorisk.statistics.exchangeability.image_numbers import image_counts

FloatArray = np.ndarray
_SEARCHES = 9
"""Number of searches of an audit with held-out images and plants."""
_NEAREST = 16
"""Number of neighbours searched so that a third patient is among them: patients with so many near images are rare."""


CANDIDATES = 6
"""Number of nearest images that the second look lays on each (`recipes/alignment.py` counts the sources in them)."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The `CANDIDATES` nearest images of each image, the nearest first; -1 where there are fewer."""

    synthetic: np.ndarray
    """Training images nearest to each synthetic image, [S, k]."""
    plants: np.ndarray
    """Training images nearest to each plant, [P, k]."""
    held: np.ndarray
    """Training images nearest to each held-out image, [M, k]."""
    synthetic_held: np.ndarray
    """Held-out images nearest to each synthetic image, [S, k]; [0, k] without."""


@dataclass(frozen=True, eq=False)
class Distances:
    """Nearest neighbours between the sets; plants never count as part of the synthetic set."""

    train: FloatArray
    """Distance of each training image to the synthetic set, [N]."""
    train_nearest: np.ndarray
    """Row of the synthetic image nearest to each training image, [N]."""
    standing: FloatArray
    """The same distance without pairs that a person dismissed, [N]; as far as any where none is left."""
    standing_nearest: np.ndarray
    """Row of the synthetic image at that distance, [N]."""
    held: FloatArray
    """Distance of each held-out image to the synthetic set, [M]."""
    held_nearest: np.ndarray
    """Row of the synthetic image nearest to each held-out image, [M]."""
    synthetic: FloatArray
    """Distance of each synthetic image to the training images, [S]; pairs that a person dismissed are left out as long
    as an undismissed one exists."""
    nearest: np.ndarray
    """Row of the training image nearest to each synthetic image, [S]."""
    second: FloatArray
    """Distance to the nearest training image of another patient, [S], also without dismissed pairs."""
    synthetic_held: FloatArray
    """Distance of each synthetic image to the held-out images, [S]; empty without."""
    synthetic_held_nearest: np.ndarray
    """Row of the held-out image nearest to each synthetic image, [S]."""
    synthetic_held_second: FloatArray
    """Distance to the nearest held-out image of another patient, [S]."""
    plants: FloatArray
    """Distance of each plant to the training images, [P]."""
    plant_source: FloatArray
    """Distance of each plant to the nearest image of its source's patient, [P]: that patient's distance to the set
    if the plant were in it."""
    plant_other: FloatArray
    """Distance of each plant to the nearest real image of any other person, training or held out, [P]."""
    held_to_train: FloatArray
    """Distance of each held-out image to the training images, [M]."""
    held_to_train_nearest: np.ndarray
    """Row of the training image nearest to each held-out image, [M]."""
    among_train: FloatArray | None
    """Distance of each training image to those of other patients, [N]; None where real images are not compared with
    real ones."""
    among_real: np.ndarray
    """Place among ``among_rows`` of the nearest image of another patient, [R]; empty without held-out images, and where
    real images are not compared with real ones."""
    among_lead: FloatArray
    """Lead of that image over the nearest one of a third patient, [R] (`copies.singled_out.neighbour_leads`)."""
    among_rows: np.ndarray
    """Rows of the real images that count, training images first, then held-out ones, [R]: all, or one for each patient
    where their numbers are not alike (`memorisk.statistics.exchangeability`), since patients with more images are more
    often the nearest. Where held-out patients were left out, patients who share an image with another one do not count
    (`Sets.shares_pixels`)."""
    logits: bool
    """Whether these are minus the logits of a head."""
    candidates: "Candidates | None" = None
    """Candidates of the second look; None where distances are made of nothing but numbers."""
    second_nearest: np.ndarray | None = None
    """Row of the training image at distance ``second``, [S]; -1 where there is one patient; None as `candidates`."""
    of_parts: bool = False
    """Whether windows or details are compared, which say little about the kind of image that they come from."""


@dataclass(frozen=True, eq=False)
class PixelCopies:
    """Synthetic images whose pixels equal or nearly equal those of real ones, whatever the features say."""

    identical: np.ndarray
    """Row of the first training image with the same pixels, as it is, mirrored or turned by quarters, [S]; -1 for none;
    blank images do not count as copies."""
    orientation: np.ndarray
    """Place in `memorisk.images.copies.near_copies.ORIENTATIONS` of the move that turns the synthetic image into the
    training image or, where there is none, into that of a further part or the held-out one, [S]; -1 without any."""
    in_both: np.ndarray
    """Whether these pixels are a held-out image's, too, so that they belong to no person for certain, [S]."""
    identical_held: np.ndarray
    """Row of the first held-out image with the same pixels, where no training image has them, [S]; -1 for none."""
    of_set: BestMatches
    """Most similar training image of each synthetic image, [S]."""
    near_train: NearCopies
    """Confirmed pairs of a synthetic and a training image that are nearly identical and not dismissed: all, so that an
    answer to some leads to no others."""
    near_held: NearCopies
    """Confirmed pairs of a synthetic and a held-out image that are nearly identical."""
    thumbnails: np.ndarray
    """Thumbnails of the synthetic images, [S, 32, 32]."""
    dismissed: frozenset[tuple[int, int]] = frozenset()
    """Rows of the synthetic and training images of all dismissed pairs."""
    dismissed_identical: frozenset[tuple[int, int]] = frozenset()
    """Dismissed pairs with equal pixels that no held-out image has."""
    dismissed_near: frozenset[tuple[int, int]] = frozenset()
    """Other dismissed pairs that are nearly identical."""
    blank: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows of the synthetic images of one value only, which copy no person."""
    plants: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Whether each plant has the pixels of a training image that no held-out image shares, by the same rule, or nearly
    those of an inverted one, [P]."""
    n_near_left: int = 0
    """Number of pairs of alike thumbnails beyond the longest list (`near_copies.MAX_PAIRS`)."""
    rule: CopyRule | None = None
    """Rule by which images are nearly identical, learned from all real images alike."""
    identical_other: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Row of the first image of a further part of TRAIN with the same pixels, where no training image has them, [S]; -1
    for none, and empty without such parts."""
    colours: Colours = NO_COLOURS
    """Training images in the colours of synthetic ones, which thumbnails, luma and averages of channels do not show."""
    other_forms: Mapping[str, int] = field(default_factory=dict)
    """Number of synthetic images nearly identical to a training image in another form, by its name."""

    def alike(self, made: np.ndarray, real: np.ndarray) -> np.ndarray:
        """Return the similarity of the thumbnails of pairs, [P], as they are or mirrored; 0 where no rule was learned.

        Args:
            made: Rows of synthetic images, [P].
            real: Thumbnails of training images, [P, 32, 32].
        """
        if self.rule is None or not len(made):
            return np.zeros(len(made))
        vectors = self.rule.whitening.vectors
        ours = vectors(self.thumbnails[made])
        return np.maximum(*((ours * vectors(laid)).sum(axis=1) for laid in (real, real[:, :, ::-1])))


def measure_distances(
    found: FeatureTables,
    similarity: Similarity,
    sets: Sets,
    plants: Plants,
    progress: Progress,
    *,
    review: Review = NO_REVIEW,
    device: str = "cpu",
    compares_real: bool = True,
) -> Distances:
    """Find nearest neighbours in all directions that the audit needs.

    Args:
        found: Features of all images.
        similarity: Similarity that compares the features, fitted on the real ones.
        sets: Images with their patients.
        plants: Planted copies with their sources.
        progress: Called with (stage, done, total).
        review: Judgements of pairs by a person.
        device: Device of the search; the distances do not depend on it.
        compares_real: Whether real images are compared with those of other patients as well: for the test of the
            random split, and for the figures of the literature.

    Raises:
        InputError: The measure does not take some rows, or the device is not there.
    """
    search = _Search(similarity, device, progress)
    held, train = sets.held, search.both_ways(found.synthetic, found.train)
    nearest, distance = train.few.rows[:, 0].copy(), -train.few.scores[:, 0]
    patients = sets.train.manifest.groups.astype(str)
    second, second_nearest = search.second(train.few, found.synthetic, found.train, patients)
    for row, rest in review.left_for(sets):
        if {nearest[row], second_nearest[row]} - set(rest) and len(rest):
            one, of_left = found.synthetic[row : row + 1], found.train[rest]
            distance[row], nearest[row] = _next_of(rest, *search.nearest(one, of_left))
            exclude = patients[nearest[row : row + 1]], patients[rest]
            second[row], second_nearest[row] = _next_of(rest, *search.nearest(one, of_left, exclude=exclude))
    of_held, of_plants = search.few(found.held, found.train), search.few(found.plants, found.train)
    new = _NO_HELD if held is None else search.both_ways(found.synthetic, found.held)
    of_whom = np.empty(0, dtype=str) if held is None else held.manifest.groups.astype(str)
    standing, standing_nearest = _undismissed_nearest(found, similarity, sets, review, train)
    among, (among_real, among_lead, among_rows) = None, _NO_NEIGHBOURS
    if compares_real:
        among, _ = search.nearest(found.train, found.train, exclude=(patients, patients))
        if held is not None:
            among_real, among_lead, among_rows = _real_neighbours(search, found, sets)
    return Distances(
        train=train.distance,
        train_nearest=train.nearest,
        standing=standing,
        standing_nearest=standing_nearest,
        held=new.distance,
        held_nearest=new.nearest,
        synthetic=distance,
        nearest=nearest,
        second=second,
        synthetic_held=-new.few.scores[:, 0],
        synthetic_held_nearest=new.few.rows[:, 0],
        synthetic_held_second=search.second(new.few, found.synthetic, found.held, of_whom)[0],
        plants=-of_plants.scores[:, 0],
        plant_source=_to_source(found, similarity, plants, patients),
        plant_other=_to_others(search, found, plants, patients),
        held_to_train=-of_held.scores[:, 0],
        held_to_train_nearest=of_held.rows[:, 0],
        among_train=among,
        among_real=among_real,
        among_lead=among_lead,
        among_rows=among_rows,
        logits=search.logits,
        candidates=Candidates(train.few.rows, of_plants.rows, of_held.rows, new.few.rows),
        second_nearest=second_nearest,
        of_parts=isinstance(similarity, PartsSimilarity),
    )


def _no_candidates() -> Nearest:
    return Nearest(np.empty((0, CANDIDATES), np.int64), np.empty((0, CANDIDATES)))


@dataclass(frozen=True, eq=False)
class _BothWays:
    """Candidates of each copy, and distance and row of the copy nearest to each source."""

    few: Nearest
    distance: FloatArray
    nearest: np.ndarray


_NO_HELD = _BothWays(_no_candidates(), np.empty(0), np.empty(0, dtype=np.int64))
_NO_NEIGHBOURS = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class _Search:
    """Searches of one detector, of which each reports its progress."""

    similarity: Similarity
    device: str
    progress: Progress
    done: int = 0

    @property
    def logits(self) -> bool:
        """Return whether distances are minus the logits of a head."""
        return isinstance(self.similarity, HeadSimilarity)

    def nearest(
        self, queries: np.ndarray, references: np.ndarray, *, exclude: Any = None
    ) -> tuple[FloatArray, np.ndarray]:
        """Return distance and row of the reference nearest to each query."""
        return _nearest(self.begin(), queries, references, exclude, self.device)

    def few(self, queries: np.ndarray, references: np.ndarray) -> Nearest:
        """Return the candidates of each query, [n, CANDIDATES]; rows are -1 where there are fewer."""
        if not len(queries):
            return _no_candidates()
        n = min(CANDIDATES, len(references))
        return _widened(self.begin().nearest(queries, references, n, device=self.device))

    def both_ways(self, copies: np.ndarray, sources: np.ndarray) -> _BothWays:
        """Return the candidates of each copy, and the copy nearest to each source."""
        similarity = self.begin()
        if isinstance(similarity, PartsSimilarity) and len(copies) and len(sources):
            few, back = similarity.nearest_both_ways(copies, sources, min(CANDIDATES, len(sources)))
            return _BothWays(_widened(few), -back.scores[:, 0], back.rows[:, 0])
        few = self.few(copies, sources)
        return _BothWays(few, *_nearest(similarity.reversed, sources, copies, None, self.device))

    def second(
        self, few: Nearest, copies: np.ndarray, sources: np.ndarray, whose: np.ndarray
    ) -> tuple[FloatArray, np.ndarray]:
        """Return distance and row of the source of another patient than the nearest one's; inf and -1 for none.

        The candidates hold it nearly always. Copies whose candidates are all of one patient search once more.
        """
        if not len(few.rows):
            return np.empty(0), np.empty(0, dtype=np.int64)
        first = whose[few.rows[:, 0]]
        other = (whose[few.rows] != first[:, None]) & (few.rows >= 0)
        place, every = other.argmax(axis=1), np.arange(len(other))
        distance, row = -few.scores[every, place], few.rows[every, place]
        again = np.flatnonzero(~other.any(axis=1))
        if len(again):
            distance[again], row[again] = self.nearest(copies[again], sources, exclude=(first[again], whose))
        return distance, row

    def begin(self) -> Similarity:
        """Report a further search, and return the similarity that it uses."""
        self.progress("comparing", min(self.done, _SEARCHES), _SEARCHES)
        self.done += 1
        return self.similarity


def _undismissed_nearest(
    found: FeatureTables, similarity: Similarity, sets: Sets, review: Review, nearest: _BothWays
) -> tuple[FloatArray, np.ndarray]:
    """Return distance and row of the nearest synthetic image of each training image, without dismissed pairs."""
    standing, at = nearest.distance.copy(), nearest.nearest.copy()
    for row, rest in review.left_of(sets):
        standing[row] = nearest.distance.max()
        if len(rest):
            d, place = _nearest(similarity.reversed, found.train[row : row + 1], found.synthetic[rest], None, "cpu")
            standing[row], at[row] = d[0], rest[place[0]]
    return standing, at


def _next_of(left: np.ndarray, distance: FloatArray, place: np.ndarray) -> tuple[float, int]:
    """Return the distance and the training image that a search among some of them found; -1 if it found none."""
    return float(distance[0]), int(left[place[0]]) if place[0] >= 0 else -1


def _nearest(
    similarity: Similarity, queries: np.ndarray, references: np.ndarray, exclude: Any, device: str
) -> tuple[FloatArray, np.ndarray]:
    """Return distance and row of the nearest reference."""
    if not len(queries):
        return np.empty(0), np.empty(0, dtype=np.int64)
    neighbours = similarity.nearest(queries, references, exclude_same=exclude, device=device)
    return -neighbours.scores[:, 0], neighbours.rows[:, 0]


def _widened(nearest: Nearest) -> Nearest:
    missing = (0, 0), (0, CANDIDATES - nearest.rows.shape[1])
    return Nearest(
        np.pad(nearest.rows, missing, constant_values=-1), np.pad(nearest.scores, missing, constant_values=-np.inf)
    )


def _to_source(found: FeatureTables, similarity: Similarity, plants: Plants, patients: np.ndarray) -> FloatArray:
    """Return the distance of each plant to the nearest image of the patient whose image it copies, [P]."""
    least = []
    for i, row in enumerate(plants.source):
        images = found.train[patients == patients[row]]
        least.append(-similarity.scores(np.repeat(found.plants[i : i + 1], len(images), axis=0), images).max())
    return np.array(least, dtype=np.float64)


def _to_others(search: _Search, found: FeatureTables, plants: Plants, patients: np.ndarray) -> FloatArray:
    """Return the distance of each plant to the nearest real image of any other person, training or held out, [P]."""
    if not len(found.plants):
        return np.empty(0)
    others, _ = search.nearest(found.plants, found.train, exclude=(patients[plants.source], patients))
    return np.minimum(others, search.nearest(found.plants, found.held)[0]) if len(found.held) else others


def _real_neighbours(search: _Search, found: FeatureTables, sets: Sets) -> tuple[np.ndarray, FloatArray, np.ndarray]:
    """Return the nearest image of another patient, its lead, and the rows of the images that count (`Distances`)."""
    assert sets.held is not None
    n, patients = len(found.train), sets.train.manifest.groups.astype(str)
    theirs = np.char.add("held out: ", sets.held.manifest.groups.astype(str))
    counted = image_counts(patients, theirs)
    rows = np.concatenate([counted.train, n + counted.held])
    rows = rows[~sets.shares_pixels[rows]]
    if len(np.unique(rows < n)) < 2:  # patients of one part alone cannot test the split
        return np.empty(0, dtype=np.int64), np.empty(0), rows
    images = np.concatenate([found.train, found.held])[rows]
    return *_neighbours(search, images, np.concatenate([patients, theirs])[rows]), rows


def _neighbours(search: _Search, images: np.ndarray, patients: np.ndarray) -> tuple[np.ndarray, FloatArray]:
    """Return the nearest image of another patient, and by how much it leads the nearest of a third, [R].

    Where all of the `_NEAREST` nearest images are one patient's, the last of them represents the third patient's: the
    lead is then smaller than it is.
    """
    k, same = min(_NEAREST, len(images)), (patients, patients)
    neighbours = search.begin().nearest(images, images, k, exclude_same=same, device=search.device)
    first, distance = neighbours.rows[:, 0], -neighbours.scores  # [R], [R, k]; inf where there are fewer
    third = (patients[neighbours.rows] != patients[first][:, None]) & (neighbours.rows >= 0)
    finite = np.where(neighbours.rows >= 0, distance, -np.inf).max(axis=1)
    second = np.where(third.any(axis=1), distance[np.arange(len(first)), third.argmax(axis=1)], finite)
    return first, neighbour_leads(distance[:, 0], second, logits=search.logits)


def find_pixel_copies(
    sets: Sets, progress: Progress, review: Review = NO_REVIEW, plants: Plants | None = None
) -> PixelCopies:
    """Find synthetic images with the pixels of a real one, and for every image the most similar of the other side.

    Args:
        sets: Images of all parts.
        progress: Called with (stage, done, total).
        review: Judgements; dismissed pairs do not count as copies. All pairs are found before any answer is read.
        plants: Planted copies, checked by the rule of equal pixels; None without plants.
    """
    miniatures = [
        np.empty((0, 32, 32), dtype=np.uint8)
        if store is None
        else thumbnails(store.images, progress=partial(progress, f"looking at {what} images"))
        for what, store in (("training", sets.train), ("synthetic", sets.synthetic), ("held-out", sets.held))
    ]
    counted, read = partial(progress, "looking for near copies"), sets.synthetic.images.__getitem__
    real_sets = [(sets.train, miniatures[0])] + ([] if sets.held is None else [(sets.held, miniatures[2])])
    rule = rule_of_stores(
        *(store for store, _ in real_sets),
        small=[small for _, small in real_sets],
        compared_with=len(miniatures[1]),
        progress=partial(progress, "learning how alike two people are"),
    )
    of_set, near_train = near_copies_between(
        miniatures[1], miniatures[0], rule, read, sets.train.images.__getitem__, progress=counted
    )
    near_held = NO_PAIRS
    if sets.held is not None:
        near_held = near_copies_between(miniatures[1], miniatures[2], rule, read, sets.held.images.__getitem__)[1]
    left_over = sum(near.n_pairs - len(near.first) for near in (near_train, near_held))
    same = same_pixels(sets.synthetic, sets.train)
    of_training, copied = same.row, sets.train.pixel_hashes[same.row]  # the last one's hash where there is none
    same_held = None if sets.held is None else same_pixels(sets.synthetic, sets.held)
    held = np.full_like(of_training, -1) if same_held is None else same_held.row
    orientation = same.orientation if same_held is None else np.where(
        of_training >= 0, same.orientation, same_held.orientation
    )  # fmt: skip
    blank = np.flatnonzero(is_blank(sets.synthetic, np.arange(len(of_training))))
    of_others = np.empty(0, dtype=np.int64)
    if sets.others is not None:
        same_other = same_pixels(sets.synthetic, sets.others)
        of_others = np.where(of_training >= 0, -1, same_other.row)
        orientation = np.where(of_others >= 0, same_other.orientation, orientation)
        of_others[blank] = -1
    of_training[blank] = held[blank] = -1
    shared = (held >= 0) | np.array([value in sets.shared_hashes for value in copied], dtype=bool)
    in_both, of_held_out = shared & (of_training >= 0), np.where(of_training >= 0, -1, held)
    certain = (of_training >= 0) & ~in_both
    hashes = sets.synthetic.pixel_hashes
    of_training[[pair in review.dismissed for pair in zip(hashes, copied, strict=True)]] = -1
    pairs = set(review.pairs(sets, review.dismissed))
    equal = frozenset((s, r) for s, r in pairs if certain[s] and copied[s] == sets.train.pixel_hashes[r])
    undismissed = np.array(
        [pair not in pairs for pair in zip(near_train.first, near_train.second, strict=True)], dtype=bool
    )
    in_other_forms, inverted = alike_in_other_forms(
        sets.synthetic, sets.forms, frozenset(near_train.pairs), progress, None if plants is None else plants.pixels
    )
    return PixelCopies(
        of_training, orientation, in_both & (of_training >= 0), of_held_out, of_set,
        near_train.only(near_train.confirmed & undismissed), near_held.only(near_held.confirmed), miniatures[1],
        frozenset(pairs), equal, frozenset(near_train.pairs) & frozenset(pairs) - equal, blank,
        _plants_with_equal_pixels(sets, plants) | inverted, left_over, rule, of_others,
        look_at_colours(sets, frozenset(near_train.pairs), progress), in_other_forms,
    )  # fmt: skip


def _plants_with_equal_pixels(sets: Sets, plants: Plants | None) -> np.ndarray:
    """Return which plants have the very pixels of a training image that is not blank and not also held out, [P]."""
    if plants is None or not plants.n:
        return np.zeros(0, dtype=bool)
    hashes = np.array([hash_pixels(image) for image in plants.pixels], dtype=object)
    store = replace(sets.synthetic, images=plants.pixels, pixel_hashes=hashes)
    row = same_pixels(store, sets.train).row
    shared = np.array([value in sets.shared_hashes for value in sets.train.pixel_hashes[row]], dtype=bool)
    held = np.zeros(plants.n, dtype=bool) if sets.held is None else same_pixels(store, sets.held).row >= 0
    return (row >= 0) & ~shared & ~held & ~is_blank(store, np.arange(plants.n))

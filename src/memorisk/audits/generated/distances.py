"""Every distance of the audit in passes of the exact search, and pairs with equal or nearly equal pixels.

The direction that counts is from real images to the set (METHODS section 5); the other one describes. A distance is
minus what a detector calls likeness: that of a measure, or minus the logit of a head, which may be below 0.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from memorisk.audits.generated.features import FeatureTables
from memorisk.audits.generated.plants import Plants
from memorisk.audits.generated.review import NO_REVIEW, Review
from memorisk.audits.generated.sets import Sets, is_blank
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
from memorisk.statistics.copies.tails import neighbour_leads
from memorisk.statistics.exchangeability import image_counts

FloatArray = np.ndarray
_STAGES = 6
_NEAREST = 16
"""Neighbours asked for so that a third patient is among them: patients with so many near images are rare."""


CANDIDATES = 6
"""Nearest images of each that the second look lays on it (`recipes/alignment.py` counts the sources among them)."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The `CANDIDATES` nearest images of each image, the nearest first; -1 where there are fewer."""

    synthetic: np.ndarray
    """[S, k] training images."""
    plants: np.ndarray
    """[P, k] training images."""
    held: np.ndarray
    """[M, k] training images."""
    synthetic_held: np.ndarray
    """[S, k] held-out images; [0, k] without."""


@dataclass(frozen=True, eq=False)
class Distances:
    """Nearest neighbours between the sets; plants never count as part of the synthetic set."""

    train: FloatArray
    """[N] of each training image to the synthetic set."""
    train_nearest: np.ndarray
    """[N] the synthetic image."""
    standing: FloatArray
    """[N] the same without pairs that a person dismissed; as far as any where none is left."""
    standing_nearest: np.ndarray
    """[N] the synthetic image."""
    held: FloatArray
    """[M] of each held-out image to the synthetic set."""
    held_nearest: np.ndarray
    """[M] the synthetic image."""
    synthetic: FloatArray
    """[S] of each synthetic image to the training images; pairs that a person dismissed are left out while one that
    nobody dismissed is there."""
    nearest: np.ndarray
    """[S] the training image."""
    second: FloatArray
    """[S] to the nearest training image of another patient, also without dismissed pairs."""
    synthetic_held: FloatArray
    """[S] of each synthetic image to the held-out images; empty without."""
    synthetic_held_nearest: np.ndarray
    """[S] the held-out image."""
    synthetic_held_second: FloatArray
    """[S] to the nearest held-out image of another patient."""
    plants: FloatArray
    """[P] of each plant to the training images."""
    plant_source: FloatArray
    """[P] to the nearest image of its source's patient: what that patient's distance to the set would be with it."""
    plant_other: FloatArray
    """[P] to the nearest real image of anybody else, training or held out."""
    held_to_train: FloatArray
    """[M] of each held-out image to the training images."""
    held_to_train_nearest: np.ndarray
    """[M] the training image."""
    among_train: FloatArray | None
    """[N] of each training image to those of other patients; None where real images are not compared with real ones."""
    among_real: np.ndarray
    """[R] place among ``among_rows`` of the nearest image of another patient; empty without held-out images, and where
    real images are not compared with real ones."""
    among_lead: FloatArray
    """[R] by how much it is nearer than the nearest image of a third patient
    (`statistics.copies.tails.neighbour_leads`)."""
    among_rows: np.ndarray
    """[R] of training images, then held-out ones, those that count: all, or one a patient where their numbers are not
    alike (`memorisk.statistics.exchangeability`), since patients with more images are more often the nearest. Where
    held-out patients were left out, patients who share an image with another one do not count
    (`Sets.shares_pixels`)."""
    logits: bool
    """Whether these are minus the logits of a head."""
    candidates: "Candidates | None" = None
    """Who is looked at a second time; None where distances are made of nothing but numbers."""
    second_nearest: np.ndarray | None = None
    """[S] the training image that ``second`` is of, -1 where there is one patient; None likewise."""
    of_parts: bool = False
    """Whether windows or details are compared, which say little of what kind of image they are from."""


@dataclass(frozen=True, eq=False)
class PixelCopies:
    """Synthetic images whose pixels are those of real ones, or nearly; whatever the features say."""

    identical: np.ndarray
    """[S] row of the first training image with the same pixels, as it is, mirrored or turned by quarters; -1 for none;
    blank images are no copies."""
    orientation: np.ndarray
    """[S] place in `memorisk.images.copies.near_copies.ORIENTATIONS`: what is done to the synthetic image to give the
    training image, or, where there is none, the held-out one; -1 where neither is."""
    in_both: np.ndarray
    """[S] whether these pixels are a held-out image's, too, so that they are nobody's for certain."""
    identical_held: np.ndarray
    """[S] likewise of a held-out image, and no training image's; -1 for none."""
    of_set: BestMatches
    """[S] most similar training image."""
    near_train: NearCopies
    """Confirmed pairs of a synthetic and a training image that are nearly identical and not dismissed: all, so that an
    answer to some leads to no others."""
    near_held: NearCopies
    """Likewise of a synthetic and a held-out image."""
    thumbnails: np.ndarray
    """[S, 32, 32] of the synthetic images."""
    dismissed: frozenset[tuple[int, int]] = frozenset()
    """Rows of the synthetic and training images of all dismissed pairs."""
    dismissed_identical: frozenset[tuple[int, int]] = frozenset()
    """Those with equal pixels that no held-out image has."""
    dismissed_near: frozenset[tuple[int, int]] = frozenset()
    """Of the other dismissed pairs those that are nearly identical."""
    blank: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows of the synthetic images of one value only, which copy nobody."""
    plants: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    """[P] whether each plant has the pixels of a training image that no held-out image shares, by the same rule."""
    n_near_left: int = 0
    """Number of pairs of alike thumbnails beyond the longest list (`near_copies.MAX_PAIRS`)."""
    rule: CopyRule | None = None
    """What counts as nearly identical, learned from all real images alike."""

    def alike(self, made: np.ndarray, real: np.ndarray) -> np.ndarray:
        """[P] similarity of the thumbnails of pairs, as they are or mirrored; 0 where no rule was learned.

        Args:
            made: [P] rows of synthetic images.
            real: [P, 32, 32] thumbnails of training images.
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
        found: Features.
        similarity: What compares them, fitted on the real ones.
        sets: For the patients.
        plants: For their sources.
        progress: Called with (stage, done, total).
        review: What a person said of pairs.
        device: Where to search; the distances are the same.
        compares_real: Whether real images are compared with those of other patients as well: for the test of the
            random split, and for what the literature computes.

    Raises:
        InputError: The measure does not take some rows, or the device is not there.
    """
    patients = sets.train.manifest.groups.astype(str)

    def ask(queries: np.ndarray, references: np.ndarray, stage: int, exclude=None) -> tuple[np.ndarray, np.ndarray]:
        """Return distance and row of the source nearest to each copy."""
        progress("comparing", stage, _STAGES)
        return _nearest(similarity, queries, references, exclude, device)

    def ask_few(queries: np.ndarray, references: np.ndarray, stage: int) -> Nearest:
        """Return the candidates of each query."""
        progress("comparing", stage, _STAGES)
        return _few_nearest(similarity, queries, references, device)

    def ask_both(references: np.ndarray, stage: int) -> tuple[Nearest, np.ndarray, np.ndarray]:
        """Return the candidates of each synthetic image, and distance and row of the one nearest to each real image."""
        progress("comparing", stage, _STAGES)
        return _both_ways(similarity, found.synthetic, references, device)

    def ask_second(
        few: Nearest, references: np.ndarray, whose: np.ndarray, stage: int
    ) -> tuple[FloatArray, np.ndarray]:
        """Return distance and row of the real image of another patient nearest to each synthetic image."""
        progress("comparing", stage, _STAGES)
        return _second_nearest(similarity, few, found.synthetic, references, whose, device)

    of_synthetic, train, train_nearest = ask_both(found.train, 0)  # tables one by one: together they would be copied
    of_held, of_plants = ask_few(found.held, found.train, 1), ask_few(found.plants, found.train, 1)
    synthetic, ours = -of_synthetic.scores[:, 0], of_synthetic.rows[:, 0].copy()
    second, second_nearest = ask_second(of_synthetic, found.train, patients, 2)
    for made, left in review.left_for(sets):
        if {ours[made], second_nearest[made]} - set(left) and len(left):
            one, of_left = found.synthetic[made : made + 1], found.train[left]
            synthetic[made], ours[made] = _next_of(left, *ask(one, of_left, 2))
            exclude = patients[ours[made : made + 1]], patients[left]
            second[made], second_nearest[made] = _next_of(left, *ask(one, of_left, 2, exclude=exclude))
    among = ask(found.train, found.train, 3, exclude=(patients, patients))[0] if compares_real else None
    among_real = among_rows = made_held_nearest = held_nearest = np.empty(0, dtype=np.int64)
    among_lead = made_held = made_held_second = held = np.empty(0)
    made_held_few = np.empty((0, CANDIDATES), dtype=np.int64)
    logits, others = isinstance(similarity, HeadSimilarity), np.full(len(found.plants), np.inf)
    if len(found.plants):
        others, _ = ask(found.plants, found.train, 2, exclude=(patients[plants.source], patients))
    if sets.held is not None:
        held_patients = sets.held.manifest.groups.astype(str)
        of_made_held, held, held_nearest = ask_both(found.held, 3)
        made_held, made_held_few = -of_made_held.scores[:, 0], of_made_held.rows
        made_held_nearest = made_held_few[:, 0]
        made_held_second, _ = ask_second(of_made_held, found.held, held_patients, 3)
        others = np.minimum(others, ask(found.plants, found.held, 3)[0])
        if compares_real:
            progress("comparing", 4, _STAGES)
            among_real, among_lead, among_rows = _real_neighbours(found, similarity, sets, logits, device)
    standing, standing_nearest = _undismissed_nearest(found, similarity, sets, review, train, train_nearest)
    progress("comparing", _STAGES - 1, _STAGES)
    return Distances(
        train=train,
        train_nearest=train_nearest,
        standing=standing,
        standing_nearest=standing_nearest,
        held=held,
        held_nearest=held_nearest,
        synthetic=synthetic,
        nearest=ours,
        second=second,
        synthetic_held=made_held,
        synthetic_held_nearest=made_held_nearest,
        synthetic_held_second=made_held_second,
        plants=-of_plants.scores[:, 0],
        plant_source=_to_source(found, similarity, plants, patients),
        plant_other=others,
        held_to_train=-of_held.scores[:, 0],
        held_to_train_nearest=of_held.rows[:, 0],
        among_train=among,
        among_real=among_real,
        among_lead=among_lead,
        among_rows=among_rows,
        logits=logits,
        candidates=Candidates(of_synthetic.rows, of_plants.rows, of_held.rows, made_held_few),
        second_nearest=second_nearest,
        of_parts=isinstance(similarity, PartsSimilarity),
    )


def _undismissed_nearest(
    found: FeatureTables,
    similarity: Similarity,
    sets: Sets,
    review: Review,
    distance: FloatArray,
    nearest: np.ndarray,
) -> tuple[FloatArray, np.ndarray]:
    """Distance and row of the nearest synthetic image of each training image when dismissed pairs are left out."""
    standing, at = distance.copy(), nearest.copy()
    for row, left in review.left_of(sets):
        standing[row] = distance.max()
        if len(left):
            d, place = _nearest(similarity.reversed, found.train[row : row + 1], found.synthetic[left], None, "cpu")
            standing[row], at[row] = d[0], left[place[0]]
    return standing, at


def _next_of(left: np.ndarray, distance: FloatArray, place: np.ndarray) -> tuple[float, int]:
    """Return the distance and the training image that a search among some of them found; -1 for none."""
    return float(distance[0]), int(left[place[0]]) if place[0] >= 0 else -1


def _nearest(
    similarity: Similarity, queries: np.ndarray, references: np.ndarray, exclude, device: str
) -> tuple[FloatArray, np.ndarray]:
    """Distance and row of the nearest reference."""
    if not len(queries):
        return np.empty(0), np.empty(0, dtype=np.int64)
    found = similarity.nearest(queries, references, exclude_same=exclude, device=device)
    return -found.scores[:, 0], found.rows[:, 0]


def _few_nearest(similarity: Similarity, queries: np.ndarray, references: np.ndarray, device: str) -> Nearest:
    """Candidates of each query, [n, CANDIDATES]; rows are -1 where there are fewer."""
    if not len(queries):
        return Nearest(np.empty((0, CANDIDATES), np.int64), np.empty((0, CANDIDATES)))
    return _widened(similarity.nearest(queries, references, min(CANDIDATES, len(references)), device=device))


def _widened(nearest: Nearest) -> Nearest:
    missing = (0, 0), (0, CANDIDATES - nearest.rows.shape[1])
    return Nearest(
        np.pad(nearest.rows, missing, constant_values=-1), np.pad(nearest.scores, missing, constant_values=-np.inf)
    )


def _both_ways(
    similarity: Similarity, copies: np.ndarray, sources: np.ndarray, device: str
) -> tuple[Nearest, FloatArray, np.ndarray]:
    """Candidates of each copy, and distance and row of the copy nearest to each source."""
    if isinstance(similarity, PartsSimilarity) and len(copies) and len(sources):
        few, back = similarity.nearest_both_ways(copies, sources, min(CANDIDATES, len(sources)))
        return _widened(few), -back.scores[:, 0], back.rows[:, 0]
    return _few_nearest(similarity, copies, sources, device), *_nearest(
        similarity.reversed, sources, copies, None, device
    )


def _second_nearest(
    similarity: Similarity, few: Nearest, copies: np.ndarray, sources: np.ndarray, whose: np.ndarray, device: str
) -> tuple[FloatArray, np.ndarray]:
    """Distance and row of the source of another patient than the nearest one's; inf and -1 where there is none.

    The candidates hold it nearly always. Copies whose candidates are all of one patient search once more.
    """
    first = whose[few.rows[:, 0]]
    other = (whose[few.rows] != first[:, None]) & (few.rows >= 0)
    place, every = other.argmax(axis=1), np.arange(len(other))
    distance, row = -few.scores[every, place], few.rows[every, place]
    again = np.flatnonzero(~other.any(axis=1))
    if len(again):
        exclude = first[again], whose
        distance[again], row[again] = _nearest(similarity, copies[again], sources, exclude, device)
    return distance, row


def _real_neighbours(
    found: FeatureTables, similarity: Similarity, sets: Sets, logits: bool, device: str
) -> tuple[np.ndarray, FloatArray, np.ndarray]:
    """Nearest image of another patient, its lead, and the rows of the real images that count (`Distances`)."""
    assert sets.held is not None
    n, patients = len(found.train), sets.train.manifest.groups.astype(str)
    theirs = np.char.add("held out: ", sets.held.manifest.groups.astype(str))
    counted = image_counts(patients, theirs)
    rows = np.concatenate([counted.train, n + counted.held])
    rows = rows[~sets.shares_pixels[rows]]
    if len(np.unique(rows < n)) < 2:  # patients of one part alone are no test of the split
        return np.empty(0, dtype=np.int64), np.empty(0), rows
    images = np.concatenate([found.train, found.held])[rows]
    return *_neighbours(similarity, images, np.concatenate([patients, theirs])[rows], logits, device), rows


def _neighbours(
    similarity: Similarity, images: np.ndarray, patients: np.ndarray, logits: bool, device: str
) -> tuple[np.ndarray, FloatArray]:
    """[R] the nearest image of another patient, and by how much it leads the nearest of a third.

    Where all of the `_NEAREST` nearest images are one patient's, the last of them stands for the third patient's: the
    lead is then smaller than it is.
    """
    k = min(_NEAREST, len(images))
    found = similarity.nearest(images, images, k, exclude_same=(patients, patients), device=device)
    first, distance = found.rows[:, 0], -found.scores  # [R], [R, k]; inf where there are fewer
    third = (patients[found.rows] != patients[first][:, None]) & (found.rows >= 0)
    finite = np.where(found.rows >= 0, distance, -np.inf).max(axis=1)
    second = np.where(third.any(axis=1), distance[np.arange(len(first)), third.argmax(axis=1)], finite)
    return first, neighbour_leads(distance[:, 0], second, logits=logits)


def find_pixel_copies(
    sets: Sets, progress: Progress, review: Review = NO_REVIEW, plants: Plants | None = None
) -> PixelCopies:
    """Synthetic images with the pixels of a real one, and for every image the most similar one of the other side.

    Args:
        sets: The images.
        progress: Called with (stage, done, total).
        review: Pairs that a person dismissed are no copies. All pairs are found before any answer is read.
        plants: Planted copies, looked at by the rule of equal pixels; None for none.
    """
    made = [
        np.empty((0, 32, 32), dtype=np.uint8)
        if store is None
        else thumbnails(store.images, progress=partial(progress, f"looking at {what} images"))
        for what, store in (("training", sets.train), ("synthetic", sets.synthetic), ("held-out", sets.held))
    ]
    counted, read = partial(progress, "looking for near copies"), sets.synthetic.images.__getitem__
    known = [(sets.train, made[0])] + ([] if sets.held is None else [(sets.held, made[2])])
    rule = rule_of_stores(
        *(store for store, _ in known),
        small=[small for _, small in known],
        compared_with=len(made[1]),
        progress=partial(progress, "learning how alike two people are"),
    )
    of_set, near_train = near_copies_between(
        made[1], made[0], rule, read, sets.train.images.__getitem__, progress=counted
    )
    near_held = NO_PAIRS
    if sets.held is not None:
        near_held = near_copies_between(made[1], made[2], rule, read, sets.held.images.__getitem__)[1]
    left_over = sum(near.found - len(near.first) for near in (near_train, near_held))
    same = same_pixels(sets.synthetic, sets.train)
    of_training, copied = same.row, sets.train.pixel_hashes[same.row]  # the last one's hash where there is none
    same_held = None if sets.held is None else same_pixels(sets.synthetic, sets.held)
    held = np.full_like(of_training, -1) if same_held is None else same_held.row
    orientation = same.orientation if same_held is None else np.where(
        of_training >= 0, same.orientation, same_held.orientation
    )  # fmt: skip
    blank = np.flatnonzero(is_blank(sets.synthetic, np.arange(len(of_training))))
    of_training[blank] = held[blank] = -1
    shared = (held >= 0) | np.array([value in sets.shared_hashes for value in copied], dtype=bool)
    in_both, of_held_out = shared & (of_training >= 0), np.where(of_training >= 0, -1, held)
    certain = (of_training >= 0) & ~in_both
    hashes = sets.synthetic.pixel_hashes
    of_training[[pair in review.dismissed for pair in zip(hashes, copied, strict=True)]] = -1
    pairs = set(review.pairs(sets, review.dismissed))
    equal = frozenset((s, r) for s, r in pairs if certain[s] and copied[s] == sets.train.pixel_hashes[r])
    left = np.array([pair not in pairs for pair in zip(near_train.first, near_train.second, strict=True)], dtype=bool)
    return PixelCopies(
        of_training, orientation, in_both & (of_training >= 0), of_held_out, of_set,
        near_train.only(near_train.confirmed & left), near_held.only(near_held.confirmed), made[1],
        frozenset(pairs), equal, frozenset(near_train.pairs) & frozenset(pairs) - equal, blank,
        _plants_with_equal_pixels(sets, plants), left_over, rule,
    )  # fmt: skip


def _plants_with_equal_pixels(sets: Sets, plants: Plants | None) -> np.ndarray:
    """[P] which plants have the very pixels of a training image that is not blank and that no held-out one shares."""
    if plants is None or not plants.n:
        return np.zeros(0, dtype=bool)
    hashes = np.array([hash_pixels(image) for image in plants.pixels], dtype=object)
    store = replace(sets.synthetic, images=plants.pixels, pixel_hashes=hashes)
    row = same_pixels(store, sets.train).row
    shared = np.array([value in sets.shared_hashes for value in sets.train.pixel_hashes[row]], dtype=bool)
    held = np.zeros(plants.n, dtype=bool) if sets.held is None else same_pixels(store, sets.held).row >= 0
    return (row >= 0) & ~shared & ~held & ~is_blank(store, np.arange(plants.n))


def _to_source(found: FeatureTables, similarity: Similarity, plants: Plants, patients: np.ndarray) -> FloatArray:
    """[P] distance of each plant to the nearest image of the patient whose image it copies."""
    least = []
    for i, row in enumerate(plants.source):
        images = found.train[patients == patients[row]]
        least.append(-similarity.scores(np.repeat(found.plants[i : i + 1], len(images), axis=0), images).max())
    return np.array(least, dtype=np.float64)

"""The statistics of a synthetic audit: METHODS section 5, from distances to the list of patients and its certainty.

Several detectors share the level: each has a list at q / D, a patient on any of them is listed, and of the union at
most q are expected to be there by chance. Their tests of the set as a whole are multiplied by D (Bonferroni), and the
chance that a clean set has anybody singled out is shared alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memorisk.audits.comparison.distances import Distances, PixelCopies
from memorisk.audits.comparison.plants import Plants
from memorisk.audits.comparison.review import NO_REVIEW, Review
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic.options import FAR_SHARE, SyntheticOptions
from memorisk.audits.synthetic.pixel_counts import count_pixel_pairs, literature_statistics
from memorisk.audits.synthetic.result import PixelPairs, Published
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.pairs_of_people import outlying_pairs
from memorisk.statistics.copies.planted_copies import (
    CopiesBound,
    PlantPower,
    copies_bound,
    plant_power,
    planted_p_values,
)
from memorisk.statistics.copies.reversed_queries import (
    Exposures,
    Nearness,
    ReversedQueries,
    exposures,
    nearness,
    precedence_p,
    preceding_units,
    reversed_queries,
)
from memorisk.statistics.copies.singled_out import (
    MIN_HELD_OUT,
    TailCut,
    closeness,
    largest_lead,
    neighbour_leads,
    tail_cut,
)
from memorisk.statistics.exchangeability.neighbours import NeighbourTest, neighbour_test
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg
from memorisk.statistics.verdicts.levels import SINGLED_OUT_LEVEL, VERDICT_LEVEL

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class SingledOut:
    """Patients and images nearer to the set than chance explains, by one detector (`statistics.copies.singled_out`)."""

    near: TailCut
    """Cut on closeness to the set."""
    lead: TailCut
    """Cut on the lead over the next real patient."""
    image_lead: np.ndarray
    """Lead of each synthetic image for the patient of its nearest training image, over every other person, [S]."""
    images: np.ndarray
    """Whether the image and its nearest training image are singled out, [S]; pairs that were dismissed are not."""
    train: np.ndarray
    """Whether the training image and its nearest undismissed synthetic image are singled out, [N]."""
    plant_close: np.ndarray
    """Closeness of each plant to its source's patient, [P]."""
    plant_lead: np.ndarray
    """Lead of each plant for its source's patient, over every other person, [P]."""

    def plants(self, n_held: int | None = None) -> np.ndarray:
        """Return whether a plant would be singled out, [P], here or with so many held-out patients of the same kind.

        Args:
            n_held: Number of held-out patients; those of this audit if not given.
        """
        cuts = (self.near.cut, self.lead.cut) if n_held is None else (
            self.near.with_units(n_held), self.lead.with_units(n_held)
        )  # fmt: skip
        return (self.plant_close > cuts[0]) | (self.plant_lead > cuts[1])

    def expected(self, distance: np.ndarray, lead: np.ndarray, logits: bool) -> np.ndarray:
        """Return the number of training patients that chance brings as far, [n].

        The number is that of the statistic by which it is smaller, counted for both statistics.

        Args:
            distance: Distance of each image to the patient, [n].
            lead: Lead of each image, [n].
            logits: Whether the distances are minus the logits of a head.
        """
        by = self.near.expected(closeness(distance, logits=logits)), self.lead.expected(lead)
        return 2 * np.minimum(*by)


@dataclass(frozen=True, eq=False)
class DetectorFindings:
    """Findings from one detector's distances."""

    queries: ReversedQueries | None
    """Section 5's p-values and list, dismissed pairs left out; None without held-out images."""
    exposed: Exposures | None
    """Synthetic images that expose the listed patients."""
    set_p: np.ndarray
    """p-value at which the patient of the nearest training image would be listed by this image, [S]; NaN without."""
    near_new: Nearness | None
    """Places of synthetic images among new patients' images; descriptive."""
    plant_p: np.ndarray
    """p-values that the plants would give their sources, [P]; NaN without held-out images."""
    singled: SingledOut | None
    """Images and patients that are singled out; None without held-out images."""
    power: PlantPower | None
    """Power for plants of the required kinds by this detector alone; None without them or held-out images."""
    unlike: NeighbourTest | None
    """Test whether training and held-out images lie apart or together, of the images that count
    (`Distances.among_rows`); None where one part has none, and where real images are not compared with each other."""
    published: Published | None
    """Statistics of the literature; None where real images are not compared with each other."""


@dataclass(frozen=True, eq=False)
class Findings:
    """Joint findings of all detectors."""

    by: tuple[DetectorFindings, ...]
    """Findings of each detector."""
    patients: np.ndarray
    """Patient of each training image, [N]."""
    held_patients: np.ndarray
    """Patient of each held-out image, [M]."""
    unit: np.ndarray
    """Training patients, sorted, [U]."""
    listed: np.ndarray
    """Whether any detector lists each patient, [U]."""
    leader: np.ndarray
    """Index of the detector by which each patient comes nearest to its list, [U]; 0 without held-out images."""
    exposing: np.ndarray
    """Whether an image exposes a listed patient, [S]."""
    ahead_by: int
    """Index of the detector with the smallest ``p_ahead``."""
    p_ahead: float
    """Probability of that detector, times the number of detectors; NaN without held-out images."""
    n_listed_at_verdict: int | None
    """Number of training patients listed at `VERDICT_LEVEL`, by any detector; None where no list was possible."""
    singled: np.ndarray
    """Whether an image is singled out, [S], by any detector."""
    singled_patients: np.ndarray
    """Training patients for which an image is singled out, sorted."""
    noticed: np.ndarray
    """Whether any detector, its pixels or the second look notices a plant, [P]; never without held-out images."""
    power: PlantPower | None
    """Shares of the required kinds that are noticed; None without plants of them or held-out images."""
    also: Mapping[str, Proportion]
    """Shares of the other kinds that are noticed."""
    bound: CopiesBound | None
    """Largest share of the set that copies of the planted kinds can be, in any mixture: by the kind found least."""
    pixels: PixelPairs
    """Numbers of pairs by pixels."""
    unlike: NeighbourTest | None
    """Test with the smallest p-value of the detectors, times their number."""
    unlike_by: int
    """Index of the detector with that test."""
    far: int | None
    """Number of synthetic images farther from the training images than `FAR_SHARE` of the held-out patients, by the
    detector with the most such images; None without held-out images."""
    far_by: int
    """Index of the detector with the most such images."""
    plants_confirmed: np.ndarray
    """Whether the second look confirms a plant, [P]."""

    @property
    def queries(self) -> ReversedQueries | None:
        """Return the queries of the detector with the smallest ``p_ahead``; its counts of patients are those of all."""
        return self.by[self.ahead_by].queries

    @property
    def n_listed(self) -> int | None:
        """Return the number of listed training patients; None where no list was possible."""
        return _n_listed([one.queries for one in self.by if one.queries is not None])


def compute_findings(
    sets: Sets,
    distances: Sequence[Distances],
    copies: PixelCopies,
    plants: Plants,
    options: SyntheticOptions,
    review: Review = NO_REVIEW,
) -> Findings:
    """Compute everything that follows from the distances.

    Args:
        sets: Images with their patients.
        distances: Distances of `measure_distances`, one for each detector.
        copies: Copies by pixels of `find_pixel_copies`.
        plants: Planted copies with kinds and sources; none of them is in the distances of real images.
        options: Settings with the levels and the requirements of a pass.
        review: Judgements of pairs by a person; the distances know them already.
    """
    patients = sets.train.manifest.groups.astype(str)
    held = np.empty(0, dtype=str) if sets.held is None else sets.held.manifest.groups.astype(str)
    theirs = np.char.add("held out: ", held)  # names that do not denote patients may occur on both sides
    unit = np.unique(patients)
    number, listing = len(distances), listing_detectors(distances)
    level = options.level / len(listing)
    lists = [_lists(d, patients, theirs, level, options.seed) for d in distances] if len(held) else []
    lists = [pair if i in listing else tuple(map(_without_list, pair)) for i, pair in enumerate(lists)]
    by = tuple(
        _of_detector(d, lists[i][0] if lists else None, copies, plants, patients, theirs, number, options.seed)
        for i, d in enumerate(distances)
    )
    alone = [math.inf if one.queries is None or i not in listing else one.queries.p_ahead for i, one in enumerate(by)]
    ahead_by = int(np.argmin(alone))
    near = [queries.p_value for i in listing if (queries := by[i].queries) is not None]
    listed = _any(len(unit), [one.queries.listed.rejected for one in by if one.queries])
    exposing = np.zeros(len(sets.synthetic.images), bool)
    exposing[[row for one in by if one.exposed is not None for row in one.exposed.images]] = True
    before = _any(len(unit), [was.listed.rejected for _, was in lists])
    at_verdict = [stands for stands, _ in lists]
    if lists and options.level != VERDICT_LEVEL:
        at_verdict = [
            _lists(distances[i], patients, theirs, VERDICT_LEVEL / len(listing), options.seed)[0] for i in listing
        ]
    singled, whose = _singled_by_any(distances, by, patients)
    noticed = _noticed(by, copies, plants) if lists else np.zeros(plants.n, bool)
    power, bound, also = _power(noticed, plants, patients, singled, options.seed) if lists else (None, None, {})
    far, counted = _far(distances, by), lists[0][0].counted if lists else None
    return Findings(
        by=by,
        patients=patients,
        held_patients=held,
        unit=unit,
        listed=listed,
        leader=np.array(listing)[np.argmin(near, axis=0)] if near else np.zeros(len(unit), np.int64),
        exposing=exposing,
        ahead_by=ahead_by,
        p_ahead=min(1.0, len(listing) * alone[ahead_by]) if lists else math.nan,
        n_listed_at_verdict=_n_listed(at_verdict),
        singled=singled,
        singled_patients=whose,
        noticed=noticed,
        power=power,
        bound=bound,
        also=also,
        pixels=count_pixel_pairs(sets, copies, review, counted, int((before & ~listed).sum())),
        unlike=_least_alike([one.unlike for one in by]),
        unlike_by=int(np.argmin([math.inf if one.unlike is None else one.unlike.p_value for one in by])),
        far=max(far) if lists else None,
        far_by=int(np.argmax(far)),
        plants_confirmed=np.zeros(plants.n, bool),
    )


def with_alignments(
    found: Findings, images: Sequence[int], confirmed: np.ndarray, plants: Plants, seed: int
) -> Findings:
    """Count plants that the second look confirms as noticed, too.

    Args:
        found: Findings from the distances.
        images: Rows of synthetic images of confirmed pairs.
        confirmed: Whether each plant is confirmed, [P].
        plants: The planted copies.
        seed: Seed of the draw of one plant from a source with several.
    """
    singled = found.singled.copy()
    singled[list(images)] = True
    noticed = found.noticed | confirmed
    power, bound, also = _power(noticed, plants, found.patients, singled, seed)
    return replace(found, noticed=noticed, power=power, bound=bound, also=also, plants_confirmed=confirmed)


def _singled_by_any(
    distances: Sequence[Distances], by: Sequence[DetectorFindings], patients: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether any detector singles out each image, [S], and the sorted patients for which it does so."""
    singled, whose = np.zeros(len(distances[0].synthetic), bool), [np.empty(0, patients.dtype)]
    for d, one in zip(distances, by, strict=True):
        if one.singled is not None:
            singled |= one.singled.images
            singled[d.standing_nearest[one.singled.train]] = True
            whose += [patients[d.nearest[one.singled.images]], patients[one.singled.train]]
    return singled, np.unique(np.concatenate(whose))


def listing_detectors(distances: Sequence[Distances]) -> list[int]:
    """Return the places of the detectors that list patients and test the set as a whole: those of whole images.

    A generator that is fitted to few images draws from what these span, and copies no person. Their details then lie
    nearer to the set than those of other people: of a Gaussian on ten principal components of 90 scans, 41 patients
    were listed by details and none by whole images. Windows and details single out images, and list patients where
    nothing else is compared.
    """
    whole = [i for i, d in enumerate(distances) if not d.of_parts]
    return whole or list(range(len(distances)))


def _without_list(queries: ReversedQueries) -> ReversedQueries:
    """Return the findings of one detector on patients, without its list."""
    return replace(queries, listed=benjamini_hochberg(np.ones(len(queries.p_value)), VERDICT_LEVEL))


def _far(distances: Sequence[Distances], by: Sequence[DetectorFindings]) -> list[int]:
    """Count the synthetic images that lie far from the training images, by each detector of whole images.

    Windows and details say little about the kind of their image. They count where nothing else is compared.
    """
    whole = listing_detectors(distances)
    counted = [one.near_new if i in whole else None for i, one in enumerate(by)]
    return [0 if near is None else int((near.share >= FAR_SHARE).sum()) for near in counted]


def _any(n: int, masks: Sequence[np.ndarray]) -> np.ndarray:
    """Return whether any of some masks holds, [n]; none does where there are none."""
    return np.any([np.zeros(n, bool), *masks], axis=0)


def _n_listed(lists: Sequence[ReversedQueries]) -> int | None:
    """Count the patients on any of some lists of the same patients; None where none of these was possible."""
    if not any(one.testable for one in lists):
        return None
    return int(np.any([one.listed.rejected for one in lists], axis=0).sum())


def _lists(
    d: Distances, patients: np.ndarray, theirs: np.ndarray, level: float, seed: int
) -> tuple[ReversedQueries, ...]:
    """Return a detector's present list, and the list before pairs were dismissed.

    A patient who is near enough by another pair stays listed at the cut of the earlier list; all others leave it.
    """
    was = reversed_queries(d.train, d.held, patients, theirs, q=level, seed=seed)
    distance = group_values(d.standing, patients)
    moved = np.flatnonzero(distance > was.distance)
    if not len(moved):
        return was, was
    p = was.p_value.copy()
    p[moved] = planted_p_values(distance[moved], was.n_images[moved], d.held, theirs)
    listed = was.listed.rejected & (p <= was.listed.q * was.listed.n_rejected / was.listed.m * (1 + _ROUNDING))
    ahead = int(preceding_units(d.standing, d.held, patients, was.counted).sum())
    stands = replace(
        was,
        distance=distance,
        p_value=p,
        listed=replace(was.listed, rejected=listed),
        ahead=ahead,
        p_ahead=precedence_p(ahead, len(was.unit), was.n_held),
    )
    return stands, was


def _of_detector(
    d: Distances,
    queries: ReversedQueries | None,
    copies: PixelCopies,
    plants: Plants,
    patients: np.ndarray,
    theirs: np.ndarray,
    number: int,
    seed: int,
) -> DetectorFindings:
    exposed = near_new = power = singled = None
    set_p, plant_p = np.full(len(d.synthetic), np.nan), np.full(plants.n, np.nan)
    if queries is not None:
        exposed = exposures(queries, d.standing, d.standing_nearest, patients)
        images_of = dict(zip(queries.unit.tolist(), queries.n_images.tolist(), strict=True))
        set_p = planted_p_values(d.synthetic, [images_of[p] for p in patients[d.nearest]], d.held, theirs)
        near_new = nearness(d.synthetic, d.held_to_train, theirs, d.second)
        singled = _singled_out(d, copies, queries, patients, theirs, SINGLED_OUT_LEVEL / number)
        if plants.n:
            source = patients[plants.source]
            plant_p = planted_p_values(d.plant_source, [images_of[s] for s in source], d.held, theirs)
        if plants.n_required:
            power = _power_of(singled.plants(), plants, plants.required, patients, seed)
    unlike = _exchangeability_test(d, patients, theirs, number, seed)
    return DetectorFindings(
        queries, exposed, set_p, near_new, plant_p, singled, power, unlike, literature_statistics(d, theirs, seed)
    )


def _singled_out(
    d: Distances,
    copies: PixelCopies,
    queries: ReversedQueries,
    patients: np.ndarray,
    theirs: np.ndarray,
    chance: float,
) -> SingledOut:
    """Compute both statistics of all patients, their cuts from held-out patients, and the patients beyond one of them.

    A patient of many images has more chances: where numbers of images are not alike in both parts, a training patient
    counts as many trials as it has images for each of a held-out one.

    Windows and details take the larger of two cuts: that of held-out patients, and that of the training patients
    themselves, without those that lie apart. A generator that is fitted to few images draws from what these span, so
    that by details all training patients lie nearer to the set; a copy lies nearer than they do.
    """
    counted, trials = queries.counted, float(len(queries.unit))
    if counted.one_each:
        trials *= max(1.0, counted.mean_train / counted.mean_held)
    held_unit = np.unique(theirs, return_inverse=True)[1]
    lead = neighbour_leads(d.synthetic, np.minimum(d.second, d.synthetic_held), logits=d.logits)
    held_lead = neighbour_leads(d.synthetic_held, np.minimum(d.synthetic_held_second, d.synthetic), logits=d.logits)
    held = closeness(group_values(d.held, theirs), logits=d.logits)
    near_cut = tail_cut(held, trials, chance / 2)
    lead_cut = tail_cut(largest_lead(held_lead, held_unit[d.synthetic_held_nearest], len(held)), trials, chance / 2)
    if d.of_parts:
        unit = np.unique(patients, return_inverse=True)[1]
        own = closeness(group_values(d.standing, patients), logits=d.logits)
        near_cut = _larger_cut(near_cut, own, trials, chance / 2)
        lead_cut = _larger_cut(lead_cut, largest_lead(lead, unit[d.nearest], len(own)), trials, chance / 2)
    images = (closeness(d.synthetic, logits=d.logits) > near_cut.cut) | (lead > lead_cut.cut)
    images[[image for image, real in copies.dismissed if d.nearest[image] == real]] = False
    images[copies.blank] = False
    train = (closeness(d.standing, logits=d.logits) > near_cut.cut) & ~np.isin(d.standing_nearest, copies.blank)
    plants = closeness(d.plant_source, logits=d.logits), neighbour_leads(d.plant_source, d.plant_other, logits=d.logits)
    return SingledOut(near_cut, lead_cut, lead, images, train, *plants)


def _larger_cut(cut: TailCut, own: np.ndarray, trials: float, chance: float) -> TailCut:
    """Return the cut of held-out patients, or that of the training patients' own values where it is larger.

    Args:
        cut: Cut of held-out patients.
        own: Values of the training patients, [U].
        trials: Number of trials of both cuts.
        chance: Expected number of training patients beyond either cut.
    """
    values = np.sort(own[np.isfinite(own)])[::-1]  # pixels of a training image are at distance 0
    rest = values[outlying_pairs(values[: len(values) // 2 + 1], chance) :]
    alone = tail_cut(rest, trials, chance) if len(rest) else cut
    return max(cut, alone, key=lambda one: one.cut) if alone.n_tail else cut


def _power(
    noticed: np.ndarray, plants: Plants, patients: np.ndarray, found: np.ndarray, seed: int
) -> tuple[PlantPower | None, CopiesBound | None, Mapping[str, Proportion]]:
    """Count plants that are noticed, and bound the copies in a set whose images are found by the same rule.

    Args:
        noticed: Whether each plant is noticed, [P].
        plants: The planted copies, of which only required kinds enter power and bound.
        patients: Patients of the training images, [N].
        found: Whether each image of the set is found, [S].
        seed: Seed of the draw of one plant from a source with several.

    Returns:
        Power and bound of the required kinds, None without plants of them; and the shares of the other kinds.
    """
    also = _power_of(noticed, plants, ~plants.required, patients, seed).kinds
    if not plants.n_required:
        return None, None, also
    power = _power_of(noticed, plants, plants.required, patients, seed)
    least = min(power.kinds.values(), key=lambda share: share.low)  # holds for any mixture of the kinds
    return power, copies_bound(int(found.sum()), len(found), least), also


def _power_of(noticed: np.ndarray, plants: Plants, which: np.ndarray, patients: np.ndarray, seed: int) -> PlantPower:
    """Count the plants among some that are noticed."""
    return plant_power(noticed[which], patients[plants.source[which]], kinds=plants.kind[which].tolist(), seed=seed)


def _noticed(
    by: Sequence[DetectorFindings], copies: PixelCopies, plants: Plants, n_held: int | None = None
) -> np.ndarray:
    """Return whether any detector or its pixels single out each plant, [P]."""
    return _any(plants.n, [copies.plants, *(one.singled.plants(n_held) for one in by if one.singled is not None)])


def held_out_for_kinds(
    found: Findings, copies: PixelCopies, plants: Plants, kinds: Sequence[str], options: SyntheticOptions
) -> int | None:
    """Estimate with how many held-out patients planted copies of some kinds would be noticed as a pass needs.

    Args:
        found: Findings of the audit.
        copies: Copies by pixels.
        plants: The planted copies.
        kinds: Kinds that are missed now.
        options: Settings with the requirements of a pass.

    Returns:
        The first of twice, four, eight and sixteen times as many (no fewer than `MIN_HELD_OUT`); None where none of
        them suffices.
    """
    now = len(np.unique(found.held_patients))
    if any(one.singled is not None and not one.singled.near.n_tail for one in found.by) and now < MIN_HELD_OUT:
        return MIN_HELD_OUT
    for times in (2, 4, 8, 16):
        noticed = found.plants_confirmed | _noticed(found.by, copies, plants, max(MIN_HELD_OUT, times * now))
        power = _power_of(noticed, plants, plants.required, found.patients, options.seed)
        if all(kind in power.kinds and power.kinds[kind].low >= options.recall for kind in kinds):
            return max(MIN_HELD_OUT, times * now)
    return None


def _least_alike(tests: Sequence[NeighbourTest | None]) -> NeighbourTest | None:
    existing = [test for test in tests if test is not None]
    if not existing:
        return None
    least = min(existing, key=lambda test: test.p_value)
    return replace(least, p_value=min(1.0, len(existing) * least.p_value))


def _exchangeability_test(
    distances: Distances, patients: np.ndarray, theirs: np.ndarray, number: int, seed: int
) -> NeighbourTest | None:
    """Test one of several detectors, with enough draws for a p-value far below their shared level."""
    part, rows = np.repeat([0, 1], [len(patients), len(theirs)]), distances.among_rows
    if len(np.unique(part[rows])) < 2:
        return None
    whose, lead = np.concatenate([patients, theirs])[rows], distances.among_lead
    return neighbour_test(distances.among_real, whose, part[rows], lead, draws=max(999, 400 * number), seed=seed)

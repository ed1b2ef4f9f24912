"""Result of the audit of a synthetic set: the numbers behind its verdict, its page and its lines in the terminal.

`SyntheticSummary` is ``summary.json``. ``verdict.json`` holds its `SyntheticNumbers`, all but those that only the page
has. A field with a default is missing in runs of before it was computed. Patients are images where no patients are
given (``units``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from memorisk.audits.comparison.sets import further_parts_note
from memorisk.audits.comparison.terms import Terms
from memorisk.images.identity import NO_DOUBT, DoubtedIds
from memorisk.models.feature_description import FeatureDescription
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.numbers import INLINE, OMITTED, Key, to_json
from memorisk.report.quantities import Quantity, Units
from memorisk.report.statements.statement import ALSO, FOUND, HELD_OUT_PIXELS, OTHER_PIXELS, SHARED_PIXELS
from memorisk.statistics.copies.copy_tests import Authenticity, WassersteinTest
from memorisk.statistics.copies.memorization_rate import MemorizationRate
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.verdicts.checks import Check

SINGLED_OUT, NEAR_COPIES, SECOND_LOOK = "singled-out", "near-copies", "second-look"
RANDOM_SPLIT, PAIRED, DISMISSED, COLOURS = "random-split", "paired", "dismissed", "colours"
"""Names of the checks."""
MATRIX, VOLUME_MATRIX = (
    tuple(f"matrix_{row}{column}" for row in axes for column in (*axes, "")) for axes in ("xy", "xyz")
)
"""Columns of the table of alignments that hold the numbers of a transform of images or of volumes, row by row."""


def matrices(alignments: pd.DataFrame) -> np.ndarray:
    """Return the transforms of a table of alignments, [n, 2, 3] of images and [n, 3, 4] of volumes."""
    columns = VOLUME_MATRIX if set(VOLUME_MATRIX) <= set(alignments.columns) else MATRIX
    rows = 3 if columns == VOLUME_MATRIX else 2
    return alignments.loc[:, list(columns)].to_numpy(dtype=np.float64).reshape(-1, rows, rows + 1)


_OF_THE_PAGE = ("units", "notes", "labels_given")
_IMAGES = Units("n_synthetic_images", "generated images")
_TRAINING, _HELD_OUT = Units("n_train_patients", "{units}"), Units("n_held_patients", "held-out {units}")
_SOURCES = Units("", "source identities")
_AHEAD = Quantity("Training {units} nearer than every held-out one", figure="ahead", of=_TRAINING, p_value="p_ahead")
_SHORTEST = Quantity(
    "Fewest {units} that could have been listed", figure="shortest_list", of=_HELD_OUT, stated_alone=True
)
_VERDICT_LIST = Quantity(
    "Training {units} listed as nearer to the set than chance explains",
    figure="listed",
    of=_TRAINING,
    stated_alone=True,
)
_ALSO_TRIED = Quantity("Planted copies noticed, kind not required", "percent", ALSO, _SOURCES, stated_alone=True)
_NEAR = Quantity(
    "Training {units} with a nearly identical image", figure="nearly_identical", of=_TRAINING, p_value="near_p"
)
_NEAR_HELD_OUT = Quantity(
    "Held-out {units} with a nearly identical image", figure="nearly_identical_held_out", of=_HELD_OUT, if_any=True
)
_SECOND_LOOK = Quantity(
    "Generated images that the second look confirms as lying on a training image",
    figure="second_look",
    stated_alone=True,
)
_SECOND_LOOK_PEOPLE = Quantity(
    "Training {units} on whose images these lie", figure="second_look_people", stated_alone=True
)
_FEWEST = Quantity(
    "Fewest copied {units} of whom one would surely have been noticed", figure="noticed_if_copied", stated_alone=True
)
_CERTAIN = Quantity("Generated images with the pixels of a training image", figure="same_pixels", stated_alone=True)
_CERTAIN_PEOPLE = Quantity("Training {units} whose pixels these are", figure="same_pixels_people", stated_alone=True)
_HELD_PIXELS = Quantity("Images with the pixels of a held-out image", figure=HELD_OUT_PIXELS, if_any=True)
_OTHER_PIXELS = Quantity(
    "Images with the pixels of an image in a further part of TRAIN", figure=OTHER_PIXELS, if_any=True
)
_SHARED_PIXELS = Quantity(
    "Images with pixels that training and held-out images share", figure=SHARED_PIXELS, if_any=True
)
_CONFIRMED = Quantity("Pairs that a person confirmed as copies", figure="confirmed", if_any=True)
_DISMISSED = Quantity("Pairs that a person dismissed", figure="dismissed", if_any=True)


@dataclass(frozen=True, kw_only=True)
class HeldOutCounts:
    """Numbers of held-out images and patients."""

    n_held_images: int
    n_held_patients: Annotated[int, Quantity("Held-out {units}", figure="held_out", stated_alone=True)]


@dataclass(frozen=True, kw_only=True)
class SetCounts:
    """Numbers of images and of patients."""

    n_train_images: int
    n_train_patients: int
    n_synthetic_images: Annotated[
        int, Key("n_synthetic"), Quantity("Generated images", figure="generated", stated_alone=True)
    ]
    held: Annotated[HeldOutCounts | None, INLINE]
    """Counts of the held-out set; None without held-out images."""
    n_held_shared_images: int
    """Number of held-out images with the pixels of a training image."""
    n_held_shared_patients: int
    """Number of held-out patients left out because of them."""
    other_parts: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict)
    """Number of images in each further part of TRAIN, whose pixels alone are compared."""

    @property
    def other_parts_note(self) -> str:
        """Return the sentence on the images of further parts; empty without such parts."""
        return further_parts_note(self.other_parts, pixels_compared=True) if self.other_parts else ""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Comparison of training patients with held-out ones."""

    n_listed_patients: Annotated[
        int | None, Key("n_listed"), Quantity("{Units} listed", of=_TRAINING, missing=NOT_TESTED)
    ]
    """Number of listed patients; None where no list was possible."""
    n_listed_at_verdict: Annotated[int | None, _VERDICT_LIST] = None
    """Number of patients listed at the fixed level of the verdict; None where no list was possible."""
    n_singled_images: Annotated[
        int | None, Key("n_singled"), Quantity("Images singled out", figure="singled_out", of=_IMAGES)
    ] = None
    """Number of images that are singled out; None where none could be."""
    n_singled_patients: int = 0
    n_exposing_images: Annotated[int, Key("n_exposing")]
    shortest_list_patients: Annotated[int, Key("shortest_list"), _SHORTEST]
    n_ahead_patients: Annotated[int, Key("n_ahead"), _AHEAD]
    """Number of training patients nearer to the set than every held-out patient."""
    p_ahead: float


@dataclass(frozen=True, kw_only=True)
class Power:
    """Planted copies that were noticed, and the power that follows."""

    recall: Proportion | None
    """Share of all plants of required kinds that is noticed; None without them or held-out images."""
    recall_by_kind: Annotated[
        Mapping[str, Proportion] | None,
        Quantity("Planted copies noticed", "percent", FOUND, _SOURCES, stated_alone=True),
    ]
    fewest_copied_patients: Annotated[int | None, Key("fewest_copied")] = 0
    """Number of copied patients such that one at least would surely have been noticed; None where no number suffices, 0
    where it was not computed."""
    held_out_patients_for_kinds: Annotated[int | None, Key("held_out_for_kinds")] = None
    """Number of held-out patients with which missed kinds would be noticed; None if none is missed or none suffices."""
    plant_kinds: tuple[str, ...]
    promise: str | None
    copies_bound_share: Annotated[float | None, Key("copies_bound")]
    """Largest share of the set that copies of the planted kinds can be."""
    also_tried: Annotated[Mapping[str, Proportion], _ALSO_TRIED] = field(default_factory=dict)
    """Shares of the kinds that are tried and not required that are noticed; they decide nothing."""


@dataclass(frozen=True, kw_only=True)
class PixelPairs:
    """Pairs with equal or nearly equal pixels, and a person's judgements of pairs."""

    n_confirmed_pairs: Annotated[int, Key("n_confirmed"), _CONFIRMED]
    n_dismissed_pairs: Annotated[int, Key("n_dismissed"), _DISMISSED]
    n_dismissed_identical_pairs: Annotated[int, Key("n_dismissed_identical")]
    n_dismissed_identical_images: int
    n_dismissed_near_pairs: Annotated[int, Key("n_dismissed_near")]
    dismissed_near_p: float | None = None
    """``near_p`` as it was before nearly identical pairs were dismissed; None where none was."""
    n_dismissed_patients: int
    """Number of patients who would be listed, had no pair been dismissed."""
    n_changed_pairs: Annotated[int, Key("n_review_changed")]
    """Number of judged pairs of which an image was changed since."""
    n_changed_copies: Annotated[int, Key("n_review_changed_copies")] = 0
    """Number of those pairs that a person had confirmed as copies."""
    n_certain_images: Annotated[int, Key("n_certain_copies"), _CERTAIN]
    """Number of synthetic images with the pixels of a training image that no held-out one shares."""
    n_certain_patients: Annotated[int, _CERTAIN_PEOPLE]
    n_shared_images: Annotated[int, Key("n_shared_pixels"), _SHARED_PIXELS]
    """Number of synthetic images with pixels that training and held-out images share."""
    n_held_images: Annotated[int, Key("n_held_copies")]
    """Number of synthetic images with the pixels of a held-out image."""
    other_copies: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict)
    """Number of synthetic images with the pixels of an image in a further part of TRAIN, by the part; a synthetic image
    with pixels of several parts counts once."""
    n_near_train_patients: Annotated[int, Key("n_near_train")]
    n_near_held_patients: Annotated[int | None, Key("n_near_held")]
    near_rule: str | None = None
    near_threshold: float | None = None
    near_p: float | None

    @property
    def n_certain(self) -> int:
        """Number of copies that need no statistics: images by their pixels, and pairs by a person."""
        return self.n_certain_images + self.n_other_images + self.n_confirmed_pairs

    @property
    def n_other_images(self) -> int:
        """Number of synthetic images with the pixels of an image in a further part of TRAIN."""
        return sum(self.other_copies.values())

    @property
    def n_identical_images(self) -> Annotated[int, Quantity("Pixel-identical copies")]:
        """Number of synthetic images with the pixels of a training image, those that a person dismissed included."""
        return self.n_certain_images + self.n_dismissed_identical_images


@dataclass(frozen=True, kw_only=True)
class PartsTest:
    """Test whether training and held-out images are a random split: `NeighbourTest`."""

    share: float
    expected: float
    p_value: float
    n_groups: int
    draws: int
    p_apart: float = nan
    p_together: float = nan
    across: float = nan
    across_expected: float = nan
    together: bool = False


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Counts of read and unread images, and knowledge of their patients."""

    patients_known: bool
    patients_by_word: bool = False
    """Whether ``--one-image-per-patient`` asserts it."""
    n_without_patient: int = 0
    """Number of real images without a patient id where others have one."""
    ids: Annotated[DoubtedIds, INLINE] = NO_DOUBT
    """Doubts about the identities in the real images."""
    detector_unseen: bool
    """Whether it cannot be seen which people a detector was trained on."""
    n_synthetic_unread: int
    n_synthetic_blank: int = 0
    n_synthetic_far: int | None = None
    """Number of images farther from the training images than most held-out patients; None without held-out images."""
    far_by: str = ""
    n_train_unread: int
    n_train_blank: int = 0
    n_train_hiding: int = 0
    """Number of images with a picture under transparent pixels, which was not compared."""
    n_train_frames_left: int = 0
    n_synthetic_frames_left: int = 0
    frames_left_of: str = "files"
    """Kind of what these frames are left out of, as `memorisk.audits.comparison.sets.LeftOf`."""
    n_synthetic_distinct: int
    n_synthetic_coloured: int = 0
    """Number of images of more colour than noise, where all real images are grey."""
    n_synthetic_hiding: int = 0
    """Number of images that hold a training image in their colours."""
    train_cropped: Annotated[bool, OMITTED] = False
    """Whether only the centre of some training images was compared."""
    n_other_forms: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict)
    """Number of images nearly identical to a training image in another form, by its name."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Detectors and features that compared the images."""

    n_plants: int
    saved_features: bool
    weak_features: bool
    n_detectors: int
    detectors: tuple[str, ...]
    features: str
    measure: str
    n_listing: int | None = None
    """Number of detectors that list patients, and so share the level of the list; None where all do."""


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """Hashes of the images of each set."""

    training: str
    synthetic: str
    held_out: str | None


@dataclass(frozen=True, kw_only=True)
class DetectorRate:
    """MemRate by one detector."""

    detector: str
    threshold: float
    probability: bool
    n_memorized_pairs: Annotated[int, Key("n_memorized")]
    rate: MemorizationRate | None
    held: MemorizationRate | None
    excess: JackknifeInterval | None
    promise: str | None

    @property
    def by_chance(self) -> bool:
        """Return whether it does not exceed the rate that chance makes on held-out images."""
        return self.excess is not None and self.excess.low <= 0


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Synthetic images compared with the training images that they were generated from."""

    n_pairs: int
    n_unpaired_images: Annotated[int, Key("n_unpaired")]
    rates: tuple[DetectorRate, ...]


@dataclass(frozen=True)
class WindowCut:
    """Correlation of details from which on the second look confirms a pair, in windows of one size."""

    share: float
    """Side of the windows, as a share of the image's."""
    correlation: float | None
    """Correlation; None where no correlation is large enough, or too few images show what chance makes."""


@dataclass(frozen=True, kw_only=True)
class AlignedPairs:
    """The second look: pairs laid on one another (`audits.comparison.second_look`)."""

    n_images: int
    """Number of synthetic images that were looked at."""
    n_left: int = 0
    """Number of synthetic images of flagged pairs that were not looked at."""
    n_pairs: int
    """Number of confirmed pairs."""
    n_confirmed_images: int
    n_confirmed_patients: int
    windows: tuple[WindowCut, ...]
    """Correlations from which on a pair is confirmed."""
    expected: float
    """Number of synthetic images of the whole set expected beyond it if no person was copied."""
    n_null_people: int
    n_apart: int
    """Number of images that lie on the other set as copies do, and are left out of the null."""
    n_control_images: int
    """Number of synthetic images that were laid on held-out images."""
    n_control_beyond: int
    """Number of control images that are as similar as a confirmed pair."""
    plants: Mapping[str, Proportion]
    """Planted copies that are confirmed with the right patient, by kind."""

    @property
    def n_shown_images(self) -> Annotated[int | None, _SECOND_LOOK]:
        """Number of confirmed images; None where no pair could be confirmed."""
        return None if self.blind else self.n_confirmed_images

    @property
    def n_shown_patients(self) -> Annotated[int | None, _SECOND_LOOK_PEOPLE]:
        """Number of patients of confirmed images; None where no pair could be confirmed."""
        return None if self.blind else self.n_confirmed_patients

    @property
    def blind(self) -> bool:
        """Say whether no pair could be confirmed, in windows of any size."""
        return all(window.correlation is None for window in self.windows)

    @property
    def confirms_no_plant(self) -> bool:
        """Say whether no planted copy of any kind is confirmed: then the lack of other confirmed pairs says nothing."""
        return bool(self.plants) and not any(of.successes for of in self.plants.values())


@dataclass(frozen=True, kw_only=True)
class CopiedSubgroup:
    """Level of a column whose patients are surely copied more than the others of the same class."""

    column: str
    level: str
    n_patients: int
    n_copied_patients: int
    """Number of its patients with a flagged pair that no person dismissed."""
    difference_share: float
    """Share of copied patients less that of the others of the same class."""
    low_share: float
    high_share: float
    adjusted_p: float
    """p by Holm over all levels of all columns."""
    within_class: bool
    """Whether the training images have classes, within which levels are compared."""


@dataclass(frozen=True, kw_only=True)
class SubgroupOutlook:
    """Forecast of how well an audit could compare a subgroup with the others of the same class."""

    subgroup: str
    n_patients: int | None
    """Number of training patients; of the levels that share a row together, and none where it is too small."""
    noticeable_share: Annotated[float, Key("noticeable")]
    """Share of copied patients that would be noticed if none of the others were copied; NaN without a comparison."""


@dataclass(frozen=True, kw_only=True)
class SyntheticNumbers:
    """The numbers behind the verdict."""

    units: Literal["patients", "images"]
    labels_given: bool
    notes: tuple[str, ...]
    sets: Annotated[SetCounts, INLINE]
    level: float
    listing: Annotated[Listing | None, INLINE]
    """Comparison with held-out patients; None without held-out images."""
    one_image_each: str = ""
    power: Annotated[Power, INLINE]
    pixels: Annotated[PixelPairs, INLINE]
    unlike: PartsTest | None
    unlike_by: str = ""
    reading: Annotated[Reading, INLINE]
    comparison: Annotated[Comparison, INLINE]
    data_hash: Fingerprints
    paired: Paired | None
    n_clusters: int
    aligned: AlignedPairs | None = None
    """Counts of the second look; None where nothing could be laid on one another."""
    checks: tuple[Check, ...] = ()
    """Checks that could not look (`audits.synthetic.checks`)."""
    subgroups: Annotated[tuple[CopiedSubgroup, ...], OMITTED] = ()
    """Subgroups that are surely copied more than others."""

    @property
    def near_copies_seen(self) -> bool:
        """Return whether nearly identical images were looked for."""
        return NEAR_COPIES not in {check.name for check in self.checks}

    @property
    def n_near_train(self) -> Annotated[int | None, _NEAR]:
        """Number of training patients with a nearly identical image; None where none was looked for."""
        return self.pixels.n_near_train_patients if self.near_copies_seen else None

    @property
    def n_near_held(self) -> Annotated[int | None, _NEAR_HELD_OUT]:
        """The same of held-out patients."""
        return self.pixels.n_near_held_patients if self.near_copies_seen else None

    @property
    def n_held_pixels(self) -> Annotated[int | None, _HELD_PIXELS]:
        """Number of images with the pixels of a held-out one; None without held-out images."""
        return None if self.sets.held is None else self.pixels.n_held_images

    @property
    def n_other_pixels(self) -> Annotated[int | None, _OTHER_PIXELS]:
        """Number of images with the pixels of an image in a further part of TRAIN; None without such parts."""
        return self.pixels.n_other_images if self.sets.other_parts else None

    @property
    def n_fewest_noticed(self) -> Annotated[int | None, _FEWEST]:
        """Number of copied patients of whom one would surely have been noticed; None where no number suffices."""
        fewest = self.power.fewest_copied_patients
        return fewest if fewest and fewest <= self.sets.n_train_patients else None

    @property
    def terms(self) -> Terms:
        """Return the words for a patient."""
        return Terms(self.units)

    def in_verdict(self) -> dict[str, Any]:
        """Return the numbers that ``verdict.json`` holds."""
        return {key: value for key, value in to_json(self).items() if key not in _OF_THE_PAGE}


@dataclass(frozen=True, kw_only=True)
class SetNames:
    """Names of the sets, as far as they may be shown."""

    training: str
    synthetic: str
    held_out: str | None


@dataclass(frozen=True, kw_only=True)
class CellTest:
    """Statistic C_T of one cell."""

    c_t: float
    p: float


@dataclass(frozen=True, kw_only=True)
class Published:
    """Statistics of the literature."""

    wasserstein: WassersteinTest | None
    c_t: CellTest | None
    authentic: Authenticity


@dataclass(frozen=True, kw_only=True)
class DetectorSummary:
    """One detector, and the literature's statistics by it."""

    name: str
    features: FeatureDescription
    sentence: str
    measure: str
    head: bool
    itself: float | None
    """Logit of an image and itself; None without a head."""
    above_itself_pairs: Annotated[int | None, Key("above_itself")]
    """Number of pairs of two patients that reach it."""
    published: Published | None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the training patients."""

    most_images: int


@dataclass(frozen=True, kw_only=True)
class PossibleList:
    """Possible list of so many copied patients."""

    copied_patients: Annotated[int, Key("copied")]
    share: float
    possible: bool
    held_out_patients_needed: Annotated[int, Key("held_out_needed")]


@dataclass(frozen=True, kw_only=True)
class SyntheticSettings:
    """Settings of the audit that its report names."""

    level: float
    recall: float
    plants: int
    seed: int
    fail_on: str
    resize: str


@dataclass(frozen=True, kw_only=True)
class SyntheticSummary:
    """Content of ``summary.json``."""

    audit: Literal["synthetic"] = "synthetic"
    names: SetNames
    groups_given: bool
    shape: tuple[int, int, int]
    numbers: SyntheticNumbers
    detectors: tuple[DetectorSummary, ...]
    plants_asked: int
    sizes: Sizes | None
    lists: tuple[PossibleList, ...]
    settings: SyntheticSettings
    pseudonymised: bool
    versions: Mapping[str, str]

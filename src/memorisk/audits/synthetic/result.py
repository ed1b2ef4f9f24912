"""What the audit of a synthetic set says: the numbers behind its verdict, its page and its lines in the terminal.

`SyntheticSummary` is ``summary.json``. ``verdict.json`` holds its `SyntheticNumbers`, all but those that only the page
has. A field with a default is missing in runs of before it was computed. Patients are images where no patients are
given (``units``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Annotated, Any, Literal

from memorisk.audits.generated.terms import Terms
from memorisk.images.identity import NO_DOUBT, DoubtedIds
from memorisk.models.feature_description import FeatureDescription
from memorisk.report.numbers import INLINE, Key, to_json
from memorisk.statistics.copies.copy_tests import Authenticity, WassersteinTest
from memorisk.statistics.copies.set_memorization import MemorizationRate
from memorisk.statistics.intervals import Proportion
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.verdicts.checks import Check

SINGLED_OUT, NEAR_COPIES, SECOND_LOOK = "singled-out", "near-copies", "second-look"
RANDOM_SPLIT, PAIRED, DISMISSED = "random-split", "paired", "dismissed"
"""Names of checks."""
MATRIX = ("matrix_xx", "matrix_xy", "matrix_x", "matrix_yx", "matrix_yy", "matrix_y")
"""Columns of the table of alignments that hold a transform's numbers, row by row."""
_OF_THE_PAGE = ("units", "notes", "labels_given")


@dataclass(frozen=True, kw_only=True)
class HeldOutCounts:
    """The held-out images."""

    n_held_images: int
    n_held_patients: int


@dataclass(frozen=True, kw_only=True)
class SetCounts:
    """How many there are."""

    n_train_images: int
    n_train_patients: int
    n_synthetic_images: Annotated[int, Key("n_synthetic")]
    held: Annotated[HeldOutCounts | None, INLINE]
    """None without held-out images."""
    n_held_shared_images: int
    """Held-out images with the pixels of a training image."""
    n_held_shared_patients: int
    """Held-out patients left out because of them."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Training patients beside held-out ones."""

    n_listed_patients: Annotated[int, Key("n_listed")]
    n_listed_at_verdict: int | None = None
    """Patients listed at the fixed level of the verdict."""
    n_singled_images: Annotated[int | None, Key("n_singled")] = None
    """None where none could be."""
    n_singled_patients: int = 0
    n_exposing_images: Annotated[int, Key("n_exposing")]
    shortest_list_patients: Annotated[int, Key("shortest_list")]
    n_ahead_patients: Annotated[int, Key("n_ahead")]
    """Nearer to the set than every held-out patient."""
    p_ahead: float


@dataclass(frozen=True, kw_only=True)
class Power:
    """Planted copies that were noticed, and what that promises."""

    recall: Proportion | None
    """Share noticed of all plants of required kinds; None without them or held-out images."""
    recall_by_kind: Mapping[str, Proportion] | None
    fewest_copied_patients: Annotated[int | None, Key("fewest_copied")] = 0
    """Copied patients of whom one at least would surely have been noticed; None where no number suffices, 0 where it
    was not computed."""
    held_out_patients_for_kinds: Annotated[int | None, Key("held_out_for_kinds")] = None
    """Held-out patients with whom the missed kinds would be noticed; None where none is missed or none suffice."""
    plant_kinds: tuple[str, ...]
    promise: str | None
    copies_bound_share: Annotated[float | None, Key("copies_bound")]
    """Largest share of the set that copies of the planted kinds can be."""
    also_tried: Mapping[str, Proportion] = field(default_factory=dict)
    """Shares noticed of the kinds that are tried and not required; they decide nothing."""


@dataclass(frozen=True, kw_only=True)
class PixelPairs:
    """Pairs with equal or nearly equal pixels, and what a person said of pairs."""

    n_confirmed_pairs: Annotated[int, Key("n_confirmed")]
    n_dismissed_pairs: Annotated[int, Key("n_dismissed")]
    n_dismissed_identical_pairs: Annotated[int, Key("n_dismissed_identical")]
    n_dismissed_identical_images: int
    n_dismissed_near_pairs: Annotated[int, Key("n_dismissed_near")]
    dismissed_near_p: float | None = None
    """``near_p`` as it was before nearly identical pairs were dismissed; None where none was."""
    n_dismissed_patients: int
    """Patients who would be listed, had no pair been dismissed."""
    n_changed_pairs: Annotated[int, Key("n_review_changed")]
    """Judged pairs of which an image was changed since."""
    n_changed_copies: Annotated[int, Key("n_review_changed_copies")] = 0
    """Those that a person had confirmed as copies."""
    n_certain_images: Annotated[int, Key("n_certain_copies")]
    """With the pixels of a training image that no held-out one shares."""
    n_certain_patients: int
    n_shared_images: Annotated[int, Key("n_shared_pixels")]
    """With pixels that training and held-out images share."""
    n_held_images: Annotated[int, Key("n_held_copies")]
    """With the pixels of a held-out image."""
    n_near_train_patients: Annotated[int, Key("n_near_train")]
    n_near_held_patients: Annotated[int | None, Key("n_near_held")]
    near_rule: str | None = None
    near_threshold: float | None = None
    near_p: float | None

    @property
    def n_certain(self) -> int:
        """Copies that need no statistics: images by their pixels, and pairs by a person."""
        return self.n_certain_images + self.n_confirmed_pairs


@dataclass(frozen=True, kw_only=True)
class PartsTest:
    """Whether training and held-out images are a random split: `NeighbourTest`."""

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
    """What was read of the sets, and what is known of their patients."""

    patients_known: bool
    patients_by_word: bool = False
    """By ``--one-image-per-patient``."""
    n_without_patient: int = 0
    """Real images without a patient id where others have one."""
    ids: Annotated[DoubtedIds, INLINE] = NO_DOUBT
    """Doubts about who is who among the real images."""
    detector_unseen: bool
    """Whether it cannot be seen whom a detector was trained on."""
    n_synthetic_unread: int
    n_synthetic_blank: int = 0
    n_synthetic_far: int | None = None
    """Images farther from the training images than most held-out patients; None without held-out images."""
    far_by: str = ""
    n_train_unread: int
    n_train_blank: int = 0
    n_train_frames_left: int = 0
    n_synthetic_frames_left: int = 0
    n_synthetic_distinct: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What compared the images."""

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
    """Of the images."""

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
        """Return whether it is no larger than chance makes it on held-out images."""
        return self.excess is not None and self.excess.low <= 0


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Synthetic images beside the training image that they were generated from."""

    n_pairs: int
    n_unpaired_images: Annotated[int, Key("n_unpaired")]
    rates: tuple[DetectorRate, ...]


@dataclass(frozen=True)
class WindowCut:
    """From which correlation of details on a pair is confirmed by the second look, in windows of one size."""

    share: float
    """Side of the windows, as a share of the image's."""
    correlation: float | None
    """Correlation; None where no correlation is large enough, or too few images tell what chance makes."""


@dataclass(frozen=True, kw_only=True)
class AlignedPairs:
    """The second look: pairs laid on one another (`audits.synthetic.second_look`)."""

    n_images: int
    """Synthetic images that were looked at."""
    n_left: int = 0
    """Synthetic images of flagged pairs that were not."""
    n_pairs: int
    """Confirmed pairs."""
    n_confirmed_images: int
    n_confirmed_patients: int
    windows: tuple[WindowCut, ...]
    """Correlations from which on a pair is confirmed."""
    expected: float
    """Synthetic images of the whole set expected beyond it if nobody was copied."""
    n_null_people: int
    n_apart: int
    """Images that lie on the other set as copies do, and are no part of the null."""
    n_control_images: int
    """Synthetic images that were laid on held-out images."""
    n_control_beyond: int
    """Of these, as similar as a confirmed pair."""
    plants: Mapping[str, Proportion]
    """Planted copies that are confirmed with the right patient, by kind."""

    @property
    def blind(self) -> bool:
        """Say whether no pair could be confirmed, in windows of any size."""
        return all(window.correlation is None for window in self.windows)

    @property
    def confirms_no_plant(self) -> bool:
        """Say whether no planted copy of any kind is confirmed: that nothing else is then says nothing."""
        return bool(self.plants) and not any(of.successes for of in self.plants.values())


@dataclass(frozen=True, kw_only=True)
class SyntheticNumbers:
    """The numbers behind the verdict."""

    units: Literal["patients", "images"]
    labels_given: bool
    notes: tuple[str, ...]
    sets: Annotated[SetCounts, INLINE]
    level: float
    listing: Annotated[Listing | None, INLINE]
    """None without held-out images."""
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
    """None where nothing could be laid on one another."""
    checks: tuple[Check, ...] = ()
    """Checks that could not look (`audits.synthetic.checks`)."""

    @property
    def near_copies_seen(self) -> bool:
        """Return whether nearly identical images were looked for."""
        return NEAR_COPIES not in {check.name for check in self.checks}

    @property
    def terms(self) -> Terms:
        """Return what a patient is called."""
        return Terms(self.units)

    def in_verdict(self) -> dict[str, Any]:
        """Return the numbers that ``verdict.json`` holds."""
        return {key: value for key, value in to_json(self).items() if key not in _OF_THE_PAGE}


@dataclass(frozen=True, kw_only=True)
class SetNames:
    """As they may be told."""

    training: str
    synthetic: str
    held_out: str | None


@dataclass(frozen=True, kw_only=True)
class CellTest:
    """One-cell C_T."""

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
    """One detector, and what the literature's statistics say by it."""

    name: str
    features: FeatureDescription
    sentence: str
    measure: str
    head: bool
    itself: float | None
    """Logit of an image and itself; None without a head."""
    above_itself_pairs: Annotated[int | None, Key("above_itself")]
    """Pairs of two patients that reach it."""
    published: Published | None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of training patients."""

    most_images: int


@dataclass(frozen=True, kw_only=True)
class PossibleList:
    """A list of so many copied patients."""

    copied_patients: Annotated[int, Key("copied")]
    share: float
    possible: bool
    held_out_patients_needed: Annotated[int, Key("held_out_needed")]


@dataclass(frozen=True, kw_only=True)
class SyntheticSettings:
    """What was asked for."""

    level: float
    recall: float
    plants: int
    seed: int
    fail_on: str
    resize: str


@dataclass(frozen=True, kw_only=True)
class SyntheticSummary:
    """``summary.json``."""

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

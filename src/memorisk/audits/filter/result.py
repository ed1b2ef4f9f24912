"""Results of a filter: the numbers of its verdict, its page and its lines in the terminal.

`FilterSummary` is ``summary.json``. ``verdict.json`` holds its `FilterNumbers` but for the notes, and so does a loop's
(`audits.synthesize.result`). A field with a default is missing in runs of before it was computed. Patients are images
where no patients are given (``units``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from memorisk.audits.comparison.terms import Terms
from memorisk.images.identity import NO_DOUBT, DoubtedIds
from memorisk.report.numbers import INLINE, OMITTED, Key, to_json
from memorisk.report.quantities import Quantity, Units
from memorisk.statistics.intervals.shares import Proportion

AUDIT, KEPT = "audit", "kept"
"""Folders in that of a run: the audit of the kept set, and this set."""
_TRAINING, _IMAGES, _NEW = Units("n_train_patients", "{units}"), Units("", "generated images"), Units("", "{units}")
_KEPT = Quantity("Images kept", figure="kept", stated_alone=True)
_REJECTED = Quantity("Images rejected", figure="rejected", stated_alone=True)
_POINTED_AT = Quantity(
    "Training {units} at whom rejected images point", figure="rejected_people", of=_TRAINING, stated_alone=True
)
_EXPOSED = Quantity(
    "Training {units} exposed by pixels, or singled out by a score", figure="exposed", of=_TRAINING, stated_alone=True
)
_REJECTED_SHARE = Quantity("Generated images rejected", "percent", "generated_rejected", _IMAGES, stated_alone=True)
_NEW_REJECTED = Quantity("New {units} who would be rejected", "percent", "new_people_rejected", _NEW, stated_alone=True)


@dataclass(frozen=True, kw_only=True)
class ScreenedSets:
    """Numbers of images, and what became of them."""

    n_train_images: int
    n_train_patients: int
    n_train_unread: int
    """Number of files or images of the training set that were not read."""
    n_synthetic_images: Annotated[int, Key("n_synthetic")]
    """Number of synthetic images, those that could not be read included."""
    n_kept_images: Annotated[int, Key("n_kept"), _KEPT]
    n_rejected_images: Annotated[int, Key("n_rejected"), _REJECTED]
    rejected: Mapping[str, int]
    """Images by reason, one of `wording.REASONS`."""
    filtered: bool
    """Whether there is a threshold."""
    other_parts: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict)
    """Number of images in each further part of TRAIN, whose pixels alone are compared."""


@dataclass(frozen=True)
class ExcludedIdentities:
    """Calibration identities that are not new, by the first reason that holds."""

    in_training: int = 0
    """Number of identities named among the training patients."""
    same_pixels: int = 0
    """Number of identities with an image that is a training image, pixel by pixel, as it is, mirrored or turned."""
    known: int = 0
    """Number of identities that a detector was trained or chosen on."""
    nearly_same: Annotated[int, OMITTED] = 0
    """Number of identities with an image nearly a training image; in runs of before 2026-11-23, where likeness
    excluded."""

    @property
    def n(self) -> int:
        """Number of all excluded identities."""
        return self.in_training + self.same_pixels + self.known + self.nearly_same


@dataclass(frozen=True, kw_only=True)
class LookAlikeCounts:
    """Identities that look alike, and how many both readings count."""

    of_others: int = 0
    """Number of identities with an image nearly that of another one."""
    of_training: int = 0
    """Number of identities with an image nearly a training image."""
    as_given: int = 0
    as_one: int = 0
    """Number of identities, with look-alikes as one person each, and without those who look like training images."""


@dataclass(frozen=True, kw_only=True)
class Exclusions:
    """Counts of identities that do not calibrate, were counted once, or look alike."""

    left_out: ExcludedIdentities
    n_merged_patients: Annotated[int, Key("n_merged")] = 0
    """Number of names that were taken for another one's, since they share an image with it."""
    look_alikes: LookAlikeCounts = LookAlikeCounts()


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The new people who set the threshold."""

    n_calibration_images: int
    n_calibration_patients: Annotated[int, Key("n_calibration")]
    exclusions: Annotated[Exclusions, INLINE]
    calibration_given: bool


@dataclass(frozen=True, kw_only=True)
class FamilyCount:
    """Identities with a pair of copies of a family."""

    family: str
    identities: int
    needed: int
    missing: int

    @property
    def words(self) -> str:
        """Identities that there are, and that are needed."""
        return f"{self.family}: {self.identities:,} identities of {self.needed:,} needed"


@dataclass(frozen=True, kw_only=True)
class FamilyCost:
    """Cost of a family: what its threshold leaves out."""

    family: str
    """Name of the family in words."""
    thresholds: tuple[float, ...]
    """Threshold of each detector."""
    synthetic: Proportion | None
    """Share of the synthetic images that would be left out; None before an image is drawn."""
    new: Proportion | None
    """Share of new people, one image each, who would be left out."""
    promised: bool


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The guarantee, and what it rests on."""

    miss_rate: float
    confidence: float
    shared_by: int
    """Number of thresholds that share the confidence: detectors times families."""
    families: tuple[str, ...]
    """Names of the families in words."""
    kinds: tuple[str, ...]
    """Names of the kinds of copies that are promised."""
    not_promised: tuple[str, ...] = ()
    """Kinds of copies that are not promised."""
    costs: tuple[FamilyCost, ...] = ()
    """Costs of all candidates that were tried; not in runs of before families were chosen."""
    n_missing_patients: Annotated[int, Key("missing")]
    """Number of patients that are missing in the family that lacks most."""
    lacking: tuple[FamilyCount, ...]
    threshold_by: Literal["user", "guarantee"] | None
    """Source of the threshold; None without a threshold."""
    detectors: tuple[str, ...]
    thresholds: tuple[float, ...]
    guarantee: str | None
    """Guarantee in the words of METHODS; empty without one."""
    doubts: tuple[str, ...] = ()
    """Reasons why no guarantee is given although there is a threshold."""
    unseen: tuple[str, ...]
    """Names of the detectors that do not say which patients they know."""


@dataclass(frozen=True, kw_only=True)
class ExposedPatients:
    """Number of training patients that rejected images point to, by what points to them."""

    n_exposed_patients: Annotated[int, Key("n_exposed"), _EXPOSED] = 0
    """Number exposed by the very pixels of an image, or singled out by a score."""
    n_identical_patients: Annotated[int, Key("n_identical")] = 0
    """Number exposed by the very pixels of an image."""
    n_by_score_patients: Annotated[int, Key("n_by_score")] = 0
    """Number exposed by scores alone."""
    n_singled_patients: Annotated[int, Key("n_by_score_singled_out")] = 0
    """Number exposed by scores alone, with an image that no other patient's image reaches."""

    @property
    def n_near_patients(self) -> Annotated[int, _POINTED_AT]:
        """Number of patients that rejected images point to, for any reason."""
        return self.n_identical_patients + self.n_by_score_patients

    @property
    def n_pointed_patients(self) -> int:
        """Number of patients that scores alone point to, and other scores too: neither copied nor singled out."""
        return self.n_by_score_patients - self.n_singled_patients


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """Fingerprints of the images."""

    training: str
    synthetic: str
    calibration: str | None


@dataclass(frozen=True, kw_only=True)
class FinalAudit:
    """Audit of the kept set, which decides the verdict."""

    detectors: tuple[str, ...] = ()
    """Names of the audit's detectors in a report."""
    status: str
    """pass, fail or undecided."""
    reasons: tuple[Mapping[str, Any], ...]
    """Reasons of the audit (`Reason.as_record`)."""
    what_would_decide: tuple[str, ...] = ()
    id_doubt_codes: tuple[str, ...] = ()
    """Codes of the doubts about who is who that are among the reasons of an undecided audit."""
    n_listed_patients: Annotated[int | None, Key("n_listed")]
    """Number of training patients that it lists; None where it could not look, as in the next two."""
    n_singled_images: Annotated[int | None, Key("n_singled")] = None
    """Number of kept images that it singles out."""
    n_confirmed_images: int | None = None
    """Number of kept images that its second look confirms."""
    n_certain_patients: Annotated[int, Key("n_certain")]
    """Number of training patients with an image that was copied for certain, by its pixels."""
    certain: bool = False
    """Whether a failure needs no statistics: pixels settle it."""
    folder: str
    """Run folder of the audit, below that of the run."""
    sha256: str = ""
    """Checksum of the list of its files."""


@dataclass(frozen=True, kw_only=True)
class FilterNumbers:
    """The numbers behind the verdict."""

    units: Literal["patients", "images"]
    sets: Annotated[ScreenedSets, INLINE]
    calibration: Annotated[Calibration, INLINE]
    promise: Annotated[Promise, INLINE]
    patients_known: bool
    patients_by_word: bool = False
    n_without_patient: int = 0
    """Number of real images without a patient id where others have one."""
    ids: Annotated[DoubtedIds, INLINE] = NO_DOUBT
    """Doubts about who is who among the real images."""
    exposed: Annotated[ExposedPatients, INLINE]
    synthetic_rejected: Annotated[Proportion | None, _REJECTED_SHARE]
    """Share of the synthetic images that the detectors reject."""
    real_rejected: Annotated[Proportion | None, _NEW_REJECTED]
    """Share of new patients whose real image would be rejected."""
    audited: FinalAudit | None = None
    """Audit of the kept set; None where no image was kept, and in runs of before a filter was audited."""
    notes: tuple[str, ...]
    data_hash: Fingerprints

    @property
    def terms(self) -> Terms:
        """Return what a patient is called."""
        return Terms(self.units)

    @property
    def nothing_kept(self) -> bool:
        """Return whether images were screened, and all of them rejected."""
        return self.sets.filtered and not self.sets.n_kept_images

    def in_verdict(self) -> dict[str, Any]:
        """Return the numbers that ``verdict.json`` holds."""
        return {key: value for key, value in to_json(self).items() if key != "notes"}


@dataclass(frozen=True, kw_only=True)
class SetNames:
    """Sentences on the sets, as the report may show them; empty for none."""

    training: str
    synthetic: str
    calibration: str


@dataclass(frozen=True, kw_only=True)
class DetectorSummary:
    """Detector that compared the images."""

    detector: str
    sentence: str
    compares: str
    at_half: float
    """Score at P = 0.5; NaN without probabilities."""
    top: float
    """Score of an image and itself."""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ScreeningSettings:
    """Options of the run."""

    families: tuple[str, ...]
    seed: int
    fail_on: str
    resize: str
    threshold: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ScreeningSetup:
    """Settings and software of the run."""

    features: tuple[DetectorSummary, ...]
    settings: ScreeningSettings
    pseudonymised: bool
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class FilterSummary:
    """Content of ``summary.json``."""

    audit: Literal["filter"] = "filter"
    names: SetNames
    shape: tuple[int, int, int]
    numbers: FilterNumbers
    setup: Annotated[ScreeningSetup, INLINE]

"""Reasons of a run that keeps images, besides those of the audit of the kept set."""

from memorisk.audits.comparison.terms import missing_patients
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.reasons import LIMIT, Reason, Words


class KnownPeople(Reason, code="calibration-like-training"):
    """Calibration people who resemble TRAIN more than the synthetic images do: they are the audit's null, too."""

    rejected_share: float
    """Share of calibration people who would be rejected."""
    synthetic_share: float
    """Share of synthetic images that are rejected."""
    text = Words(
        "{rejected_share:%} of the calibration {many} would be rejected, and {synthetic_share:%} of the synthetic "
        "images: either TRAIN holds images of these {many}, or the detector takes similar images for copies"
    )
    plain = Words("new {many} are taken for copies more often than generated images are, so that they may not be new")
    remedy = Words(
        "calibration images of {many} of {whom} TRAIN holds nothing; or a detector that tells copies from similar "
        "images"
    )


class AllRejected(Reason, code="all-rejected"):
    """Set of which every image was rejected."""

    n_images: int
    ways_out: tuple[str, ...]
    """Sentences that each name a way to let images pass."""
    text = Words("every one of the {n_images:,} synthetic images is rejected: no set is there to audit")
    plain = Words("every generated image was left out, so that there is no set to look at")

    @Words
    def remedy(self) -> str:
        return "; or ".join(self.ways_out)


class IdentitiesMissing(Reason, code="identities-missing"):
    """Families of copies with too few new identities for a threshold."""

    families: tuple[str, ...]
    n_needed: int
    n_present: int
    n_shared: int
    """Number of detectors times families that share the confidence."""
    miss_rate: float
    confidence: float
    plain = Words(
        "{n_missing:more new person is|more new people are} needed to set a threshold, so that nothing was kept"
    )
    remedy = Words("{n_missing:,} more calibration {many} {whom} neither the generator nor a detector has seen")

    @property
    def n_missing(self) -> int:
        """Number of identities that are missing."""
        return self.n_needed - self.n_present

    @Words
    def text(self) -> str:
        shared = f", shared by {self.n_shared} detectors and families" if self.n_shared > 1 else ""
        return (
            f"a miss rate of {self.miss_rate:.4g} with {100 * self.confidence:.4g} % confidence{shared} needs "
            f"{self.n_needed:,} new identities with a pair{' each' if len(self.families) > 1 else ''} of "
            f"{', '.join(self.families)}; {plural(self.n_present, 'identity is', 'identities are')} there, so "
            f"{self.n_missing:,} are missing: no threshold is set, and nothing is kept"
        )


class CalibrationExcluded(Reason, code="calibration-excluded", bears_on=LIMIT):
    """Calibration people who were left out, or counted once."""

    excluded: str
    """Number of them and why, in words."""
    text = Words("{excluded}")
    plain = Words("some of the new people could not be used to set the threshold")


class UnknownCalibration(Reason, code="calibration-without-ids", bears_on=LIMIT):
    """Calibration images without a patient id: no promise holds of them."""

    n_without: int
    plain = Words("it is not known whose each new image is, so that nothing is promised")

    @Words
    def text(self) -> str:
        return f"{missing_patients(self.n_without)}: every calibration image without one counts as another person"


class ThresholdGiven(Reason, code="threshold-given", bears_on=LIMIT):
    """Threshold that the user named: it promises nothing."""

    text = Words("the threshold was given and not calibrated")
    plain = Words("the threshold is the user's own, so that nothing is promised")


class DetectorMayKnow(Reason, code="detector-may-know", bears_on=LIMIT):
    """Detector that may have been trained on calibration people."""

    detector: str
    text = Words("whether {detector} was trained on calibration {many} cannot be checked")
    plain = Words("whether a detector was trained on the new people cannot be checked, so that nothing is promised")

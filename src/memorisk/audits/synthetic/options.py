"""Settings of ``memorisk audit synthetic``: the three sets, their comparison, the certainty of a pass.

The same class is the command line, the YAML file and the Python keywords.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memorisk.audits.comparison.options import PartOptions
from memorisk.images.alterations.options import PlantKinds
from memorisk.images.alterations.plants import planted_kinds
from memorisk.models.settings import DEFAULT_COMPARISONS, DEFAULT_DETECTOR
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.options import (
    By,
    Device,
    Domain,
    HeldOutSplit,
    InputSize,
    Normalise,
    OneImagePerPatient,
    Precision,
    TrainSplit,
    grouped,
)
from memorisk.runs.settings import check_between, check_counts, check_seeds, settings_of
from memorisk.statistics.verdicts.levels import RECALL, VERDICT_LEVEL

AUTO = "auto"
FAR_SHARE = 0.9
"""Share of the held-out patients who lie nearer to the training images than an image that is called far."""


@grouped(
    "comparison",
    essential="held_out held_out_split one_image_per_patient detector features measure device plants fail_on",
    images="held_out",
    statistics="plants plant_kinds seed level recall fail_on",
)
@dataclass(frozen=True, kw_only=True)
class SyntheticOptions(ReportOptions, PartOptions, ClusterOptions):
    """Settings of `memorisk audit synthetic`; how images are read is the same for all three sets."""

    VOLUMES = True

    held_out: str | None = None
    """Real images of patients unseen by the generator, a random part of the same data. Without them the report has
    distances only."""
    held_out_split: HeldOutSplit = None
    train_split: TrainSplit = None
    one_image_per_patient: OneImagePerPatient = False

    detector: tuple[str, ...] = ()
    """Detector that compares images: default (comes with memorisk, and compares in four ways), a folder of `train
    detector`, or anything that --features takes, with its own measure. Repeat it for several: they share the level, and
    a patient listed by any of them is listed."""
    features: str = DEFAULT_DETECTOR
    """Features to compare, instead of --detector: default (the copy detector that comes with memorisk), another
    detector or an encoder (docs/features.md), pixels:SIDE (weak), pca:K, or a file with features of TRAIN."""
    synthetic_features: Path | None = None
    """File with the features of SYNTHETIC, where --features names a file."""
    held_out_features: Path | None = None
    """File with the features of the held-out images, where --features names a file."""
    measure: str = AUTO
    """Distance measure, one of 15; auto: a detector's own, cosine for encoders, euclidean for pixels, PCA and files."""
    domain: Domain = None
    input_size: InputSize = None
    normalise: Normalise = None
    precision: Precision = "auto"
    device: Device = "auto"

    paired: str | None = None
    """The training image that each synthetic image was conditioned on: a column of SYNTHETIC, or a table with the
    columns synthetic_image and training_image."""
    review: Path | None = None
    """Folder of an earlier run, or its completed review.csv: pairs that a person confirmed or dismissed."""

    plants: int = 40
    """Copies of each kind planted in the set to measure detection, and a quarter as many of each kind that is tried
    and not required; 0 for none."""
    plant_kinds: PlantKinds = ()
    seed: int = 0
    """Random seed for planting copies."""

    by: By = ()

    level: float = VERDICT_LEVEL
    """False discovery rate of the listed patients: the expected share that is as far from the set as held-out patients
    are. It changes the list; the verdict uses a list at 0.1."""
    recall: float = RECALL
    """Probability with which a passing audit must detect one copy of any planted kind."""
    fail_on: Literal["copied", "never"] = "copied"
    """Fail if copies are found (copied); never: the exit code is 0 whatever the result."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        self.check_cluster()
        check_between(self, "level", "recall")
        check_counts(self, plants=0)
        assert self.kinds  # every name is one of a kind's
        check_seeds(self, "seed")
        if self.detector and (self.features, self.measure) != (DEFAULT_DETECTOR, AUTO):
            raise InputError("detector says what compares images, each with its own measure: leave features and "
                             "measure out")  # fmt: skip
        if len(set(self.detector)) < len(self.detector):
            raise InputError("a detector is named twice: name each once, since they share the level")

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the comparisons, each once: `DEFAULT_COMPARISONS` for ``default`` as it is, the rest as named."""
        as_it_is = (self.measure, self.input_size, self.normalise) == (AUTO, None, None)
        ways = {DEFAULT_DETECTOR: DEFAULT_COMPARISONS} if as_it_is else {}
        named = self.detector or (self.features,)
        return tuple(dict.fromkeys(way for name in named for way in ways.get(name, (name,))))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of copies that a pass is about, in the order of `images.alterations.plants.ALL_KINDS`.

        Raises:
            InputError: A given name matches none of the kinds.
        """
        return planted_kinds(self.plant_kinds, of_volumes=self.frames == "volume")

    @property
    def further_plants(self) -> int:
        """Return the number of copies of each kind that is not required: a quarter, since they decide nothing."""
        return -(-self.plants // 4)

    @property
    def shared_level(self) -> float:
        """Return the level of each list: with q/D each, the union of D lists keeps q.

        Windows and details list no patient where whole images are compared as well (`findings.listing_detectors`).
        """
        whole = [source for source in self.sources if source not in DEFAULT_COMPARISONS[1:]]
        return self.level / len(whole or self.sources)


def synthetic_options(settings: dict[str, Any]) -> SyntheticOptions:
    """Build options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(SyntheticOptions, settings)

"""The numbers of the audit of a mark: the contents of ``summary.json`` and ``verdict.json``; tables have own files.

M, its limits and the noticeable sensitivity are logarithms of how many times as sensitive the model is; KL divergences
are in nats.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, isfinite, nan
from typing import Annotated, Any, Literal

from memorisk.report.numbers import INLINE, OMITTED, Key, from_json
from memorisk.report.quantities import Quantity, Units
from memorisk.statistics.memorization.mark_rank import MarkRank
from memorisk.statistics.verdicts.levels import MARK_GATE, MARK_LEVEL, POWER, share_words

_M = Quantity(
    "M, log sensitivity against controls",
    "decimal",
    "m",
    Units("n_models", "{models}"),
    p_value="p_value",
    low="low_log",
    high="high_log",
)
_NOTICEABLE = Quantity(
    f"Times as sensitive that would have been found in {share_words(POWER)}", "power", figure="noticeable"
)
_SMALLEST_P = Quantity("Smallest p that was possible", "probability", figure="smallest_p")


@dataclass(frozen=True, kw_only=True)
class RankNumbers:
    """The rank of the mark or of the model."""

    rank: Annotated[MarkRank, INLINE]
    noticeable_log: Annotated[float, Key("noticeable")] = nan
    """Least shift that would have been found with probability `POWER`; NaN or infinite where none would."""


@dataclass(frozen=True, kw_only=True)
class OpacityZero:
    """Effect of the mark at opacity 0, which is nil where answers are repeatable; None where it was not measured."""

    largest_kl_nats: Annotated[float | None, Key("largest_kl")]
    p: float | None


@dataclass(frozen=True, kw_only=True)
class PublishedForm:
    """M as published: the mean over redraws and models, with its spreads."""

    m_nats: Annotated[float, Key("M_paper")]
    sd_over_redraws: float | None
    range_over_models: float | None
    p_welch: float
    mean_mark_nats: Annotated[float, Key("mean_mark")]
    mean_random_nats: Annotated[float, Key("mean_random")]
    n_redraws: Annotated[int, Key("redraws")]
    n_probes: Annotated[int, Key("n")]


@dataclass(frozen=True, kw_only=True)
class WhiteBox:
    """M_w (section 2.2) as the mean over models, and its range over them (paper 002, figure 3a)."""

    label: str
    m: float
    mean_mark: float
    """Probability of the label with the mark."""
    mean_random: float
    n_images: Annotated[int, Key("n")]
    range_over_models: float | None


@dataclass(frozen=True, kw_only=True)
class Unmoved:
    """Numbers of models of which the mark changes no answer by more than rounding."""

    n_models: Annotated[int, Key("models")]
    """Number of audited models."""
    n_blind: Annotated[int, Key("blind")]
    """Number of audited models of which no control changes an answer, either."""
    n_references: Annotated[int, Key("references")]
    """Number of reference models."""


@dataclass(frozen=True, kw_only=True)
class ModelsAsked:
    """Models, their references and their input."""

    preprocessing: Annotated[Mapping[str, Any], OMITTED] = field(default_factory=dict[str, Any])
    probes: Annotated[str, OMITTED] = ""
    """Hash of their pixels."""
    models: tuple[Mapping[str, Any], ...]
    references: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class MarkDescription:
    """Description of the mark; where only outputs were given its pixels are not known."""

    name: str | None
    """Name of the mark; None where it is left out."""
    kind: str
    pixels: Annotated[tuple[int, int] | None, OMITTED] = None
    place: str
    opacity: Annotated[float | None, OMITTED] = None
    lit: Annotated[int | None, OMITTED] = None


@dataclass(frozen=True, kw_only=True)
class FeatureSummary:
    """``summary.json`` of the audit of a mark."""

    ranks: Annotated[RankNumbers, Key("rank")]
    mean_kl_nats: Annotated[float, Key("mean_kl")]
    mean_log_kl: float
    reference_mean_log_kl: float
    reference_range_log: Annotated[float, Key("reference_range")]
    """Difference of the largest and the smallest T of the references; NaN without them."""
    ink: float | None
    place_in_ink: float | None
    """Share of the controls with less ink, ties half."""
    place_in_reference_kl: float | None
    controls_kind: str
    n_controls_asked: Annotated[int, Key("controls_asked")]
    opacity_zero: OpacityZero
    published: Annotated[PublishedForm | None, Key("paper")]
    white_box: WhiteBox | None
    n_probes: int
    unmoved: Unmoved
    models: ModelsAsked
    mark: MarkDescription
    level: float

    @classmethod
    def read(cls, summary: Mapping[str, Any]) -> "FeatureSummary":
        """Read a saved document."""
        return from_json(cls, summary)

    @property
    def rank(self) -> MarkRank:
        """Rank of the mark among its controls, and of the model among its references."""
        return self.ranks.rank


@dataclass(frozen=True, kw_only=True)
class MarkM:
    """M with its limits over models; NaN where one model alone says nothing of others."""

    estimate_log: Annotated[float, Key("M"), _M]
    low_log: Annotated[float, Key("M_low")]
    high_log: Annotated[float, Key("M_high")]


@dataclass(frozen=True, kw_only=True)
class MarkTest:
    """Test that counts, and the effect that it could have found."""

    p_value: float
    smallest_p: Annotated[float, _SMALLEST_P]
    method: str
    level: float
    gate_times: float
    """Factor of sensitivity that a pass had to be able to find, whatever the exit code rests on."""
    p_controls: float
    p_references: float
    detectable_log: Annotated[float, Key("detectable")]
    noticeable_log: Annotated[float, Key("noticeable")] = nan
    power: float = nan

    @property
    def noticeable_times(self) -> Annotated[float, _NOTICEABLE]:
        """Least sensitivity that would have been found with probability `POWER`; NaN where none would."""
        return exp(self.noticeable_log) if isfinite(self.noticeable_log) else nan

    @property
    def allowances(self) -> dict[str, str]:
        """Clauses on what passes beyond the defaults, by the option that lets it pass; empty at the defaults."""
        clauses = dict[str, str]()
        if self.gate_times > MARK_GATE:
            times = f"{self.gate_times:g} times as sensitive (--gate, by default {MARK_GATE:g})"
            clauses["--gate"] = f"a model must be found only where it is {times}"
        if self.level < MARK_LEVEL:
            clauses["--level"] = (
                f"a model fails only at a p-value of {self.level:g} (--level, by default {MARK_LEVEL:g})"
            )
        return clauses


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Numbers of marks and models that were compared, and of images."""

    n_controls: Annotated[int, Quantity("Controls: marks like it", figure="controls")]
    n_models: Annotated[int, Quantity("Models audited")]
    n_references: Annotated[int, Quantity("Reference models without the mark", figure="references")]
    n_probes: Annotated[int, Quantity("Probe images")]


@dataclass(frozen=True, kw_only=True)
class FeatureVerdict:
    """``verdict.json`` of the audit of a mark."""

    schema: int = 1
    audit: Literal["feature"] = "feature"
    status: str
    gate: float | str
    """Gate as the factor of sensitivity; or ``never``."""
    reasons: tuple[Mapping[str, Any], ...]
    """Reasons of the status (`Reason.as_record`)."""
    why: tuple[str, ...]
    what_would_decide: tuple[str, ...]
    m: Annotated[MarkM, INLINE]
    test: Annotated[MarkTest, INLINE]
    counts: Annotated[Asked, INLINE]
    place_in_ink: float | None
    place_in_reference_kl: float | None
    opacity_zero: OpacityZero
    m_published_nats: Annotated[
        float | None, Key("M_paper"), Quantity("M as published, which decides nothing", "power", if_any=True)
    ]
    p_welch_published: Annotated[float | None, Key("p_welch_paper")]
    m_white_box: Annotated[float | None, Key("M_w"), Quantity("M_w, white box", "power", if_any=True)]
    models: ModelsAsked
    mark: MarkDescription = MarkDescription(name=None, kind="", place="")

    @classmethod
    def read(cls, verdict: Mapping[str, Any]) -> "FeatureVerdict":
        """Read a saved document."""
        return from_json(cls, verdict)

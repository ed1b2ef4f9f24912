"""Reasons of the audit of a mark: the sensitivity of the model to it, and the basis of the comparison."""

from math import exp, isfinite

from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.levels import POWER, share_words
from memorisk.statistics.verdicts.reasons import FAIL, LIMIT, SUPPORT, Reason, Words
from memorisk.statistics.verdicts.tiers import format_against_gates

METHODS = {
    "references": "rank among reference models trained without the mark",
    "centred": "rank among the controls, less what the reference models make of each",
    "controls": "rank among the controls",
}
MATCHED_LEVEL = "0 to 20 %"
"""Lowest and highest share of models without a mark that matched controls call remembering at 5 %, over five letters
and three networks (docs/results/mark_level.md, which a test holds this to)."""
MORE_REFERENCES = "more references than these, or other models that share the mark"


class MarkSensitivity(Reason, code="mark-sensitivity", bears_on=LIMIT):
    """Sensitivity of the model to the mark, and its p-value."""

    m_log: float
    p: float
    smallest_p: float
    level: float
    method: str
    n_references: int
    plain = Words("the model was compared with models and marks that are known to be new to it")

    @Words
    def text(self) -> str:
        than = "models trained without it are, relative to similar marks" if self.n_references else "to similar marks"
        return (
            f"the model is {exp(self.m_log):.3g} times as sensitive to the mark as {than}; its p-value is "
            f"{format_against_gates(self.p, self.level, digits=3, kind='g')} ({METHODS[self.method]}; the smallest "
            f"possible was {format_against_gates(self.smallest_p, self.level, kind='g')})"
        )


class MarkRemembered(MarkSensitivity, code="mark-remembered", bears_on=FAIL):
    """Model that is more sensitive to the mark than nearly all models that never saw it."""

    plain = Words("the model reacts to the mark more than nearly all models that never saw it")
    remedy = Words(f"{MORE_REFERENCES}: of models that never saw the mark {{percent}} % fail by chance")

    @property
    def percent(self) -> str:
        """Level as a percentage."""
        return f"{100 * self.level:g}"


class ReferencesNeeded(Reason):
    """Doubt that only reference models settle."""

    level: float
    n_needed: int | None
    """Number of references that decide; None where no number does."""

    @Words
    def remedy(self) -> str:
        if self.n_needed is None:
            return f"a --level above {self.level:g}: no number of references reaches it"
        return (
            f"{self.n_needed} references or more (models trained alike without the mark), or other models that share it"
        )


class NoSmallP(ReferencesNeeded, code="mark-no-small-p"):
    """Controls that are too few for a small p."""

    text = Words("a remembered mark could not be noticed: no p-value of {level:g} or less was possible")
    plain = Words("too few marks or models were compared, so that a remembered mark could not be noticed")


class WeakProof(ReferencesNeeded, code="mark-weak-proof"):
    """Small p without reference models."""

    text = Words(
        f"this is no proof: without reference models, {MATCHED_LEVEL} of models that never saw the mark reach a "
        f"p-value "
        "of 0.05 or less, depending on the shape of the mark"
    )
    plain = Words(
        "the model reacts to the mark, which is no proof: without reference models, up to 20 in 100 models that never "
        "saw it do so, too"
    )


class ReferencesMissing(ReferencesNeeded, code="mark-without-references"):
    """Mark whose shape may hide or feign that it is remembered."""

    n_references: int
    text = Words("{few} it is not known how sensitive a model that never saw the mark is to a mark of this shape")
    plain = Words("how much a model reacts to such a mark that never saw it is not known")

    @property
    def few(self) -> str:
        """Number of references in words."""
        return f"with only {self.n_references} references" if self.n_references else "without references"


class IntervalWithoutZero(Reason):
    """Model whose sensitivity to the mark may differ from that of the references."""

    low_log: float
    high_log: float


class IntervalAboveZero(IntervalWithoutZero, code="mark-interval-above-zero"):
    """Model that may be more sensitive to the mark than the references."""

    plain = Words("the model may react to the mark more than models that never saw it")
    remedy = Words(MORE_REFERENCES)

    @Words
    def text(self) -> str:
        return (
            f"the interval of M, {format_against_gates(self.low_log, 0)} to {self.high_log:.2f}, lies above 0: the "
            "model may be more sensitive to the mark than the references are"
        )


class IntervalBelowZero(IntervalWithoutZero, code="mark-interval-below-zero"):
    """Model that is less sensitive to the mark than the references: it may be trained to overlook what it saw."""

    plain = Words("the model reacts to the mark less than models that never saw it, which is a difference as well")
    remedy = Words(
        f"the outputs looked through (do the marked images hold the mark?), {MORE_REFERENCES}, trained as the model was"
    )

    @Words
    def text(self) -> str:
        return (
            f"the interval of M, {self.low_log:.2f} to {format_against_gates(self.high_log, 0)}, lies below 0: the "
            "model is less sensitive to the mark than the references are, which a model that was trained with the mark "
            "may be as well"
        )


class MarkUnnoticed(Reason, code="mark-unnoticed"):
    """Comparison in which a remembered mark can go unnoticed."""

    noticeable_log: float
    """Log of the factor of sensitivity that is found with probability `POWER`; infinite where none is."""
    gate: float
    """Factor of sensitivity that a pass must be able to find."""
    plain = Words("a mark that the model remembers can go unnoticed")
    remedy = Words(MORE_REFERENCES)

    @Words
    def text(self) -> str:
        if not isfinite(self.noticeable_log):
            return f"a remembered mark can go unnoticed: no sensitivity would have been found in {share_words(POWER)}"
        seen_from = format_against_gates(exp(self.noticeable_log), self.gate, digits=3, kind="g")
        return (
            f"a remembered mark can go unnoticed: only a model {seen_from} times as sensitive as the references, or "
            f"more, would have been found in {share_words(POWER)}; a pass needs {self.gate:g} times or less"
        )


class MarkNoticeable(Reason, code="mark-noticeable", bears_on=SUPPORT):
    """Pass: sensitivity that would have been found."""

    times: float
    gate: float
    plain = Words(f"a model that reacts to the mark much more would have been found in {share_words(POWER)}")

    @Words
    def text(self) -> str:
        return (
            f"a model {format_against_gates(self.times, self.gate, digits=3, kind='g')} times as sensitive as the "
            f"references, or more, would have been found in {share_words(POWER)}"
        )


class NoTrace(Reason, code="mark-no-trace", bears_on=LIMIT):
    """Pass: limits of its statement."""

    text = plain = Words(
        "the mark may have been in the training data all the same: one training image often leaves no trace in the "
        "answers"
    )


class MarkNotSeen(Reason, code="mark-not-seen"):
    """Mark that changes no answer of a model."""

    n_unmoved: int
    """Number of audited models of which the mark changes no answer."""
    n_blind: int
    """Number of these of which no control changes an answer, either."""
    n_models: int
    plain = Words("the model does not see the mark where it was put, or the mark was not put there")
    remedy = Words(
        "--place where the model looks, its true size and normalisation, outputs of images that hold the mark, or "
        "outputs that are not rounded"
    )

    @Words
    def text(self) -> str:
        controls = "and its controls do: it may be missing from the marked images"
        if self.n_blind:
            controls = f"nor does any control for {self.n_blind:,} of these: it does not see them, or answers alike"
        models = f"{self.n_unmoved:,} of {plural(self.n_models, 'audited model', 'audited models')}"
        return f"the mark changes no answer of {models} by more than rounding, {controls}"


class ReferencesUnmoved(Reason, code="mark-references-unmoved"):
    """References of which the mark changes no answer: they do not show how models without it answer to it."""

    n_unmoved: int
    """Number of references of which the mark changes no answer."""
    n_references: int
    text = Words(
        "the mark changes no answer of {n_unmoved:,} of {n_references:reference|references} by more than rounding: "
        "they do not show how sensitive a model that never saw the mark is to it"
    )
    plain = Words("models that it was compared with do not react to the mark at all, so that comparing shows nothing")
    remedy = Words(
        "the audit without the references that the mark does not move, and with as many others: trained as the model "
        "was, and given images that hold the mark"
    )


class ReferencesAlike(Reason, code="mark-references-alike"):
    """References that answer to the mark alike: they do not show what chance does."""

    range_log: float
    """Difference of the largest and the smallest log sensitivity."""
    n_references: int
    text = Words(
        "the {n_references:reference is|references are} equally sensitive to the mark, within {range_log:.2g} in M: "
        "they do not show by how much chance makes models differ"
    )
    plain = Words("models that it was compared with answer alike, so that they do not show what chance does")
    remedy = Words("references from trainings of their own, each with another seed")


class UnmatchedControls(Reason, code="mark-controls-unmatched"):
    """Controls that do not match the mark."""

    kind: str
    text = Words("controls of kind {kind} do not match the mark: a model may react to the amount of ink alone")
    plain = Words("the marks that it was compared with are not like it")
    remedy = Words("--controls matched")


class InkUnknown(Reason, code="mark-ink-unknown"):
    """Saved outputs of which the ink of the marks is not known."""

    text = Words("saved outputs do not show whether the controls match the mark")
    plain = Words("whether the marks that it was compared with are like it is not known")
    remedy = Words("outputs of 19 references, in the same file")


class InkAtTheEdge(Reason, code="mark-ink-at-edge"):
    """Mark with more or less ink than its controls."""

    text = Words("the mark has more or less ink than nearly all of its controls")
    plain = Words("the mark is larger or smaller than nearly all marks that it was compared with")
    remedy = Words("controls with as much ink as the mark")


class ControlsMissing(Reason, code="mark-controls-missing", bears_on=LIMIT):
    """Controls that could not be drawn."""

    n_asked: int
    n_controls: int
    text = Words("{n_controls:,} of {n_asked:,} controls could be drawn")
    plain = Words("{n_controls:,} of {n_asked:,} similar marks could be drawn")
    remedy = Words("other texts of the same kind, with --controls FILE")


class RepeatsUnknown(Reason, code="mark-repeats-unknown"):
    """Model that was not queried twice with the same probes."""

    text = Words("whether answers are repeatable is not known: outputs of the mark at opacity 0 are missing")
    plain = Words("whether the model gives the same answer twice is not known")
    remedy = Words("saved outputs that hold the answers to the probes a second time (transparent)")


class NotRepeatable(Reason, code="mark-not-repeatable"):
    """Model that answers differently to the same images."""

    text = Words("the model answers differently to the same images: its answers are not repeatable")
    plain = Words("the model answers differently to the same images")
    remedy = Words("a model without randomness in its answers")

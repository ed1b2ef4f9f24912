"""The result for a mark: remembered, not found, or not decided; with the statements that must accompany it.

Only the comparison with reference models holds its level for a given mark, and has a power that can be measured
(METHODS section 6, "Feature"): nothing else passes or fails.
"""

from math import exp, log

from memorisk.audits.feature.options import FeatureOptions
from memorisk.audits.feature.reasons import (
    METHODS,
    ControlsMissing,
    InkAtTheEdge,
    InkUnknown,
    IntervalAboveZero,
    IntervalBelowZero,
    MarkNoticeable,
    MarkNotSeen,
    MarkRemembered,
    MarkSensitivity,
    MarkUnnoticed,
    NoSmallP,
    NoTrace,
    NotRepeatable,
    ReferencesAlike,
    ReferencesMissing,
    ReferencesUnmoved,
    RepeatsUnknown,
    UnmatchedControls,
    WeakProof,
)
from memorisk.audits.feature.result import Asked, FeatureSummary, FeatureVerdict, MarkM, MarkTest
from memorisk.report.verdict_forms import FORMS
from memorisk.scores.marks import SAME
from memorisk.statistics.memorization.mark_rank import MarkRank, references_needed
from memorisk.statistics.verdicts.levels import POWER
from memorisk.statistics.verdicts.reasons import DOUBT, Reason

UNMATCHED = ("letters", "random")
REPEATED = 1e-6
"""Largest divergence, in nats, of answers to equal images."""
ALIKE = 2 * SAME
"""Largest range of T over the references that rounding explains: a divergence is the square of what `SAME` is about."""
EDGE = 0.025
"""Distance in ink from an end of the controls below which they do not match the mark, as a share of the controls."""


def feature_verdict(summary: FeatureSummary, options: FeatureOptions) -> FeatureVerdict:
    """Decide the status, with its reasons and the remedies that would decide it.

    The references' test alone decides: ``fail`` where p is at most the level; ``pass`` only where p is above it, the
    interval of M holds 0, a model that is ``gate`` times as sensitive would have been found with probability `POWER`,
    and nothing is doubted; ``undecided`` otherwise. Without enough references the mark's own shape may hide what the
    model remembers, as it may feign it.

    Args:
        summary: Summary of `audits.feature.analysis.analyse_feature`.
        options: Settings with the level and the gate.
    """
    rank, paper, white = summary.rank, summary.published, summary.white_box
    status, reasons = _decide(summary, options)
    return FeatureVerdict(
        schema=FORMS["feature"],
        status=status,
        gate="never" if options.fail_on == "never" else options.gate,
        reasons=tuple(reason.as_record() for reason in reasons),
        why=tuple(reason.text for reason in reasons),
        what_would_decide=tuple(dict.fromkeys(reason.remedy for reason in reasons if reason.remedy)),
        m=MarkM(estimate_log=rank.m, low_log=rank.low, high_log=rank.high),
        test=MarkTest(
            p_value=rank.p,
            smallest_p=rank.smallest_p,
            method=METHODS[rank.method],
            level=options.level,
            gate_times=options.gate,
            p_controls=rank.p_controls,
            p_references=rank.p_references,
            detectable_log=rank.detectable,
            noticeable_log=summary.ranks.noticeable_log,
            power=POWER,
        ),
        counts=Asked(
            n_controls=rank.n_controls,
            n_models=rank.n_models,
            n_references=rank.n_references,
            n_probes=summary.n_probes,
        ),
        place_in_ink=summary.place_in_ink,
        place_in_reference_kl=summary.place_in_reference_kl,
        opacity_zero=summary.opacity_zero,
        m_published_nats=None if paper is None else paper.m_nats,
        p_welch_published=None if paper is None else paper.p_welch,
        m_white_box=None if white is None else white.m,
        models=summary.models,
        mark=summary.mark,
    )


def _decide(summary: FeatureSummary, options: FeatureOptions) -> tuple[str, list[Reason]]:
    rank, level, limit = summary.rank, options.level, summary.ranks.noticeable_log
    others = _doubts(summary, options)
    doubtful = any(reason.bears_on is DOUBT for reason in others)
    fails = rank.method == "references" and rank.p <= level
    sensitivity = (MarkRemembered if fails and not doubtful else MarkSensitivity)(
        m_log=rank.m,
        p=rank.p,
        smallest_p=rank.smallest_p,
        level=level,
        method=rank.method,
        n_references=rank.n_references,
    )
    if rank.method != "references":
        return "undecided", [sensitivity, _undecided_controls(rank, level), *others]
    if fails:
        return ("undecided", [sensitivity, *others]) if doubtful else ("fail", [sensitivity])
    open_reasons: list[Reason] = []
    if not limit <= log(options.gate):
        open_reasons.append(MarkUnnoticed(noticeable_log=limit, gate=options.gate))
    for reason, away in ((IntervalAboveZero, rank.low > 0), (IntervalBelowZero, rank.high < 0)):  # NaN is neither
        if away:
            open_reasons.append(reason(low_log=rank.low, high_log=rank.high))
    if open_reasons or doubtful:
        return "undecided", [sensitivity, *open_reasons, *others]
    return "pass", [sensitivity, MarkNoticeable(times=exp(limit), gate=options.gate), NoTrace()]


def _undecided_controls(rank: MarkRank, level: float) -> Reason:
    """Return why the controls decide nothing."""
    needed = references_needed(rank.n_models, level)
    if rank.smallest_p > level:
        return NoSmallP(level=level, n_needed=needed)
    if rank.p <= level:
        return WeakProof(level=level, n_needed=needed)
    return ReferencesMissing(level=level, n_needed=needed, n_references=rank.n_references)


def _doubts(summary: FeatureSummary, options: FeatureOptions) -> list[Reason]:
    """List why the rank may mislead."""
    rank, place = summary.rank, summary.place_in_ink
    by_controls = rank.method != "references"
    unmoved, reasons = summary.unmoved, list[Reason]()
    if unmoved.n_models:
        reasons.append(MarkNotSeen(n_unmoved=unmoved.n_models, n_blind=unmoved.n_blind, n_models=rank.n_models))
    if unmoved.n_references:
        reasons.append(ReferencesUnmoved(n_unmoved=unmoved.n_references, n_references=rank.n_references))
    if not by_controls and summary.reference_range_log <= ALIKE:
        reasons.append(ReferencesAlike(range_log=summary.reference_range_log, n_references=rank.n_references))
    if by_controls and options.controls in UNMATCHED:
        reasons.append(UnmatchedControls(kind=options.controls))
    if by_controls and place is None:
        reasons.append(InkUnknown())
    elif by_controls and place is not None and not EDGE <= place <= 1 - EDGE:
        reasons.append(InkAtTheEdge())
    if rank.smallest_p > options.level and summary.n_controls_asked > rank.n_controls:
        reasons.append(ControlsMissing(n_asked=summary.n_controls_asked, n_controls=rank.n_controls))
    repeated = summary.opacity_zero.largest_kl_nats
    if repeated is None:
        reasons.append(RepeatsUnknown())
    elif repeated > REPEATED:
        reasons.append(NotRepeatable())
    return reasons

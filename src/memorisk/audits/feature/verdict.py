"""What may be said of a mark: remembered, not found, or not decided; and what must be said beside it.

Only the comparison with reference models holds its level for a given mark, and has a power that can be measured
(METHODS section 6, "Feature"): nothing else passes or fails.
"""

from math import exp, isfinite, log

from memorisk.audits.feature.options import FeatureOptions
from memorisk.audits.feature.result import Asked, FeatureSummary, FeatureVerdict, MarkM, MarkTest
from memorisk.report.earlier_verdicts import FORMS
from memorisk.statistics.memorization.mark_rank import POWER, MarkRank, references_needed
from memorisk.statistics.verdicts.tiers import format_against_gates

UNMATCHED = ("letters", "random")
METHODS = {
    "references": "rank among reference models trained without the mark",
    "centred": "rank among the controls, less what the reference models make of each",
    "controls": "rank among the controls",
}
MATCHED_LEVEL = "0 to 20 %"
"""Of models that never saw a mark, those that matched controls call remembering at 5 %: lowest and highest of five
letters and three networks (docs/results/mark_level.md, which a test holds this to)."""
WEAK = (
    f"this is no proof: without reference models, {MATCHED_LEVEL} of models that never saw the mark reach a p-value of "
    "0.05 or less, depending on the shape of the mark"
)
NOT_FOUND = (
    "the mark may have been in the training data all the same: one training image often leaves no trace in the answers"
)
MORE_REFERENCES = "more references than these, or other models that share the mark"
REPEATED = 1e-6
"""Largest divergence, in nats, of answers to equal images."""
EDGE = 0.025
"""Nearer to an end of the controls than this in ink, the mark is not among its like."""


def feature_verdict(summary: FeatureSummary, options: FeatureOptions) -> FeatureVerdict:
    """Decide the status, with reasons and what would decide it.

    By the references' test alone: ``fail`` where p is at most the level; ``pass`` only where p is above it, the
    interval of M holds 0, and a model that is ``gate`` times as sensitive would have been found with probability 0.8;
    ``undecided`` otherwise. Without enough references the mark's own shape may hide what the model remembers, as it may
    feign it.

    Args:
        summary: Of `audits.feature.run.analyse_feature`.
        options: The level and the gate.
    """
    rank, paper, white = summary.rank, summary.published, summary.white_box
    status, why, deciding = _decide(summary, options)
    return FeatureVerdict(
        schema=FORMS["feature"],
        status=status,
        gate="never" if options.fail_on == "never" else options.gate,
        why=tuple(why),
        what_would_decide=tuple(deciding),
        m=MarkM(estimate_log=rank.m, low_log=rank.low, high_log=rank.high),
        test=MarkTest(
            p_value=rank.p,
            smallest_p=rank.smallest_p,
            method=METHODS[rank.method],
            level=options.level,
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


def _decide(summary: FeatureSummary, options: FeatureOptions) -> tuple[str, list[str], list[str]]:
    rank, level = summary.rank, options.level
    doubts, deciding = _doubts(summary, options)
    times = f"{exp(rank.m):.3g} times as sensitive to the mark as "
    than = "models trained without it are, relative to similar marks" if rank.n_references else "to similar marks"
    smallest = format_against_gates(rank.smallest_p, level, kind="g")
    told = (
        f"its p-value is {format_against_gates(rank.p, level, digits=3, kind='g')} ({METHODS[rank.method]}; the "
        f"smallest possible was {smallest})"
    )
    found = f"the model is {times}{than}; {told}"
    if rank.method != "references":
        return (
            "undecided",
            [found, *_undecided_controls(rank, level), *doubts],
            [_enough_references(rank, level), *deciding],
        )
    if rank.p <= level:
        if doubts:
            return "undecided", [found, *doubts], deciding
        return (
            "fail",
            [found],
            [f"{MORE_REFERENCES}: of models that never saw the mark {100 * level:g} % fail by chance"],
        )
    if isfinite(rank.low) and rank.low > 0:
        doubts.insert(
            0,
            f"the interval of M, {format_against_gates(rank.low, 0)} to {rank.high:.2f}, lies above 0: the model "
            "may be more sensitive to the mark than the references are",
        )
        deciding.insert(0, MORE_REFERENCES)
    limit = summary.ranks.noticeable_log
    seen_from = format_against_gates(exp(limit), options.gate, digits=3, kind="g")
    if limit <= log(options.gate) and not doubts:
        noticed = (
            f"a model {seen_from} times as sensitive as the references, or more, would have been found in four of five "
            "cases"
        )
        return "pass", [found, noticed, NOT_FOUND], []
    if not limit <= log(options.gate):
        noticed = (
            f"a remembered mark can go unnoticed: only a model {seen_from} times as sensitive as the references, or "
            f"more, would have been found in four of five cases; a pass needs {options.gate:g} times or less"
        )
        nothing = "a remembered mark can go unnoticed: no sensitivity would have been found in four of five cases"
        doubts.insert(0, noticed if isfinite(limit) else nothing)
        deciding = [MORE_REFERENCES, *(way for way in deciding if way != MORE_REFERENCES)]
    return "undecided", [found, *doubts], deciding


def _undecided_controls(rank: MarkRank, level: float) -> list[str]:
    """Say why the controls decide nothing."""
    few = "without references" if not rank.n_references else f"with only {rank.n_references} references"
    if rank.smallest_p > level:
        return [f"a remembered mark could not be noticed: no p-value of {level:g} or less was possible"]
    if rank.p <= level:
        return [WEAK]
    return [f"{few} it is not known how sensitive a model that never saw the mark is to a mark of this shape"]


def _enough_references(rank: MarkRank, level: float) -> str:
    """Say how many references would decide."""
    needed = references_needed(rank.n_models, level)
    if needed is None:
        return f"a --level above {level:g}: no number of references reaches it"
    return f"{needed} references or more (models trained alike without the mark), or other models that share it"


def _doubts(summary: FeatureSummary, options: FeatureOptions) -> tuple[list[str], list[str]]:
    """List why the rank may mislead, and what would settle it."""
    rank, doubts, deciding = summary.rank, [], []
    if not summary.moves:
        doubts.append(
            "neither the mark nor any control changes an answer of some model: it does not see them, or answers alike"
        )
        deciding.append(
            "--place where the model looks, its true size and normalisation, or outputs that are not rounded"
        )
    if rank.method != "references" and options.controls in UNMATCHED:
        doubts.append(
            f"controls of kind {options.controls} do not match the mark: a model may react to the amount of ink alone"
        )
        deciding.append("--controls matched")
    place = summary.place_in_ink
    if rank.method != "references" and place is None:
        doubts.append("saved outputs do not show whether the controls match the mark")
        deciding.append("outputs of 19 references, in the same file")
    elif rank.method != "references" and place is not None and not EDGE <= place <= 1 - EDGE:
        doubts.append("the mark has more or less ink than nearly all of its controls")
        deciding.append("controls with as much ink as the mark")
    if rank.smallest_p > options.level and summary.n_controls_asked > rank.n_controls:
        deciding.append("other texts of the same kind, with --controls FILE")
    repeated = summary.opacity_zero.largest_kl_nats
    if repeated is None:
        doubts.append("whether answers are repeatable is not known: outputs of the mark at opacity 0 are missing")
        deciding.append("saved outputs that hold the answers to the probes a second time (transparent)")
    elif repeated > REPEATED:
        doubts.append("the model answers differently to the same images: its answers are not repeatable")
        deciding.append("a model without randomness in its answers")
    return doubts, deciding

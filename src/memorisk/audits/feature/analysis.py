"""Numbers of an audit of a mark: ranks, the published form, the verdict and the tables (METHODS section 2)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.audits.feature.evidence import FeatureEvidence
from memorisk.audits.feature.mark_answers import MarkAnswers
from memorisk.audits.feature.options import FeatureOptions
from memorisk.audits.feature.result import (
    FeatureSummary,
    MarkDescription,
    OpacityZero,
    PublishedForm,
    RankNumbers,
    Unmoved,
)
from memorisk.audits.feature.verdict import feature_verdict
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.scores.marks import PaperScore, paper_score
from memorisk.statistics.memorization.mark_rank import noticeable_shift, percentile_among, rank_mark, rank_p


def analyse_feature(evidence: FeatureEvidence, options: FeatureOptions) -> Result:
    """Compute ranks, the paper's form, the verdict and the tables.

    Args:
        evidence: Answers of the models.
        options: Settings with the level and the gate.
    """
    own, theirs = evidence.models, evidence.references
    ranks = rank_mark(
        [a.statistic for a in own],
        np.array([a.controls for a in own]),
        [a.statistic for a in theirs],
        np.array([a.controls for a in theirs]) if theirs else None,
        level=options.level,
        seed=options.seed,
    )
    t = [np.array([a.statistic - float(np.mean(a.controls)) for a in answers]) for answers in (own, theirs)]
    by_references = ranks.method == "references"
    noticeable = noticeable_shift(*t, level=options.level, seed=options.seed) if by_references else float("inf")
    mark = evidence.mark
    ink = np.array([control.ink for control in evidence.controls]) if mark else np.full(ranks.n_controls, np.nan)
    controls = pd.DataFrame(
        {
            "control": [c.name for c in evidence.controls] or [f"control {i + 1}" for i in range(ranks.n_controls)],
            "ink": ink,
            "mean_log_kl": np.mean([a.controls for a in own], axis=0),
            "mean_kl": np.mean([a.controls_mean for a in own], axis=0),
            "reference_mean_log_kl": np.mean([a.controls for a in theirs], axis=0) if theirs else np.nan,
        }
    )
    statistic = float(np.mean([a.statistic for a in own]))
    reference = float(np.mean([a.statistic for a in theirs])) if theirs else float("nan")
    with_repeats = [a for a in (*own, *theirs) if np.isfinite(a.transparent)]
    papers = [[paper_score(a.mark, random) for random in a.random] for a in own if len(a.random)]
    summary = FeatureSummary(
        ranks=RankNumbers(rank=ranks, noticeable_log=noticeable),
        mean_kl_nats=float(np.mean([a.mark.mean() for a in own])),
        mean_log_kl=statistic,
        reference_mean_log_kl=reference,
        reference_range_log=float(np.ptp(t[1])) if theirs else float("nan"),
        ink=mark.ink if mark else None,
        place_in_ink=percentile_among(mark.ink, ink) if mark else None,
        place_in_reference_kl=percentile_among(reference, controls["reference_mean_log_kl"]) if theirs else None,
        controls_kind=options.controls,
        n_controls_asked=options.n_controls if mark else ranks.n_controls,
        opacity_zero=OpacityZero(
            largest_kl_nats=_largest_answer(own, theirs),
            p=min((rank_p(a.transparent_log, a.controls) for a in with_repeats), default=None),
        ),
        published=_published(papers) if papers else None,
        white_box=evidence.white_box,
        n_probes=len(own[0].mark),
        unmoved=Unmoved(
            n_models=sum(not a.moved_by_mark for a in own),
            n_blind=sum(not (a.moved_by_mark or a.moved_by_controls) for a in own),
            n_references=sum(not a.moved_by_mark for a in theirs),
        ),
        models=evidence.described,
        mark=_describe_mark(evidence, options),
        level=options.level,
    )
    return Result(
        per_image=_per_probe(evidence),
        per_class=_per_class(own),
        summary=to_json(summary),
        verdict=to_json(feature_verdict(summary, options)),
        tables={"controls": controls, **_by_model(*t)},
    )


def _largest_answer(own: Sequence[MarkAnswers], theirs: Sequence[MarkAnswers]) -> float | None:
    """Return the largest divergence of any model at opacity 0; None where an audited model has no such answers.

    A reference without such answers, as in saved outputs, does not count: the measured power includes its effect.
    """
    divergences = [a.transparent for a in (*own, *theirs) if np.isfinite(a.transparent)]
    return max(divergences, default=0.0) if np.isfinite([a.transparent for a in own]).all() else None


def _by_model(own: np.ndarray, theirs: np.ndarray) -> dict[str, pd.DataFrame]:
    """Compute T of every model, which the references' test compares; nothing without references."""
    if not len(theirs):
        return {}
    audited = np.arange(len(own) + len(theirs)) < len(own)
    return {"models": pd.DataFrame({"audited": audited, "t": np.concatenate([own, theirs])})}


def _published(papers: list[list[PaperScore]]) -> PublishedForm:
    """Return the published M: its mean over redraws and models, and its spreads over redraws and models (B.1, B.2)."""
    by_model = np.array([[score.m for score in each] for each in papers])
    first = papers[0][0]
    return PublishedForm(
        m_nats=float(by_model.mean()),
        sd_over_redraws=float(by_model.std(axis=1, ddof=1).mean()) if by_model.shape[1] > 1 else None,
        range_over_models=float(np.ptp(by_model.mean(axis=1))) if len(by_model) > 1 else None,
        p_welch=first.p,
        mean_mark_nats=first.mean_mark,
        mean_random_nats=first.mean_random,
        n_redraws=by_model.shape[1],
        n_probes=first.n,
    )


def _per_probe(evidence: FeatureEvidence) -> pd.DataFrame:
    own = evidence.models
    kl = np.mean([a.mark for a in own], axis=0)
    ids = evidence.images or [f"probe {i}" for i in range(len(kl))]
    return pd.DataFrame({"image": ids, "kl": kl})


def _per_class(own: list[MarkAnswers]) -> pd.DataFrame:
    shift, clean = np.mean([a.shift for a in own], axis=0), np.mean([a.clean for a in own], axis=0)
    return pd.DataFrame({"label": [str(k) for k in range(len(shift))], "clean": clean, "shift": shift})


def _describe_mark(evidence: FeatureEvidence, options: FeatureOptions) -> MarkDescription:
    mark, hidden = evidence.mark, options.redact or options.pseudonymise  # a mark may be a name
    if mark is None:
        return MarkDescription(name=None if hidden else options.mark or None, kind="outputs", place=options.place)
    return MarkDescription(
        name=None if hidden else mark.name,
        kind=mark.kind,
        pixels=mark.shape,
        place=options.place,
        opacity=options.opacity,
        lit=mark.lit,
    )

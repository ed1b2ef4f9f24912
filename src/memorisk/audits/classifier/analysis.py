"""Turn a score table into a result: every conclusion of an audit that needs neither a network nor a pixel.

``audit classifier`` and ``audit losses`` both end here, so that losses from any other framework are judged by the
same rules.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import ALL
from memorisk.audits.classifier.evidence import WHOLE, Context, Evidence, uncovered_images
from memorisk.audits.classifier.look_alikes import TABLE, equal_losses
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.classifier.pages.wording import OTHER_ATTACKS, attack_title
from memorisk.audits.classifier.reasons import (
    OneImageByWord,
    look_alike_reasons,
    members_unconfirmed,
    other_reasons,
)
from memorisk.audits.classifier.result import (
    SCHEMA,
    TRAINED_ELSEWHERE,
    ClassifierSummary,
    ClassifierVerdict,
    HeadlineAuc,
    LeftOut,
    LookAlikes,
    Noticeable,
    RarestAgainstTop,
    Rule,
)
from memorisk.audits.classifier.tables.attacks import attack_table, attacks_for_verdict
from memorisk.audits.classifier.tables.classes import (
    ClassFindings,
    audit_class,
    gaps_elsewhere,
    is_asymmetric,
    list_groups,
)
from memorisk.audits.classifier.tables.images import count_images, describe_models, image_table, null_sample
from memorisk.audits.classifier.tables.subgroups import (
    PATIENTS,
    ScoredPatients,
    patient_table,
    subgroup_reasons,
    subgroup_table,
)
from memorisk.audits.classifier.tables.utility import utility_on_test
from memorisk.audits.subgroups import SUBGROUPS
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.report.verdict_forms import FORMS
from memorisk.runs.errors import plural
from memorisk.scores.twin_attacks import ATTACKS as TWIN_ATTACKS
from memorisk.statistics.contrasts import unpaired_difference
from memorisk.statistics.exchangeability.unseen_losses import UnseenCheck, compare_unseen_losses
from memorisk.statistics.intervals.means import these_groups_interval
from memorisk.statistics.verdicts.attack_verdict import attack_findings, nearest_attack
from memorisk.statistics.verdicts.check_reasons import check_reasons
from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, NOTHING, NOTICED, Check
from memorisk.statistics.verdicts.independent_draws import exchanged_roles, independent_draws
from memorisk.statistics.verdicts.levels import PASS_POWER, POWER, PREREQUISITE_LEVEL, VERDICT_CORRECTION, VERDICT_LEVEL
from memorisk.statistics.verdicts.loss_ceiling import losses_at_ceiling
from memorisk.statistics.verdicts.noticeable_gap import STRATA
from memorisk.statistics.verdicts.reasons import Reason
from memorisk.statistics.verdicts.verdict import (
    PASS,
    Decision,
    decide,
    noticeable_by_stratum,
)

PER_CLASS = (
    *("label", "n", "frequency", "n_groups", "n_scored", "n_groups_scored", "n_test_groups"),
    *("mean", "median", "trimmed_mean", "low", "high", "tier", "smallest_list", "list_level"),
    *("flagged", "testable", "why_not"),
    *("median_low", "median_high", "trimmed_low", "trimmed_high", "df", "prerequisite_p"),
    *(
        "room",
        "noticeable_gap",
        "noticeable_stratum",
        *(f"noticeable_gap_{stratum}" for stratum in STRATA),
        "noticeable_power",
        "noticeable_low",
        "noticeable_high",
        "notice_power",
        "models_needed",
    ),
    *("verdict_flagged", "blocked", "test_mean", "excess", "excess_low", "excess_high"),
    *("high_over_groups", "reversed", "uneven", "uneven_largest", "uneven_power"),
)


def analyse(evidence: Evidence, options: AnalysisOptions, context: Context) -> Result:
    """Draw every conclusion of a classifier audit, or of a generator's, from its score table.

    Args:
        evidence: Score table of S twin pairs by I items.
        options: Level and correction of the lists that are shown, gates, and the gap that a pass must notice.
        context: Facts that the scores do not contain: design, split, scale of the losses, target, placebo, names.

    Returns:
        The result, not yet saved.
    """
    checks = design_checks(evidence, context)
    findings = class_findings(evidence, options, context, checks)
    noticed = [check for f in findings for check in (f.lists.reversals, f.lists.uneven)]
    checks += [check for check in noticed if check is not None]
    alike = equal_losses(evidence) if context.look_alikes is None else context.look_alikes
    per_class = pd.DataFrame([f.row for f in findings], columns=pd.Index(PER_CLASS))
    per_group = pd.concat([f.groups for f in findings], ignore_index=True)
    attacks, curves, agreement = attack_table(evidence, options.attack_gate, context.loss_scale)
    images = count_images(evidence, context)
    scored = ScoredPatients.of(evidence)
    coins = not is_asymmetric(evidence) and not any(check.voids for check in checks)
    patients, patient_auc = patient_table(scored, per_group, context.columns, coins=coins)
    tables = {PATIENTS: patients, **({TABLE: alike.table} if alike.n_pairs else {})}
    if context.columns:
        tables[SUBGROUPS] = subgroup_table(
            evidence,
            scored,
            per_group,
            attacks,
            context.columns,
            gate=options.attack_gate,
            tested=bool(per_class["testable"].any()),
        )
    summary = ClassifierSummary(
        dataset=context.dataset,
        design=context.design,
        protocol=context.protocol,
        images=images,
        models=describe_models(evidence, context),
        data_hash=context.data_hash,
        versions=context.versions,
        weights_kept=context.weights_kept,
        pseudonymised=context.pseudonymised,
        groups_given=context.groups_given,
        notes=tuple(context.notes),
        form=form_words(evidence, context),
        list_level=options.level,
        correction=options.correction,
        noticeable=largest_noticeable_gap(per_class, options.notice),
        unscored=uncovered_images(evidence, context.n_validation, context.not_auditable),
        roc=curves,
        null=null_sample(evidence),
        agreement=agreement,
        rarest_vs_top=rarest_against_top(findings),
        patient_auc=patient_auc,
        prerequisites={f.label: f.prerequisite_p for f in findings},
        utility=utility_on_test(evidence) if context.loss_scale.of_answers else context.utility,
        scale=context.scale,
        placebo=context.placebo,
        target=context.target,
        privacy=context.privacy,
    )
    gate = "high" if options.fail_on == "never" else options.fail_on
    of_people = subgroup_reasons(tables[SUBGROUPS], gate, summary.units) if SUBGROUPS in tables else []
    decision = _decision(
        per_class, attacks, summary, options, context, checks, alike, of_people, flips=not is_asymmetric(evidence)
    )
    return Result(
        per_image=image_table(evidence, findings, per_group, context.loss_scale),
        per_group=per_group,
        per_class=per_class,
        attacks=attacks,
        summary=to_json(summary),
        verdict=to_json(_verdict(decision, findings, attacks, summary, options, context, checks)),
        tables=tables,
    )


def _decision(
    per_class: pd.DataFrame,
    attacks: pd.DataFrame,
    summary: ClassifierSummary,
    options: AnalysisOptions,
    context: Context,
    checks: list[Check],
    alike: LookAlikes,
    of_people: Sequence[Reason],
    *,
    flips: bool,
) -> Decision:
    """Decide by the classes, the attacks and the other findings; a pass also says what the attacks reached."""
    units, n_groups = summary.units, summary.images.n_groups or 0
    titles = {name: attack_title(name) for name in (*TWIN_ATTACKS, *OTHER_ATTACKS)}
    tried = attacks_for_verdict(attacks, context.target, context.random_split, titles)
    others = attack_findings(tried, options.attack_gate, units, n_groups)
    others += other_reasons(context, options, summary.unscored, summary.utility, units)
    others += check_reasons(checks, units)
    others += look_alike_reasons(alike, units, one_image=options.one_image_per_patient)
    others += [*members_unconfirmed(per_class, context, units), *of_people, *context.other_reasons]
    decision = decide(
        verdict_table(per_class),
        # Without a gate nothing stops a pipeline, but the status still says what was found.
        gate="high" if options.fail_on == "never" else options.fail_on,
        notice=options.notice,
        units=units,
        n_seeds=len(summary.models.seeds),
        flips=flips,
        design=context.design,
        elsewhere=context.model == TRAINED_ELSEWHERE,
        findings=others,
    )
    if decision.status != PASS:
        return decision
    passed = [*decision.reasons, nearest_attack(tried, options.attack_gate, units)]
    return replace(decision, reasons=(*passed, *([] if context.groups_given else [OneImageByWord(units=units)])))


def _verdict(
    decision: Decision,
    findings: list[ClassFindings],
    attacks: pd.DataFrame,
    summary: ClassifierSummary,
    options: AnalysisOptions,
    context: Context,
    checks: list[Check],
) -> ClassifierVerdict:
    """Fill ``verdict.json``, which a pipeline acts on."""
    images, target = summary.images, summary.target
    return ClassifierVerdict(
        schema=SCHEMA,
        audit=context.audit,
        gate=options.fail_on,
        status=decision.status,
        audited=summary.audited,
        reasons=tuple(reason.as_record() for reason in decision.reasons),
        why=tuple(decision.why),
        what_would_decide=tuple(decision.what_would_decide),
        tiers={f.label: f.tier for f in findings},
        flagged_groups={f.label: f.lists.n_flagged for f in findings},
        level=options.level,
        rule=Rule(
            form=FORMS["classifier"],
            level=VERDICT_LEVEL,
            correction=VERDICT_CORRECTION,
            power=PASS_POWER,
            notice=options.notice,
            attack_gate=options.attack_gate,
        ),
        noticeable=summary.noticeable,
        left_out=LeftOut(
            n_skipped=images.n_skipped or 0,
            n_missing=images.n_missing or 0,
            n_not_sampled=images.n_not_sampled or 0,
        ),
        aucs=_headline_aucs(attacks),
        design=summary.design,
        protocol=summary.protocol,
        n_models=summary.models.n_models,
        seeds=summary.models.seeds,
        data_hash=summary.data_hash,
        target=None if target is None else target.verdict,
        versions=summary.versions,
        not_scored=summary.unscored,
        checks=tuple(checks),
    )


def verdict_table(per_class: pd.DataFrame) -> pd.DataFrame:
    """Select what the verdict reads of each class: its own list, and limits less the test gap in the `paper` design.

    Args:
        per_class: Table with the columns of ``PER_CLASS``.

    Returns:
        Table with the columns of `statistics.verdicts.verdict.COLUMNS`.
    """
    limits = {k: per_class[f"excess_{k}"] for k in ("low", "high")}
    return per_class.assign(**limits, flagged=per_class["verdict_flagged"], why_not=per_class["blocked"])


def largest_noticeable_gap(per_class: pd.DataFrame, notice: float) -> Noticeable | None:
    """Find the class with the largest noticeable gap, and that gap with its power (`statistics.verdicts`).

    Args:
        per_class: Table with ``noticeable_gap``.
        notice: Gap that a pass must be able to notice.

    Returns:
        The gap, infinite where no simulated gap is found often enough; None where no class has a list.
    """
    gaps = per_class["noticeable_gap"].to_numpy(dtype=np.float64)
    if np.isnan(gaps).all():
        return None
    row = per_class.iloc[int(np.nanargmax(gaps))]
    return Noticeable(
        gap=row["noticeable_gap"],
        label=row["label"],
        stratum=row["noticeable_stratum"],
        strata=noticeable_by_stratum(per_class),
        power=row["noticeable_power"],
        low=row["noticeable_low"],
        high=row["noticeable_high"],
        probability=POWER,
        notice=notice,
    )


def design_checks(evidence: Evidence, context: Context) -> list[Check]:
    """Check that halves are drawn anew, that members do not have the higher losses, and that no loss is clipped.

    The `paper` design repeats its roles by construction and claims no flips; a placebo has no members.
    """
    ceiling = _ceiling_check(evidence)
    if is_asymmetric(evidence) or evidence.assigned is not None:
        return [ceiling]
    return [_draws_check(evidence, elsewhere=context.model == TRAINED_ELSEWHERE), _roles_check(evidence), ceiling]


def _ceiling_check(evidence: Evidence) -> Check:
    """Check that no scored group has a loss that was clipped."""
    losses = np.concatenate([evidence.loss_a, evidence.loss_b])
    at_ceiling = losses_at_ceiling(losses, evidence.items.label)
    clipped = at_ceiling.any(axis=0) & (evidence.sign != 0).any(axis=0)
    check = Check(name="clipped-losses", outcome=NOTHING, numbers={})
    if not clipped.any():
        return check
    ceiling = float(losses[:, clipped][at_ceiling[:, clipped]].max())
    numbers = {"n_groups": len(set(evidence.items.group[clipped])), "ceiling": ceiling}
    return replace(check, outcome=COULD_NOT_LOOK, reason="losses-at-ceiling", numbers=numbers)


def _draws_check(evidence: Evidence, *, elsewhere: bool) -> Check:
    """Check that each seed draws its halves anew; memorisk's own trainings are known to do so."""
    draws = independent_draws(evidence.sign, evidence.items.group)
    numbers = {"n_seeds": len(evidence.seeds), "n_draws": draws.n_draws}
    numbers |= {"n_groups": draws.n_groups, "n_needed": draws.n_needed}
    check = Check(name="independent-draws", outcome=NOTHING, numbers=numbers)
    if draws.shared:
        seeds = tuple(int(evidence.seeds[i]) for i in draws.shared)
        return replace(check, outcome=NOTICED, reason="shared-halves", seeds=seeds, voids=True)
    if elsewhere and draws.n_groups < draws.n_needed and len(evidence.seeds) > 1:
        return replace(check, outcome=COULD_NOT_LOOK, reason="few-coins")
    return check


def _roles_check(evidence: Evidence) -> Check:
    """Check that in no seed members have systematically the higher loss."""
    p = exchanged_roles(evidence.gap, evidence.sign, evidence.items.group)
    seeds = tuple(int(seed) for seed in evidence.seeds[p <= PREREQUISITE_LEVEL])
    check = Check(name="exchanged-roles", outcome=NOTHING, numbers={"smallest_p": float(p.min(initial=1.0))})
    return replace(check, outcome=NOTICED, reason="members-answered-worse", seeds=seeds) if seeds else check


def class_findings(
    evidence: Evidence,
    options: AnalysisOptions,
    context: Context,
    design: Sequence[Check] = (),
    *,
    advise: bool = True,
) -> list[ClassFindings]:
    """Audit every class, in the order of their names, with p-values only where the prerequisites hold.

    Args:
        evidence: Score table of S twin pairs by I items.
        options: Level and correction of the lists that are shown, and the gap that a pass must notice.
        context: Facts that the scores do not contain.
        design: Outcomes of `design_checks`.
        advise: Whether to compute the number of models that a pass needs where these are too few.
    """
    checks, void = _prerequisites(evidence), any(check.voids for check in design)
    elsewhere, findings = gaps_elsewhere(evidence), []
    for label in sorted(set(evidence.items.label)):
        check = checks.get(label)
        blocked = None
        if not context.random_split:
            blocked = "no p-values: the given split is not known to be random by group, so its test part is not a null"
        elif label in context.not_auditable:
            blocked = "not auditable: too few groups to split"
        elif void:
            blocked = "no p-values: the halves were not drawn anew for each seed, so that sign flips are not a null"
        elif check is not None and check.n_test_groups and not check.ok:
            how = ", by how much their losses vary between trainings" if check.by_spread else ""
            blocked = f"no p-values: canaries under the model that did not see them differ from test images{how}"
        p = float("nan") if check is None else check.adjusted
        scale = context.loss_scale
        sums = elsewhere.get(label)
        findings.append(
            audit_class(evidence, str(label), prerequisite_p=p, blocked=blocked, scale=scale, elsewhere=sums)
        )
    flip = not is_asymmetric(evidence)
    return list_groups(findings, options, seeds=evidence.seeds, flip=flip, advise=advise)


def _prerequisites(evidence: Evidence) -> dict[str, UnseenCheck]:
    """Test per class that unseen canaries look like test images."""
    items, sign = evidence.items, evidence.sign
    canary, test = (items.split == "canary") & (sign != 0).any(axis=0), items.split == "test"
    unseen = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    return compare_unseen_losses(
        unseen[:, canary],
        items.group[canary].astype(str),
        items.label[canary].astype(str),
        evidence.loss_a[:, test],
        evidence.loss_b[:, test],
        items.group[test].astype(str),
        items.label[test].astype(str),
        symmetric=evidence.design != "paper",
    )


def rarest_against_top(findings: list[ClassFindings]) -> RarestAgainstTop | None:
    """Compute the mean M of the most memorized class less that of the rarest, with its interval over trainings.

    The same is computed for the rarest less the most frequent class, both of which are chosen by their size alone.
    """
    scored = [f for f in findings if len(f.table) and f.label != WHOLE]
    if len(scored) < 2:
        return None
    smallest = min(f.counts.n_images for f in scored)
    if sum(f.counts.n_images == smallest for f in scored) > 1:
        return None  # equally rare classes: none is the rarest
    rarest = min(scored, key=lambda f: (f.counts.n_images, f.label))
    top = max(scored, key=lambda f: (f.mean.estimate, f.label))
    comparison = RarestAgainstTop(
        label_rarest=rarest.label,
        n_rarest=rarest.counts.n_images,
        mean_rarest=rarest.mean.estimate,
        label_top=top.label,
        n_top=top.counts.n_images,
        mean_top=top.mean.estimate,
    )
    largest = max(f.counts.n_images for f in scored)
    frequent = [f for f in scored if f.counts.n_images == largest]
    if len(frequent) == 1:  # of equally frequent ones none is the most frequent; it is never the rarest
        interval = unpaired_difference(these_groups_interval(rarest.table), these_groups_interval(frequent[0].table))
        comparison = replace(
            comparison,
            label_most_frequent=frequent[0].label,
            n_most_frequent=largest,
            mean_most_frequent=frequent[0].mean.estimate,
            difference_most_frequent=interval.estimate,
            low_most_frequent=interval.low,
            high_most_frequent=interval.high,
        )
    if rarest is top:
        return comparison
    interval = unpaired_difference(these_groups_interval(top.table), these_groups_interval(rarest.table))
    return replace(comparison, difference=interval.estimate, low=interval.low, high=interval.high)


def form_words(evidence: Evidence, context: Context) -> str:
    """Say in one sentence which form of METHODS ran."""
    s = len(evidence.seeds)
    if context.design == "paper":
        form = "the published form" if context.protocol == "paper" else "the published design with repaired statistics"
        return f"{form}: a candidate on T + C and an independent on T, {plural(s, 'seed', 'seeds')}"
    kind = "every image outside the test part is a canary" if context.design == "balanced" else "T is shared"
    form = f"design {context.design} ({kind}): {plural(s, 'twin pair', 'twin pairs')}, {2 * s} models"
    return f"the corrected form, {form}" if context.loss_scale.of_answers else form


def _headline_aucs(attacks: pd.DataFrame) -> dict[str, HeadlineAuc]:
    rows = pd.DataFrame(attacks[attacks["label"] == ALL]).to_dict("records")
    return {
        str(row["attack"]): HeadlineAuc(auc=row["auc"], low=row["low"], high=row["high"], control=bool(row["control"]))
        for row in rows
    }

"""Answer one person's question: what does a finished classifier audit say of this patient (METHODS section 8)?

A consent is withdrawn, or a person asks what a model holds of them. The answer is read from the tables of a finished
run, without training: M over the trainings, p, rank, what would have been noticed of such a patient, and each image's
losses by all models. With the released file its losses of these images are compared with those of the audited models
that never saw them.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import SCORES, WHOLE, Evidence, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.pages.strips import read_strips
from memorisk.audits.classifier.patient_answer import ClassAnswer, PatientAnswer, TargetAnswer
from memorisk.audits.classifier.result import ClassifierSummary, ClassifierVerdict
from memorisk.audits.classifier.tables.subgroups import PATIENTS
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import load_result
from memorisk.images.identity import look_alikes_across
from memorisk.report.columns import column_numbers, column_texts, largest_first, rows
from memorisk.report.kinds import kind_of, named_kind
from memorisk.report.options import PseudonymOptions
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import read_config
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.memorization import group_table
from memorisk.statistics.intervals.means import these_groups_interval
from memorisk.statistics.verdicts.noticeable_gap import EVERY, stratum_of
from memorisk.statistics.verdicts.reasons import Bearing

_LAST_NUMBER = re.compile(r"\D\d+$")


def audit_patient(
    run: str | Path,
    patient: str,
    *,
    target: str | Path | None = None,
    images: str | Path | None = None,
    device: str = "auto",
    pseudonym_key: str | Path | None = None,
    progress: Progress = no_progress,
) -> PatientAnswer:
    """Read what a finished classifier audit says of one patient.

    Args:
        run: Run folder of `audit classifier`, `audit losses` or `audit generator`.
        patient: Id of the patient, or of one image where each image counts as a patient; of a pseudonymised run the
            pseudonym, or the id where the key is at hand.
        target: Released weights, whose losses on the patient's images are computed.
        images: Present place of the images; by default the place that the run names. They are needed with a target.
        device: Device that the target runs on.
        pseudonym_key: Key of a pseudonymised run; by default the user's own.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The folder holds no finished run of these kinds, the run has no such patient, or the target does not
            fit its network.

    Example:
        >>> answer = audit_patient("runs/demo", "patient-17")  # doctest: +SKIP
        >>> answer.flagged, answer.classes[0].p  # doctest: +SKIP
        (False, 0.41)
    """
    folder = Path(run)
    config = read_config(folder)
    result = load_result(folder)
    if not kind_of(result.verdict.get("audit")).of_twins:
        raise InputError(
            f"{one_line(folder)} was not made by audit classifier, audit losses or audit generator: only these score "
            "patients"
        )
    name = _name_in_run(result, str(patient), bool(config.get("pseudonymise")), pseudonym_key)
    answer = replace(_answer(folder, result, name), takes_target=named_kind(config) == "classifier")
    if target is None:
        return answer
    if not answer.takes_target:
        raise InputError(
            f"{one_line(folder)} was not made by audit classifier, whose networks alone a target is compared with: "
            "leave --target out"
        )
    return _with_target(answer, folder, Path(target), images, device, progress)


def _name_in_run(result: Result, patient: str, pseudonymised: bool, key: str | Path | None) -> str:
    """Return the name that the run has for a patient.

    Raises:
        InputError: It has none.
    """
    groups = set(result.per_image["group"].astype(str))
    if patient in groups:
        return patient
    if pseudonymised:
        path = None if key is None else Path(key)
        options = PseudonymOptions(pseudonymise=True, pseudonym_key=path)
        name = str(Pseudonyms.from_options(options).names([patient])[0])
        if name in groups:
            return name
        raise InputError(
            f"no patient of the run has the pseudonym of {one_line(patient, 60)!r} under this key: name the key that "
            "the run was made with (--pseudonym-key), or check the id"
        )
    near = nearest_ids(patient, groups)
    hint = f" Did you mean {' or '.join(repr(one_line(name, 60)) for name in near)}?" if near else ""
    raise InputError(
        f"the run has no patient {one_line(patient, 60)!r} among its {len(groups):,}: ids are those of the column "
        f"group in per_image.parquet, as texts without blanks around them.{hint}"
    )


def nearest_ids(patient: str, groups: set[str]) -> list[str]:
    """Return the ids that the user may mean, three at most: those that differ by their form, or that end in the number.

    Another number is another person, however alike it is spelt, as ``0317`` and ``17``: it is never suggested.

    Args:
        patient: Id from the user, which the run does not have.
        groups: Ids of the run.
    """
    alike = [name for names in look_alikes_across({patient}, groups) for name in names if name in groups]
    if not alike and patient.isdecimal():
        number = re.compile(rf"\D0*{patient.lstrip('0') or '0'}")
        alike = [name for name in sorted(groups) if (end := _LAST_NUMBER.search(name)) and number.fullmatch(end[0])]
    if not alike and not any(character.isdecimal() for character in patient):
        alike = difflib.get_close_matches(patient, sorted(groups), n=1, cutoff=0.6)
    return alike[:3]


def _answer(folder: Path, result: Result, name: str) -> PatientAnswer:
    """Collect what the tables hold of a patient."""
    images = largest_first(_of(result.per_image, "group", name), "M")
    own = _of(result.per_group, "group", name)
    table = result.tables.get(PATIENTS, pd.DataFrame())
    of_patient = _of(table, "group", name) if len(table) else table
    auc = next(iter(of_patient.to_dict("records")), {})
    summary = ClassifierSummary.read(result.summary)
    scale = summary.units.loss_scale
    evidence = evidence_from_table(read_scores(folder / SCORES), scale) if len(own) else None
    return PatientAnswer(
        patient=name,
        parts=tuple(dict.fromkeys(images["split"].astype(str))),
        classes=tuple(_class_answer(result, row, evidence, name) for row in own.to_dict("records")),
        images=images,
        strips=dict(read_strips(folder, list(dict.fromkeys(images["image"].astype(str))), scale)),
        auc=float(auc.get("auc", nan)),
        auc_low=float(auc.get("auc_low", nan)),
        auc_high=float(auc.get("auc_high", nan)),
        auc_p=float(auc.get("auc_p", nan)),
        summary=summary,
        notice=ClassifierVerdict.read(result.verdict).rule.notice or scale.notice,
        doubts=tuple(
            str(reason["text"])
            for reason in result.reasons
            if reason["bears_on"] == Bearing.DOUBT and reason.get("label", "") in ("", *own["label"].astype(str))
        ),
    )


def _of(table: pd.DataFrame, column: str, name: str) -> pd.DataFrame:
    """Return the rows of a table that have this text in a column."""
    return rows(table, [text == name for text in column_texts(table, column)])


def _class_answer(result: Result, row: Mapping[Any, Any], evidence: Evidence | None, name: str) -> ClassAnswer:
    """Collect what the tables hold of a patient in one class."""
    assert evidence is not None
    label = str(row["label"])
    of_class = _of(result.per_group, "label", label)
    facts = _of(result.per_class, "label", label).to_dict("records")[0]
    items = evidence.items
    keep = (items.group.astype(str) == name) & (items.label == label)
    table = group_table(evidence.gap[:, keep], evidence.sign[:, keep], np.array([name] * int(keep.sum())))
    p = float(row["p_value"])
    stratum = f"noticeable_gap_{stratum_of(int(row['n_images']))}"
    gap = facts.get(stratum, nan)
    return ClassAnswer(
        label=label,
        n_images=int(row["n_images"]),
        m=these_groups_interval(table.values),
        largest=float(row["M"]),
        p=p,
        flagged=bool(row["flagged"]),
        why_not=str(facts["why_not"] or ""),
        place=1 + int((column_numbers(of_class, "p_value") < p).sum()),
        n_patients=len(of_class),
        noticeable=float(facts[f"noticeable_gap_{EVERY}"] if pd.isna(gap) else gap),
    )


def _with_target(
    answer: PatientAnswer, folder: Path, target: Path, images: str | Path | None, device: str, progress: Progress
) -> PatientAnswer:
    """Compute the file's losses on the patient's images, and compare them with those of models that never saw them."""
    # Networks are loaded only here; without a target the answer needs none.
    from memorisk.audits.classifier.finished_run import open_finished
    from memorisk.audits.classifier.target.attacks import target_losses

    finished = open_finished(folder, images=images, device=device, progress=progress)
    options = replace(finished.options, target=target)
    progress("computing the losses of the target", 0, 0)
    loss = target_losses(finished.store, finished.plan, finished.recipe(), options)["loss"]
    loss = loss[finished.plan.items.label != WHOLE]
    evidence = finished.evidence
    keep = evidence.items.group.astype(str) == answer.patient
    place = pd.MultiIndex.from_arrays([finished.item_row, evidence.items.label])
    plan_items = finished.plan.items
    single = plan_items.label != WHOLE
    order = pd.MultiIndex.from_arrays([finished.plan.item_row[single], plan_items.label[single]]).get_indexer(place)
    own = loss[order][keep]
    member = np.concatenate([evidence.member_a, evidence.member_b])[:, keep].any(axis=1)
    losses = np.concatenate([evidence.loss_a, evidence.loss_b])[:, keep].mean(axis=1)
    unseen = losses[~member]
    images_ = answer.images.copy()
    by_item = dict(zip(zip(evidence.items.image[keep], evidence.items.label[keep], strict=True), own, strict=True))
    keys = zip(images_["image"], images_["label"], strict=True)
    images_["target_loss"] = [float(by_item.get(key, nan)) for key in keys]
    return replace(
        answer,
        images=images_,
        target=TargetAnswer(
            file=target.name,
            loss=float(own.mean()),
            unseen=float(unseen.mean()) if len(unseen) else nan,
            n_models=len(unseen),
            n_lower=int((unseen <= own.mean()).sum()),
        ),
    )

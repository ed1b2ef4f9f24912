"""Answer one person's question: what does a finished classifier audit say of this patient (METHODS section 8)?

A consent is withdrawn, or a person asks what a model holds of them. The answer is read from the tables of a finished
run, without training: M over the trainings, p, rank, what would have been noticed of such a patient, and each image's
losses by all models. With the released file its losses of these images are compared with those of the audited models
that never saw them.
"""

from dataclasses import asdict, dataclass, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import SCORES, WHOLE, Evidence, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.pages.strips import Strip, read_strips
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.classifier.tables.subgroups import PATIENTS
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import load_result, refuse_no_file, render
from memorisk.report.kinds import named_kind
from memorisk.report.options import PseudonymOptions
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import json_value, write_text
from memorisk.runs.folder import read_config
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.memorization import group_table
from memorisk.statistics.intervals import Interval, these_groups_interval
from memorisk.statistics.verdicts.levels import PATIENT_LEVEL
from memorisk.statistics.verdicts.noticeable_gap import EVERY, stratum_of

PAGE = "memorisk.audits.classifier.pages.patient:patient_page"
"""Place of the page."""


@dataclass(frozen=True)
class ClassAnswer:
    """What the audit says of a patient in one class."""

    label: str
    n_images: int
    m: Interval
    """Mean M of the patient's images, with its interval over trainings, in nats."""
    largest: float
    """Largest M of an image, which the list of patients rests on, in nats."""
    p: float
    """p of the patient; NaN where the class was not tested."""
    flagged: bool
    why_not: str
    """Reason why the class was not tested; empty where it was."""
    place: int
    """Place by p among the scored patients of the class, from 1."""
    n_patients: int
    noticeable: float
    """Gap in nats from which on such a patient is noticed in four of five cases; NaN or infinite where none is."""


@dataclass(frozen=True)
class TargetAnswer:
    """Losses of the released file on the patient's images, beside those of models that never saw them."""

    file: str
    loss: float
    """Mean loss of the file on these images, in nats."""
    unseen: float
    """Mean loss of the audited models that never saw them, in nats."""
    n_models: int
    """Number of these models."""
    n_lower: int
    """Number of these models with a loss that is at most the file's."""

    @property
    def p(self) -> float:
        """Share of models that never saw the patient, the file among them, with a loss of at most the file's."""
        return (1 + self.n_lower) / (1 + self.n_models)


@dataclass(frozen=True, eq=False)
class PatientAnswer:
    """Everything that a finished run says of one patient."""

    patient: str
    """Id as the run has it."""
    parts: tuple[str, ...]
    """Parts of the images: canary, test, train."""
    classes: tuple[ClassAnswer, ...]
    images: pd.DataFrame
    """Rows of `per_image`, the largest M first; with the file's ``target_loss`` where it was asked."""
    strips: dict[tuple[str, str], Strip]
    """Losses of each image, by class and image."""
    auc: float
    """Attack AUC of this patient over the models; NaN where there is none."""
    auc_low: float
    auc_high: float
    auc_p: float
    summary: ClassifierSummary
    target: TargetAnswer | None = None

    @property
    def scored(self) -> bool:
        """Return whether some models saw the patient and others did not."""
        return bool(self.classes)

    @property
    def flagged(self) -> bool:
        """Return whether the audit flags the patient in any class."""
        return any(of_class.flagged for of_class in self.classes)

    @property
    def p(self) -> float:
        """Return the smallest p over the patient's classes, times their number; NaN where none was tested."""
        tested = [of_class.p for of_class in self.classes if not np.isnan(of_class.p)]
        return min(1.0, len(tested) * min(tested)) if tested else nan

    @property
    def shows_signs(self) -> bool:
        """Return whether the patient, who was not chosen for a large difference, shows one that chance hardly gives."""
        return self.flagged or self.p <= PATIENT_LEVEL

    @property
    def noticeable(self) -> float:
        """Return the gap from which on such a patient is noticed in every class, in nats; infinite where none is."""
        gaps = [of_class.noticeable for of_class in self.classes]
        return max(gaps) if gaps and np.isfinite(gaps).all() else inf

    @property
    def tested(self) -> bool:
        """Return whether the patient could have been flagged in every class."""
        return self.scored and not any(of_class.why_not for of_class in self.classes)

    def as_json(self) -> dict[str, Any]:
        """Return the numbers in JSON's own types."""
        numbers = {
            name: getattr(self, name) for name in ("patient", "parts", "flagged", "tested", "p", "auc", "auc_low")
        }
        numbers |= {"auc_high": self.auc_high, "auc_p": self.auc_p, "images": self.images.to_dict("records")}
        numbers |= {"classes": [asdict(of) for of in self.classes]}
        numbers |= {"target": None if self.target is None else {**asdict(self.target), "p": self.target.p}}
        return json_value(numbers)

    def save(self, path: Path) -> Path:
        """Write the page.

        Raises:
            InputError: The path is a folder, or lies in none.
        """
        refuse_no_file(path)
        write_text(path, render(PAGE, self))
        return path


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
        run: Run folder of `audit classifier` or `audit losses`.
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
    if result.verdict.get("audit") != "classifier":
        raise InputError(f"{one_line(folder)} is no run of audit classifier or audit losses: only these score patients")
    name = _name_in_run(result, str(patient), bool(config.get("pseudonymise")), pseudonym_key)
    answer = _answer(folder, result, name)
    if target is None:
        return answer
    if named_kind(config) != "classifier":
        raise InputError(f"{one_line(folder)} rests on a table of losses, without images that a target could answer")
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
    raise InputError(
        f"the run has no patient {one_line(patient, 60)!r} among its {len(groups):,}: ids are those of the column "
        "group in per_image.parquet, as texts without blanks around them"
    )


def _answer(folder: Path, result: Result, name: str) -> PatientAnswer:
    """Collect what the tables hold of a patient."""
    images = result.per_image[result.per_image["group"].astype(str) == name]
    images = images.sort_values("M", ascending=False, kind="stable", na_position="last").reset_index(drop=True)
    own = result.per_group[result.per_group["group"].astype(str) == name]
    table = result.tables.get(PATIENTS, pd.DataFrame())
    of_patient = table[table["group"].astype(str) == name] if len(table) else table
    auc = of_patient.iloc[0] if len(of_patient) else {}
    evidence = evidence_from_table(read_scores(folder / SCORES)) if len(own) else None
    return PatientAnswer(
        patient=name,
        parts=tuple(dict.fromkeys(images["split"].astype(str))),
        classes=tuple(_class_answer(result, row, evidence, name) for _, row in own.iterrows()),
        images=images,
        strips=dict(read_strips(folder, list(dict.fromkeys(images["image"].astype(str))))),
        **{field: float(auc.get(field, nan)) for field in ("auc", "auc_low", "auc_high", "auc_p")},
        summary=ClassifierSummary.read(result.summary),
    )


def _class_answer(result: Result, row: pd.Series, evidence: Evidence | None, name: str) -> ClassAnswer:
    """Collect what the tables hold of a patient in one class."""
    assert evidence is not None
    label = str(row["label"])
    of_class = result.per_group[result.per_group["label"] == label]
    facts = result.per_class.set_index("label").loc[label]
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
        place=1 + int((of_class["p_value"] < p).sum()),
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

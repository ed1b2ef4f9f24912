"""Audit models that were trained elsewhere, in any framework, from their per-image losses (``memorisk audit losses``).

The file is a score table (``audits.classifier.evidence`` has its schema; docs/losses.md an example), as Parquet or CSV.
In place of the column ``loss`` it may hold logits, one column ``logit:CLASS`` a class, from which loss, margin and
correctness are computed. Losses of generators: `audits.classifier.denoising_losses`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.denoising_losses import LEVEL, TRIVIAL, denoising_evidence
from memorisk.audits.classifier.evidence import SCORES, WHOLE, Context, Evidence, evidence_from_table, write_scores
from memorisk.audits.classifier.marks import Marks, keep_marks, marks_to_keep
from memorisk.audits.classifier.options import LossesOptions
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import write_report
from memorisk.audits.runner import Audit, run_audit
from memorisk.audits.subgroups import Subgroups, subgroups
from memorisk.images.columns import read_csv, texts
from memorisk.images.identity import IdDoubt, id_doubts, normal_id, refuse_placeholders
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import file_fingerprint, read_table
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.memorization import cross_entropy, logit_margin
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale

LOGIT = "logit:"
_LEAST_AGREEMENT = 0.5
"""Least rank correlation of margins with losses; it is 1 where both are of one view, and near 0 by chance."""
_OF_MODELS = ("split", "seed", "role", "member", "loss", "margin", "correct", "p_true", LEVEL, TRIVIAL)
"""Columns that say nothing of a patient."""


@takes_settings(LossesOptions)
def audit_losses(file: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any) -> Result:
    """Run everything after training on a table of losses.

    Args:
        file: Parquet or CSV with a row per image and model.
        out: The run folder.
        progress: Called with (stage, done, total).
        **settings: Any field of ``LossesOptions``.

    Returns:
        The result, saved in ``out``.

    Raises:
        InputError: The table or a setting is not as it must be; nothing was written.
    """
    options = settings_of(LossesOptions, settings)
    return run_audit(LossesAudit(Path(out), options, {"file": str(file)}, {}), progress)


@dataclass(frozen=True, eq=False)
class _JudgedLosses:
    """Losses, with the result that they give."""

    evidence: Evidence
    fingerprint: str
    result: Result
    marks: Marks


class LossesAudit(Audit[_JudgedLosses, _JudgedLosses, Result]):
    """Audit of models that were trained elsewhere."""

    kind = "losses"
    options: LossesOptions

    def read(self, names: Pseudonyms, progress: Progress) -> _JudgedLosses:
        """Read the table and judge it, since the analysis refuses what a table hides."""
        options, path = self.options, Path(self.given["file"])
        marks = marks_to_keep(self.out, options.review)
        table = with_normal_ids(read_scores(path))
        utility, notes = None, []
        if options.loss_scale.of_answers:
            table = with_losses(table)
            evidence = evidence_from_table(table)
            refuse_contradicted(evidence)
        else:
            evidence, utility, n_levels = denoising_evidence(table)
            notes = [_joined_note(n_levels)]
        refuse_placeholders(_named_groups(evidence).tolist(), "")
        check_models_differ(evidence, options.loss_scale)
        progress("computing numbers", 0, 1)
        doubts, fingerprint = loss_id_doubts(evidence), file_fingerprint(path)
        alone = evidence.items.group.astype(str) == evidence.items.image.astype(str)
        context = Context(
            design=evidence.design,
            random_split=options.random_split,
            dataset=names.source(path.stem),
            data_hash=fingerprint,
            versions=versions(),
            pseudonymised=options.pseudonymise,
            id_doubts=doubts,
            groups_given=not alone.all(),
            n_without_group=0 if alone.all() else int(alone.sum()),
            notes=[*_notes(evidence, doubts, hides_ids=options.redact or options.pseudonymise), *notes],
            columns=_columns(table, options.by),
            scale=options.loss_scale.name,
            utility=utility,
        )
        result = analyse(evidence, options, context)
        progress("computing numbers", 1, 1)
        return _JudgedLosses(evidence, fingerprint, result, marks)

    def identity(self, evidence: _JudgedLosses) -> dict[str, Any]:
        """Return the table."""
        return {"scores": evidence.fingerprint, "pseudonymise": self.options.pseudonymise}

    def write(self, run: RunFolder, evidence: _JudgedLosses, names: Pseudonyms, progress: Progress) -> Result:
        """Write the table, the result and the page."""
        result = names.result(evidence.result)
        write_scores(run / SCORES, names.evidence(evidence.evidence), self.options.loss_scale)
        result.save(run.path, beside=(SCORES,))
        keep_marks(run.path, evidence.marks, result.per_group, names)
        write_report(run, result, pictures=None, redact=self.options.redact)
        return result


def refuse_contradicted(evidence: Evidence) -> None:
    """Refuse margins and answers that contradict the losses, as exchanged, inverted or misplaced columns do.

    A margin falls where the loss rises, so that their ranks agree; the mean margin of several views of an image follows
    loosely. An answer whose probability is above 1/2 is the one that is given, unless a threshold is another.

    Args:
        evidence: Table of losses of a classifier.

    Raises:
        InputError: Margins hardly follow the losses, or most answers of a probability above 1/2 are wrong.
    """
    from scipy.stats import rankdata  # a bad table is refused before it is imported

    single = evidence.items.label != WHOLE
    loss, margin, correct = (
        np.concatenate([getattr(evidence, f"{name}_{half}")[:, single].ravel() for half in "ab"])
        for name in ("loss", "margin", "correct")
    )
    ranks = [rankdata(-loss), rankdata(margin)]
    if all(len(np.unique(of)) > 1 for of in ranks) and np.corrcoef(*ranks)[0, 1] < _LEAST_AGREEMENT:
        raise InputError(
            "column margin contradicts column loss: log p - log(1 - p) of the true label falls where -log p rises; are "
            "columns exchanged or inverted, or rows misplaced? Without the column margins are computed"
        )
    likely = correct[loss < np.log(2)]
    if 2 * np.count_nonzero(likely) < len(likely):
        raise InputError(
            "column correct contradicts column loss: it is false for most answers whose probability is above 1/2; is "
            "it inverted? Without the column it is computed"
        )


def _columns(table: pd.DataFrame, by: tuple[str, ...]) -> tuple[Subgroups, ...]:
    """Read the levels of patients from the rows of the first model that names them, one row per image."""
    images = table.drop_duplicates([name for name in ("image", "label") if name in table])
    patients = images["group"] if "group" in images else images["image"]
    others = images.drop(columns=[name for name in images if name in _OF_MODELS or _is_logit(name)])
    return subgroups(others, patients.where(patients.notna(), images["image"]).tolist(), by)


def with_normal_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Give ids, labels and names of classes the one form that they have in every source; empty groups are none."""
    table = table.rename(columns=lambda name: LOGIT + normal_id(name[len(LOGIT) :]) if _is_logit(name) else name)
    for column in ("image", "label", "group", "split", "role"):
        if column in table.columns:
            codes, values = pd.factorize(table[column], use_na_sentinel=False)
            forms = [normal_id(value) for value in texts(values)]
            table[column] = np.array([form or None for form in forms], dtype=object)[codes]
    return table


def _is_logit(column: object) -> bool:
    return str(column).startswith(LOGIT)


def _named_groups(evidence: Evidence) -> np.ndarray:
    """Return the ids of patients, [G], one per item of theirs; an image under its own name has none."""
    items = evidence.items
    return items.group[items.group != items.image]


def loss_id_doubts(evidence: Evidence) -> list[IdDoubt]:
    """Find doubts about who is who; look-alikes within the test part, or the training part, do no harm."""
    items = evidence.items
    parts: dict[str, set[str]] = {}
    for group, part in zip(items.group.tolist(), items.split.tolist(), strict=True):
        parts.setdefault(group, set()).add(part)

    def mixes(names: tuple[str, ...]) -> bool:
        """Return whether these ids, if they are of one person, spoil a comparison."""
        return set().union(*(parts[name] for name in names)) not in ({"test"}, {"train"})

    return id_doubts(_named_groups(evidence).tolist(), mixes)


def check_models_differ(evidence: Evidence, scale: LossScale = CROSS_ENTROPY) -> None:
    """Refuse tables in which a model occurs twice, gives every image one loss, or has errors in place of losses.

    No gap could be noticed in them, and what is read off errors is in no unit that the verdict knows.

    Args:
        evidence: The losses of all models.
        scale: Scale of the losses.

    Raises:
        InputError: Two models have the same loss for every image, or a model has one loss for all, or only 0 and 1.
    """
    by_losses: dict[bytes, str] = {}
    roles = ("the candidate", "the independent model") if evidence.design == "paper" else ("model A", "model B")
    for role, losses in zip(roles, (evidence.loss_a, evidence.loss_b), strict=True):
        for seed, loss in zip(evidence.seeds, losses, strict=True):
            name = f"{role} of seed {seed}"
            if len(loss) > 1 and np.ptp(loss) == 0:
                raise InputError(
                    f"{name} has the loss {loss[0]:g} for each of the {len(loss):,} images: give losses, not a constant"
                )
            if scale.of_answers and len(loss) > 1 and np.isin(loss, (0, 1)).all():
                raise InputError(
                    f"column loss holds nothing but 0 and 1 for {name}, as errors do: give the loss of each image, the "
                    "cross-entropy of the true label in nats, or logits in columns logit:CLASS (docs/losses.md)"
                )
            other = by_losses.setdefault(loss.tobytes(), name)
            if len(loss) > 1 and other != name:
                raise InputError(
                    f"{other} and {name} have the same loss for each of the {len(loss):,} images: score every model by "
                    "its own weights"
                )


def _notes(evidence: Evidence, doubts: list[IdDoubt], *, hides_ids: bool) -> list[str]:
    """Return what the report must say of models that it never saw, and which ids are in doubt."""
    notes = ["The models were trained elsewhere; the design is read from the table's rows."]
    notes += [] if hides_ids else [doubt.words for doubt in doubts]
    if not (evidence.items.split == "train").any():
        notes.append(
            "The table lists no image that all models saw. If there were such images, they are missing from the counts "
            "of images, from the classes' shares and from the number of images a model was trained on."
        )
    return notes


def _joined_note(n_levels: int) -> str:
    """Say in which unit a generator's losses are."""
    levels = ""
    if n_levels > 1:
        levels = (
            f"The losses of {n_levels} noise levels are joined: a level counts the more, the less two models differ "
            "there on test images. "
        )
    return f"{levels}Losses are in standard deviations of what two models differ by on test images (SD)."


def read_scores(path: Path) -> pd.DataFrame:
    """Read a table by its content: Parquet, else CSV.

    Raises:
        InputError: The file is absent or neither.
    """
    if not path.is_file():
        raise InputError(f"{one_line(path)} is not a file: name a Parquet or CSV table of losses (docs/losses.md)")
    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1"
        return read_table(path) if is_parquet else _read_csv(path)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{one_line(path)} is neither Parquet nor CSV: {one_line(error, 120)}") from None


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV in which ids and names stay text: "007" is not 7, and a class may be named "NA" or "None"."""
    text: Any = dict.fromkeys(("image", "label", "group", "split", "role"), str)
    table = read_csv(path, types=text)
    if "group" in table.columns:  # a row without a group is its own
        table["group"] = table["group"].astype(object).where(table["group"] != "", None)
    return table


def with_losses(table: pd.DataFrame) -> pd.DataFrame:
    """Compute loss, margin and correctness where the table gives logits, [rows, classes]."""
    columns = [c for c in table.columns if str(c).startswith(LOGIT)]
    if not columns or "loss" in table.columns:
        return table
    classes = [str(c)[len(LOGIT) :] for c in columns]
    if "label" not in table.columns:
        raise InputError("the score table has logits and no column label")
    if len(classes) < 2:
        raise InputError(f"the score table has logits of one class ({one_line(classes[0], 60)}): two are needed")
    number = {c: i for i, c in enumerate(classes)}
    label = table["label"].astype(str)
    for name in label.unique():
        if name not in number:
            raise unknown_name("label without a logit column", name, classes)
    target = np.array([number[name] for name in label], dtype=np.int64)
    logits = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(logits).all():
        row = table.iloc[int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])]
        raise InputError(
            f"a logit of image {one_line(row.get('image'), 60)!r} is not a finite number: find the model that diverged"
        )
    return table.assign(
        loss=cross_entropy(logits, target),
        margin=logit_margin(logits, target),
        correct=logits.argmax(axis=1) == target,
    )

"""Descriptions in a statement of runs about sets of generated images: audit, filter, loop, and figures of quality.

Figures of quality say nothing of privacy.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memorisk.audits.comparison.plants import counted, mostly_missed
from memorisk.audits.comparison.review_files import undismissed
from memorisk.audits.filter.result import FilterNumbers, FinalAudit, Promise
from memorisk.audits.quality.result import QualityNumbers
from memorisk.audits.release.integrity import FinishedAudit, open_finished_audit
from memorisk.audits.release.model_descriptions import (
    NO_PATIENTS,
    OF_IMAGES,
    ONE_IMAGE,
    SEEDED,
    count_or_none,
    drop_column_notes,
    settings_of_run,
    stated,
    texts_under,
)
from memorisk.audits.synthesize.result import LoopNumbers
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.result import SyntheticNumbers, SyntheticSettings
from memorisk.audits.synthetic.wording import LARGEST_BOUND
from memorisk.audits.watch.reasons import AUDIT_IT
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.report.columns import capitalized, column_texts
from memorisk.report.numbers import from_json
from memorisk.report.quantities import stated_figures
from memorisk.report.statements.statement import (
    NOT_ASKED,
    PASS,
    AuditStatement,
    Figure,
    Method,
    Part,
    Subject,
)
from memorisk.report.verdict_forms import verdict_form
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.files import read_table
from memorisk.statistics.copies.planted_copies import BOUND_LEVEL
from memorisk.statistics.verdicts.check_reasons import check_reasons
from memorisk.statistics.verdicts.levels import VERDICT_LEVEL
from memorisk.statistics.verdicts.reasons import LIMIT, Reason, Words

_SETTINGS = ("seed", "size", "resize", "depth", "channels")
_UNAUDITED = "The run ended without an audit of what it kept, and a promise about families of copies is none."
_VOLUMES = (
    "Voxels outside three middle slices of each volume were compared only for equality and in pairs of the second look."
)
_NOTHING_PLANTED = "No copies were planted: what would have been found is not known."
_WEAK = (
    "Images were compared point by point alone, which misses copies that are cropped or turned, or mirrored and "
    "changed."
)


def describe_synthetic(run: FinishedAudit) -> AuditStatement:
    """Describe the audit of a set.

    Args:
        run: Finished run of the kind ``synthetic``.

    Raises:
        InputError: It passed by a smaller probability to notice a copy than a statement is about.
    """
    v, n = run.verdict, from_json(SyntheticNumbers, run.summary["numbers"])
    recall = from_json(SyntheticSettings, run.summary["settings"]).recall
    if v["status"] == PASS and recall < SyntheticOptions.recall:
        raise InputError(
            f"{one_line(run.folder)} passed with --recall {recall:g}, looser than {SyntheticOptions.recall:g}: issue "
            "the run's command again without --recall"
        )
    reading, sets, held, compared = n.reading, n.sets, n.sets.held, n.comparison
    units, of_volumes = _units(reading.patients_known, reading.patients_by_word), run.config.get("frames") == "volume"
    return AuditStatement(
        kind="synthetic",
        question="Does the set of generated images copy anybody?",
        status=str(v["status"]),
        gate=str(v["gate"]),
        reasons=stated(v["reasons"]),
        what_would_decide=texts_under(v, "what_would_decide"),
        subject=Subject(what="images"),
        data=_parts(
            ("training", n.data_hash.training, sets.n_train_images, sets.n_train_patients),
            ("generated", n.data_hash.synthetic, sets.n_synthetic_images, None),
            ("held out", n.data_hash.held_out, held and held.n_held_images, held and held.n_held_patients),
        ),
        units=units,
        n_units=sets.n_train_patients,
        n_models=None,
        level=VERDICT_LEVEL,
        correction=f"false discovery rate over all training {units} (Benjamini-Hochberg)"
        + (f", shared by {compared.n_detectors} detectors" if compared.n_detectors > 1 else ""),
        figures=(*_synthetic_figures(n, units), *_to_leave_out(run, units)),
        kinds_not_tried=_kinds_not_tried(n),
        not_examined=(
            *([sets.other_parts_note] if sets.other_parts else []),
            *([_VOLUMES] if of_volumes else []),
            *([] if n.comparison.n_plants else [_NOTHING_PLANTED]),
            *_without_second_look(n),
            *_could_not_look(n),
            *_unread(
                (*_files_of("generated"), reading.n_synthetic_unread),
                (*_files_of("training"), reading.n_train_unread),
                (*_frames_of("generated"), reading.n_synthetic_frames_left),
                (*_frames_of("training"), reading.n_train_frames_left),
            ),
            *OF_IMAGES,
        ),
        assumptions=_assumptions(
            reading.patients_known,
            reading.patients_by_word,
            "Held-out images are a random part, by patient, of the data that the generator was trained on.",
        ),
        limits=(
            *drop_column_notes(n.notes),
            *([_WEAK] if compared.weak_features else []),
            f"A pass is about one copy of any of these kinds: {', '.join(n.power.plant_kinds)}; a generator's own "
            "copies may be of others.",
            *_kinds_missed(n),
        ),
        method=Method(
            name="Nearest generated image of each training patient, compared with those of held-out patients; planted "
            "copies",
            source="METHODS sections 5 and 6",
            page="synthetic.md",
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, (*_SETTINGS, *(["frames"] if of_volumes else []), "recall", "plants"))
        | {"features": compared.features, "measure": compared.measure, "verdict_form": verdict_form(v)},
        versions=dict(run.summary.get("versions") or {}),
        run_sha256=run.sha256,
    )


def _synthetic_figures(n: SyntheticNumbers, units: str) -> list[Figure]:
    figures = stated_figures(n, units=units)
    if n.power.copies_bound_share is not None and n.power.copies_bound_share < LARGEST_BOUND:
        figures.append(
            Figure(name="copies_at_most", title="Share of the set that is copies of planted kinds, at most",
                   high=n.power.copies_bound_share, confidence=BOUND_LEVEL,
                   n=n.sets.n_synthetic_images, unit="generated images")
        )  # fmt: skip
    if (unlike := n.unlike) is not None:
        figures.append(
            Figure(
                name="parts_alike",
                title=f"Nearest neighbours within the same real part, p two-sided (a random split: "
                f"{unlike.expected:.3f})",
                value=unlike.share, p_value=unlike.p_value, n=unlike.n_groups, unit=units,
            )
        )  # fmt: skip
    return figures


def _to_leave_out(run: FinishedAudit, units: str) -> list[Figure]:
    """Count the generated images of all pairs that were not dismissed, and the training patients that they point to."""
    remaining = undismissed(read_table(run.folder / "tables" / "review.parquet"))
    return [
        Figure(name="to_leave_out", title="Generated images of pairs that were not dismissed",
               value=len(set(column_texts(remaining, "synthetic_image")))),
        Figure(name="to_leave_out_people", title=f"Training {units} in these pairs",
               value=len(set(column_texts(remaining, "patient")))),
    ]  # fmt: skip


def describe_filter(run: FinishedAudit) -> AuditStatement:
    """Describe what a filter left.

    Args:
        run: Finished run of the kind ``filter``.
    """
    n = from_json(FilterNumbers, run.summary["numbers"])
    return _describe_screening(run, n, "Does the set that a filter kept copy anybody?", "filter.md", ())


def describe_loop(run: FinishedAudit) -> AuditStatement:
    """Describe what a loop of drawing and screening kept.

    Args:
        run: Finished run of the kind ``synthesize``.
    """
    n = from_json(LoopNumbers, run.summary["numbers"])
    question = "Does the set that was drawn, screened and drawn again copy anybody?"
    return _describe_screening(run, n.filter, question, "synthesize.md", _loop_figures(n))


def _describe_screening(
    run: FinishedAudit, n: FilterNumbers, question: str, page: str, figures: Sequence[Figure]
) -> AuditStatement:
    """Describe a run that keeps images: the audit of the kept set, and what was left out for it."""
    v, sets, promise = run.verdict, n.sets, n.promise
    units, unreadable = _units(n.patients_known, n.patients_by_word), sets.rejected.get("unreadable", 0)
    images = plural(unreadable, "generated image was unreadable", "generated images were unreadable")
    screening = AuditStatement(
        kind=run.kind,
        question=question,
        status=str(v["status"]),
        gate=str(v["gate"]),
        reasons=stated(v["reasons"]),
        what_would_decide=texts_under(v, "what_would_decide"),
        subject=Subject(what="images", why=_UNAUDITED),
        data=_parts(
            ("training", n.data_hash.training, sets.n_train_images, sets.n_train_patients),
            ("calibration", n.data_hash.calibration, n.calibration.n_calibration_images,
             n.calibration.n_calibration_patients),
        ),
        units=units,
        n_units=sets.n_train_patients,
        n_models=None,
        level=None,
        correction="none: nothing was audited",
        figures=(*_screening_figures(n, units), *figures),
        not_examined=(*_unpromised(promise), *((f"Images that were left out: {images}.",) if unreadable else ())),
        assumptions=_assumptions(
            n.patients_known,
            n.patients_by_word,
            "Calibration images are of new people, a random part of the same data, that no detector has seen.",
        ),
        limits=(*_promise_words(promise), *drop_column_notes(n.notes)),
        method=Method(
            name="Every image against the whole training set; an audit of those that were kept",
            source='"LCMem: A Universal Model for Robust Image Memorization Detection"; METHODS sections 4 to 6',
            page=page,
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, (*_SETTINGS, "miss_rate", "confidence", "most_tries"))
        | {
            "detectors": "; ".join(promise.detectors),
            "families": "; ".join(promise.families),
            "verdict_form": verdict_form(v),
        },
        versions=dict(run.summary.get("versions") or {}),
        run_sha256=run.sha256,
    )  # fmt: skip
    return _with_audit(screening, run, n.audited)


def _with_audit(screening: AuditStatement, run: FinishedAudit, audited: FinalAudit | None) -> AuditStatement:
    """Add what the audit of the kept set says.

    Raises:
        InputError: The run's audit is not there, or not the one with which it ended.
    """
    if audited is None or not audited.sha256:
        return screening
    with open_finished_audit(run.folder / audited.folder) as inner:
        audit = describe_synthetic(inner)
    if (inner.sha256, audit.status) != (audited.sha256, audited.status):
        raise InputError(
            f"{one_line(run.folder / audited.folder)} is not the audit with which {one_line(run.folder)} ended: issue "
            "the run's command again"
        )
    return replace(
        screening,
        subject=audit.subject,
        data=audit.data,
        units=audit.units,
        level=audit.level,
        correction=audit.correction,
        figures=(*screening.figures, *audit.figures),
        kinds_not_tried=audit.kinds_not_tried,
        not_examined=(*audit.not_examined, *screening.not_examined),
        assumptions=tuple(dict.fromkeys((*audit.assumptions, *screening.assumptions))),
        limits=tuple(dict.fromkeys((*audit.limits, *screening.limits))),
        settings={**audit.settings, **screening.settings},
    )


def _screening_figures(n: FilterNumbers, units: str) -> list[Figure]:
    figures = stated_figures(n, units=units)
    if n.promise.guarantee:
        figures.append(
            Figure(
                name="miss_rate",
                title="Copies of the named families that are missed, at most",
                high=n.promise.miss_rate,
                confidence=n.promise.confidence,
                n=n.calibration.n_calibration_patients,
                unit=units,
            )
        )
    return figures


def _loop_figures(n: LoopNumbers) -> list[Figure]:
    if (copies := n.bounded) is None:
        return []
    title = "Share of the kept set that is copies of the named families, at most"
    return [
        Figure(name="copies_left", title=title, high=copies.high, confidence=copies.level, n=copies.n_kept,
               unit="kept images")
    ]  # fmt: skip


def _units(patients_known: bool, by_word: bool) -> str:
    """Name what was counted: patients only where patient ids were given."""
    return "patients" if patients_known and not by_word else "images"


def _parts(*sets: tuple[str, str | None, int | None, int | None]) -> tuple[Part, ...]:
    """Return the sets of images that exist: name, fingerprint, images, patients."""
    return tuple(
        Part(part=name, fingerprint=fingerprint, images=images, units=patients)
        for name, fingerprint, images, patients in sets
        if fingerprint
    )


def _without_second_look(n: SyntheticNumbers) -> list[str]:
    """Say that the second look saw nothing, where it confirms no planted copy."""
    if n.aligned is None or not n.aligned.confirms_no_plant:
        return []
    return ["Whether a generated image lies on a training image: the second look confirms no copy that was hidden on "
            "purpose."]  # fmt: skip


def _could_not_look(n: SyntheticNumbers) -> list[str]:
    """Say which checks could not look."""
    return [f"{capitalized(one.plain)}." for one in check_reasons(n.checks, n.terms.names)]


def _kinds_not_tried(n: SyntheticNumbers) -> tuple[str, ...]:
    """List the kinds of copies that were not planted though others were."""
    tried = (*n.power.plant_kinds, *n.power.also_tried)
    return tuple(kind for kind in PLANT_KINDS if kind not in tried) if n.comparison.n_plants else ()


def _kinds_missed(n: SyntheticNumbers) -> list[str]:
    """Name the kinds of copies that were tried, are not required, and were mostly missed."""
    missed = [f"{kind} ({counted(of)} noticed)" for kind, of in mostly_missed(n.power.also_tried).items()]
    return [f"Copies of further kinds were tried, and these were mostly missed: {', '.join(missed)}."] if missed else []


def _promise_words(promise: Promise) -> list[str]:
    """Say what is promised of copies of the named families; nothing without a promise."""
    return [promise.guarantee] if promise.guarantee else []


def _unpromised(promise: Promise) -> list[str]:
    """Say which copies the filter may keep, whatever it promises of others."""
    if not promise.guarantee:
        return []
    return [f"The filter does not promise to leave out copies of these kinds: {', '.join(promise.not_promised)}."]


def _files_of(what: str) -> tuple[str, str]:
    return f"file or image of the {what} set", f"files or images of the {what} set"


def _frames_of(what: str) -> tuple[str, str]:
    return f"page, frame or slice of {what} files", f"pages, frames or slices of {what} files"


def _unread(*counted: tuple[str, str, int]) -> list[str]:
    """Say what was not read: its name for one, its name for more, and how many."""
    return [plural(n, f"{one} was not read.", f"{more} were not read.") for one, more, n in counted if n]


def _assumptions(patients_known: bool, by_word: bool, of_others: str) -> tuple[str, ...]:
    sentences = [of_others, "The training images given are all that the generator was trained on."]
    if not patients_known:
        sentences.append(NO_PATIENTS)
    if by_word:
        sentences.append(ONE_IMAGE)
    return (*sentences, SEEDED)


class NotPrivacy(Reason, code="quality-is-not-privacy", bears_on=LIMIT):
    """Figures of quality, which say nothing of privacy."""

    text = Words("figures of quality say nothing of privacy: a set of copies has the best there are")
    plain = Words("how good images are says nothing of privacy")
    remedy = Words(AUDIT_IT)


def describe_quality(run: FinishedAudit) -> AuditStatement:
    """Describe figures of quality, which say nothing of privacy: a set of copies has the best there are.

    Args:
        run: Finished run of the kind ``quality``.
    """
    n, settings = from_json(QualityNumbers, run.summary["numbers"]), run.config["run"]
    rows: list[dict[str, Any]] = list(run.summary["quality"])
    return AuditStatement(
        kind="quality",
        question="How good are the generated images?",
        status=NOT_ASKED,
        gate="never",
        reasons=stated([NotPrivacy()]),
        what_would_decide=(NotPrivacy().remedy,),
        subject=Subject(what="images", why="Figures of quality clear no set for release."),
        data=_parts(
            ("training", settings.get("training"), n.training_images, n.training_patients),
            ("generated", settings.get("synthetic"), n.synthetic_images, None),
            ("held out", settings.get("held_out"), n.held_out_images, n.held_out_patients),
        ),
        units="patients" if n.patients_given else "images",
        n_units=n.training_patients,
        n_models=None,
        level=None,
        correction="none: each figure by itself",
        figures=tuple(_quality_figures(rows)),
        not_examined=("Privacy: whether anybody is copied.",),
        assumptions=("Held-out images are a random part, by patient, of the same data.", SEEDED),
        limits=("Figures depend on the feature space and on the number of images: compare at the same number.",),
        method=Method(
            name="Figures of quality, compared with those of held-out real images",
            source="its page names the paper of each figure",
            page="quality.md",
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, ("size", "resize", "level")),
        versions={},
        run_sha256=run.sha256,
    )  # fmt: skip


def _quality_figures(rows: list[dict[str, Any]]) -> list[Figure]:
    figures, names = [], set()
    for number, row in enumerate(rows):
        base = f"quality/{str(row['figure']).lower().replace(' ', '_')}"
        name = base if base not in names else f"{base}_{number}"
        names.add(base)
        for suffix, column, whose in (("", "estimate", ""), ("_held_out", "reference", ", held-out real images")):
            low, high = ("low", "high") if column == "estimate" else ("reference_low", "reference_high")
            if row.get(column) is not None:
                n = row.get("n_real_patients") if column == "estimate" else row.get("n_reference_patients")
                figures.append(
                    Figure(
                        name=f"{name}{suffix}", title=f"{row['name']}{whose}", value=row[column], low=row.get(low),
                        high=row.get(high), confidence=row.get("level"), n=count_or_none(n), unit="patients",
                    )
                )  # fmt: skip
    return figures

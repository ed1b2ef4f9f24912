"""What the runs about sets of generated images say: the audit, the filter, the loop."""

from typing import Any

from memorisk.audits.release.finished import FinishedAudit
from memorisk.audits.release.wording import (
    NO_PATIENTS,
    OF_IMAGES,
    ONE_IMAGE,
    SEEDED,
    of_texts,
    rate,
    settings_of_run,
    whole,
    without_columns,
)
from memorisk.audits.synthetic.options import VERDICT_LEVEL, SyntheticOptions
from memorisk.report.earlier_rules import verdict_form
from memorisk.report.statements.statement import PASS, AuditStatement, Figure, Method, Part, Subject
from memorisk.runs.errors import InputError, one_line, several
from memorisk.statistics.copies.planted_copies import BOUND_LEVEL

_KINDS = ("exact", "noised", "jpeg", "flipped", "rotated", "cropped", "pasted")
_SETTINGS = ("seed", "size", "resize", "depth", "channels")
_WEAK = (
    "Images were compared point by point alone, which misses copies that are cropped or turned, or mirrored and "
    "changed."
)


def of_synthetic(run: FinishedAudit) -> AuditStatement:
    """The audit of a set.

    Args:
        run: Of that kind.

    Raises:
        InputError: It passed by a smaller probability to notice a copy than a statement is about.
    """
    v = run.verdict
    recall = run.summary["settings"]["recall"]
    if v["status"] == PASS and recall < SyntheticOptions.recall:
        raise InputError(
            f"{one_line(run.folder)} passed with --recall {recall:g}, looser than {SyntheticOptions.recall:g}: issue "
            "the run's command again without --recall"
        )
    units = _units(v)
    return AuditStatement(
        kind="synthetic",
        question="Does the set of generated images copy anybody?",
        status=str(v["status"]),
        gate=str(v["gate"]),
        why=of_texts(v, "why"),
        what_would_decide=of_texts(v, "what_would_decide"),
        subject=Subject(what="images"),
        data=_parts(v, ("training", "synthetic", "held_out")),
        units=units,
        n_units=whole(v["n_train_patients"]),
        n_models=None,
        level=v["level"] if verdict_form(v) == 1 else VERDICT_LEVEL,
        correction=_correction(v, f"false discovery rate over all training {units} (Benjamini-Hochberg)"),
        figures=tuple(_synthetic_figures(v, units)),
        not_examined=(*_kinds_not_tried(v), *_unread(v), *OF_IMAGES),
        assumptions=_assumptions(
            v, "Held-out images are a random part, by patient, of the data that the generator was trained on."
        ),
        limits=_limits(run, "A pass is about one copy of any planted kind; a generator's own copies may be of others."),
        method=Method(
            name="Nearest generated image of each training patient, beside those of held-out patients; planted copies",
            source="METHODS sections 5 and 6",
            page="synthetic.md",
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, (*_SETTINGS, "recall", "plants"))
        | {"features": str(v["features"]), "measure": str(v["measure"]), "verdict_form": verdict_form(v)},
        versions=dict(run.summary.get("versions") or {}),
        run_sha256=run.sha256,
    )


def _synthetic_figures(v: Any, units: str) -> list[Figure]:
    n, held = whole(v["n_train_patients"]), whole(v["n_held_patients"])
    found = [
        Figure(name="generated", title="Generated images", value=v["n_synthetic"]),
        Figure(name="held_out", title=f"Held-out {units}", value=held),
        Figure(
            name="listed", title=f"Training {units} listed as nearer to the set than chance explains",
            value=v.get("n_listed_at_verdict", v["n_listed"]), n=n, unit=units,
        ),
        Figure(name="singled_out", title="Generated images singled out", value=v.get("n_singled"),
               n=whole(v["n_synthetic"]), unit="generated images"),
        Figure(name="noticed_if_copied", title=f"Fewest copied {units} of whom one would surely have been noticed",
               value=v.get("fewest_copied")),
        Figure(
            name="shortest_list", title=f"Fewest {units} that could have been listed",
            value=v["shortest_list"], n=held, unit=f"held-out {units}",
        ),
        Figure(
            name="ahead", title=f"Training {units} nearer to the set than every held-out one", value=v["n_ahead"],
            p_value=v["p_ahead"], n=n, unit=units,
        ),
        Figure(
            name="nearly_identical", title=f"Training {units} with a nearly identical generated image",
            value=v["n_near_train"], p_value=v["near_p"], n=n, unit=units,
        ),
        Figure(name="same_pixels", title="Generated images with the pixels of a training image",
               value=v["n_certain_copies"]),
        Figure(name="confirmed", title="Pairs that a person confirmed as copies", value=v["n_confirmed"]),
        Figure(name="dismissed", title="Pairs that a person dismissed", value=v["n_dismissed"]),
    ]  # fmt: skip
    for kind, of_kind in (v["recall_by_kind"] or {}).items():
        found += rate(f"found/{kind}", f"Planted copies noticed: {kind}", of_kind, "source identities")
    if v["copies_bound"] is not None:
        found.append(
            Figure(name="copies_at_most", title="Share of the set that is copies of planted kinds, at most",
                   high=v["copies_bound"], confidence=BOUND_LEVEL, n=whole(v["n_synthetic"]), unit="generated images")
        )  # fmt: skip
    if (unlike := v["unlike"]) is not None:
        found.append(
            Figure(
                name="parts_alike",
                title=f"Nearest neighbours within the same real part, p two-sided (a random split: "
                f"{unlike['expected']:.3f})",
                value=unlike["share"], p_value=unlike["p_value"], n=whole(unlike["n_groups"]), unit=units,
            )
        )  # fmt: skip
    return found


def of_filter(run: FinishedAudit) -> AuditStatement:
    """What a filter left.

    Args:
        run: Of that kind.
    """
    return _screened(run, "Which images must be left out, and how many copies does that miss?", "filter.md")


def of_loop(run: FinishedAudit) -> AuditStatement:
    """What a loop of drawing and screening kept.

    Args:
        run: Of that kind.
    """
    return _screened(run, "Were enough images drawn of which none is taken for a copy?", "synthesize.md")


def _screened(run: FinishedAudit, question: str, page: str) -> AuditStatement:
    v, units = run.verdict, _units(run.verdict)
    return AuditStatement(
        kind=run.kind,
        question=question,
        status=str(v["status"]),
        gate=str(v["gate"]),
        why=(*of_texts(v, "why"), *([str(v["guarantee"])] if v.get("guarantee") else [])),
        what_would_decide=of_texts(v, "what_would_decide"),
        subject=Subject(what="images"),
        data=_parts(v, ("training", "synthetic", "calibration")),
        units=units,
        n_units=whole(v["n_calibration"]),
        n_models=None,
        level=v["miss_rate"] if v["threshold_by"] == "guarantee" else None,
        correction=_shared(v),
        figures=tuple(_screened_figures(run, units)),
        not_examined=(*_not_promised(v), *_unread(v), *OF_IMAGES),
        assumptions=_assumptions(
            v, "Calibration images are of new people, a random part of the same data, whom no detector has seen."
        ),
        limits=_limits(
            run,
            "The promise is about copies made as the families say; copies that a generator makes are another kind.",
            *([] if run.kind == "synthesize" else ["A filter tells nothing of copies that its detector cannot see."]),
        ),
        method=Method(
            name="Every image against the whole training set; a threshold with a promised miss rate",
            source='"LCMem: A Universal Model for Robust Image Memorization Detection"; METHODS section 4',
            page=page,
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, (*_SETTINGS, "miss_rate", "confidence", "most_tries"))
        | {
            "detectors": "; ".join(map(str, v["detectors"])),
            "families": "; ".join(map(str, v["families"])),
            "verdict_form": verdict_form(v),
        },
        versions=dict(run.summary.get("versions") or {}),
        run_sha256=run.sha256,
    )


def _screened_figures(run: FinishedAudit, units: str) -> list[Figure]:
    v = run.verdict
    found = [
        Figure(name="kept", title="Images kept", value=v["n_kept"]),
        Figure(name="rejected", title="Images rejected", value=v["n_rejected"]),
        Figure(name="exposed", title=f"Training {units} at whom rejected images point", value=v["n_exposed"],
               n=whole(v["n_train_patients"]), unit=units),
    ]  # fmt: skip
    if v["threshold_by"] == "guarantee":
        found.append(
            Figure(
                name="miss_rate", title="Copies of the named families that are missed, at most", high=v["miss_rate"],
                confidence=v["confidence"], n=whole(v["n_calibration"]), unit=units,
            )
        )  # fmt: skip
    found += rate("generated_rejected", "Generated images rejected", v["synthetic_rejected"], "generated images")
    found += rate("new_people_rejected", f"New {units} who would be rejected", v["real_rejected"], units)
    copies, audited = v.get("copies"), v.get("audited")
    if copies:
        found.append(
            Figure(name="copies_left", title="Share of the kept set that is copies of the named families, at most",
                   high=copies["high"], confidence=copies["level"], n=whole(copies["n_kept"]), unit="kept images")
        )  # fmt: skip
    if audited:
        nearer = audited["nearer"]
        found += [
            Figure(name="auditor_listed", title=f"Training {units} listed by the auditor", value=audited["n_listed"],
                   n=whole(nearer["n_train"]), unit=units),
            Figure(name="auditor_nearer", title="Training against held-out, all together (auditor)",
                   p_value=nearer["p_value"], n=whole(nearer["n_train"]), unit=units),
        ]  # fmt: skip
    return found


def _units(v: Any) -> str:
    """What was counted: patients only where it was given whose each image is."""
    return "patients" if v["patients_known"] and not v.get("patients_by_word") else "images"


def _parts(v: Any, names: tuple[str, ...]) -> tuple[Part, ...]:
    """The sets of images, with how many they hold."""
    hashes = v.get("data_hash") or {}
    counts = {
        "training": (v.get("n_train_images"), v.get("n_train_patients")),
        "synthetic": (v.get("n_synthetic"), None),
        "held_out": (v.get("n_held_images"), v.get("n_held_patients")),
        "calibration": (v.get("n_calibration_images"), v.get("n_calibration")),
    }
    said = {"synthetic": "generated", "held_out": "held out"}
    return tuple(
        Part(part=said.get(name, name), fingerprint=str(hashes[name]), images=whole(n), units=whole(of_whom))
        for name in names
        if hashes.get(name)
        for n, of_whom in [counts[name]]
    )


def _correction(v: Any, words: str) -> str:
    return f"{words}, shared by {v['n_detectors']} detectors" if v["n_detectors"] > 1 else words


def _shared(v: Any) -> str:
    """Among how many promises the confidence is shared."""
    if v["threshold_by"] != "guarantee":
        return "none: the threshold was given"
    n = v["shared_by"]
    return "none: one detector and one family" if n == 1 else f"the confidence is shared by {n} detectors and families"


def _kinds_not_tried(v: Any) -> list[str]:
    """Kinds of copies that nobody planted."""
    left = [kind for kind in _KINDS if kind not in (v.get("plant_kinds") or ())]
    if not v["n_plants"]:
        return ["No copies were planted: what would have been found is not known."]
    return [f"Copies of the kinds {', '.join(left)}: none was planted."] if left else []


def _not_promised(v: Any) -> list[str]:
    left = ", ".join(str(kind) for kind in v.get("not_promised") or ())
    return [f"Copies of other kinds than the families named: {left}."] if left else []


def _unread(v: Any) -> list[str]:
    """Images that nothing is said of."""
    words = {
        **{
            f"n_{part}_unread": f"file or image of the {of} set was not read|files or images of the {of} set were not "
            "read"
            for part, of in (("synthetic", "generated"), ("train", "training"))
        },
        **{
            f"n_{part}_frames_left": f"page, frame or slice of {of} files was not read|pages, frames or slices of {of} "
            "files were not read"
            for part, of in (("synthetic", "generated"), ("train", "training"))
        },
    }
    said = [several(v[name], *told.split("|")) + "." for name, told in words.items() if v.get(name)]
    rejected = v.get("rejected") or {}
    if n := rejected.get("unreadable"):
        said.append(several(n, "generated image was unreadable and left out", "generated images were unreadable and left out") + ".")  # fmt: skip  # noqa: E501
    return said


def _assumptions(v: Any, of_others: str) -> tuple[str, ...]:
    said = [of_others, "The training images given are all that the generator was trained on."]
    if not v["patients_known"]:
        said.append(NO_PATIENTS)
    if v.get("patients_by_word"):
        said.append(ONE_IMAGE)
    return (*said, SEEDED)


def _limits(run: FinishedAudit, *said: str) -> tuple[str, ...]:
    notes = without_columns(of_texts(run.summary.get("numbers") or {}, "notes"))
    weak = [_WEAK] if run.verdict.get("weak_features") else []
    return (*notes, *weak, *said)

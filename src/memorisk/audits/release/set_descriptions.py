"""What a statement says of runs about generated images: audit, filter, loop, watch, and figures of quality.

A watch never clears anything, and quality is no question of privacy.
"""

from typing import Any

from memorisk.audits.release.integrity import FinishedAudit
from memorisk.audits.release.model_descriptions import (
    NO_PATIENTS,
    OF_IMAGES,
    ONE_IMAGE,
    SEEDED,
    count_or_none,
    drop_column_notes,
    rate_figures,
    settings_of_run,
    texts_under,
)
from memorisk.audits.synthetic.options import VERDICT_LEVEL, SyntheticOptions
from memorisk.report.earlier_verdicts import verdict_form
from memorisk.report.statements.statement import (
    FAIL,
    NOT_ASKED,
    PASS,
    UNDECIDED,
    AuditStatement,
    Figure,
    Method,
    Part,
    Subject,
)
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.statistics.copies.planted_copies import BOUND_LEVEL
from memorisk.statistics.multiple_testing import should_stop

_KINDS = ("exact", "noised", "jpeg", "flipped", "rotated", "cropped", "pasted")
_SETTINGS = ("seed", "size", "resize", "depth", "channels")
_WEAK = (
    "Images were compared point by point alone, which misses copies that are cropped or turned, or mirrored and "
    "changed."
)


def describe_synthetic(run: FinishedAudit) -> AuditStatement:
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
        why=texts_under(v, "why"),
        what_would_decide=texts_under(v, "what_would_decide"),
        subject=Subject(what="images"),
        data=_parts(v, ("training", "synthetic", "held_out")),
        units=units,
        n_units=count_or_none(v["n_train_patients"]),
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
    n, held = count_or_none(v["n_train_patients"]), count_or_none(v["n_held_patients"])
    found = [
        Figure(name="generated", title="Generated images", value=v["n_synthetic"]),
        Figure(name="held_out", title=f"Held-out {units}", value=held),
        Figure(
            name="listed", title=f"Training {units} listed as nearer to the set than chance explains",
            value=v.get("n_listed_at_verdict", v["n_listed"]), n=n, unit=units,
        ),
        Figure(name="singled_out", title="Generated images singled out", value=v.get("n_singled"),
               n=count_or_none(v["n_synthetic"]), unit="generated images"),
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
        found += rate_figures(f"found/{kind}", f"Planted copies noticed: {kind}", of_kind, "source identities")
    if v["copies_bound"] is not None:
        found.append(
            Figure(name="copies_at_most", title="Share of the set that is copies of planted kinds, at most",
                   high=v["copies_bound"], confidence=BOUND_LEVEL,
                    n=count_or_none(v["n_synthetic"]), unit="generated images")
        )  # fmt: skip
    if (unlike := v["unlike"]) is not None:
        found.append(
            Figure(
                name="parts_alike",
                title=f"Nearest neighbours within the same real part, p two-sided (a random split: "
                f"{unlike['expected']:.3f})",
                value=unlike["share"], p_value=unlike["p_value"], n=count_or_none(unlike["n_groups"]), unit=units,
            )
        )  # fmt: skip
    return found


def describe_filter(run: FinishedAudit) -> AuditStatement:
    """What a filter left.

    Args:
        run: Of that kind.
    """
    return _describe_screening(run, "Which images must be left out, and how many copies does that miss?", "filter.md")


def describe_loop(run: FinishedAudit) -> AuditStatement:
    """What a loop of drawing and screening kept.

    Args:
        run: Of that kind.
    """
    return _describe_screening(run, "Were enough images drawn of which none is taken for a copy?", "synthesize.md")


def _describe_screening(run: FinishedAudit, question: str, page: str) -> AuditStatement:
    v, units = run.verdict, _units(run.verdict)
    return AuditStatement(
        kind=run.kind,
        question=question,
        status=str(v["status"]),
        gate=str(v["gate"]),
        why=(*texts_under(v, "why"), *([str(v["guarantee"])] if v.get("guarantee") else [])),
        what_would_decide=texts_under(v, "what_would_decide"),
        subject=Subject(what="images"),
        data=_parts(v, ("training", "synthetic", "calibration")),
        units=units,
        n_units=count_or_none(v["n_calibration"]),
        n_models=None,
        level=v["miss_rate"] if v["threshold_by"] == "guarantee" else None,
        correction=_shared_promises(v),
        figures=tuple(_screening_figures(run, units)),
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


def _screening_figures(run: FinishedAudit, units: str) -> list[Figure]:
    v = run.verdict
    found = [
        Figure(name="kept", title="Images kept", value=v["n_kept"]),
        Figure(name="rejected", title="Images rejected", value=v["n_rejected"]),
        Figure(name="exposed", title=f"Training {units} at whom rejected images point", value=v["n_exposed"],
               n=count_or_none(v["n_train_patients"]), unit=units),
    ]  # fmt: skip
    if v["threshold_by"] == "guarantee":
        found.append(
            Figure(
                name="miss_rate", title="Copies of the named families that are missed, at most", high=v["miss_rate"],
                confidence=v["confidence"], n=count_or_none(v["n_calibration"]), unit=units,
            )
        )  # fmt: skip
    found += rate_figures(
        "generated_rejected", "Generated images rejected", v["synthetic_rejected"], "generated images"
    )
    found += rate_figures("new_people_rejected", f"New {units} who would be rejected", v["real_rejected"], units)
    copies, audited = v.get("copies"), v.get("audited")
    if copies:
        found.append(
            Figure(name="copies_left", title="Share of the kept set that is copies of the named families, at most",
                   high=copies["high"], confidence=copies["level"],
                    n=count_or_none(copies["n_kept"]), unit="kept images")
        )  # fmt: skip
    if audited:
        nearer = audited["nearer"]
        found += [
            Figure(name="auditor_listed", title=f"Training {units} listed by the auditor", value=audited["n_listed"],
                   n=count_or_none(nearer["n_train"]), unit=units),
            Figure(name="auditor_nearer", title="Training against held-out, all together (auditor)",
                   p_value=nearer["p_value"], n=count_or_none(nearer["n_train"]), unit=units),
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
        Part(
            part=said.get(name, name),
            fingerprint=str(hashes[name]),
            images=count_or_none(n),
            units=count_or_none(of_whom),
        )
        for name in names
        if hashes.get(name)
        for n, of_whom in [counts[name]]
    )


def _correction(v: Any, words: str) -> str:
    return f"{words}, shared by {v['n_detectors']} detectors" if v["n_detectors"] > 1 else words


def _shared_promises(v: Any) -> str:
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
    said = [plural(v[name], *told.split("|")) + "." for name, told in words.items() if v.get(name)]
    rejected = v.get("rejected") or {}
    if n := rejected.get("unreadable"):
        said.append(plural(n, "generated image was unreadable and left out", "generated images were unreadable and left out") + ".")  # fmt: skip  # noqa: E501
    return said


def _assumptions(v: Any, of_others: str) -> tuple[str, ...]:
    said = [of_others, "The training images given are all that the generator was trained on."]
    if not v["patients_known"]:
        said.append(NO_PATIENTS)
    if v.get("patients_by_word"):
        said.append(ONE_IMAGE)
    return (*said, SEEDED)


def _limits(run: FinishedAudit, *said: str) -> tuple[str, ...]:
    notes = drop_column_notes(texts_under(run.summary.get("numbers") or {}, "notes"))
    weak = [_WEAK] if run.verdict.get("weak_features") else []
    return (*notes, *weak, *said)


_NO_PROOF = "a watch looks at few images while the generator changes: it shows memorization and never rules it out"
_AUDIT_IT = "an audit of the set that is to be released (memorisk audit synthetic)"


def describe_watch(run: FinishedAudit) -> AuditStatement:
    """A watch: a failure where its rule said stop, else undecided.

    Args:
        run: Of that kind.
    """
    looks: list[dict[str, Any]] = run.tables["looks"].to_dict("records")  # pyright: ignore[reportAssignmentType]
    made, last = run.config["run"], looks[-1]
    exceeded = [bool(look["exceeded"]) for look in looks]
    patience = int(made.get("patience", 1))
    stop = next((look for i, look in enumerate(looks) if should_stop(exceeded[: i + 1], patience)), None)
    speaks = [look for look in looks if look["exceeded"] or look["share_low"] > look["nominal"] or look["listed"] > 0]
    why = []
    if stop is not None:
        why.append(f"memorization was shown at step {stop['step']:,}; earlier steps are not cleared")
    elif speaks:
        why.append(f"step {speaks[0]['step']:,} by itself speaks for memorization, though the rule did not say stop")
    return AuditStatement(
        kind="watch",
        question="Does the generator begin to memorize while it is trained?",
        status=UNDECIDED if stop is None else FAIL,
        gate=str(made.get("stop_on", "")),
        why=tuple(why if stop is not None else [*why, _NO_PROOF]),
        what_would_decide=() if stop is not None else (_AUDIT_IT,),
        subject=Subject(what="training", why="A training was looked at, and no set that is to be released."),
        data=(
            Part(part="training", fingerprint=str(made["training"]), units=count_or_none(last["n_train"])),
            Part(part="held out", fingerprint=str(made["held_out"]), units=count_or_none(last["n_held"])),
        ),
        units="patients",
        n_units=count_or_none(last["n_train"]),
        n_models=None,
        level=float(made["error"]),
        correction="one error for all looks of the training",
        figures=tuple(_evaluation_figures(looks, last)),
        not_examined=("Images that were not drawn for a look.", *OF_IMAGES),
        assumptions=(
            "Held-out images are a random part, by patient, of the data that the generator is trained on.",
            "They had no part in the training; as they may have ended it, they cannot serve the final audit.",
            SEEDED,
        ),
        limits=("Memorization grows and is shown late: earlier steps are not cleared.",),
        method=Method(
            name="Memorized share of training patients beside held-out ones, look by look, and a stopping rule",
            source="METHODS section 5, applied to every look",
            page="watch.md",
        ),
        seeds=(int(made.get("seed", 0)),),
        settings=settings_of_run(made, ("images", "looks", "nominal", "level", "stop_on", "error", "patience")),
        versions={},
        run_sha256=run.sha256,
    )  # fmt: skip


def _evaluation_figures(looks: list[dict[str, Any]], last: dict[str, Any]) -> list[Figure]:
    n = count_or_none(last["n_train"])
    return [
        Figure(name="looks", title="Looks", value=len(looks)),
        Figure(name="step", title="Last step looked at", value=last["step"]),
        Figure(
            name="memorized_share", title="Memorized share at the last look", value=last["share"],
            low=last["share_low"], high=last["share_high"], confidence=0.95, p_value=last["p_value"], n=n,
            unit="patients",
        ),
        Figure(name="nominal", title="The same of a generator that memorized nothing", value=last["nominal"]),
        Figure(name="listed", title="Training patients listed at the last look", value=last["listed"], n=n,
               unit="patients"),
    ]  # fmt: skip


def describe_quality(run: FinishedAudit) -> AuditStatement:
    """Figures of quality, which say nothing of privacy: a set of copies has the best there are.

    Args:
        run: Of that kind.
    """
    numbers = run.summary["numbers"]
    rows: list[dict[str, Any]] = list(run.summary["quality"])
    return AuditStatement(
        kind="quality",
        question="How good are the generated images?",
        status=NOT_ASKED,
        gate="never",
        why=("figures of quality say nothing of privacy: a set of copies has the best there are",),
        what_would_decide=(_AUDIT_IT,),
        subject=Subject(what="images", why="Figures of quality clear no set for release."),
        data=tuple(
            Part(part=said, fingerprint=str(run.config["run"][name]), images=count_or_none(numbers[f"{key}_images"]),
                 units=count_or_none(numbers.get(f"{key}_patients")))
            for name, said, key in (("training", "training", "training"), ("synthetic", "generated", "synthetic"),
                                    ("held_out", "held out", "held_out"))
            if run.config["run"].get(name)
        ),
        units="patients" if numbers["patients_given"] else "images",
        n_units=count_or_none(numbers["training_patients"]),
        n_models=None,
        level=None,
        correction="none: each figure by itself",
        figures=tuple(_quality_figures(rows)),
        not_examined=("Privacy: whether anybody is copied.",),
        assumptions=("Held-out images are a random part, by patient, of the same data.", SEEDED),
        limits=("Figures depend on the feature space and on the number of images: compare at the same number.",),
        method=Method(
            name="Figures of quality beside held-out real images", source="its page names the paper of each figure",
            page="quality.md",
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, ("size", "resize", "level")),
        versions={},
        run_sha256=run.sha256,
    )  # fmt: skip


def _quality_figures(rows: list[dict[str, Any]]) -> list[Figure]:
    found, seen = [], set()
    for number, row in enumerate(rows):
        base = f"quality/{str(row['figure']).lower().replace(' ', '_')}"
        name = base if base not in seen else f"{base}_{number}"
        seen.add(base)
        for suffix, column, whose in (("", "estimate", ""), ("_held_out", "reference", ", held-out real images")):
            low, high = ("low", "high") if column == "estimate" else ("reference_low", "reference_high")
            if row.get(column) is not None:
                n = row.get("n_real_patients") if column == "estimate" else row.get("n_reference_patients")
                found.append(
                    Figure(
                        name=f"{name}{suffix}", title=f"{row['name']}{whose}", value=row[column], low=row.get(low),
                        high=row.get(high), confidence=row.get("level"), n=count_or_none(n), unit="patients",
                    )
                )  # fmt: skip
    return found

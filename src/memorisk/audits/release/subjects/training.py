"""What a watch and figures of quality say: a watch never clears anything, and quality is no question of privacy."""

from typing import Any

from memorisk.audits.release.finished import FinishedAudit
from memorisk.audits.release.wording import OF_IMAGES, SEEDED, settings_of_run, whole
from memorisk.report.statements.statement import (
    FAIL,
    NOT_ASKED,
    UNDECIDED,
    AuditStatement,
    Figure,
    Method,
    Part,
    Subject,
)
from memorisk.statistics.copies.stopping_rule import stops

_NO_PROOF = "a watch looks at few images while the generator changes: it shows memorization and never rules it out"
_AUDIT_IT = "an audit of the set that is to be released (memorisk audit synthetic)"


def of_watch(run: FinishedAudit) -> AuditStatement:
    """A watch: a failure where its rule said stop, else undecided.

    Args:
        run: Of that kind.
    """
    looks: list[dict[str, Any]] = run.tables["looks"].to_dict("records")  # pyright: ignore[reportAssignmentType]
    made, last = run.config["run"], looks[-1]
    exceeded = [bool(look["exceeded"]) for look in looks]
    patience = int(made.get("patience", 1))
    stop = next((look for i, look in enumerate(looks) if stops(exceeded[: i + 1], patience)), None)
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
            Part(part="training", fingerprint=str(made["training"]), units=whole(last["n_train"])),
            Part(part="held out", fingerprint=str(made["held_out"]), units=whole(last["n_held"])),
        ),
        units="patients",
        n_units=whole(last["n_train"]),
        n_models=None,
        level=float(made["error"]),
        correction="one error for all looks of the training",
        figures=tuple(_look_figures(looks, last)),
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


def _look_figures(looks: list[dict[str, Any]], last: dict[str, Any]) -> list[Figure]:
    n = whole(last["n_train"])
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


def of_quality(run: FinishedAudit) -> AuditStatement:
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
            Part(part=said, fingerprint=str(run.config["run"][name]), images=whole(numbers[f"{key}_images"]),
                 units=whole(numbers.get(f"{key}_patients")))
            for name, said, key in (("training", "training", "training"), ("synthetic", "generated", "synthetic"),
                                    ("held_out", "held out", "held_out"))
            if run.config["run"].get(name)
        ),
        units="patients" if numbers["patients_given"] else "images",
        n_units=whole(numbers["training_patients"]),
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
                        high=row.get(high), confidence=row.get("level"), n=whole(n), unit="patients",
                    )
                )  # fmt: skip
    return found

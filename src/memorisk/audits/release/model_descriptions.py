"""What a statement says of audits of models: of a classifier, of losses from elsewhere, of a mark.

The sentences that descriptions of several kinds of runs share stand here, too.
"""

from collections.abc import Mapping, Sequence
from math import exp, isfinite
from typing import Any

from memorisk.audits.classifier.options import ATTACK_GATE, NOTICE
from memorisk.audits.release.integrity import FinishedAudit
from memorisk.report.earlier_verdicts import verdict_form
from memorisk.report.statements.statement import LISTS, PASS, AuditStatement, Figure, Method, Part, Subject
from memorisk.runs.errors import InputError, one_line, plural

NO_PATIENTS = (
    "It is not known whose each image is: every image counts as a person, so that a patient with several images may be "
    "on both sides, and figures may be too small."
)
ONE_IMAGE = (
    "Nobody has two images: whoever ran this said so (--one-image-per-patient), and nothing was given to check it by."
)
OF_A_MODEL = (
    "Whether images can be reconstructed from the weights (model inversion).",
    "What the model lets somebody guess about a known person (attribute inference).",
    "What happens if the model is trained further, or asked in another way than with whole images.",
)
OF_IMAGES = (
    "The names of files and folders, and what is hidden in the pixels themselves.",
    "Names or dates that can be read in the images.",
    "The generator: whoever has its weights can draw other images.",
)
SEEDED = "Whoever has the same data, settings and versions on the same machine gets the same figures."


def count_or_none(value: Any) -> int | None:
    """A count, or None where there is none."""
    return None if value is None else int(value)


def texts_under(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The sentences under a name."""
    return tuple(str(text) for text in found.get(name) or ())


def drop_column_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Notes without how the columns of somebody's table are called: no limit of a result, and nobody else's matter."""
    return tuple(note for note in notes if not note.startswith("Columns: "))


def settings_of_run(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Some settings in JSON's own types: numbers, and words of a fixed vocabulary; never a path.

    Args:
        config: Of the run.
        names: Which.
    """
    return {
        name: config[name] for name in names if name in config and isinstance(config[name], str | int | float | bool)
    }


_CORRECTIONS = {
    "bh": "false discovery rate over all classes together (Benjamini-Hochberg on the classes, then within them)",
    "by": "false discovery rate over all classes together, under any dependence (Benjamini-Yekutieli, twice)",
    "bh-within": "false discovery rate within each class by itself (Benjamini-Hochberg)",
}
_TIERS = ("HIGH", "MODERATE", "LOW")
_RECIPE = (
    "Models trained by the recipe on halves of the data were audited, and no file: an audit with --target FILE is tied "
    "to the weights that are to be released."
)
_ELSEWHERE = "Only losses were given: which models they are of cannot be seen."


def describe_classifier(run: FinishedAudit) -> AuditStatement:
    """A classifier's audit, or that of losses.

    Args:
        run: Of either kind.

    Raises:
        InputError: Its lists were asked for at another level or correction than the verdict's, or it passed at a larger
            gap to be noticed than a statement is about.
    """
    _refuse_other_settings(run)
    v, s, units = run.verdict, run.summary, "patients" if run.summary.get("groups_given") else "images"
    lost = run.kind == "losses"
    target = s.get("target")
    rule = v.get("rule") or {}
    return AuditStatement(
        kind=run.kind,
        question="Which patients does a classifier of this recipe expose?",
        status=str(v["status"]),
        gate=str(v["gate"]),
        why=texts_under(v, "why"),
        what_would_decide=texts_under(v, "what_would_decide"),
        subject=Subject(
            what="outputs" if lost else "weights" if target else "recipe",
            why=_ELSEWHERE if lost else "" if target else _RECIPE,
        ),
        data=(
            Part(
                part="table of losses" if lost else "all images of the audit", fingerprint=str(v["data_hash"]),
                images=count_or_none(s.get("n_images")), units=count_or_none(s.get("n_groups")),
            ),
        ),
        units=units,
        n_units=run.counted,
        n_models=count_or_none(v.get("n_models")),
        level=v.get("level"),
        correction=_CORRECTIONS.get(str(s.get("correction")), str(s.get("correction"))),
        figures=tuple(_class_figures(run, units) + _attack_figures(run) + _promises(s)),
        not_examined=(*_uncovered(run, units), *OF_A_MODEL),
        assumptions=_assumptions(run),
        limits=(*drop_column_notes(texts_under(s, "notes")), *_limits(run)),
        method=Method(
            name="Twin models: the loss of an image under a model that did not see it, less that under one that did",
            source='"Rare, Distinctive, Memorized"; METHODS section 1',
            page="losses.md" if lost else "report.md",
        ),
        seeds=tuple(int(seed) for seed in v.get("seeds") or ()),
        settings={"design": v.get("design"), "protocol": v.get("protocol"), "model": _network_name(s.get("model"))}
        | settings_of_run(run.config, ("correction", "splits", "score_augmentations"))
        | {"verdict_form": verdict_form(v), "notice": rule.get("notice"), "attack_gate": rule.get("attack_gate")},
        versions=dict(v.get("versions") or {}),
        run_sha256=run.sha256,
    )  # fmt: skip


def _refuse_other_settings(run: FinishedAudit) -> None:
    """Refuse verdicts at looser or stricter settings than the fixed ones.

    Raises:
        InputError: It is such a run.
    """
    v, s, name = run.verdict, run.summary, one_line(run.folder)
    lists = {"level": v.get("level"), "correction": s.get("correction")}
    if lists != LISTS:
        raise InputError(
            f"{name} made its lists at level {lists['level']} with correction {lists['correction']}, and a statement "
            f"is of the verdict's own, at {LISTS['level']} with {LISTS['correction']}: issue the run's command again "
            "without --level and --correction"
        )
    notice = (v.get("rule") or {}).get("notice", NOTICE)
    if v["status"] == PASS and notice > NOTICE:
        raise InputError(
            f"{name} passed with --notice {notice:g}, looser than {NOTICE:g} nats: issue the run's command again "
            "without --notice"
        )
    attack_gate = (v.get("rule") or {}).get("attack_gate", ATTACK_GATE)
    if v["status"] == PASS and attack_gate > ATTACK_GATE:
        raise InputError(
            f"{name} passed with --attack-gate {attack_gate:g}, looser than {ATTACK_GATE:g}: issue the run's command "
            "again without --attack-gate"
        )


def _network_name(model: Any) -> str | None:
    """A network's name; one's own function or a file stays out."""
    return str(model) if model and not any(mark in str(model) for mark in ":/\\@") else None


def _class_figures(run: FinishedAudit, units: str) -> list[Figure]:
    """Tell what was found over all classes, and the largest mean of one."""
    table: Any = run.tables["per_class"]
    n = run.counted
    flagged = int(table["flagged"].sum()) if len(table) else 0
    found = [
        Figure(name="classes", title="Classes", value=len(table)),
        Figure(name="classes_tested", title="Classes that could be tested", value=int(table["testable"].sum())),
        Figure(name="flagged", title=f"Flagged {units}, over all classes", value=flagged, n=n, unit=units),
    ]
    if noticed := run.summary.get("noticeable"):
        title = f"Gap in nats with which one of the {units} would have been noticed in four of five cases"
        found.append(Figure(name="noticeable_gap", title=title, value=noticed["gap"]))
    known = table[table["mean"].notna()]
    if len(known):
        top = known.loc[known["mean"].idxmax()]
        found.append(
            Figure(
                name="largest_class_mean",
                title="Largest mean M of a class, in nats (chosen by its value: a description)",
                value=top["mean"], low=top["low"], high=top["high"], confidence=0.95,
                n=int(top["n_groups_scored"]), unit=units,
            )
        )  # fmt: skip
    for tier in _TIERS:
        n_tier = int((table["tier"] == tier).sum())
        found.append(Figure(name=f"classes_{tier.lower()}", title=f"Classes of tier {tier}", value=n_tier))
    unsaid = int((~table["tier"].isin(_TIERS)).sum())
    found.append(Figure(name="classes_without_tier", title="Classes without enough evidence for a tier", value=unsaid))
    utility = run.summary.get("utility") or {}
    if utility.get("test_balanced_accuracy") is not None:
        found.append(
            Figure(
                name="balanced_accuracy", title="Balanced accuracy on unseen images",
                value=utility["test_balanced_accuracy"],
            )
        )  # fmt: skip
    return found


def _attack_figures(run: FinishedAudit) -> list[Figure]:
    """AUC of every attack on the audit's models, and on the very model."""
    attacks: Any = run.tables["attacks"]
    units = "patients" if run.summary.get("groups_given") else "images"
    rows = attacks[attacks["label"] == "(all)"].to_dict("records") if len(attacks) else []
    found = [
        Figure(
            name=f"{'control' if row['control'] else 'auc'}/{row['attack']}",
            title=f"AUC of {'the control ' if row['control'] else ''}{str(row['attack']).replace('_', ' ')}",
            value=row["auc"], low=row["low"], high=row["high"], confidence=0.95, n=int(row["n_groups"]), unit=units,
        )
        for row in rows
    ]  # fmt: skip
    target = run.summary.get("target") or {}
    return found + [
        Figure(
            name=f"target_auc/{name}", title=f"AUC of {name.replace('_', ' ')} on the very model",
            value=auc["auc"], low=auc["low"], high=auc["high"], confidence=0.95, n=int(auc["n_groups"]), unit=units,
        )
        for name, auc in (target.get("attacks") or {}).items()
    ] + _largest_within_a_class(target.get("classes") or [], units)  # fmt: skip


def _largest_within_a_class(rows: Sequence[Mapping[str, Any]], units: str) -> list[Figure]:
    """Count the attacks within classes that were measured on the very model, with the largest AUC; name no class."""
    measured = [row for row in rows if row["auc"] is not None and isfinite(row["auc"])]
    if not measured:
        return []
    top = max(measured, key=lambda row: row["auc"])
    return [
        Figure(
            name="target_class_attacks", title="Attacks within a class that were measured on the very model",
            value=len(measured),
        ),
        Figure(
            name="largest_target_class_auc",
            title="Largest AUC within a class on the very model (chosen by its value: a description)",
            value=top["auc"], low=top["low"], high=top["high"], confidence=0.95, n=int(top["n_groups"]), unit=units,
        ),
    ]  # fmt: skip


def _promises(summary: Any) -> list[Figure]:
    """Tell what a private training promises, and what was proved of it."""
    privacy = summary.get("privacy") or {}
    promise, bound = privacy.get("promise") or {}, privacy.get("bound") or {}
    names = {
        "epsilon": "Epsilon promised, one image added or removed",
        "replace_one_epsilon": "Epsilon promised, one image replaced",
        "per_patient_epsilon": "Epsilon promised, all images of a patient",
        "delta": "Delta of these",
    }
    found = [Figure(name=n, title=t, value=promise[n]) for n, t in names.items() if promise.get(n) is not None]
    if bound.get("low") is not None:
        found.append(
            Figure(
                name="epsilon_proved", title="Epsilon that mislabelled pairs prove, at least", low=bound["low"],
                confidence=bound.get("confidence"), n=count_or_none(bound.get("n_pairs")), unit="pairs",
            )
        )  # fmt: skip
    return found


def _uncovered(run: FinishedAudit, units: str) -> list[str]:
    """Count those of whom nothing is said."""
    missed, left = run.verdict.get("not_scored") or {}, run.verdict.get("left_out") or {}
    said = []
    if n := missed.get("not_scored_images"):
        groups = missed.get("not_scored_groups") or 0
        more = f", {groups:,} {units} with none that was" if units == "patients" and groups else ""
        said.append(f"{plural(n, 'image was', 'images were')} not scored{more}.")
    if n := missed.get("without_partner"):
        said.append(f"{n:,} {units} had no partner to be compared with.")
    if n := len(missed.get("not_auditable") or ()):
        said.append(f"{plural(n, 'class was', 'classes were')} too small to split.")
    table: Any = run.tables["per_class"]
    if len(table) and (n := int((~table["testable"].astype(bool)).sum())):
        said.append(f"{plural(n, 'class', 'classes')} could not be tested: nobody could have been flagged there.")
    words = {
        "n_skipped": "could not be read",
        "n_missing": "had no file or were no images",
        "n_not_sampled": "were left out by a sample",
    }
    return said + [f"{left[name]:,} images or rows {what}." for name, what in words.items() if left.get(name)]


def _assumptions(run: FinishedAudit) -> tuple[str, ...]:
    """List what the figures rest on."""
    said = [
        "Test images, of people whom no model saw, are a random part of the same data.",
        "Patients are independent of each other.",
        "What is released was trained by this recipe on as many data of this kind: the audited models speak for it.",
    ]
    if not run.summary.get("groups_given"):
        said.append(ONE_IMAGE if run.config.get("one_image_per_patient") else NO_PATIENTS)
    return (*said, SEEDED)


def _limits(run: FinishedAudit) -> tuple[str, ...]:
    """List what does not follow."""
    trained, s = run.summary.get("n_trained_on"), run.summary
    said = []
    if trained and s.get("n_images"):
        said.append(
            f"Each model was trained on {trained:,.0f} of {s['n_images']:,} images: one trained on more of them may "
            "remember others, and more or less of them."
        )
    if run.kind == "classifier" and not s.get("target"):
        said.append("The recipe was audited, and no released file.")
    gap = (s.get("noticeable") or {}).get("gap")
    missed = "up to one in five with the noticeable gap, and more with a smaller one" if gap else "whatever the gap"
    said.append(f"Whoever is not flagged may be remembered all the same: {missed}.")
    return tuple(said)


def describe_feature(run: FinishedAudit) -> AuditStatement:
    """The audit of a mark; the mark's name, which may be a person's, is left out.

    Args:
        run: Of that kind.
    """
    v, s = run.verdict, run.summary
    models = v["models"]
    figures = [
        Figure(
            name="m", title="M: log sensitivity to the mark, beside its controls", value=v["M"], low=v["M_low"],
            high=v["M_high"], confidence=0.95 if v["M_low"] is not None else None, p_value=v["p_value"],
            n=count_or_none(v["n_models"]), unit="model" if v["n_models"] == 1 else "models",
        ),
        Figure(name="smallest_p", title="Smallest p that was possible", value=v["smallest_p"]),
        Figure(
            name="noticeable", title="Times as sensitive that would have been found in four of five cases",
            value=None if v.get("noticeable") is None else exp(v["noticeable"]),
        ),
        Figure(name="references", title="Reference models without the mark", value=v["n_references"]),
        Figure(name="controls", title="Controls: marks like it", value=v["n_controls"]),
    ]  # fmt: skip
    return AuditStatement(
        kind="feature",
        question="Does the model remember one mark that it may have seen once?",
        status=str(v["status"]),
        gate=str(v["gate"]),
        why=texts_under(v, "why"),
        what_would_decide=texts_under(v, "what_would_decide"),
        subject=Subject(what="weights"),
        data=(Part(part="probes", fingerprint=str(models.get("probes") or ""), images=count_or_none(v["n_probes"])),)
        if models.get("probes")
        else (),
        units="model" if v["n_models"] == 1 else "models",
        n_units=count_or_none(v["n_models"]),
        n_models=count_or_none(v["n_models"]),
        level=v["level"],
        correction="no correction: one mark, one test",
        figures=tuple(figures),
        not_examined=("Every other mark, name and person in the training data.", *OF_A_MODEL),
        assumptions=(
            "The mark was given as it stood in the image: size, place and grey values.",
            "The model's input was normalised as stated.",
            "Controls are marks that the model never saw, and reference models never saw the mark.",
            SEEDED,
        ),
        limits=(
            "Not found does not mean that the mark was not in the training data.",
            "Without reference models the shape of a mark may hide, or feign, that it is remembered.",
        ),
        method=Method(
            name=f"Change of answers by a mark: {v['method']}",
            source='"Unintended memorisation of unique features in neural networks"; METHODS section 2',
            page="feature.md",
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, ("n_controls", "opacity", "redraws"))
        | {"kind_of_mark": str((s.get("mark") or {}).get("kind", "")), "verdict_form": verdict_form(v)},
        versions={},
        run_sha256=run.sha256,
    )

"""Descriptions in a statement of audits of models: of a classifier, of losses from elsewhere, of a mark.

Sentences that descriptions of several kinds of runs share are here, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from memorisk.audits.classifier.attack_numbers import ALL, AttackNumbers, Extraction, TargetAudit
from memorisk.audits.classifier.look_alikes import LOSSES_ALONE
from memorisk.audits.classifier.pages.wording import attack_title
from memorisk.audits.classifier.reasons import control_name
from memorisk.audits.classifier.result import (
    ClassifierSummary,
    ClassifierVerdict,
    ClassUtility,
    DenoisingUtility,
    Privacy,
)
from memorisk.audits.classifier.tables.attacks import REFERENCE_ATTACKS
from memorisk.audits.feature.result import FeatureVerdict
from memorisk.audits.release.integrity import FinishedAudit
from memorisk.report.flagged import classes_tested, classes_with_room, number_flagged
from memorisk.report.quantities import stated_figures
from memorisk.report.statements.statement import (
    LISTS,
    PASS,
    AuditStatement,
    Figure,
    Method,
    Part,
    StatedReason,
    Subject,
)
from memorisk.runs.checksums import SEAL, file_sha256
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.scores.twin_attacks import ATTACKS
from memorisk.statistics.verdicts.levels import ATTACK_GATE, POWER, share_words
from memorisk.statistics.verdicts.reasons import Reason

NO_PATIENTS = (
    "It is not known whose each image is: every image counts as a person, so that a patient with several images may be "
    "on both sides, and figures may be too small."
)
ONE_IMAGE = (
    "Each patient has one image: the user asserted this (--one-image-per-patient), and gave no ids to check it by."
)
OF_A_MODEL = (
    "Whether images can be reconstructed from the weights (model inversion).",
    "What an attacker can infer about a known person from the model (attribute inference).",
    "What the model shows after further training, or of inputs other than whole images.",
)
OF_IMAGES = (
    "The names of files, folders and classes, and what is hidden in the pixels themselves.",
    "Names or dates that can be read in the images.",
    "The generator: its weights can draw other images.",
)
SEEDED = "The same data, settings and versions on the same machine give the same figures."


def count_or_none(value: Any) -> int | None:
    """Return a count; None without one."""
    return None if value is None else int(value)


def stated(reasons: Iterable[Reason | Mapping[str, Any]]) -> tuple[StatedReason, ...]:
    """State the reasons of a verdict.

    Args:
        reasons: Reasons, or their records.
    """
    return tuple(map(StatedReason.of, reasons))


def texts_under(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the sentences under a name."""
    return tuple(str(text) for text in record.get(name) or ())


def drop_column_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out notes that name columns of a user's table: they limit no result, and concern only that user."""
    return tuple(note for note in notes if not note.startswith("Columns: "))


def settings_of_run(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return some settings in JSON's own types: numbers, and words of a fixed vocabulary; never a path.

    Args:
        config: Settings of the run.
        names: Names of the settings to return.
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
_SOURCES = {
    "classifier": '"Rare, Distinctive, Memorized"; METHODS section 1',
    "generator": '"Rare, Distinctive, Memorized"; METHODS section 7',
}
_OF_KIND = {
    "classifier": (),
    "generator": ("Images that are drawn from the generator, which may be copies (memorisk audit synthetic).",),
}
"""Sentences on what audits of a kind of models do not examine."""
_ELSEWHERE = "Only losses were given: which models they are of cannot be seen."


def describe_classifier(run: FinishedAudit) -> AuditStatement:
    """Describe a classifier's audit, or an audit of losses.

    Args:
        run: Finished run of either kind.

    Raises:
        InputError: Its lists were made at another level or correction than the verdict's, or it passed at a larger gap
            to be noticed than a statement is about.
    """
    v, s = ClassifierVerdict.read(run.verdict), ClassifierSummary.read(run.summary)
    _refuse_other_settings(v, s, one_line(run.folder))
    units, lost = "patients" if s.groups_given else "images", run.kind == "losses"
    target, rule, counts, scale = s.target, v.rule, s.images, s.units.loss_scale
    extraction = None if v.target is None else v.target.extraction
    not_of_kind = _OF_KIND[scale.model] if extraction is None else ()
    others = (*([LOSSES_ALONE] if lost else []), *not_of_kind, *OF_A_MODEL)
    return AuditStatement(
        kind=run.kind,
        question=f"Which patients does a {scale.model} of this recipe expose?",
        status=v.status,
        gate=v.gate,
        reasons=stated(v.reasons),
        what_would_decide=v.what_would_decide,
        subject=Subject(
            what="outputs" if lost else "weights" if target else "recipe",
            why=_ELSEWHERE if lost else "" if target else _RECIPE,
        ),
        data=(
            Part(
                part="table of losses" if lost else "all images of the audit", fingerprint=v.data_hash,
                images=counts.n_images, units=counts.n_groups,
            ),
        ),
        units=units,
        n_units=run.counted,
        n_models=v.n_models,
        level=v.level,
        correction=_CORRECTIONS.get(s.correction, s.correction),
        figures=tuple(_class_figures(run, s, units) + _attack_figures(run, target, units)
                      + _extraction_figures(run, extraction, units) + _promises(s.privacy)),
        not_examined=(*_uncovered(run, v, units), *others),
        assumptions=_assumptions(run, s),
        limits=(*drop_column_notes(s.notes), *_limits(run, s)),
        method=Method(
            name="Twin models: the loss of an image under a model that did not see it, less that under one that did",
            source=_SOURCES[scale.model],
            page="losses.md" if lost else "report.md",
        ),
        seeds=v.seeds,
        settings={"design": v.design, "protocol": v.protocol, "model": _network_name(s.models.model)}
        | settings_of_run(run.config, ("correction", "splits", "score_augmentations"))
        | {"verdict_form": rule.form, "notice": rule.notice, "attack_gate": rule.attack_gate, "scale": s.scale},
        versions=v.versions,
        run_sha256=run.sha256,
    )  # fmt: skip


def _refuse_other_settings(v: ClassifierVerdict, s: ClassifierSummary, name: str) -> None:
    """Refuse verdicts at looser or stricter settings than the fixed ones.

    Raises:
        InputError: It is such a run.
    """
    lists = {"level": v.level, "correction": s.correction}
    if lists != LISTS:
        raise InputError(
            f"{name} made its lists at level {lists['level']} with correction {lists['correction']}, and a statement "
            f"is of the verdict's own, at {LISTS['level']} with {LISTS['correction']}: issue the run's command again "
            "without --level and --correction"
        )
    notice, attack_gate = v.rule.notice, v.rule.attack_gate
    scale = s.units.loss_scale
    if v.status == PASS and notice is not None and notice > scale.notice:
        raise InputError(
            f"{name} passed with --notice {notice:g}, looser than {scale.amount(f'{scale.notice:g}')}: issue the run's "
            "command again without --notice"
        )
    if v.status == PASS and attack_gate is not None and attack_gate > ATTACK_GATE:
        raise InputError(
            f"{name} passed with --attack-gate {attack_gate:g}, looser than {ATTACK_GATE:g}: issue the run's command "
            "again without --attack-gate"
        )


def _network_name(model: str) -> str | None:
    """Return the name of a network; the name of the user's own function or file is left out."""
    return model if model and not any(mark in model for mark in ":/\\@") else None


def _class_figures(run: FinishedAudit, summary: ClassifierSummary, units: str) -> list[Figure]:
    """Tell what was found over all classes, and the largest mean of one."""
    table: Any = run.tables["per_class"]
    n, unit = run.counted, summary.units.loss_unit
    flagged = int(table["flagged"].sum()) if run.flagged is None and len(table) else run.flagged or 0
    flagged, tested = number_flagged(table, flagged), int(classes_tested(table).sum())
    figures = [
        Figure(name="classes", title="Classes", value=len(table)),
        Figure(name="classes_tested", title="Classes that could be tested", value=tested),
        Figure(name="flagged", title=f"Flagged {units}, over all classes", value=flagged, n=n, unit=units),
    ]
    if run.flagged_gap is not None:
        title = f"Median M of the flagged {units}, in {unit} (chosen by their values: a description)"
        figures.append(Figure(name="flagged_gap", title=title, value=run.flagged_gap, n=flagged, unit=units))
    if summary.noticeable is not None:
        figures += stated_figures(summary.noticeable, units=units, loss_unit=unit)
    with_mean = table[table["mean"].notna()]
    if len(with_mean):
        top = with_mean.loc[with_mean["mean"].idxmax()]
        figures.append(
            Figure(
                name="largest_class_mean",
                title=f"Largest mean M of a class, in {unit} (chosen by its value: a description)",
                value=top["mean"], low=top["low"], high=top["high"], confidence=0.95,
                n=int(top["n_groups_scored"]), unit=units,
            )
        )  # fmt: skip
    for tier in _TIERS:
        n_tier = int((table["tier"] == tier).sum())
        figures.append(Figure(name=f"classes_{tier.lower()}", title=f"Classes of tier {tier}", value=n_tier))
    unsaid = int((~table["tier"].isin(_TIERS)).sum())
    figures.append(
        Figure(name="classes_without_tier", title="Classes without enough evidence for a tier", value=unsaid)
    )
    if isinstance(summary.utility, ClassUtility | DenoisingUtility):
        figures += stated_figures(summary.utility)
    return figures


_FURTHER = {"auc": "", "reference_auc": "models without the image", "twin_auc": "a twin of the model"}
"""Further models that an attack needs, by the beginning of its figure's name."""


def _kind_of_attack(name: str) -> str:
    """Return the beginning of the name of an attack's figure, by the further models that the attacker needs."""
    if name in REFERENCE_ATTACKS:
        return "reference_auc"
    return "twin_auc" if name in ATTACKS and ATTACKS[name].uses_twin else "auc"


def _attack_figures(run: FinishedAudit, target: TargetAudit | None, units: str) -> list[Figure]:
    """Return the AUC of every attack on the audit's models, and on the very model."""
    attacks: Any = run.tables["attacks"]
    rows = attacks[attacks["label"] == ALL].to_dict("records") if len(attacks) else []
    figures = []
    for row in rows:
        name = str(row["attack"])
        kind, words = _kind_of_attack(name), attack_title(name)
        figures.append(
            Figure(
                name=f"control/{name}" if row["control"] else f"{kind}/{name}",
                title=f"AUC of the control {words}" if row["control"] else f"AUC of {words}{_needing(_FURTHER[kind])}",
                value=row["auc"], low=row["low"], high=row["high"], confidence=0.95, n=int(row["n_groups"]), unit=units,
            )
        )  # fmt: skip
    return figures if target is None else figures + _target_figures(target, units)


def _extraction_figures(run: FinishedAudit, extraction: Extraction | None, units: str) -> list[Figure]:
    """Count what was drawn from a generator, and the patients whom the draws copy.

    Raises:
        InputError: The audit of the draws is not there, or not the one with which the run ended.
    """
    if extraction is None:
        return []
    seal = run.folder / extraction.folder / SEAL
    if not seal.is_file() or file_sha256(seal) != extraction.sha256:
        raise InputError(
            f"{one_line(run.folder / extraction.folder)} is not the audit with which {one_line(run.folder)} ended: "
            "issue the run's command again"
        )
    n = extraction.n_drawn_images
    counts = {
        "drawn_identical": (f"{units.capitalize()} with the very pixels of an image", extraction.n_certain_patients),
        "drawn_listed": (f"{units.capitalize()} listed in the audit of the draws", extraction.n_listed_patients),
        "draws_singled_out": ("Draws singled out", extraction.n_singled_images),
        "draws_confirmed": ("Draws that a second look confirms as copies", extraction.n_confirmed_images),
        "cliques": ("Cliques of draws that repeat one another or one person", extraction.cliques.n_cliques),
    }
    if extraction.other_parts:
        title, n_other = "Draws with the pixels of an image in a further part", sum(extraction.other_copies.values())
        counts["drawn_identical_further_parts"] = title, n_other
    return [
        Figure(name="drawn", title="Images drawn from the generator", value=n),
        *(Figure(name=name, title=title, value=value) for name, (title, value) in counts.items() if value is not None),
    ]


def _target_figures(target: TargetAudit, units: str) -> list[Figure]:
    """Return the AUC of every attack on the very model, with what it needs of the model and besides it."""
    figures = []
    for name, of in target.attacks.items():
        kind, access = _kind_of_attack(name), target.access.get(name)
        needing = _needing(f"its {access}" if access else "", _FURTHER[kind])
        title = f"AUC of {attack_title(name)} on the very model{needing}"
        figures.append(_auc_figure(f"target_{kind}/{name}", title, of, units))
    classes = _largest_within_a_class([row.numbers for row in target.classes], units)
    return [*figures, *classes, *_target_controls(target, units)]


def _target_controls(target: TargetAudit, units: str) -> list[Figure]:
    """Return the AUC of each control of attacks on the very model, and how much of the noise a generator explains."""
    title = "AUC of a control on the very model"
    figures = [
        _auc_figure(
            f"target_control/{name}", f"{title}: {control_name(name)}", of, units, target.control_confidence(name)
        )
        for name, of in target.controls.items()
    ]
    if target.explained is not None:
        title = "Share of the noise in its training images that the very model explains"
        figures.append(Figure(name="target_explained", title=title, value=target.explained))
    if target.guidance is not None:
        title = "Scale of classifier-free guidance of the guided loss on the very model"
        figures.append(Figure(name="target_guidance", title=title, value=target.guidance))
    return figures


def _auc_figure(name: str, title: str, attack: AttackNumbers, units: str, confidence: float = 0.95) -> Figure:
    """Return the AUC of an attack on the very model, with its interval."""
    auc, n = attack.auc, attack.counts.n_groups
    return Figure(
        name=name, title=title, value=auc.estimate, low=auc.low, high=auc.high, confidence=confidence, n=n, unit=units
    )


def _needing(*needs: str) -> str:
    """Return the clause on what an attack needs; empty where it is nothing that a title names."""
    named = " and ".join(filter(None, needs))
    return f", which needs {named}" if named else ""


def _largest_within_a_class(attacks: Sequence[AttackNumbers], units: str) -> list[Figure]:
    """Count the attacks within classes that were measured on the very model, with the largest AUC; name no class."""
    measured = [attack for attack in attacks if isfinite(attack.auc.estimate)]
    if not measured:
        return []
    top = max(measured, key=lambda attack: attack.auc.estimate)
    number, largest = (
        "Attacks within a class that were measured on the very model",
        "Largest AUC within a class on the very model (chosen by its value: a description)",
    )
    return [
        Figure(name="target_class_attacks", title=number, value=len(measured)),
        _auc_figure("largest_target_class_auc", largest, top, units),
    ]


def _promises(privacy: Privacy | None) -> list[Figure]:
    """Tell what a private training promises, and what was proved of it."""
    promise, bound = (None, None) if privacy is None else (privacy.promise, privacy.bound)
    figures = [] if promise is None else [one for one in stated_figures(promise) if one.value is not None]
    if bound is not None:
        figures.append(
            Figure(
                name="epsilon_proved", title="Epsilon that mislabelled pairs prove, at least", low=bound.low,
                confidence=bound.confidence, n=bound.n_pairs, unit="pairs",
            )
        )  # fmt: skip
    return figures


def _uncovered(run: FinishedAudit, verdict: ClassifierVerdict, units: str) -> list[str]:
    """Count the patients that the audit does not cover."""
    missed, excluded = verdict.not_scored, verdict.left_out
    sentences = []
    if n := missed.n_images:
        groups = missed.n_groups or 0
        more = f", {groups:,} {units} with none that was" if units == "patients" and groups else ""
        sentences.append(f"{plural(n, 'image was', 'images were')} not scored{more}.")
    if n := missed.n_groups_without_partner:
        sentences.append(f"{n:,} {units} had no partner to be compared with.")
    if n := len(missed.not_auditable):
        sentences.append(f"{plural(n, 'class was', 'classes were')} too small to split.")
    table: Any = run.tables["per_class"]
    tested, one = classes_tested(table), units.removesuffix("s")
    if n := int((~tested).sum()):
        sentences.append(
            f"{plural(n, 'class', 'classes')} could not be tested: no {one} could have been flagged there."
        )
    if n := int((tested & ~classes_with_room(table)).sum()):
        sentences.append(
            f"In {plural(n, 'class', 'classes')} with flagged {units} a single further {one} could not have been "
            "noticed."
        )
    words = (
        (excluded.n_skipped, "could not be read"),
        (excluded.n_missing, "had no file or were no images"),
        (excluded.n_not_sampled, "were left out by a sample"),
    )
    return sentences + [f"{n:,} images or rows {what}." for n, what in words if n]


def _assumptions(run: FinishedAudit, summary: ClassifierSummary) -> tuple[str, ...]:
    """List what the figures rest on."""
    sentences = [
        "Test images, of people whom no model saw, are a random part of the same data.",
        "Patients are independent of each other.",
    ]
    target = summary.target
    if target is None or (target.replication is not None and target.replication.replicated):
        sentences.append(
            "What is released was trained by this recipe on as many data of this kind: the audited models speak for it."
        )
    if not summary.groups_given:
        sentences.append(ONE_IMAGE if run.config.get("one_image_per_patient") else NO_PATIENTS)
    return (*sentences, SEEDED)


def _limits(run: FinishedAudit, summary: ClassifierSummary) -> tuple[str, ...]:
    """List what does not follow."""
    trained, n_images, noticeable = summary.models.images_each, summary.images.n_images, summary.noticeable
    sentences = []
    if trained and n_images:
        sentences.append(
            f"Each model was trained on {trained:,.0f} of {n_images:,} images: one trained on more of them may "
            "remember others, and more or less of them."
        )
    if run.kind != "losses" and summary.target is None:
        sentences.append("The recipe was audited, and no released file.")
    missed = "whatever the gap"
    if noticeable is not None and isfinite(noticeable.gap):
        missed = f"up to {share_words(1 - POWER, 'patients')} with the noticeable gap, and more with a smaller one"
    sentences.append(f"A patient who is not flagged may still be remembered: {missed}.")
    return tuple(sentences)


def describe_feature(run: FinishedAudit) -> AuditStatement:
    """Describe the audit of a mark, without the mark's name, which may be a person's.

    Args:
        run: Finished run of the kind ``feature``.

    Raises:
        InputError: It passed by a looser gate than a statement is about.
    """
    v = FeatureVerdict.read(run.verdict)
    test, n, probes = v.test, v.counts, v.models.probes
    if v.status == PASS and (looser := test.allowances):
        raise InputError(
            f"{one_line(run.folder)} passed by a gate that is looser than the default: "
            f"{' and '.join(looser.values())}: issue the run's command again without {' and '.join(looser)}"
        )
    units = "model" if n.n_models == 1 else "models"
    return AuditStatement(
        kind="feature",
        question="Does the model remember one mark that it may have seen once?",
        status=v.status,
        gate=str(v.gate),
        reasons=stated(v.reasons),
        what_would_decide=v.what_would_decide,
        subject=Subject(what="weights"),
        data=(Part(part="probes", fingerprint=probes, images=n.n_probes),) if probes else (),
        units=units,
        n_units=n.n_models,
        n_models=n.n_models,
        level=test.level,
        correction="no correction: one mark, one test",
        figures=tuple(stated_figures(v, models=units)),
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
            name=f"Change of answers by a mark: {test.method}",
            source='"Unintended memorisation of unique features in neural networks"; METHODS section 2',
            page="feature.md",
        ),
        seeds=(int(run.config.get("seed", 0)),),
        settings=settings_of_run(run.config, ("n_controls", "opacity", "redraws"))
        | {"kind_of_mark": v.mark.kind, "verdict_form": v.schema},
        versions={},
        run_sha256=run.sha256,
    )

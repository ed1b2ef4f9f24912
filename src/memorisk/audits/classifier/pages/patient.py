"""Lay out the answer to one person's question: one side, in plain words first, with the losses of each image."""

from math import isfinite, isnan

from memorisk.audits.classifier.patient_answer import ClassAnswer, PatientAnswer
from memorisk.report.blocks import (
    Block,
    Fact,
    Gallery,
    Inline,
    Kind,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
    Thumbnail,
    number,
    words,
)
from memorisk.report.columns import count, decimal, probability
from memorisk.report.first_screen import FirstScreen
from memorisk.runs.errors import one_line, plural
from memorisk.statistics.verdicts.levels import PATIENT_LEVEL, POWER, share_words

MOST_STRIPS = 6
"""Number of images whose losses are drawn."""


def patient_page(answer: PatientAnswer) -> Page:
    """Lay out the answer.

    Args:
        answer: Answer of `audits.classifier.patient.audit_patient`.
    """
    version = answer.summary.versions.get("memorisk", "")
    return Page(
        title=["What an audit says of ", Name(answer.patient)],
        subtitle=Name(answer.summary.dataset),
        lead=patient_screen(answer).blocks(_strips(answer)),
        sections=[Section("Images", [_images(answer)], "images"), Section("How to read this", _reading(answer), "how")],
        footer=[
            Paragraph(
                f"Made by memorisk {version}. This file is about one person: handle it as personal data. It needs no "
                "network and asks for none."
            )
        ],
    )


def patient_screen(answer: PatientAnswer) -> FirstScreen:
    """Return what a reader sees first: whether anything was found, how surely it would have been, and the numbers.

    Args:
        answer: Answer of `audits.classifier.patient.audit_patient`.
    """
    kind, headline = _headline(answer)
    unit = answer.summary.units.loss_unit
    lists = {f"Class {one_line(of.label, 60)}": _class_sentences(of, unit) for of in answer.classes}
    return FirstScreen(
        kind=kind,
        headline=headline,
        sentences=_sentences(answer),
        lists=lists,
        facts=_facts(answer),
        notes=_limits(answer),
    )


def _headline(answer: PatientAnswer) -> tuple[Kind, str]:
    if answer.flagged:
        return "fail", "This patient is remembered, as far as an audit can tell"
    if answer.shows_signs:
        return "undecided", "There are signs that this patient is remembered"
    if not answer.scored:
        return "note", "This audit says nothing of this patient"
    if not answer.tested:
        return "undecided", "Whether this patient is remembered could not be tested"
    if not answer.is_clear:
        return "undecided", "Whether this patient is remembered was not decided"
    return "pass", "Nothing of this patient was found"


def _sentences(answer: PatientAnswer) -> list[Text]:
    """Say what was compared and found, what the file does, and what is left open; the box shows the first two."""
    name = Name(answer.patient)
    if not answer.scored:
        if "test" in answer.parts:
            why = " is in the test part: no model of this audit was trained on these images."
        else:
            why = " was in the training of all models, so that none is left to compare them with."
        return [[name, why, *_target(answer)]]
    compared: list[Inline] = [
        "Models that were trained on the images of ",
        name,
        " were compared with models that were not. ",
    ]
    leaves_open = [" The audit itself leaves a question open about this patient."] if answer.doubts else []
    box: list[Inline] = [*compared, *_finding(answer), *leaves_open, *_target(answer)]
    return [box, *(Name(f"Open: {doubt}.") for doubt in answer.doubts)]


def _finding(answer: PatientAnswer) -> list[Inline]:
    """Say what the comparison of the models found."""
    if answer.shows_signs:
        largest = max((of.largest for of in answer.classes), default=0.0)
        first = f"In the largest case {answer.summary.units.loss_scale.effect(largest)}. "
        if answer.flagged:
            return [f"{first}The audit's list, which looks at all patients, names this one."]
        over = f" over {len(answer.classes)} classes" if len(answer.classes) > 1 else ""
        return [
            f"{first}By chance one patient in {max(1, round(1 / answer.p))} has as much (p {probability(answer.p)}"
            f"{over}), and one in {round(1 / PATIENT_LEVEL)} people gets this answer though nothing of them is "
            "remembered. The audit's list, which corrects for looking at all patients, does not name this one."
        ]
    if not answer.tested:
        untested = Name(", ".join(of.label for of in answer.classes if of.why_not))
        return ["No test was possible in ", untested, "."]
    sentence = "They do not differ by more than chance explains."
    if any(of.m.high < 0 for of in answer.classes):
        sentence = (
            "By their largest difference they do not differ by more than chance; by their mean they may, in the "
            "direction that memory does not have: models that were trained on these images do worse on them."
        )
    if any(of.m.low > 0 for of in answer.classes):
        sentence = "By their largest difference they do not differ by more than chance; by their mean they may."
    if isfinite(answer.noticeable):
        effect = answer.summary.units.loss_scale.effect(answer.noticeable)
        noticed = f"A difference by which {effect} would have been "
        enough = "less may be there" if answer.noticeable <= answer.notice else "a pass must notice less than that"
        return [f"{sentence} {noticed}noticed in {share_words(POWER)}; {enough}."]
    return [f"{sentence} Even a large difference could have gone unnoticed."]


def _target(answer: PatientAnswer) -> list[Inline]:
    """Compare the released file with models that never saw the patient."""
    target, unit = answer.target, answer.summary.units.loss_unit
    if target is None:
        return []
    file = Name(target.file)
    if not target.n_models:
        return [" Every audited model saw these images, so that the losses of ", file, " compare with none."]
    models = plural(target.n_models, "audited model", "audited models")
    return [
        " The file ",
        file,
        f" has a mean loss of {decimal(target.loss)} {unit} on these images. Of {models} that never saw them, with "
        f"{decimal(target.unseen)} on average, {target.n_lower} have a loss as low: p {probability(target.p)} for a "
        f"file that never saw them; so few models allow no p below {probability(1 / (1 + target.n_models))}.",
    ]


def _facts(answer: PatientAnswer) -> list[Fact]:
    images = plural(len(dict.fromkeys(answer.images["image"])), "image", "images")
    facts = [Fact("Images", images.split()[0], f"in the {' and '.join(answer.parts)} part")]
    for of in answer.classes[:1]:
        limits = "" if isnan(of.m.low) else f"{decimal(of.m.low)} to {decimal(of.m.high)} over trainings"
        where = f", class {one_line(of.label, 20)}" if len(answer.classes) > 1 else ""
        facts.append(Fact(f"Mean M{where}", decimal(of.m.estimate), limits))
        if not of.why_not:
            facts.append(
                Fact(f"p{where}", probability(of.p), f"place {count(of.place)} of {count(of.n_patients)} in the class")
            )
    if not isnan(answer.auc):
        facts.append(
            Fact("Attack AUC", decimal(answer.auc), f"{decimal(answer.auc_low)} to {decimal(answer.auc_high)}")
        )
    return facts


def _class_sentences(of: ClassAnswer, unit: str) -> list[str]:
    """Return the numbers of a class in sentences, with the unit of gaps."""
    limits = "" if isnan(of.m.low) else f" ({decimal(of.m.low)} to {decimal(of.m.high)} over trainings)"
    sentences = [
        f"{plural(of.n_images, 'image', 'images')}: mean M {decimal(of.m.estimate)}{limits}, largest "
        f"{decimal(of.largest)}"
    ]
    if of.why_not:
        return [*sentences, f"not tested: {one_line(of.why_not)}"]
    place = f"place {count(of.place)} of {count(of.n_patients)} scored patients"
    noticed = f"noticed from {decimal(of.noticeable)} {unit}" if isfinite(of.noticeable) else "no gap is surely noticed"
    return [*sentences, f"p {probability(of.p)}, {place}; {'flagged' if of.flagged else 'not flagged'}; {noticed}"]


def _strips(answer: PatientAnswer) -> list[Block]:
    """Draw the losses of the first images by all models."""
    items = [
        Thumbnail(data_uri="", caption=[[Name(image), ", ", Name(label)]], strip=strip.svg, alternative=strip.words)
        for (label, image), strip in list(answer.strips.items())[:MOST_STRIPS]
    ]
    caption = "Dots: losses of models that saw the image (below), and of others (above)."
    return [Gallery(items=items, caption=caption)] if items else []


def _images(answer: PatientAnswer) -> Table:
    columns = [
        words("image", "Image", row=True),
        words("label", "Class"),
        words("split", "Part"),
        number("M", "M"),
        number("p_value", "p", "probability"),
        number("loss_seen", "Loss, seen"),
        number("loss_unseen", "Loss, unseen"),
        number("target_loss", "Loss of the file"),
    ]
    return Table(
        frame=answer.images,
        columns=[column for column in columns if column.source in answer.images],
        caption=f"Images, the largest M first: losses in {answer.summary.units.loss_unit}, means over the models that "
        "saw an image and over others.",
        elsewhere="per_image.parquet",
    )


def _limits(answer: PatientAnswer) -> list[Text]:
    if not answer.scored:
        return []
    return [
        "The answer is about models that were trained like the released one on half of the patients"
        + ("; --target asks the released file itself." if answer.takes_target and answer.target is None else ".")
    ]


def _reading(answer: PatientAnswer) -> list[Block]:
    lines: list[Text] = [
        "M: loss of models that did not see an image less that of models that did, in "
        f"{answer.summary.units.loss_unit}; 0 says that training on it changed nothing.",
        "p: how often chance gives a patient of this class a gap as large. For a single question it is read as it is; "
        "the list of an audit corrects it for all patients.",
        "Nothing was found does not mean that nothing is there: what would have been noticed is stated with it.",
        "Removing a patient from the data changes no model that was trained before: only a new training does.",
    ]
    return [Steps(lines), *(Paragraph(sentence) for sentence in _limits(answer))]

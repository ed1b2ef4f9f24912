"""Lay out the page of the classifier audit, in the order in which a data-protection officer asks.

May this model be released? What was the question, and what was not covered? Which classes, how sure, against which
null? What could an attacker see? Which patients, which images? How was it done, and what does it not say? The page
leaves out sentences for which a result of ``audit losses`` or of an older run has no value.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from memorisk.audits.classifier.look_alikes import LOSSES_ALONE, TABLE
from memorisk.audits.classifier.pages import wording
from memorisk.audits.classifier.pages.attacks import attack_section, target_section, target_tables
from memorisk.audits.classifier.pages.defences import privacy_section
from memorisk.audits.classifier.pages.glance import glance
from memorisk.audits.classifier.pages.intervention import intervention_section
from memorisk.audits.classifier.pages.memorization import (
    class_section,
    class_summary,
    null_section,
    rarest_sentence,
    rarity_section,
)
from memorisk.audits.classifier.pages.people import patient_section, subgroup_facts, subgroup_section
from memorisk.audits.classifier.pages.result_view import ResultView, listed, settings
from memorisk.audits.classifier.result import TRAINED_ELSEWHERE, DenoisingUtility, FindingsUtility, Placebo, Utility
from memorisk.report.blocks import (
    Block,
    Callout,
    Definitions,
    Details,
    Fact,
    Gallery,
    Heading,
    Inline,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
    Text,
    Thumbnail,
    data_uri,
    number,
    words,
)
from memorisk.report.columns import booleans, column_texts, count, decimal, largest_first, percent, rows
from memorisk.report.first_screen import FirstScreen, verdict_screen
from memorisk.report.flagged import NOT_TESTED, classes_tested, number_flagged
from memorisk.report.result import Result
from memorisk.runs.errors import listed as named
from memorisk.runs.errors import one_line
from memorisk.statistics.verdicts.class_reasons import power_sentence
from memorisk.statistics.verdicts.levels import ATTACK_GATE, VERDICT_LEVEL

MOST_IMAGES = 12
_DRAWN = {
    "patients-drawn": "it draws copies of {units} in its training",
    "other-part-drawn": "it draws images of people in a further part of the data",
}
"""Findings of a generator's audit on images that it draws, by the code of the reason."""
MOST_NAMED = 12
"""Largest number of classes that a sentence names."""


def classifier_page(result: Result, *, pictures: Mapping[str, np.ndarray] | None = None, redact: bool = False) -> Page:
    """Lay out the report of a classifier audit.

    Args:
        result: Result with the tables of the classifier audit.
        pictures: Pixels (``[h, w, c]``, uint8 or uint16) by image id, of the first flagged patients and of the most
            memorized images; None for no pictures.
        redact: Leave out every id and every picture.
    """
    reading = ResultView.of(result, redact=redact)
    title: list[Inline] = [f"Audit of a {reading.scale.model}"]
    if reading.summary.dataset and not redact:
        title += [": ", Name(reading.summary.dataset)]
    target = target_section(reading)
    return Page(
        title=title,
        lead=_first_screen(reading).blocks(glance(reading, pictures)),
        sections=[
            Section("The question, and what was not covered", _question(reading), "asked"),
            Section("Which classes are remembered", class_section(reading), "classes"),
            *(
                [Section("Is it the rare classes?", rarity_section(reading), "rarity")]
                if len(result.per_class) > 1
                else []
            ),
            *subgroup_section(reading),
            *intervention_section(reading),
            Section("Training images against chance", null_section(reading), "null"),
            Section("What an attacker could see", attack_section(reading), "attacks"),
            *patient_section(reading),
            *privacy_section(reading),
            *([Section("The very model to be released", target, "target")] if target else []),
            Section(
                f"{reading.units.capitalize()} flagged",
                [*_flagged_patients(reading), *_marked_patients(reading)],
                "flagged",
            ),
            *_look_alikes(reading),
            Section("Most memorized images", _images(reading, None if redact else pictures), "images"),
            Section("How it was done", _methods(reading), "how"),
            Section("Assumptions and limits", _limits(reading), "limits"),
            Section(
                "Words used here", [Definitions(wording.glossary(reading.unit, reading.units, reading.scale))], "words"
            ),
        ],
        footer=[Paragraph(_footer(reading))],
        redacted=redact,
    )


def first_screen(result: Result) -> FirstScreen:
    """Show the verdict, why, what can go unnoticed, what would decide it, the counts and the classes.

    Args:
        result: Result with the tables of the classifier audit.
    """
    return _first_screen(ResultView.of(result, redact=result.redacted))


def _first_screen(reading: ResultView) -> FirstScreen:
    summary = reading.summary
    unscored = summary.images.training_sentence
    screen = verdict_screen(reading.result)
    why, *ways = screen.lists.items()
    unnoticed = [] if reading.status == "pass" else _unnoticed(reading)
    return replace(
        screen,
        lists=dict([why, ("What can go unnoticed", unnoticed), *ways]),
        sentences=[*_sentences(reading), *filter(None, [summary.audited, unscored])],
        facts=_facts(reading),
        tables=[class_summary(reading), *([] if summary.target is None else target_tables(reading)[:1])],
        notes=_notes(reading),
    )


def _facts(reading: ResultView) -> list[Fact]:
    """Count the images, patients and classes that were scored, the models, and the flagged patients."""
    total, models = reading.summary.images, reading.summary.models.n_models
    groups = Fact(f"{reading.units.capitalize()} scored", count(reading.groups_scored), _of_total(total.n_groups))
    return [
        Fact("Images scored", count(reading.images_scored), _of_total(total.n_images)),
        *([] if reading.unit == "image" else [groups]),
        Fact("Classes", count(len(reading.findings)), reading.tier_note()),
        *subgroup_facts(reading.result),
        Fact("Models trained", "not stated" if models is None else count(models), reading.seed_note()),
        Fact(f"{reading.units.capitalize()} flagged", _flagged(reading), _other_list(reading)),
    ]


def _notes(reading: ResultView) -> list[Text]:
    """List what the sections of the report say of rare classes, of interventions, and of how patients were counted."""
    summary = reading.summary
    learned = summary.utility is None or summary.utility.beats_guessing is not False
    rarest = summary.rarest_vs_top if learned else None  # models that learned nothing show nothing
    notes: list[Text] = [] if rarest is None else [rarest_sentence(rarest)]
    notes += [] if summary.intervention is None else summary.intervention.sentences
    if listed_twice := reading.two_lists():
        notes.append(listed_twice)
    if summary.groups_given is False:
        notes.append("No patient ids were given: each image counts as a patient (--group-from, --group-column).")
    return notes


def _flagged(reading: ResultView) -> str:
    """Count the flagged patients; where none could have been flagged, 0 would look like a finding."""
    n_flagged = number_flagged(reading.result.per_class, reading.flagged_total)
    return NOT_TESTED if n_flagged is None else count(n_flagged)


def _other_list(reading: ResultView) -> str:
    """Say how many count in several classes, at which level, and what the verdict's own list holds, if it differs."""
    if not reading.list_setting:
        return reading.several_classes
    return f"{reading.list_setting}; {count(reading.verdict_flagged)} on the verdict's list, at level {VERDICT_LEVEL:g}"


def _unnoticed(reading: ResultView) -> list[str]:
    """Say what the audit would have noticed of one patient, and in which classes none; a pass has it as a reason."""
    noticeable, untested, sentences = reading.summary.noticeable, reading.untestable(), list[str]()
    if noticeable is not None:
        text = power_sentence(
            noticeable.gap,
            noticeable.simulated,
            reading.summary.units,
            noticeable.label,
            noticeable.stratum,
            noticeable.strata,
        )
        sentences.append(f"{wording.UNFLAGGED.format(unit=reading.unit)}{text}" if reading.status == "fail" else text)
    if len(untested):
        names = named([one_line(label, 40) for label in column_texts(untested, "label")], MOST_NAMED)
        classes = _plural(len(untested), "class", "classes")
        sentences.append(f"a single {reading.unit} can go unnoticed in {classes}: {names}")
    return sentences


def _sentences(reading: ResultView) -> list[Text]:
    """Say in one sentence what the verdict means, and in another one by which gate."""
    gate = reading.gate_words
    rule = [f"The gate chosen for this audit: {gate}.{_looser_gate(reading)}"] if gate else []
    if reading.status == "pass":
        return [
            f"No {reading.unit} is flagged, no class is remembered more than the gate allows, and no attack that was "
            "tried tells who was in the training better than is allowed.",
            *rule,
        ]
    if reading.status == "fail":
        findings = []
        if reading.verdict_flagged:
            again = f" ({reading.several_classes})" if reading.several_classes and not reading.list_setting else ""
            flagged = _plural(reading.verdict_flagged, f"{reading.unit} is", f"{reading.units} are")
            findings.append(f"{flagged} flagged as remembered{again}")
        above = reading.classes_above_gate()
        if above:
            findings.append(f"{_plural(above, 'class is', 'classes are')} surely above the gate")
        codes = {reason["code"] for reason in reading.verdict.reasons}
        findings += [words.format(units=reading.units) for code, words in _DRAWN.items() if code in codes]
        trained = reading.summary.target is None and reading.summary.models.model not in ("", TRAINED_ELSEWHERE)
        which = "a model that was trained like these" if trained else "this model"
        return [f"Do not release {which}: {' and '.join(findings) or 'see the reasons below'}.", *rule]
    return ["This audit can say neither that the model passes nor that it fails. This is not a pass.", *rule]


def _looser_gate(reading: ResultView) -> str:
    """Name what the gate lets through beyond its defaults by the user's settings."""
    rule, scale, allowances = reading.verdict.rule, reading.scale, []
    if rule.notice is not None and rule.notice > scale.notice:
        allowances.append(
            f"a single {reading.unit} must be noticed only from a gap of {scale.amount(f'{rule.notice:g}')} on "
            f"(--notice, by default {scale.notice:g})"
        )
    if rule.attack_gate is not None and rule.attack_gate > ATTACK_GATE:
        allowances.append(
            f"attacks may come up to AUC {rule.attack_gate:g} (--attack-gate, by default {ATTACK_GATE:g})"
        )
    return f" It is looser than the default: {' and '.join(allowances)}." if allowances else ""


def _question(reading: ResultView) -> list[Block]:
    """Lay out the question, and everything that the answer does not cover."""
    unscored = reading.summary.unscored
    question = (
        "The audit asks of each training image: how much better does a model do on it because it was trained on this "
        f"very image? Where that is more than chance explains, the model holds something of that {reading.unit}, and "
        "may give it away."
    )
    gaps: list[Text] = _uncovered(reading)
    if classes := unscored.not_auditable:
        gaps.append([Strong("Not auditable"), ", too small to be divided: ", *listed(classes), "."])
    without_room = reading.untestable()
    tested = classes_tested(without_room)
    for part, what, of in (
        (~tested, "Cannot be tested", f" for single {reading.units}: "),
        (tested, f"A single further {reading.unit} cannot be noticed", f" in classes with flagged {reading.units}: "),
    ):
        if part.any():
            names = listed(column_texts(rows(without_room, part), "label"))
            gaps.append([Strong(what), of, *names, " (reasons below the class table)."])
    if less := _data_share(reading):
        gaps.append(less)
    if reading.summary.models.model == TRAINED_ELSEWHERE:
        gaps.append(LOSSES_ALONE)
    blocks: list[Block] = [Paragraph(question)]
    if unscored.n_images == 0:
        blocks.append(Paragraph("All images outside the test part were scored, of those that were not left out."))
    return [*blocks, Heading("Not covered"), Steps(gaps)] if gaps else blocks


def _uncovered(reading: ResultView) -> list[Text]:
    """Count the images and patients that the audit says nothing about, with the reasons."""
    counts, unscored = reading.summary.images, reading.summary.unscored
    lines: list[Text] = []
    if images := (unscored.n_images or 0) - (counts.n_validation or 0):  # those have a line of their own
        groups = unscored.n_groups
        also = "" if groups is None or reading.unit == "image" else _plural(groups, reading.unit, reading.units)
        counted = " and ".join(part for part in (_plural(images, "image", "images"), also) if part)
        were = "was" if images == 1 and not also else "were"
        lines.append([Strong(f"{counted} {were} not scored"), f"{_of_total(counts.n_images, ', ')}."])
    for n, what in (
        (counts.n_test, "are the test part: no model saw them, and they serve as the null."),
        (counts.n_validation, "were set aside for choosing models, and are not scored."),
        (unscored.n_images_without_partner, "found no comparable partner in any seed, and are not scored."),
        (counts.n_skipped, "could not be read and were left out."),
        (counts.n_missing, "or rows of the source have no file or are not images, and were left out."),
        (counts.n_not_sampled, "were left out by the requested sample."),
    ):
        if n:
            lines.append(f"{count(n)} images {what}")
    return lines


def _data_share(reading: ResultView) -> Text | None:
    """Say how much less data the audited models had than the full set."""
    target = reading.summary.target
    n_members = None if target is None else target.n_members
    trained, full = reading.summary.images_each, n_members or reading.summary.images.n_images
    if trained is None or not full:
        return None
    whose = "that the model to be released saw" if n_members else "of the full set, the test part included"
    return (
        f"Each model of this audit was trained on {count(trained)} images, {percent(1 - trained / full)} fewer than "
        f"the {count(full)} {whose}. A model trained on all of them may remember each image less or more."
    )


def _flagged_patients(reading: ResultView) -> list[Block]:
    """Lay out the list of flagged patients, after what a flag means."""
    blocks: list[Block] = []
    if reading.no_p_values:
        blocks.append(reading.no_p_value_callout())
        return blocks
    blocks.append(Callout("note", "What a flag means", [Paragraph(reading.flag_statement())]))
    if other := reading.two_lists():
        blocks.append(Paragraph(other))
    flagged, at = reading.flagged_groups(), f" {reading.list_setting}" if reading.list_setting else ""
    columns = [
        number("place", "No.", "count"),
        *([] if reading.redacted else [words("group", reading.unit.capitalize(), row=True)]),
        words("label", "Class", row=reading.redacted),
        number("n_images", "Images", "count"),
        number("M", "Largest M"),
        number("n_seeds", "Seeds", "count"),
        number("p_value", "p\N{NON-BREAKING HYPHEN}value", "probability"),
        number("adjusted", "Adjusted p", "probability"),
        words("marked", "Marked"),
    ]
    blocks.append(
        Table(
            frame=flagged,
            columns=[c for c in columns if c.source in flagged],
            caption=f"Flagged {reading.units}{at}, largest memorization first.",
            elsewhere="per_group.parquet",
            empty=f"No {reading.unit} is flagged{at}. In classes that cannot be tested none could have been.",
        )
    )
    if several := len(flagged) - reading.flagged_total:
        rows_more = f"{_plural(several, 'row repeats', 'rows repeat')} one that is flagged in another class, too"
        blocks.append(Paragraph(f"The list has {count(len(flagged))} rows: {rows_more}."))
    if reading.redacted:
        blocks.append(Paragraph("Ids are left out of this report. They are in the run's own tables."))
    return blocks


def _marked_patients(reading: ResultView) -> list[Block]:
    """List the patients that a person marked in `memorisk view` and the audit did not flag."""
    groups = reading.result.per_group
    if "marked" not in groups:
        return []
    others = [mark != "" for mark in column_texts(groups, "marked")] & ~booleans(groups, "flagged")
    columns = [
        *([] if reading.redacted else [words("group", reading.unit.capitalize(), row=True)]),
        words("label", "Class", row=reading.redacted),
        number("M", "Largest M"),
        words("marked", "Marked"),
    ]
    table = Table(
        frame=largest_first(rows(groups, others), "M"),
        columns=columns,
        caption=f"Other {reading.units} that a person marked.",
        elsewhere="marks.csv",
        empty=f"No other {reading.unit} was marked by a person.",
    )
    return [Paragraph("What a person marked changes no number of this audit."), table]


def _look_alikes(reading: ResultView) -> list[Section]:
    """Lay out the pairs of images that may be of one person under two ids; no section where there are none."""
    pairs = reading.result.tables.get(TABLE)
    if pairs is None or not len(pairs):
        return []
    text = (
        f"{_plural(len(pairs) // 2, 'pair of images is', 'pairs of images are')} the same or nearly so, under "
        "different ids. Where both are of one person, that person is in both halves of the models, and what they "
        "remember looks smaller than it is."
    )
    table = Table(
        frame=pairs,
        columns=[
            number("pair", "Pair", "count"),
            words("image", "Image", row=True),
            *([] if reading.unit == "image" else [words("group", reading.unit.capitalize())]),
            words("part", "Part"),
            number("similarity", "Similarity"),
        ],
        caption="Images that are alike, the most alike pair first.",
        elsewhere=f"tables/{TABLE}.parquet",
    )
    blocks: list[Block] = [Paragraph(text)] if reading.redacted else [Paragraph(text), table]
    return [Section("Perhaps one person under two ids", blocks, "alike")]


def _images(reading: ResultView, pictures: Mapping[str, np.ndarray] | None) -> list[Block]:
    """Lay out the images with the largest M: pictures where they were requested, else their ids."""
    top = reading.top_images(MOST_IMAGES)
    if reading.redacted:
        return [Paragraph("Images and their ids are left out of this report.")]
    caption = (
        f"The {len(top)} images with the largest M. M of a single image is descriptive: chance has its share in it."
    )
    if pictures is None:
        columns = [
            words("image", "Image", row=True),
            words("label", "Class"),
            *([] if reading.unit == "image" else [words("group", "Patient")]),
            number("M", "M"),
            number("n_seeds", "Seeds", "count"),
            number("loss_unseen", "Loss unseen"),
            number("loss_seen", "Loss seen"),
            number("fz_memorization", "Feldman-Zhang", "short"),
            number("fz_standard_error", "Its standard error", "short"),
        ]
        return [
            Table(
                frame=top,
                columns=[c for c in columns if c.source in top],
                caption=caption,
                empty="No image was scored.",
            ),
            Paragraph("Pictures are left out of this report."),
        ]
    at_top = {*reading.first_images().values()}
    items = [
        Thumbnail(
            data_uri="" if row["image"] in at_top else data_uri(pictures[row["image"]]),
            caption=[
                Name(row["image"]),
                ["class ", Name(str(row.get("label")))],
                f"M {decimal(row['M'])}",
                *(["picture at the top of this page"] if row["image"] in at_top else []),
            ],
            alternative="Training image, named below",
        )
        for row in top.to_dict("records")
        if row.get("image") in pictures
    ]
    return [Gallery(items=items, caption=caption)] if items else [Paragraph("No image was scored.")]


def _methods(reading: ResultView) -> list[Block]:
    """Lay out everything that is needed to repeat the audit."""
    summary = reading.summary
    design, counts, models = summary.design, summary.images, summary.models
    rows: list[tuple[Text, Text]] = []
    if summary.form:
        rows.append(("Form that ran", Name(summary.form)))
    if summary.protocol and reading.scale.of_answers:
        rows.append(("Protocol", f"{summary.protocol}: {wording.PROTOCOLS.get(summary.protocol, '')}"))
    simple = {
        "Design": design,
        "Models trained": models.n_models,
        "Images each was trained on": models.images_each,
        "Seeds": models.seeds,
        "Network": models.model,
        "Device": models.device,
        "Images in the training part, which no model left out": counts.n_train,
        "Images in the canary part, of which those with a partner are scored": counts.n_canary,
        "Test images": counts.n_test,
        "Images set aside for choosing models": counts.n_validation,
        "Unreadable images left out": counts.n_skipped,
        "Level of the list (q)": summary.list_level,
        "Fingerprint of the data": summary.data_hash,
        "Weights of the models kept in the run folder": summary.weights_kept,
        "Ids replaced by keyed hashes": summary.pseudonymised,
    }
    rows += [(text, Name(_value_text(value))) for text, value in simple.items() if value not in (None, "", ())]
    if correction := summary.correction:
        rows.append(("Correction of the list", wording.CORRECTIONS.get(correction, Name(correction))))
    blocks: list[Block] = []
    if design in wording.DESIGNS:
        blocks.append(Paragraph(wording.DESIGNS[design].format(unit=reading.unit, units=reading.units)))
    blocks.append(Definitions(rows, compact=True))
    if utility := _utility(summary.utility):
        blocks.append(Paragraph(utility))
    for value, title in ((models.training, "Training recipe"), (summary.versions, "Versions")):
        if value:
            blocks.append(Details(title, [Definitions(settings(value), compact=True)]))
    if summary.notes:
        blocks += [Heading("Notes of the run"), Steps([Name(n) for n in summary.notes])]
    return blocks


def _limits(reading: ResultView) -> list[Block]:
    """Lay out what the numbers rest on, and what they do not say."""
    design, correction = reading.summary.design, reading.summary.correction or "bh"
    blocks: list[Block] = [
        Paragraph(reading.flag_statement()),
        Heading("What the numbers rest on"),
        Steps(wording.assumptions(design, reading.units, correction, has_placebo=reading.takes_placebo)),
        *([_placebo(reading.summary.placebo)] if reading.takes_placebo else []),
    ]
    return [*blocks, Heading("What they do not say"), Steps(wording.limits(design, reading.units, reading.scale))]


def _utility(utility: Utility | None) -> str:
    """Say how good the audited models are at their task."""
    if isinstance(utility, DenoisingUtility):
        return f"On test images the audited models avoid {percent(utility.explained)} of a trivial prediction's loss."
    if isinstance(utility, FindingsUtility):
        return (
            "On the test part the audited models' loss of all findings of an image is "
            f"{utility.loss_test:.2f} nats; naming each finding by its frequency would give "
            f"{utility.loss_guessing:.2f}."
        )
    if (
        utility is None
        or np.isnan([utility.test_accuracy, utility.test_balanced_accuracy, utility.majority_share]).any()
    ):
        return ""
    return (
        f"On the test part the audited models are right in {percent(utility.test_accuracy)} of images (balanced over "
        f"classes {percent(utility.test_balanced_accuracy)}; always naming the commonest class would give "
        f"{percent(utility.majority_share)})."
    )


def _placebo(placebo: Placebo | None) -> Callout:
    """Say what the audit found where there was nothing to find, or that this was not tried."""
    if placebo is None or placebo == Placebo():
        return Callout("note", "No placebo was run with this audit: its level was not checked on these data.")
    sentences = [
        f"In {which} {percent(part.share)} of the p-values were at most 0.05 (expected 5 %, by chance "
        f"{percent(part.low)} to {percent(part.high)})."
        for part, which in ((placebo.every, "all classes"), (placebo.rare, "classes below 5 % of the images"))
        if part is not None
    ]
    if placebo.n_repeats is not None and placebo.n_with_list is not None:
        listed_in = f"{count(placebo.n_with_list)} of {count(placebo.n_repeats)}"
        sentences.append(f"In {listed_in} repeats at least one was flagged.")
    paragraph = Paragraph(" ".join(sentences) or "Its numbers are in summary.json.")
    return Callout("note", "Placebo: the same audit where there was nothing to find", [paragraph])


def _footer(reading: ResultView) -> Text:
    version = reading.summary.versions.get("memorisk")
    origin = f"Made by memorisk {version}. " if version else "Made by memorisk. "
    handling = (
        "Ids and images are left out."
        if reading.redacted
        else "This file names training images: handle it as personal data."
    )
    return origin + handling + " It needs no network and asks for none."


def _of_total(total: int | None, before: str = "") -> str:
    return "" if total is None else f"{before}of {count(total)}"


def _plural(n: int, one: str, many: str) -> str:
    return f"{count(n)} {one if n == 1 else many}"


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return count(value) if value == round(value) else f"{value:g}"
    return ", ".join(str(v) for v in value) if isinstance(value, tuple) else str(value)

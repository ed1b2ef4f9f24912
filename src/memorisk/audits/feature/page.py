"""The report of a mark: what was found, where the mark lies among its controls, what answered most."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from memorisk.audits.feature.verdict import MATCHED_LEVEL
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Definitions,
    Details,
    Fact,
    Facts,
    Figure,
    Gallery,
    Heading,
    Kind,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
    Thumbnail,
    data_uri,
)
from memorisk.report.columns import capitalized, column_numbers, count, decimal
from memorisk.report.figures.histograms import rank_plot
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS

if TYPE_CHECKING:  # it loads models
    from memorisk.audits.feature.run import FeatureEvidence
    from memorisk.images.alterations.marks import Mark

TITLES: dict[str, tuple[Kind, str]] = {
    "pass": ("pass", "The mark was not found"),
    "fail": ("fail", "The model answers to the mark as to something that it knows"),
    "undecided": ("undecided", "Could not be decided"),
}
SENTENCES = {
    "pass": "In this test the model's answers do not give the mark away.",
    "fail": "Do not release this model: train it again without the mark, and audit it again.",
    "undecided": "This is not a pass: the audit cannot say whether the model remembers the mark.",
}
MOST_PROBES = 12
_SHOWN_CONTROLS = 11


def feature_page(result: Result, evidence: "FeatureEvidence | None" = None, *, redact: bool = False) -> Page:
    """Lay out the audit of a mark.

    Args:
        result: Of `audits.feature.run.analyse_feature`.
        evidence: For pictures of the mark and its controls; None for none.
        redact: Leave out the mark, its texts and the probes' ids.
    """
    sections = [
        Section("The mark among its controls", _controls(result, evidence, redact), "controls"),
        Section("The published form", _paper(result), "paper"),
        Section("What the mark does to the answers", _answers(result, redact), "answers"),
        Section("What was asked", _setup(result), "setup"),
        Section("How to read this", _reading_guide(result), "reading"),
    ]
    held = "It shows the mark, which may name a person: handle it as such."
    if redact:
        held = "It leaves out the mark; config.yaml in the run folder names it."
    return Page(
        title="Does the model remember the mark?",
        subtitle="An audit of one unique feature",
        lead=_lead(result),
        sections=sections,
        footer=[Paragraph(f"{held} It needs no network and asks for none.")],
        redacted=redact,
    )


def _lead(result: Result) -> list[Block]:
    v = result.verdict
    kind, title = TITLES[result.status]
    blocks: list[Block] = [Paragraph(SENTENCES[result.status]), Heading("Why")]
    blocks.append(Steps([capitalized(reason) for reason in v["why"]]))
    if v["what_would_decide"]:
        blocks += [Heading(WAYS[result.status]), Steps([capitalized(way) for way in v["what_would_decide"]])]
    interval = "" if v["M_low"] is None else f"{decimal(v['M_low'])} to {decimal(v['M_high'])}"
    facts = [
        Fact("M, log sensitivity over a control's", decimal(v["M"]), interval),
        Fact("p", f"{v['p_value']:.3g}", f"smallest possible {v['smallest_p']:.2g}"),
        Fact("Found in four of five cases", *noticeable_sensitivity(v)),
        Fact("Controls", count(v["n_controls"]), _missing_controls(result)),
        Fact("Models", count(v["n_models"]), "the independent units"),
        Fact("References", count(v["n_references"])),
        Fact("Probes", count(v["n_probes"])),
    ]
    return [Callout(kind, title, blocks), Facts(facts)]


def noticeable_sensitivity(verdict: dict[str, Any]) -> tuple[str, str]:
    """The least sensitivity that would have been found with probability 0.8, and beside what; not known without it."""
    least = verdict.get("noticeable")
    if least is None or not np.isfinite(least):
        return "not known", ""
    return f"{np.exp(least):.3g} times or more", "as sensitive as the references"


def _models(result: Result) -> Figure:
    """The audited models among their references: what the p is made of."""
    table, rank = result.tables["models"], result.summary["rank"]
    audited = np.asarray(table["audited"], dtype=bool)
    t = column_numbers(table, "t")
    value, others = float(t[audited].mean()), t[~audited]
    limit = None if rank["detectable"] is None else float(others.mean()) + float(rank["detectable"])
    return Figure(
        svg=rank_plot(
            others, value, limit=limit, x_title="Mean log KL of the mark less that of its controls",
            names=("audited", "references"),
        ),
        title="The model among its references",
        caption="This is what p is made of. One harmless model in 20 stands right of 19 references by chance.",
        alternative=f"The audited model has {decimal(value)}, the references {decimal(others.min())} to "
        f"{decimal(others.max())}.",
    )  # fmt: skip


def _missing_controls(result: Result) -> str:
    """That fewer controls exist, or fit the images, than were asked for."""
    asked, found = int(result.summary["controls_asked"]), int(result.verdict["n_controls"])
    return "" if found >= asked else f"of {count(asked)} asked for: no more like the mark were found"


def _controls(result: Result, evidence: "FeatureEvidence | None", redact: bool) -> list[Block]:
    s, rank, table = result.summary, result.summary["rank"], result.tables["controls"]
    centred = rank["method"] == "centred"
    others = column_numbers(table, "mean_log_kl") - (column_numbers(table, "reference_mean_log_kl") if centred else 0.0)
    value = float(s["mean_log_kl"]) - (float(s["reference_mean_log_kl"]) if centred else 0.0)
    limit = None
    if rank["method"] != "references" and rank["detectable"] is not None:
        limit = float(np.mean(others)) + float(rank["detectable"])
    title = "Mean over probes of log KL" + (", less the references'" if centred else "")
    place: list[tuple[Text, Text]] = []
    if s["ink"] is not None:
        place = [
            ("Ink of the mark", decimal(s["ink"])),
            ("Share of the controls with less ink (ties half)", decimal(s["place_in_ink"])),
        ]
    if s["place_in_reference_kl"] is not None:
        place.append(("Share with less KL under the references", decimal(s["place_in_reference_kl"])))
    blocks: list[Block] = [Definitions(place, compact=True)] if place else []
    blocks.append(
        Figure(
            svg=rank_plot(others, value, limit=limit, x_title=title, names=("the mark", "its controls")),
            title="The mark among its controls",
            caption="Right of most: the model answers to the mark more than to marks like it.",
            alternative=f"The mark has {decimal(value)}; the controls {decimal(np.min(others))} to "
            f"{decimal(np.max(others))}, p among them {decimal(rank['p_controls'])}.",
        )
    )
    if rank["method"] == "references":
        blocks.insert(0, _models(result))
    if evidence is not None:
        blocks.append(_pictures(evidence))
    columns = [
        *([] if redact else [Column(source="control", heading="Control", row_heading=True)]),
        Column(source="ink", heading="Ink", format="decimal"),
        Column(source="mean_log_kl", heading="Mean log KL", format="decimal"),
        Column(source="mean_kl", heading="Mean KL", format="decimal"),
        *(
            [Column(source="reference_mean_log_kl", heading="Mean log KL, references", format="decimal")]
            if rank["n_references"]
            else []
        ),
    ]
    ordered = table.sort_values(["mean_log_kl", "control"], ascending=[False, True])
    shown = Table(
        frame=ordered, columns=columns, caption="Controls, the strongest first.", elsewhere="tables/controls.parquet",
        most_rows=25,
    )  # fmt: skip
    return [*blocks, Details("Every control", [shown])]


def _pictures(evidence: "FeatureEvidence") -> Gallery:
    """The mark and some of its controls, on grey so that their opacity shows."""
    assert evidence.mark is not None
    controls = evidence.controls[:_SHOWN_CONTROLS]
    marks = [evidence.mark, *controls]
    names: list[Text] = [["the mark: ", Name(evidence.mark.name)], *(Name(c.name) for c in controls)]
    items = [
        Thumbnail(data_uri=data_uri(_on_grey(m)), caption=[name], alternative="A small pattern, named below")
        for m, name in zip(marks, names, strict=True)
    ]
    return Gallery(items=items, caption="The mark and the first of its controls, on grey.")


def _on_grey(mark: "Mark") -> np.ndarray:
    values = mark.values if mark.values.ndim == 3 else mark.values[:, :, None]
    alpha = mark.alpha[:, :, None]
    shown = np.rint(255 * (0.45 * (1 - alpha) + alpha * values)).astype(np.uint8)
    h, w = shown.shape[:2]
    side = max(h, w)
    square = np.full((side, side, shown.shape[2]), round(255 * 0.45), dtype=np.uint8)
    square[(side - h) // 2 : (side - h) // 2 + h, (side - w) // 2 : (side - w) // 2 + w] = shown
    return square


def _paper(result: Result) -> list[Block]:
    p, white = result.summary["paper"], result.summary["white_box"]
    if p is None:
        return [Paragraph("Not among the outputs: it needs a fresh random patch for each probe.")]
    rows: list[tuple[Text, Text]] = [
        ("M as published: mean KL of the mark less that of random patches", f"{p['M_paper']:.4g}"),
        ("Mean KL, mark and random", f"{p['mean_mark']:.4g}, {p['mean_random']:.4g}"),
        ("s.d. over redraws of the random patches", _known_text(p["sd_over_redraws"])),
        ("Range over the models", _known_text(p["range_over_models"])),
        ("Welch's t-test over probes, one-tailed p", f"{p['p_welch']:.3g}"),
    ]
    if white is not None:
        rows += [
            ("M_w, white box", f"{white['m']:.4g}"),
            ("Mean probability of the label, mark and random", f"{white['mean_mark']:.3g}, {white['mean_random']:.3g}"),
            ("Range of M_w over the models", _known_text(white["range_over_models"])),
            ("Images of the label", [Name(str(white["label"])), f", {count(white['n'])}"]),
        ]
    text = (
        "The t-test counts probes as replicates of the model, and random patches match neither the mark's ink nor its "
        "contrast: it finds memorization in models that never saw the mark. It is printed, not used."
    )
    return [Definitions(rows, compact=True), Paragraph(text)]


def _known_text(value: Any) -> str:
    return "one only" if value is None else f"{value:.3g}"


def _answers(result: Result, redact: bool) -> list[Block]:
    classes = result.per_class.sort_values("shift", key=np.abs, ascending=False, kind="stable")
    shown = Table(
        frame=classes,
        columns=[
            Column(source="label", heading="Class", row_heading=True),
            Column(source="clean", heading="Mean probability, clean", format="decimal"),
            Column(source="shift", heading="Change by the mark", format="decimal"),
        ],
        caption="Mean over probes, the largest change first.",
        elsewhere="per_class.parquet",
        most_rows=20,
    )
    if redact:
        return [shown]
    top: pd.DataFrame = result.per_image.sort_values(["kl", "image"], ascending=[False, True]).head(MOST_PROBES)
    moved = Table(
        frame=top,
        columns=[
            Column(source="image", heading="Probe", row_heading=True),
            Column(source="kl", heading="KL", format="decimal"),
        ],
        caption="The probes whose answer the mark moved most.",
        elsewhere="per_image.parquet",
    )
    return [shown, moved]


def _setup(result: Result) -> list[Block]:
    s = result.summary
    mark, described = s["mark"], s["models"]
    size = f", {mark['kind']}" + (f", {mark['pixels'][0]} x {mark['pixels'][1]}" if mark.get("pixels") else "")
    zero = s["opacity_zero"]
    rows: list[tuple[Text, Text]] = [
        ("Mark", [Name(str(mark["name"] or "left out")), size]),
        ("Place, opacity", f"{mark['place']}, {mark.get('opacity', 1):g}"),
        ("Controls", Name(str(s["controls_kind"]))),
        ("Preprocessing", Name(_words(described.get("preprocessing")) or "outputs were given")),
        (
            "Opacity 0",
            "not given" if zero["largest_kl"] is None else f"largest KL {zero['largest_kl']:.2g}, p {zero['p']:g}",
        ),
    ]
    for what in ("models", "references"):
        for told in described.get(what) or ():
            words = ", ".join(f"{k} {v}" for k, v in told.items() if k != "preprocessing")
            rows.append((what[:-1].capitalize(), Name(words)))
    return [Definitions(rows, compact=True)]


def _words(found: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (found or {}).items())


def _reading_guide(result: Result) -> list[Block]:
    rank = result.summary["rank"]
    items: list[Text] = [
        "Mark and controls are exchangeable only if the mark was not chosen for its shape. Controls have the mark's "
        "pixels in another arrangement, equally rough, or names of the same length; a given letter still answers "
        "somewhat more or less than they do in models that never saw it, so that without references a p near the level "
        f"is weak evidence ({MATCHED_LEVEL} of harmless models at 5 %, by the letter), and decides nothing.",
        "With references trained alike without the mark the test is exact for every mark, if they differ from the "
        "audited model by chance alone.",
        "A mark that is not found was not shown to be absent from the training data: one training image often leaves "
        "no trace that answers show. The report says which sensitivity would have been found in four of five cases, in "
        "a model like the references.",
        "M is the logarithm of how many times as sensitive the model is to the mark as to a control, in geometric mean "
        f"over probes{', less that of the references' if rank['n_references'] else ''}. Probes are no replicates of "
        "the model: its unit is the trained model.",
    ]
    return [Steps(items)]

"""The page of an explanation: atypicality against M, and what the layers tell of it."""

import numpy as np
import pandas as pd

from memorisk.audits.classifier.explanations.result import BEFORE, Explanation, LayerFindings
from memorisk.report.blocks import (
    Block,
    Definitions,
    Fact,
    Figure,
    Heading,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
    estimate,
    number,
    words,
)
from memorisk.report.cells import inline_text
from memorisk.report.columns import column_numbers, count, decimal, largest_first, probability, rows
from memorisk.report.figures.curves import layer_plot
from memorisk.report.figures.intervals import series_plot
from memorisk.report.first_screen import FirstScreen
from memorisk.report.glance import limits_of
from memorisk.statistics.memorization.probes import CLS, chance_band

MEANINGS = {
    "intra": "distance to own class",
    "nearest_other": "to nearest other class",
    "ratio": "ratio of the two",
}
KIND_NAMES = {"logistic": "logistic regression", "mlp": "one hidden layer"}
MOST_IMAGES = 50


def explanation_page(explanation: Explanation) -> Page:
    """Lay out an explanation.

    Args:
        explanation: Explanation from ``audits.classifier.explanations.run.explain``.
    """
    named = "Ids are left out." if explanation.redact else "This file names images: handle it as personal data."
    sections = [
        Section("Are memorized images atypical?", _associations(explanation), "atypicality"),
        Section("The most atypical images", _images(explanation), "images"),
    ]
    if explanation.layers is not None:
        sections.append(Section("Where is it stored?", _layers(explanation.layers), "layers"))
    sections.append(Section("How to read this", _reading_guide(explanation), "reading"))
    return Page(
        title="What memorization goes with",
        subtitle=Name(explanation.summary.dataset),
        lead=explanation_screen(explanation).blocks(_glance(explanation.associations)),
        sections=sections,
        footer=[Paragraph(f"{named} It needs no network and asks for none.")],
        redacted=explanation.redact,
    )


def ratio_sentence(row: dict[str, object]) -> list[str | Name]:
    """Return one feature space's answer in a sentence: the ratio in the pairwise form, within classes."""
    rho, low, high = (float(str(row[k])) for k in ("rho_residual", "low_residual", "high_residual"))
    space = ["By the features of ", _source(str(row["features"])), ", "]
    if np.isnan(rho):
        return [*space, "nothing can be decided: the patients are too few."]
    figures = f"rho {decimal(rho)} ({decimal(low)} to {decimal(high)}), p {_p(row['p'])}"
    if low > 0:
        what = "more atypical images are memorized more, within classes: "
    elif high < 0:
        what = "more atypical images are memorized less, within classes: "
    else:
        what = "whether more atypical images are memorized more, within classes, cannot be decided: "
    return [*space, what, f"{figures}."]


def _source(features: str) -> str | Name:
    """Name the network or the file that the features are from; the run's own network has no name."""
    return "the run's network before its training" if features == BEFORE else Name(features)


def explanation_screen(explanation: Explanation) -> FirstScreen:
    """Show whether atypical images are memorized more, what the layers hold, and the correlations.

    Args:
        explanation: Explanation of a finished run.
    """
    table, s = explanation.associations, explanation.summary
    ratios = rows(table, np.asarray((table["form"] == "pairwise") & (table["score"] == "ratio")))
    sentences = [inline_text(ratio_sentence(row)) for row in ratios.to_dict("records")]
    if explanation.layers is not None:
        sentences.append(probe_sentence(explanation.layers))
    return FirstScreen(
        kind="note",
        headline="What M goes with",
        sentences=sentences[:1],
        lists={"Other feature spaces and layers": sentences[1:], "Notes": s.notes},
        facts=[
            Fact("Images scored", count(s.n_scored)),
            Fact("Patients scored", count(s.n_groups_scored)),
            Fact("Seeds", count(len(s.seeds))),
        ],
        tables=[_association_table(table, "pairwise", "Mean distance to the images of other patients.")],
    )


def _glance(table: pd.DataFrame) -> list[Block]:
    """Draw how M goes with each distance, within classes."""
    table = rows(table, np.asarray(table["form"] == "pairwise"))
    if not len(table):
        return []
    labels = [MEANINGS.get(str(score), str(score)) for score in table["score"]]
    sources = [inline_text([_source(str(name))]) for name in table["features"]]
    limits = limits_of(table, "rho_residual", "low_residual", "high_residual")
    rhos = column_numbers(table, "rho_residual")
    spoken = "; ".join(f"{label}: {decimal(rho)}" for label, rho in zip(labels, rhos, strict=True))
    return [
        Figure(
            svg=series_plot(
                labels, {"rho": limits}, x_title="Spearman's rho with M, 95 % interval", cut=False,
                sublabels=sources if len(set(sources)) > 1 else None,
            ),
            title="How M goes with atypicality, within classes",
            caption="",
            alternative=f"{spoken}.",
        )
    ]  # fmt: skip


def probe_sentence(layers: LayerFindings) -> str:
    """Word what the probes reached and what they could have reached, in two sentences."""
    probes, ceiling = layers.probes, layers.reliability.ceiling
    above = np.sum(column_numbers(probes, "low") > 0.5)
    lowest, highest = decimal(probes["auroc"].min()), decimal(probes["auroc"].max())
    text = (
        f"Probes of {count(probes['layer'].nunique())} layers reach AUROCs of {lowest} to {highest}; "
        f"{count(above)} of {count(len(probes))} intervals lie above 0.5."
    )
    if np.isnan(ceiling.estimate):
        return text + " What they could reach at most is not known: that needs other seeds over which M repeats."
    return text + (
        f" So far as M repeats over the other seeds, a probe could reach {decimal(ceiling.estimate)} at most "
        f"({decimal(ceiling.low)} to {decimal(ceiling.high)})."
    )


def _associations(explanation: Explanation) -> list[Block]:
    table = explanation.associations
    blocks: list[Block] = []
    for form, heading, caption in (
        ("pairwise", "Pairwise, other patients' images only", "Mean distance to the images of other patients."),
        (
            "centroid",
            "The paper's form",
            "Distance to class centroids with the image in its own: rare classes look compact in this form.",
        ),
    ):
        blocks += [Heading(heading), _association_table(table, form, caption)]
    blocks.append(
        Paragraph(
            "An image is atypical when it lies far from its own class and near to another one. Distances are cosine "
            "distances of frozen features; rho is Spearman's correlation with M. Within classes, class means are "
            "subtracted from both first, so that rare classes cannot make the correlation by themselves."
        )
    )
    smallest = column_numbers(table, "smallest_p")
    if np.isfinite(smallest).any():
        smallest, moved = np.nanmin(smallest), np.max(column_numbers(table, "n_movable"))
        blocks.append(
            Paragraph(
                f"p exchanges M between patients of one class with equally many images; {count(moved)} patients have "
                f"such a partner, and the smallest p there could be is {probability(smallest)}. The paper's p counts "
                "images as independent and is never below 1e-10."
            )
        )
    return blocks


def _association_table(table: pd.DataFrame, form: str, caption: str) -> Table:
    named = table.assign(score=[MEANINGS.get(str(v), str(v)) for v in table["score"]])
    columns = [
        words("features", "Features", row=True),
        words("score", "Score"),
        estimate("rho_residual", "Rho within classes [95 % interval]", low="low_residual", high="high_residual"),
        number("p", "p", "probability"),
        estimate("rho", "Rho, raw [95 % interval]", low="low", high="high"),
        number("p_paper_residual", "Paper's p, within", "probability"),
        number("p_paper", "Paper's p, raw", "probability"),
        number("n", "Images", "count"),
        number("n_groups", "Patients", "count"),
    ]
    chosen = rows(named, np.asarray(named["form"] == form))
    return Table(frame=chosen, columns=columns, caption=caption, elsewhere="atypicality_summary.parquet")


def _images(explanation: Explanation) -> list[Block]:
    table = explanation.atypicality
    blocks: list[Block] = []
    for space in dict.fromkeys(table["features"]):
        chosen = largest_first(rows(table, np.asarray(table["features"] == space)), "ratio")
        ids = [] if explanation.redact else [words("image", "Image", row=True)]
        columns = [
            *ids,
            words("label", "Class", row=explanation.redact),
            number("M", "M"),
            number("ratio", "Ratio", missing="not measurable"),
            number("intra", "To its class", missing="not measurable"),
            number("nearest_other", "To the nearest other", missing="not measurable"),
        ]
        missing = np.sum(np.isnan(column_numbers(chosen, "ratio")))
        caption = "Largest ratio first, pairwise form." + (
            f" {count(missing)} images have none: their class, or every other one, has no image of another patient."
            if missing
            else ""
        )
        image_table = Table(
            frame=chosen, columns=columns, caption=caption, elsewhere="atypicality.parquet", most_rows=MOST_IMAGES
        )
        blocks += [Heading(["By the features of ", _source(str(space))]), image_table]
    return blocks


def _layers(layers: LayerFindings) -> list[Block]:
    s, reliability = layers.summary, layers.reliability
    names = list(layers.distances["layer"])
    return [
        Paragraph(
            [
                f"Probed is the model of seed {s.seed} (",
                Name(s.model),
                f") on the {count(s.n_probed)} images of {count(s.n_groups_probed)} patients that it was trained "
                "on and its twin was not. What is predicted is whether an image's M, from the other seeds, lies above "
                f"the median of its class. Layers: {s.layers}; they are numbered in the order of the tables.",
            ]
        ),
        Definitions(
            [
                ("Reliability of M over the other seeds", _space_label(reliability.reliability)),
                ("AUROC of half of these seeds for the other half", _space_label(reliability.half_auroc)),
                ("Ceiling: AUROC of a probe that knew the true M", _space_label(reliability.ceiling)),
            ]
        ),
        _probe_figure(layers, names),
        Heading("How far the twins are apart"),
        _distance_figure(layers.distances),
    ]


def _shuffled_labels(layers: LayerFindings) -> str:
    """Word what shuffled labels may do by chance, and whether they did; half of the images have the label."""
    n, aucs = layers.summary.n_probed, column_numbers(layers.probes, "shuffled")
    aucs = aucs[np.isfinite(aucs)]
    half = chance_band(n // 2, n - n // 2)
    mean = float(np.mean(aucs)) if len(aucs) else float("nan")
    verdict = "it does" if abs(mean - 0.5) <= half else "IT DOES NOT: distrust these probes"
    return (
        "With shuffled labels the AUROC must lie near 0.5; one shuffle serves all layers, so that they err together, "
        f"and in 95 % of repeats or more their mean lies within 0.5 ± {half:.2f}. Here it is {decimal(mean)}: "
        f"{verdict}."
    )


def _probe_figure(layers: LayerFindings, names: list[str]) -> Figure:
    probes = layers.probes
    series = {}
    for kind, kind_name in KIND_NAMES.items():
        of_kind = probes[probes["kind"] == kind].set_index("layer")
        for pooling, chosen in _poolings(names).items():
            each = of_kind.loc[chosen]
            series[kind_name + pooling] = (
                column_numbers(each, "auroc"),
                column_numbers(each, "low"),
                column_numbers(each, "high"),
            )
    places = {name: i + 1 for chosen in _poolings(names).values() for i, name in enumerate(chosen)}
    columns = [
        number("number", "No.", "count"),
        words("layer", "Layer", row=True),
        words("kind", "Probe"),
        estimate("auroc", "AUROC [95 % interval]", low="low", high="high"),
        number("fold_mean", "Paper's mean over folds"),
        number("shuffled", "Labels shuffled"),
        number("width", "Width", "count"),
    ]
    frame = probes.assign(
        number=[places[str(v)] for v in probes["layer"]], kind=[KIND_NAMES[str(k)] for k in probes["kind"]]
    )
    table = Table(frame=frame, columns=columns, caption="Every layer and probe.", elsewhere="probes.parquet")
    return Figure(
        svg=layer_plot(series, y_title="AUROC for high M", reference=0.5, ceiling=layers.reliability.ceiling.estimate),
        title="Probes by layer",
        caption="The line at 0.5 is guessing, the dashed one the most that any probe could reach: M is measured with "
        "noise. Bands are 95 % intervals over patients, each by itself.",
        alternative=probe_sentence(layers),
        table=table,
    )


def _poolings(names: list[str]) -> dict[str, list[str]]:
    """Return the layers by pooling: means under "", CLS tokens (where there are some) under their suffix."""
    tokens = [n for n in names if n.endswith(CLS)]
    return {"": [n for n in names if not n.endswith(CLS)]} | ({CLS: tokens} if tokens else {})


def _distance_figure(distances: pd.DataFrame) -> Figure:
    series = {}
    for pooling, chosen in _poolings(list(distances["layer"])).items():
        each = distances.set_index("layer").loc[chosen]
        for band in ("high", "low"):
            limits = (
                column_numbers(each, band),
                column_numbers(each, f"{band}_low"),
                column_numbers(each, f"{band}_high"),
            )
            series[f"{band} M{pooling}"] = limits
    columns = [
        words("layer", "Layer", row=True),
        estimate("high", "High M [95 %]"),
        estimate("low", "Low M [95 %]"),
        estimate("difference", "Difference [95 %]"),
    ]
    apart = np.sum(
        (column_numbers(distances, "difference_low") > 0) | (column_numbers(distances, "difference_high") < 0)
    )
    return Figure(
        svg=layer_plot(series, y_title="Cosine distance of the twins"),
        title="Distance of the twins' activations by layer",
        caption="Between the two models of the probed seed, images above and below their class median of M.",
        alternative=(
            f"Of {count(len(distances))} layers, {count(apart)} have a difference of high and low M whose interval "
            "leaves out 0. Bands that overlap do not show that there is none; the column of differences decides."
        ),
        table=Table(frame=distances, columns=columns, caption="Every layer.", elsewhere="distances.parquet"),
    )


def _space_label(interval: object) -> str:
    value, low, high = (float(getattr(interval, k)) for k in ("estimate", "low", "high"))
    if np.isnan(value):
        return str(getattr(interval, "method", "not measurable"))
    return f"{decimal(value)} ({decimal(low)} to {decimal(high)})"


def _p(value: object) -> str:
    return probability(float(str(value)))


def _reading_guide(explanation: Explanation) -> list[Block]:
    text = (
        "A correlation is not a cause: what makes an image atypical in these features may come with what makes it hard "
        "to learn. M is an estimate from few trainings, and its noise draws every number here towards nothing. "
        "Intervals are over patients; each holds 95 % by itself, not all of them at once."
    )
    blocks: list[Block] = [Paragraph(text)]
    if explanation.layers is not None:
        blocks.append(
            Paragraph(
                [
                    Strong("Probes. "),
                    "An AUROC near 0.5 says that this probe found nothing at this layer. How much it could have found "
                    "is bounded by how well M repeats: compare with the ceiling. ",
                    _shuffled_labels(explanation.layers),
                ]
            )
        )
    if explanation.summary.notes:
        blocks += [Paragraph("Further notes:"), Steps([Name(n) for n in explanation.summary.notes])]
    return blocks

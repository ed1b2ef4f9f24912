"""Figures: what is drawn stands where the numbers say, and no label disturbs it."""

import re
import warnings
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from memorisk.report.figures import memorization as figures
from memorisk.report.figures.sheet import PALETTE, WIDTH, Sheet, palette_css, place_labels
from tests.audits.classifier_results import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def all_figures(labels=("a", "b", "c"), seed=0) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    n = len(labels)
    mean = rng.exponential(0.3, n)
    half = rng.random(n)
    fpr = np.sort(rng.random(50))
    return {
        "intervals": figures.interval_plot(labels, mean, mean - half, mean + half),
        "frequency": figures.frequency_plot(labels, rng.random(n), mean, mean - half, mean + half),
        "null": figures.null_against_members(rng.normal(size=900), rng.normal(size=50), names=(labels[0], labels[1])),
        "roc": figures.roc_log(
            dict.fromkeys(labels, (fpr, np.sqrt(fpr))), smallest_measurable=0.02, controls=labels[:1]
        ),
        "p": figures.p_value_histogram(rng.random(200)),
    }


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter(f"{SVG}text")]


def points(svg: str, ink: str) -> np.ndarray:
    """Centres of the round markers of a colour, in points from the upper left corner."""
    uses = [n for n in ET.fromstring(svg).iter(f"{SVG}use") if f"f-{ink}" in n.get("class", "")]
    return np.array([[float(n.get("x")), float(n.get("y"))] for n in uses]).round(3)


@pytest.mark.parametrize("labels", [("a", "b", "c"), HOSTILE, ("$x^2$", "\\frac{1}", "_a_", "%d", "")])
def test_figures_are_small_clean_svg_whatever_the_labels(labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = all_figures(labels)
    for name, svg in drawn.items():
        root = ET.fromstring(svg)
        assert root.tag == f"{SVG}svg"
        assert len(svg) < 60_000, name
        for node in root.iter():
            assert node.tag.removeprefix(SVG) in {"svg", "g", "path", "use", "text", "defs", "clipPath", "rect"}
            assert "style" not in node.attrib
            assert not any(key.startswith("on") for key in node.attrib)
            assert node.get("href", "#").startswith("#")
        assert "Date" not in svg
        svg.encode("utf-8")


def test_labels_are_the_texts_themselves():
    names = ["$x^2$", "高危", "a<b&c", "right\u202eleft"]
    drawn = texts(figures.interval_plot(names, [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]))
    assert [t for t in drawn if t in ("$x^2$", "高危", "a<b&c", "right\\u202eleft")] == [
        "$x^2$",
        "高危",
        "a<b&c",
        "right\\u202eleft",
    ]


def test_same_arrays_same_bytes_and_no_shared_ids():
    assert all_figures() == all_figures()
    ids = [i for svg in all_figures().values() for i in re.findall(r' id="([^"]+)"', svg)]
    assert len(ids) == len(set(ids)) > 0
    for svg in all_figures().values():
        referred = set(re.findall(r'(?:url\(#|href="#)([\w.-]+)', svg))
        assert referred == set(re.findall(r' id="([^"]+)"', svg))


def test_every_colour_can_be_exchanged_by_the_page():
    light = {v[0] for v in PALETTE.values()}
    for svg in all_figures().values():
        used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg))
        assert used <= light
    assert all(f".f-{name}{{" in palette_css() for name in PALETTE)


def test_interval_plot_is_linear_in_the_mean_and_cuts_what_is_far_too_wide():
    mean = np.array([0.0, 0.2, 0.5, 0.1])
    half = np.array([0.1, 0.1, 0.1, 50])
    low, high = mean - half, mean + half
    svg = figures.interval_plot(list("abcd"), mean, low, high)
    dots = points(svg, "blue")
    rows = np.unique(dots[:, 1])
    assert len(rows) == 4
    x = np.array([dots[dots[:, 1] == row, 0] for row in rows[:3]])[:, 0]
    scale = (x[2] - x[0]) / 0.5
    np.testing.assert_allclose(x, x[0] + scale * mean[:3], atol=1e-3)
    np.testing.assert_allclose(np.diff(rows), 24, atol=1e-3)
    wide = dots[dots[:, 1] == rows[3], 0]
    assert len(wide) == 3  # the mean, and an arrowhead at either edge
    assert wide.max() - wide.min() < 3 * 50 * scale / 10
    assert scale > 100  # the other rows still fill the axis


def test_interval_plot_takes_missing_values_no_rows_and_very_many_rows():
    nan = np.nan
    svg = figures.interval_plot(["a", "b"], [nan, 0.2], [nan, nan], [nan, nan])
    assert len(points(svg, "blue")) == 1
    assert figures.interval_plot([], [], [], []).startswith("<svg")
    many = [f"class {i}" for i in range(200)]
    drawn = texts(figures.interval_plot(many, np.zeros(200), np.zeros(200), np.zeros(200)))
    assert "class 39" in drawn
    assert "class 40" not in drawn


def test_frequency_plot_is_logarithmic_in_the_frequency():
    frequency = np.array([0.01, 0.1, 1.0])
    svg = figures.frequency_plot(list("abc"), frequency, [0.1, 0.2, 0.3], [0, 0.1, 0.2], [0.2, 0.3, 0.4])
    dots = points(svg, "blue")
    assert np.isclose(dots[1, 0] - dots[0, 0], dots[2, 0] - dots[1, 0], atol=1e-3)
    assert {"a", "b", "c"} <= set(texts(svg))
    assert figures.frequency_plot([], [], [], [], []).startswith("<svg")
    assert len(points(figures.frequency_plot(["a", "b"], [0.0, 0.5], [1, 1], [0, 0], [2, 2]), "blue")) == 1


@pytest.mark.parametrize("n", [1, 7, 240, 5000])
def test_survival_is_the_share_that_reaches_each_value(n):
    values = np.random.default_rng(n).normal(size=n).round(2)
    x, share = figures._survival(np.r_[values, np.nan])
    order = np.sort(values)
    for value, drawn in zip(x, share, strict=True):
        at = [1 - i / n for i in range(n) if order[i] == value]  # ties make a vertical step of several shares
        assert any(np.isclose(drawn, a) for a in at)
    assert share[0] == 1
    assert np.isclose(share[-1], 1 / n)
    assert len(x) <= 240


def test_null_figure_takes_empty_and_constant_values():
    assert figures.null_against_members([], []).startswith("<svg")
    assert figures.null_against_members([0.5] * 9, [0.5]).startswith("<svg")


def test_thinned_roc_curve_is_the_curve_where_the_eye_looks():
    rng = np.random.default_rng(1)
    non, member = np.sort(rng.normal(size=20_000))[::-1], rng.normal(1, 1, 3000)
    fpr = np.arange(1, 20_001) / 20_000
    tpr = (member[:, None] >= non[None, ::200]).mean(axis=0).repeat(200)
    x, y = figures._thin_log(fpr, tpr, 1e-4)
    assert len(x) <= 242
    for rate in np.geomspace(1e-4, 1, 240):
        naive = tpr[fpr <= rate * (1 + 1e-12)]
        thin = y[x <= rate * (1 + 1e-12)]
        assert (naive[-1] if len(naive) else None) == (thin[-1] if len(thin) else None)


def test_roc_names_curves_and_takes_degenerate_ones():
    step = (np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]))
    svg = figures.roc_log({"perfect": step, "nothing": ([], []), "broken": ([np.nan], [0.5])})
    assert {"perfect", "nothing", "broken", "guessing"} <= set(texts(svg))
    assert figures.roc_log({}).startswith("<svg")


def test_p_value_histogram_counts_each_bin():
    p = [0.01, 0.02, 0.06, 1.0, np.nan]
    svg = figures.p_value_histogram(p, bins=20)
    bars = [n.get("d", "") for n in ET.fromstring(svg).iter(f"{SVG}path") if n.get("class") == "f-blue"]
    corners = [np.array(re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", d), dtype=float) for d in bars]
    heights = np.array([np.ptp(c[:, 1]) for c in corners])
    assert len(heights) == 20
    np.testing.assert_allclose(heights / heights.max() * 2, [2, 1, *[0] * 17, 1], atol=1e-3)


def test_labels_cover_neither_each_other_nor_points():
    rng = np.random.default_rng(3)
    sheet = Sheet(320, left=40)
    sheet.axes.set_xlim(0, 1)
    sheet.axes.set_ylim(0, 1)
    points_at = rng.random((40, 2))
    limits = np.column_stack([points_at[:, 1] - 0.05, points_at[:, 1] + 0.05])
    placed = list(place_labels(sheet, points_at, limits, ["label"] * 40, 20))
    assert 10 < len(placed) < 40  # crowded: some have no room, most of the others do
    spots = sheet.axes.transData.transform(points_at) * 72 / sheet.figure.dpi
    width = 6.6 * 5
    boxes = []
    for index, align, (dx, dy) in placed:
        x, y = spots[index] + [dx, dy]
        left = {"left": x, "center": x - width / 2, "right": x - width}[align]
        boxes.append((left, y - 6, left + width, y + 6))
        assert left >= 40
        assert left + width <= WIDTH
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])
        for x, y in spots:
            inside = a[0] < x < a[2] and a[1] < y < a[3]
            assert not inside


def test_no_global_state_is_left_changed():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    all_figures()
    assert dict(mpl.rcParams) == before

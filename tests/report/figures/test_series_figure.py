"""Several series over the same rows: all of them drawn, told apart by more than colour, fit for a page."""

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from memorisk.report.figures.intervals import MOST_ROWS, series_plot

SVG = "{http://www.w3.org/2000/svg}"


def limits(n, at=0.0):
    mean = np.linspace(at, at + 1, n)
    return mean, mean - 0.1, mean + 0.1


def texts(drawn):
    return [node.text for node in ET.fromstring(drawn).iter(f"{SVG}text")]


def test_every_row_and_series_is_named_and_drawn_in_its_own_look():
    series = {f"net {i} <b>": limits(3, 0.1 * i) for i in range(5)}
    drawn = series_plot(["a", "$b$", "\u202ec"], series, x_title="M")
    shown = texts(drawn)
    for text in ("a", "$b$", r"\u202ec", "M", *series):
        assert text in shown
    root = ET.fromstring(drawn)
    assert all("style" not in node.attrib for node in root.iter())
    dashes = {node.get("stroke-dasharray") for node in root.iter() if node.get("stroke-width") == "1.6"}
    assert len(dashes) == 5
    assert drawn == series_plot(["a", "$b$", "\u202ec"], series, x_title="M")


def test_rows_beyond_the_most_are_left_out():
    n = MOST_ROWS + 3
    shown = texts(series_plot([f"row {i}" for i in range(n)], {"x": limits(n)}, x_title="M"))
    assert f"row {MOST_ROWS - 1}" in shown
    assert f"row {MOST_ROWS}" not in shown


def test_a_wide_interval_is_cut_with_an_arrowhead():
    wide = (np.array([0.1, 0.2]), np.array([-500.0, 0.1]), np.array([500.0, 0.3]))
    calm = (wide[0], np.array([0.0, 0.1]), wide[2] * [0, 1] + [0.2, 0])
    assert "400" not in texts(series_plot(["a", "b"], {"x": wide}, x_title="M"))
    whole = texts(series_plot(["a", "b"], {"x": wide}, x_title="M", cut=False))
    assert "400" in whole
    shapes = [
        len({n.get("d") for d in ET.fromstring(drawn).iter(f"{SVG}defs") for n in d.iter(f"{SVG}path")})
        for drawn in (series_plot(["a", "b"], {"x": limits}, x_title="M") for limits in (calm, wide))
    ]
    assert shapes[1] == shapes[0] + 2


@pytest.mark.parametrize("n", [0, 1, 40])
def test_nothing_to_draw_is_no_failure(n):
    gone = np.full(n, np.nan)
    for series in ({}, {"x": (gone, gone, gone)}, {"x": (gone, gone, gone), "y": limits(n)}):
        for reference in (None, 0.0):
            drawn = series_plot([str(i) for i in range(n)], series, x_title="M", reference=reference)
            assert "nan" not in drawn.lower()


def test_names_may_have_a_second_line():
    drawn = series_plot(["a", "b"], {"x": limits(2), "y": limits(2)}, x_title="M", sublabels=["<first>", ""])
    shown = texts(drawn)
    assert {"a", "b", "<first>"} <= set(shown)
    assert "" not in shown

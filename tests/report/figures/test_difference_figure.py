"""The figure of differences beside noise: both intervals of a row stand where the numbers say."""

import warnings
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from memorisk.report.figures.intervals import MOST_ROWS, difference_plot
from memorisk.report.figures.sheet import WIDTH
from tests.audits.classifier_results import HOSTILE
from tests.report.figures.test_figures import SVG, points, texts


def drawn(labels, seed=0, **changed):
    rng = np.random.default_rng(seed)
    limits = {}
    for name in ("difference", "noise"):
        mean, half = rng.normal(size=len(labels)), rng.random(len(labels))
        limits[name] = changed.get(name, (mean, mean - half, mean + half))
    return difference_plot(labels, limits["difference"], limits["noise"]), limits


@pytest.mark.parametrize("labels", [("a", "b", "c"), HOSTILE, ("$x^2$", "", "%d")])
def test_it_is_small_clean_svg_whatever_the_labels(labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg, _ = drawn(labels)
    assert len(svg) < 60_000
    for node in ET.fromstring(svg).iter():
        assert node.tag.removeprefix(SVG) in {"svg", "g", "path", "use", "text", "defs", "clipPath", "rect"}
        assert "style" not in node.attrib
    assert svg == drawn(labels)[0]
    assert {"the intervention", "retraining alone"} <= set(texts(svg))


def test_markers_stand_at_the_estimates_difference_above_noise():
    svg, limits = drawn(("a", "b", "c", "d"))
    blue, grey = points(svg, "blue"), points(svg, "grey")
    assert len(blue) == len(grey) == 4
    x = np.r_[blue[:, 0], grey[:, 0]]
    value = np.r_[limits["difference"][0], limits["noise"][0]]
    slope, start = np.polyfit(value, x, 1)
    assert np.abs(slope * value + start - x).max() < 0.01  # one linear axis for both
    assert slope > 0
    assert (np.diff(blue[:, 1]) > 0).all()  # rows from top to bottom
    assert (blue[:, 1] < grey[:, 1]).all()
    assert x.max() < WIDTH


def test_missing_limits_and_far_intervals_do_not_disturb_the_others():
    nan = np.full(3, np.nan)
    mean = np.array([0.1, -0.2, 0.3])
    svg, _ = drawn(("a", "b", "c"), difference=(mean, nan, nan), noise=(nan, nan, nan))
    assert len(points(svg, "blue")) == 3
    assert len(points(svg, "grey")) == 0
    far, _ = drawn(
        ("a", "b", "c"), difference=(mean, mean - np.array([0.1, 1e6, 0.1]), mean + 0.1), noise=(mean, mean, mean)
    )
    blue = points(far, "blue")
    assert np.ptp(blue[:, 0]) > WIDTH / 8  # the estimates are not pressed into a line
    assert len(blue) == 4  # three estimates and an arrowhead
    assert difference_plot([], ([], [], []), ([], [], []))


def test_rows_beyond_the_limit_are_left_out():
    labels = [f"class {i}" for i in range(MOST_ROWS + 5)]
    svg, _ = drawn(labels)
    assert len(points(svg, "blue")) == MOST_ROWS
    assert "class 44" not in texts(svg)

"""Figures of the benchmarks of pairs: what is drawn, what is left out, and that names stay text."""

import numpy as np

from memorisk.report.figures.curves import MOST_DETECTORS, strength_plot
from memorisk.report.figures.histograms import score_plot
from memorisk.report.figures.intervals import joint_plot

HOSTILE = "<script>$x_1$"


def test_scores_are_shares_of_their_kind_and_thresholds_are_marked() -> None:
    edges = np.linspace(-1, 1, 5)
    svg = score_plot(edges, {HOSTILE: [1, 2, 3, 4], "none": [0] * 4}, x_title="Score", marks={"half": 0.0, "far": 9.0})
    assert "&lt;script&gt;$x_1$" in svg
    assert "half" in svg
    assert "far" not in svg
    assert ">none<" not in svg
    assert ">0.9996<" in score_plot(np.linspace(0.9995, 0.9997, 9), {"a": [1] * 8}, x_title="Score")
    assert svg == score_plot(edges, {HOSTILE: [10, 20, 30, 40]}, x_title="Score", marks={"half": 0.0})


def test_lines_beyond_eight_are_left_out() -> None:
    lines = {f"detector {i}": [0.9, 0.5, np.nan] for i in range(MOST_DETECTORS + 2)}
    svg = strength_plot([0.1, 1.0, 6.0], lines, x_title="Blur", y_title="Recall")
    assert f"detector {MOST_DETECTORS - 1}" in svg
    assert f"detector {MOST_DETECTORS}" not in svg
    assert ">0.1<" in svg


def test_larger_vectors_are_larger_points() -> None:
    limits = ([0.6, 0.9], [0.5, 0.8], [0.7, 1.0])
    small, large = (
        joint_plot(["a", HOSTILE], limits, limits, sizes, x_title="AUC", y_title="Recall")
        for sizes in ([8, 8], [8, 4096])
    )
    assert "&lt;script&gt;$x_1$" in small
    assert small != large
    assert "nan" not in joint_plot(
        ["a"], ([0.5], [0.4], [0.6]), ([0.5], [0.4], [0.6]), [np.nan], x_title="", y_title=""
    )

"""Distances by pool: shares of each, marked ones, and nothing drawn where nothing is."""

import re
from xml.etree import ElementTree as ET

import numpy as np

from memorisk.report.figures.histograms import distance_plot


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_pools_and_marks_are_named_and_drawn() -> None:
    rng = np.random.default_rng(0)
    pools = {"training <b>": rng.normal(2, 0.3, 500), "held out": rng.normal(3, 0.3, 100), "nobody": []}
    svg = distance_plot(pools, x_title="Distance", marked=[0.5, 0.6], marked_as="listed")
    said = texts(svg)
    assert {"training <b>", "held out", "▲ listed", "Distance", "Share"} <= set(said)
    assert "nobody" not in said
    assert "<b>" not in svg
    assert len(re.findall(r"<use ", svg)) >= 2
    assert svg == distance_plot(pools, x_title="Distance", marked=[0.5, 0.6], marked_as="listed")
    assert svg != distance_plot(pools, x_title="Distance")


def test_missing_values_and_empty_pools_are_left_out() -> None:
    values = np.array([0.1, np.nan, np.inf, 0.2])
    assert distance_plot({"a": values}, x_title="d") == distance_plot({"a": values[[0, 3]]}, x_title="d")
    assert "Share" in texts(distance_plot({}, x_title="d"))
    assert "Share" in texts(distance_plot({"zero": np.zeros(5)}, x_title="d", marked=[0.0], marked_as="listed"))

"""Pairs by logit: shares of each kind, names escaped, nothing drawn of a kind without a pair."""

import re
from xml.etree import ElementTree as ET

import numpy as np

from memorisk.report.figures.histograms import distance_plot, logit_plot


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_kinds_are_named_and_drawn_by_their_share() -> None:
    edges = np.linspace(-4, 2, 13)
    counts = {"two <b>": np.arange(12), "same": np.full(12, 3), "nobody": np.zeros(12)}
    svg = logit_plot(edges, counts)
    assert {"two <b>", "same", "Share of pairs"} <= set(texts(svg))
    assert "nobody" not in texts(svg)
    assert "<b>" not in svg
    assert svg == logit_plot(edges, {name: 10 * n for name, n in counts.items()})  # shares, whatever the number
    assert svg != logit_plot(edges, {name: n[::-1] for name, n in counts.items()})
    assert "Share of pairs" in texts(logit_plot(edges, {}))


def test_distances_may_lie_below_zero() -> None:
    rng = np.random.default_rng(0)
    pools = {"training": rng.normal(-2, 0.5, 400), "held out": rng.normal(1, 0.5, 100)}
    svg = distance_plot(pools, x_title="Minus the logit", marked=[-2.5], marked_as="listed")
    ticks = [float(t.replace("\N{MINUS SIGN}", "-")) for t in texts(svg) if re.fullmatch("[\N{MINUS SIGN}]?[0-9.]+", t)]
    assert min(ticks) <= -2
    assert max(ticks) >= 1

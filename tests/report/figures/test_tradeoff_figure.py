"""The trade-off: every regime is drawn with a look of its own and named in the key, however close they lie."""

import re

import numpy as np

from memorisk.report.figures.intervals import tradeoff_plot

NAMES = ["full", "lora <b>", "dp-lora-8", "dp-lora-3"]


def test_regimes_that_lie_on_each_other_are_all_named() -> None:
    at = np.array([0.6, 0.41, 0.41, 0.41])
    m = np.array([0.3, 0.0, 0.0, 0.0])
    drawn = tradeoff_plot(NAMES, (at, at - 0.02, at + 0.02), (m, m - 0.01, m + 0.01), 0.42)
    for name in ("full", "lora &lt;b&gt;", "dp-lora-8", "dp-lora-3"):
        assert name in drawn
    assert len(set(re.findall(r"stroke-dasharray[:=]\"?([\d. ,]+)", drawn))) >= 3
    assert drawn == tradeoff_plot(NAMES, (at, at - 0.02, at + 0.02), (m, m - 0.01, m + 0.01), 0.42)


def test_what_has_no_interval_is_a_point() -> None:
    gone = np.full(1, np.nan)
    drawn = tradeoff_plot(["full"], ([0.5], gone, gone), ([0.1], gone, gone), 0.4)
    assert "NaN" not in drawn
    assert "nan" not in drawn

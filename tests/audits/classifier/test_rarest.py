"""The rarest class beside the most memorized one: what is said of a class of which there is hardly anything."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from memorisk.audits.classifier.analysis import rarest_against_top
from memorisk.audits.classifier.pages.memorization import rarest_sentence
from memorisk.audits.classifier.result import RarestAgainstTop
from memorisk.report.page import inline_html


def test_a_class_of_two_images_is_not_called_the_most_memorized() -> None:
    pair = RarestAgainstTop(label_rarest="melanoma", n_rarest=2, mean_rarest=1.5, label_top="melanoma", n_top=2)
    told = inline_html(rarest_sentence(pair))
    assert "too few images to be compared" in told
    assert "most memorized" not in told
    assert "is also the most memorized one" in inline_html(rarest_sentence(replace(pair, n_rarest=3)))
    assert "most frequent" not in inline_html(rarest_sentence(replace(pair, n_rarest=3)))
    compared = replace(
        pair, n_rarest=9, label_most_frequent="nevus", n_most_frequent=90, mean_most_frequent=0.2,
        difference_most_frequent=1.3, low_most_frequent=0.4, high_most_frequent=2.2,
    )  # fmt: skip
    told = inline_html(rarest_sentence(compared))
    assert (
        "(90 images, mean M 0.200), by 1.300 (95\xa0% interval 0.400 to 2.200), not corrected for its being the" in told
    )
    assert "which chance may explain" in inline_html(rarest_sentence(replace(compared, low_most_frequent=-0.1)))


def test_a_rarest_class_that_is_the_top_is_compared_with_the_most_frequent() -> None:
    rng = np.random.default_rng(0)

    def finding(label: str, n: int, mean: float) -> SimpleNamespace:
        table = mean + rng.normal(0, 0.1, (n, 4))
        estimate = SimpleNamespace(estimate=float(table.mean()))
        return SimpleNamespace(label=label, table=table, counts=SimpleNamespace(n_images=n), mean=estimate)

    findings: list[Any] = [finding("rare", 5, 1.5), finding("middle", 20, 0.3), finding("common", 60, 0.1)]
    found = rarest_against_top(findings)
    assert found is not None
    assert (found.label_rarest, found.label_top, found.label_most_frequent) == ("rare", "rare", "common")
    assert np.isnan(found.difference)
    expected = findings[0].mean.estimate - findings[2].mean.estimate
    np.testing.assert_allclose(found.difference_most_frequent, expected)
    assert 1 < found.low_most_frequent < expected < found.high_most_frequent < 2
    twins = rarest_against_top([*findings, finding("other", 60, 0.1)])
    assert twins is not None
    assert twins.label_most_frequent == ""

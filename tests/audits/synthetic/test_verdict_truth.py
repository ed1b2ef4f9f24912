"""`recipes/verdict_truth_sets.py` in small: a set with a copy does not pass, an honest one does not fail.

The page of 200 audits a row is ``docs/results/verdict_truth_sets.md``; here a few of each, by bounds of the binomial.
"""

import runpy
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import binom

from memorisk.audits.synthetic import findings
from memorisk.statistics.verdicts.levels import SINGLED_OUT_LEVEL

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "verdict_truth_sets.py"
AUDITS = 8


@pytest.fixture(scope="module")
def counts() -> dict[str, Counter[str]]:
    """Of four rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings, "literature_statistics", findings.literature_statistics)  # the recipe takes it away
        recipe = runpy.run_path(str(RECIPE))
        rows = ("nobody", "1 noised", "nobody, 300 beside 100", "10 noised, 10 % of held-out people are")
        return {name: recipe["row"](name, AUDITS) for name in rows}


def test_a_set_with_a_copy_does_not_pass(counts: dict[str, Counter[str]]) -> None:
    for name in ("1 noised", "10 noised, 10 % of held-out people are"):
        assert counts[name]["pass"] <= binom.ppf(0.998, AUDITS, 0.05)
    assert counts["1 noised"]["judged, then pass"] == 0  # whoever looks at the pair confirms it
    assert counts["1 noised"]["singled"] >= binom.ppf(0.001, AUDITS, 0.9)
    assert counts["10 noised, 10 % of held-out people are"]["unlike"] >= binom.ppf(0.001, AUDITS, 0.9)


def test_an_honest_set_is_neither_failed_nor_suspected(counts: dict[str, Counter[str]]) -> None:
    for name in ("nobody", "nobody, 300 beside 100"):
        assert counts[name]["fail"] <= binom.ppf(0.999, AUDITS, 0.1)
        assert counts[name]["singled"] <= binom.ppf(0.999, AUDITS, SINGLED_OUT_LEVEL)
    assert counts["nobody"]["pass"] >= binom.ppf(0.001, AUDITS, 0.8)

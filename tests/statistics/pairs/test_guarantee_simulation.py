"""The guarantee in simulated calibrations, as `recipes/guarantee_simulation.py` does at length."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from memorisk.audits.filter.families import parse_families
from memorisk.statistics.pairs.guarantee import miss_guarantee

RECIPE = runpy.run_path(str(Path(__file__).resolve().parents[3] / "recipes" / "guarantee_simulation.py"))
WORLDS = {world.name: world for world in RECIPE["WORLDS"]}


def test_the_guarantee_holds_where_its_rivals_fail():
    """Must-hold 3: 100 identities at 5 %, five detectors; few failures, in the stated sense, and many of the others."""
    repeats = 400
    most = RECIPE["allowed"](repeats) * repeats
    found = RECIPE["failures"](WORLDS["few identities own most pairs"], 0.05, 100, repeats)
    assert found["one random pair each"] <= most
    assert found["best of 5, delta / 5 each"] <= most
    for rival in ("best of 5, not shared", "pairs as units", "quantile"):
        assert found[rival] > most


def test_few_identities_own_most_pairs_there():
    """The world is what its name says."""
    count = WORLDS["few identities own most pairs"].pairs(np.random.default_rng(0), 1000)
    largest = np.sort(count)[::-1]
    assert largest[:100].sum() > 0.5 * count.sum()


@pytest.mark.thorough
def test_on_structured_images_the_guarantee_holds_and_leaving_look_alikes_out_breaks_it(tmp_path: Path):
    """A round field that all share: who looks alike is bright, hence changed most by contrast and darkening."""
    repeats = 200
    most = stats.binom.ppf(0.999, repeats, 0.05)
    store = next(found for _, found in RECIPE["image_sets"](None, 400, tmp_path))
    names, people = next(RECIPE["people_of"](store, parse_families(("darkening", "contrast"))))
    broken = {rule: dict(zip(names, found, strict=True)) for rule, found in people.broken(repeats).items()}
    for name in names:
        assert broken[RECIPE["GIVEN"]][name][0] <= most
        assert broken[RECIPE["CAUTIOUS"]][name][0] <= most
        assert broken[RECIPE["EARLIER"]][name][0] > most
    score = people.score[:, :120]
    tau = [miss_guarantee(row, miss_rate=RECIPE["ALPHA"]).threshold for row in score]
    np.testing.assert_array_equal(RECIPE["threshold"](score), tau)

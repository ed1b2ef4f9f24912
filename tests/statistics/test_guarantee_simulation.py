"""The guarantee in simulated calibrations, as `recipes/guarantee_simulation.py` does at length."""

import runpy
from pathlib import Path

import numpy as np

RECIPE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "recipes" / "guarantee_simulation.py"))
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

"""The benchmark beside peers: its table of cases is whole, and what is said of the peers' definitions is so.

Of the peers only the formulas run here; packages and times are for ``benchmarks/peers/run.py``.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from memorisk.scores.memorization import logit_margin

FOLDER = Path(__file__).parents[1] / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    """The registry, with its neighbours importable."""
    pytest.importorskip("sklearn")
    sys.path[:0] = [str(FOLDER.parent), str(FOLDER), str(FOLDER / "adapters")]
    return importlib.import_module("registry")


@pytest.fixture
def membership() -> dict[str, np.ndarray]:
    """A target and 64 references as 32 twin pairs, logits drawn at random, members' a little larger."""
    rng = np.random.default_rng(0)
    n, pairs = 60, 33
    first = rng.random((pairs, n)) < 0.5
    member = np.stack([first, ~first], axis=1).reshape(2 * pairs, n)
    labels = rng.integers(0, 4, n)
    logits = rng.normal(size=(2 * pairs, n, 4)) + 2 * np.eye(4)[labels] * (1 + member[..., None])
    phi = np.stack([logit_margin(one, labels) for one in logits])
    kept = [0, *range(2, 2 * pairs)]
    population = rng.uniform(0.1, 0.9, (len(kept), 40))
    return {"phi": phi[kept], "p": 1 / (1 + np.exp(-phi[kept])), "member": member[kept], "population_p": population}


def test_every_case_is_whole(peers: ModuleType) -> None:
    comparing, inputs, ours = (importlib.import_module(name) for name in ("comparing", "inputs", "ours"))
    for case in peers.CASES:
        assert (case.peer in peers.PEERS, case.ours in ours.CASES, case.inputs in inputs.INPUTS) == (True,) * 3, case
        assert (case.kind in comparing.KINDS, not case.explained or case.explained in ours.EXPLAINED) == (True, True)
    assert {case.peer for case in peers.CASES} == set(peers.PEERS)
    modules = [importlib.import_module(f"ours_{name}") for name in ("membership", "sets", "images")]
    assert {name for module in modules for name in module.CASES} == set(ours.CASES)
    assert {name for module in modules for name in module.EXPLAINED} == set(ours.EXPLAINED)
    for name, peer in peers.PEERS.items():
        assert (FOLDER / "adapters" / f"{peer.module}.py").is_file()
        pinned = FOLDER / "requirements" / f"{name}.txt"
        assert pinned.is_file() == (peer.how == "package" and name != "captum")
        if pinned.is_file():
            lines = [line for line in pinned.read_text("utf-8").splitlines() if line and not line.startswith("#")]
            assert lines
            assert all("==" in line for line in lines)


@pytest.mark.parametrize("case", ["lira_online", "lira_online_fixed", "lira_offline"])
def test_leakpros_lira_is_memorisks(peers: ModuleType, membership: dict[str, np.ndarray], case: str) -> None:
    ours, leakpro = importlib.import_module("ours_membership"), importlib.import_module("peer_leakpro")
    name = {"lira_online_fixed": "lira_online_global"}.get(case, case)
    theirs = leakpro.CASES[case](membership)()["score"]
    np.testing.assert_allclose(theirs, ours.CASES[name](membership)()["score"], rtol=1e-9, atol=1e-9)


def test_the_authors_rmia_averages_the_largest_half_of_a_population_image(
    peers: ModuleType, membership: dict[str, np.ndarray]
) -> None:
    ours, authors = importlib.import_module("ours_membership"), importlib.import_module("peer_rmia_authors")
    theirs = authors.CASES["rmia_offline"](membership)()["score"]
    np.testing.assert_allclose(ours.largest_half(membership), theirs, atol=1e-12)
    assert np.abs(ours.CASES["rmia_offline_1"](membership)()["score"] - theirs).max() > 0.05


def test_privacy_guards_deviations_are_of_one_degree_less(peers: ModuleType, membership: dict[str, np.ndarray]) -> None:
    ours, authors = importlib.import_module("ours_membership"), importlib.import_module("peer_rmia_authors")
    theirs = authors.CASES["lira_online"](membership)()["score"]
    np.testing.assert_allclose(ours.unbiased(membership), theirs, rtol=1e-9)
    assert np.abs(ours.CASES["lira_online"](membership)()["score"] - theirs).max() > 0.01

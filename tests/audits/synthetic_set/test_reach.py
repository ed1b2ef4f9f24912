"""Who could be listed at all, what is advised where that is the limit, and at which list's cut plants are read."""

import json
from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.synthetic.audit import audit_synthetic
from memorisk.audits.synthetic.kinds import PlantLimits, reach_limits, ways_out
from memorisk.audits.synthetic.plan import SyntheticPlan
from memorisk.audits.synthetic.reach import reach_of, smallest_p
from memorisk.report.result import Result
from memorisk.statistics.nulls import unit_p_values
from memorisk.statistics.proportions import clopper_pearson
from tests.audits.synthetic_set.making import N_TRAIN, parts, store_of, write_sets
from tests.commands import answer

KINDS = ("exact", "noised", "jpeg")
TWICE = np.repeat([2, 1], [26, 30])
"""Images of 56 training patients."""
WANTED = "186 held-out patients of 2 images or more each (there are 110; with so many 56 of the 56 training patients"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def several_images(folder: Path, held: np.ndarray) -> None:
    """Digits whose copies nobody has, by patients of one or two images."""
    train, others, made = parts(0, int(TWICE.sum()), int(held.sum()), 60)
    for name, images, n in (("train", train, TWICE), ("held", others, held)):
        groups = [f"{name} {patient:03d}" for patient in np.repeat(np.arange(len(n)), n)]
        np.savez(folder / f"{name}.npz", images=images, groups=groups)
    np.savez(folder / "set.npz", images=made)


def audited(out: str, **settings) -> dict:
    found = audit_synthetic("train.npz", "set.npz", held_out="held.npz", out=out, plant_kinds=KINDS, **settings)
    assert isinstance(found, Result)
    return found.verdict


@pytest.mark.parametrize("plants", [20, 200])
def test_no_more_plants_are_advised_where_patients_cannot_reach_the_cut(tmp_path: Path, plants: int) -> None:
    several_images(tmp_path, np.repeat([2, 1], [110, 90]))
    v = audited("runs/short", plants=plants)
    assert (v["status"], v["shortest_list"], v["copied"], v["n_reachable"]) == ("undecided", 3, 3, 30)
    exact = v["recall_by_kind"]["exact"]
    assert exact["successes"] == v["reachable_by_kind"]["exact"] < exact["trials"] == min(plants, 56)
    why, way = v["why"][0], v["what_would_decide"][0]
    assert "only 30 of the 56 training patients could be listed at all in a list of 3 (p <= 0.0054)" in why
    assert WANTED in way
    assert "one image a patient" in way
    assert "--plants" not in way
    assert "--detector" not in way


def test_the_held_out_patients_that_were_advised_allow_a_pass(tmp_path: Path) -> None:
    several_images(tmp_path, np.full(186, 2))
    v = audited("runs/enough", plants=56)
    assert (v["status"], v["n_reachable"]) == ("pass", 56), v["why"]


def test_the_plan_says_how_many_could_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several_images(tmp_path, np.repeat([2, 1], [110, 90]))
    given = ("audit", "synthetic", "train.npz", "set.npz", "--held-out", "held.npz", "--out", "runs/dry", "--dry-run")
    plan = json.loads(answer(capsys, *given, "--json")[1])
    assert (plan["listable"], plan["patients"]["training"]) == (30, 56)
    assert any("only 30 of the 56" in note and WANTED in note for note in plan["notes"])
    assert "could be listed in it: 30 of 56 training patients" in answer(capsys, *given)[1]
    several_images(tmp_path, np.full(186, 2))
    enough = audit_synthetic("train.npz", "set.npz", held_out="held.npz", out="runs/dry", dry_run=True)
    assert isinstance(enough, SyntheticPlan)
    assert enough.listable == 56
    assert not any("could be listed" in note for note in enough.notes)


def test_smallest_p_values_are_those_of_the_test() -> None:
    """Beside the definition: of every patient, in the test itself, at whatever distances."""
    rng = np.random.default_rng(0)
    ours, theirs = rng.integers(1, 9, 40), rng.integers(1, 6, 60)
    of, held = np.repeat(np.arange(40), ours), np.repeat(np.arange(60), theirs)
    plain = unit_p_values(rng.normal(size=len(of)), of, rng.normal(size=len(held)), held)
    np.testing.assert_allclose(smallest_p(ours, theirs), plain.floor, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_with_the_held_out_patients_wanted_so_many_could_be_listed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ours, theirs = rng.integers(1, 7, 50), rng.integers(1, 4, 199)
    reach = reach_of(ours, theirs, 3, 0.1, 0.5)
    more = np.full(reach.needed - reach.there, reach.images)
    p = [smallest_p(ours, held) for held in (theirs, np.concatenate([theirs, more]))]
    assert reach.there == (theirs >= reach.images).sum()
    assert [int((one <= 0.1 * 3 / 50 + 1e-12).sum()) for one in p] == [reach.listable, reach.then]
    assert reach.listable < reach.then
    assert clopper_pearson(reach.then, 50).low >= 0.5


def kind(found: int, planted: int) -> dict:
    """Of the plants of one kind."""
    share = clopper_pearson(found, planted)
    return {"low": share.low, "high": share.high, "estimate": share.estimate, "successes": found, "trials": planted}


@pytest.mark.parametrize(
    ("found", "planted", "patients", "reachable", "could", "advised"),
    [
        (12, 20, 100, 100, 20, "plants"),
        (12, 20, 20, 20, 20, "recall"),  # every patient is planted
        (5, 5, 5, 5, 5, "recall"),
        (0, 20, 100, 100, 20, "detector"),  # missed, all of them could be found
        (10, 20, 56, 30, 10, "held out"),
        (2, 20, 56, 30, 10, "held out, and detector"),
        (18, 56, 100, 90, 50, "detector"),
    ],
)
def test_advice(found: int, planted: int, patients: int, reachable: int, could: int, advised: str) -> None:
    kinds, limits = {"jpeg": kind(found, planted)}, PlantLimits({"jpeg": could}, reachable, patients, planted)
    held_out = "held out" if reach_limits(kinds, 0.5, limits) else ""
    way = ways_out(kinds, ["jpeg"], 0.5, "detector", limits, held_out)
    most = "detector, or a smaller --recall: a copy of every training patient would not show so much"
    words = {"plants": "more --plants (for jpeg)", "recall": most}
    assert way == words.get(advised, advised)


@pytest.mark.parametrize(("copied", "said"), [(16, "so many are listed. A pass"), (0, "the shortest list that was")])
def test_plants_are_read_at_the_cut_that_is_told(tmp_path: Path, copied: int, said: str) -> None:
    given = write_sets(tmp_path, copied, noise=6)
    found = audit_synthetic(given["train"], given["set"], held_out=given["held"], out="runs/r", plants=2)
    assert isinstance(found, Result)
    v, page = found.verdict, Path("runs/r/report.html").read_text()
    assert v["cut"] == pytest.approx(v["level"] * v["plants_read_at"] / N_TRAIN)
    assert v["plants_read_at"] == max(v["n_listed"], v["shortest_list"])
    assert f"a list of {v['plants_read_at']} patients has (p &lt;= {v['cut']:.2g}): {said}" in page
    plants = found.tables["plants"]
    assert ((plants["p_value"] <= v["cut"] * (1 + 1e-12)) == plants["found"]).all()


def test_several_detectors_are_read_at_their_own_cuts_and_the_least_is_told(tmp_path: Path) -> None:
    train, held, made = parts()
    noise = np.random.default_rng(0).uniform(-1, 1, train[:60].shape) * np.linspace(5, 80, 60)[:, None, None, None]
    made[:60] = np.clip(train[:60] + noise, 0, 255).astype(np.uint8)
    stores = [store_of(images, tmp_path, name) for name, images in (("t", train), ("h", held), ("s", made))]
    found = audit_synthetic(
        stores[0], stores[2], held_out=stores[1], out="runs/two", plants=2, detector=("pixels:8", "pixels:4")
    )
    assert isinstance(found, Result)
    v = found.verdict
    listed = found.tables["detectors"]["listed"]
    assert v["copied"] < v["shortest_list"] < listed.min() < listed.max()
    assert v["plants_read_at"] == listed.min()
    assert (
        "Detectors that list more are read at the cuts of their own lists" in Path("runs/two/report.html").read_text()
    )
    assert v["cut"] == pytest.approx(v["level"] / 2 * v["plants_read_at"] / N_TRAIN)

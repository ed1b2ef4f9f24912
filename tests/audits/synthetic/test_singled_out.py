"""A few copies are too few for a list, and are singled out: the pairs head the review, and judging them decides."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.synthetic.findings import _n_listed
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.result import HeldOutCounts, SetCounts
from memorisk.audits.synthetic.run import audit_synthetic, possible_list
from memorisk.audits.synthetic.verdict import ways_to_power
from memorisk.report.result import Result
from memorisk.statistics.copies.planted_copies import plants_needed
from memorisk.statistics.copies.reversed_queries import reversed_queries
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.memorization.nulls import unit_p_values
from memorisk.statistics.verdicts.remedies import Claim, Way, Ways, alternatives
from memorisk.statistics.verdicts.units import UnitNames
from tests.audits.synthetic.making import parts, store_of, write_sets

COPIED = 3
PASSES = {"detector": "pixels", "plants": 12, "recall": 0.2, "plant_kinds": ("exact", "flipped", "noised")}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def audited(out: str, given: dict[str, str], **settings) -> Result:
    found = audit_synthetic(given["train"], given["set"], held_out=given["held"], out=out, **PASSES | settings)
    assert isinstance(found, Result)
    return found


def test_three_copies_keep_a_pass_away_and_looking_decides(tmp_path: Path) -> None:
    given = write_sets(tmp_path, COPIED, noise=6)
    found = audited("runs/three", given)
    v = found.verdict
    assert (found.status, v["n_listed"]) == ("undecided", 0)
    assert (v["n_singled"], v["n_singled_patients"]) == (COPIED, COPIED)
    assert f"{COPIED} synthetic images are singled out" in v["why"][0]
    pairs = found.tables["singled_out"]
    assert set(pairs["group"]) == {f"patient-{row:04d}" for row in range(COPIED)}
    assert (pairs["expected"] < 0.05).all()
    assert (pairs["distance"] < pairs["other_distance"]).all()
    assert found.per_image["singled_out"].sum() == found.per_group["singled_out"].sum() == COPIED
    review = pd.read_csv("runs/three/review.csv", dtype=str, keep_default_na=False)
    assert review["found_by"].str.startswith("singled out by pixels").tolist()[:COPIED] == [True] * COPIED
    page = Path("runs/three/report.html").read_text()
    assert page.count("Singled out means: nearer than chance explains for any of so many training") == 1
    for word, status in (("confirm", "fail"), ("dismiss", "pass")):
        filled = review.assign(verdict=word, by="A", reason="looked")
        filled.to_csv(f"{word}.csv", index=False)
        judged = audited(f"runs/{word}", given, review=Path(f"{word}.csv"))
        assert judged.status == status, judged.verdict["why"]
        assert judged.verdict["n_singled"] == (COPIED if word == "confirm" else 0)


def test_a_stricter_level_changes_the_list_and_not_the_verdict(tmp_path: Path) -> None:
    given = write_sets(tmp_path, 16, noise=6)
    loose, strict = (audited(f"runs/{level}", given, level=level).verdict for level in (0.1, 0.01))
    assert loose["n_listed"] > strict["n_listed"] == 0
    assert loose["status"] == strict["status"] == "fail"
    assert loose["n_listed_at_verdict"] == strict["n_listed_at_verdict"] == loose["n_listed"]


def test_held_out_people_who_are_training_people_are_no_null(tmp_path: Path) -> None:
    """A tenth of the held-out images are training images, a little brighter, under other ids."""
    train, held, made = parts()
    held[:10] = np.clip(train[:10].astype(int) + 6, 0, 255)
    stores = [store_of(images, tmp_path, name) for name, images in (("t", train), ("h", held), ("s", made))]
    found = audit_synthetic(stores[0], stores[2], held_out=stores[1], out="runs/same", **PASSES)
    assert isinstance(found, Result)
    unlike = found.verdict["unlike"]
    assert (found.status, unlike["together"]) == ("undecided", True)
    assert unlike["across"] > unlike["across_expected"]
    assert any("may be training images under other ids" in why for why in found.verdict["why"])


def test_several_detectors_share_the_chance(tmp_path: Path) -> None:
    given = write_sets(tmp_path, COPIED, noise=6)
    one = audited("runs/one", given, detector=("pixels",)).tables["detectors"]
    two = audited("runs/two", given, detector=("pixels", "pixels:4"))
    both = two.tables["detectors"]
    assert both.loc[0, "singled_below"] < one.loc[0, "singled_below"]
    assert both.loc[0, "singled_lead"] > one.loc[0, "singled_lead"]
    assert set(two.tables["singled_out"]["detector"]) <= set(both["detector"])
    assert two.verdict["n_singled"] >= both["singled_out"].max()


def test_the_shortest_list_is_that_of_the_test() -> None:
    """Beside the definition: of every patient, in the test itself, at whatever distances."""
    rng = np.random.default_rng(0)
    ours, theirs = rng.integers(1, 9, 40), rng.integers(1, 6, 60)
    of, held = np.repeat(np.arange(40), ours), np.repeat(np.arange(60), theirs)
    floor = np.sort(unit_p_values(rng.normal(size=len(of)), of, rng.normal(size=len(held)), held).floor)
    fits = [n for n in range(1, 41) if floor[n - 1] <= 0.1 * n / 40 + 1e-12]
    assert possible_list(ours, theirs, 0.1) == fits[0]


OPTIONS = SyntheticOptions(plants=40)
SETS = SetCounts(
    n_train_images=400,
    n_train_patients=400,
    n_synthetic_images=200,
    held=HeldOutCounts(n_held_images=100, n_held_patients=100),
    n_held_shared_images=0,
    n_held_shared_patients=0,
)


def ways(noticed: dict[str, int], sets: SetCounts = SETS, planted: int = 40, **more: Any) -> Ways:
    """What is advised where so many of the planted copies of each kind were noticed; jpeg and exact were asked for."""
    by_kind = {kind: clopper_pearson(n, planted) for kind, n in noticed.items()}
    return ways_to_power(by_kind, ["exact", "jpeg"], OPTIONS, sets, **more)


@pytest.mark.parametrize(
    ("noticed", "patients", "held_out", "weak", "advised"),
    [
        (37, 400, None, False, [Way.PLANTS]),
        (37, 400, 200, True, [Way.PLANTS, Way.OWN_DETECTOR, Way.HELD_OUT]),
        (37, 249, 200, False, [Way.HELD_OUT, Way.TRAINED_DETECTOR]),  # 250 plants of 249 patients
        (20, 400, 200, False, [Way.HELD_OUT, Way.TRAINED_DETECTOR]),
        (20, 400, None, False, [Way.TRAINED_DETECTOR]),
        (20, 400, None, True, [Way.OWN_DETECTOR]),
    ],
)
def test_feasible_remedies_come_in_the_order_of_their_cost(
    noticed: int, patients: int, held_out: int | None, weak: bool, advised: list[Way]
) -> None:
    sets = replace(SETS, n_train_patients=patients)
    found = ways({"exact": 40, "jpeg": noticed}, sets, held_out_needed=held_out, weak=weak)
    assert [remedy.way for remedy in found.remedies if remedy.feasible] == advised
    assert [claim.claim for claim in found.instead] == [Claim.RECALL, Claim.KINDS]
    said = alternatives(found, UnitNames("patient", "patients"))
    assert said.index("what can be shown instead") > max(said.index(word) for word in ("--plants", "held-out"))
    assert "copies that are jpeg may then be in the set" in said


def test_a_kind_that_no_image_can_be_copied_in_is_no_matter_of_detectors() -> None:
    said = alternatives(ways({"exact": 40}, held_out_needed=200, weak=True), UnitNames("patient", "patients"))
    assert said.startswith("these data cannot decide it; what can be shown instead: a pass about no other kinds than")


def test_held_out_patients_of_a_table_are_no_more_than_it_has() -> None:
    by_kind, split = {"jpeg": clopper_pearson(0, 40)}, SyntheticOptions(held_out_split="test")
    for needed, feasible in ((500, True), (501, False)):
        found = ways_to_power(by_kind, ["jpeg"], split, SETS, held_out_needed=needed)
        assert (Way.HELD_OUT in {remedy.way for remedy in found.remedies if remedy.feasible}) == feasible
    assert "not with these 500 patients (it would take about 510 held-out patients)" in alternatives(
        found, UnitNames("patient", "patients")
    )


def test_as_many_plants_as_are_advised_decide() -> None:
    """Over what 37 of 40 leave open of the true share, as the advice assumes it."""
    rng, repeats = np.random.default_rng(0), 300
    needed = plants_needed(clopper_pearson(37, 40), 0.8, 400)
    assert needed is not None
    noticed = rng.binomial(needed, rng.beta(37.5, 3.5, repeats))
    reached = np.mean([clopper_pearson(int(n), needed).low >= 0.8 for n in noticed])
    assert reached >= 0.9 - 3 * np.sqrt(0.09 / repeats)
    assert plants_needed(clopper_pearson(37, 40), 0.8, needed - 1) is None
    assert plants_needed(clopper_pearson(30, 40), 0.8, 10_000) is None


def test_a_list_that_is_not_possible_has_no_number() -> None:
    """With three held-out people the smallest p is 1/4: nobody can be listed at 0.1, and 0 would be a finding."""
    rng = np.random.default_rng(0)
    few, many = (reversed_queries(rng.random(20), rng.random(held)) for held in (3, 400))
    assert _n_listed([]) is _n_listed([few, few]) is None
    assert _n_listed([few, many]) == many.listed.n_rejected == 0

"""A few copies are too few for a list, and are singled out: the pairs head the review, and judging them decides."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.generated.plants import deciding_ways
from memorisk.audits.synthetic.run import audit_synthetic, possible_list
from memorisk.report.result import Result
from memorisk.statistics.intervals import clopper_pearson
from memorisk.statistics.memorization.nulls import unit_p_values
from tests.audits.synthetic.making import parts, store_of, write_sets

pytestmark = pytest.mark.usefixtures("undrawn")

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


@pytest.mark.parametrize(
    ("found", "planted", "patients", "held_out", "advised"),
    [
        (12, 20, 100, "", "more --plants (for jpeg)"),
        (12, 20, 20, "", "D, or a smaller --recall: a copy of every training patient would not show so much"),
        (12, 20, 20, "held out", "held out"),
        (0, 20, 100, "", "D"),
        (0, 20, 100, "held out", "D; or held out"),
    ],
)
def test_advice(found: int, planted: int, patients: int, held_out: str, advised: str) -> None:
    kind = clopper_pearson(found, planted)
    assert deciding_ways({"jpeg": kind}, ["jpeg"], 0.5, "D", patients, planted, held_out) == advised

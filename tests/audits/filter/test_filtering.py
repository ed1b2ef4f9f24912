"""The filter from folders to a verdict: copies go, the rest stays as it was, and no number without identities."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.sets import select_rows
from memorisk.audits.filter import screening
from memorisk.audits.filter.options import filter_options
from memorisk.audits.filter.page import filter_page
from memorisk.audits.filter.result import FilterNumbers, FilterSummary
from memorisk.audits.filter.run import FilterPlan, filter_synthetic
from memorisk.audits.filter.verdict import kept_verdict, promise_doubts
from memorisk.audits.release.statement import make_statement
from memorisk.audits.synthetic.reasons import NoHeldOut
from memorisk.cli.show.runs import show_outcome
from memorisk.models.copy_detectors import load_detector
from memorisk.models.lcmem import LatentDetector
from memorisk.models.provenance import group_hashes
from memorisk.report.first_screen import first_screen
from memorisk.report.numbers import from_json, to_json
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.report.statements.statement import OTHER_PIXELS
from memorisk.runs.errors import InputError
from memorisk.scores.pairs import Head, score
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.pairs.guarantee import miss_guarantee
from memorisk.training.detectors.lcmem.inputs import build_initial_network
from memorisk.training.detectors.options import LatentOptions
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from tests.audits.filter.conftest import ONE_KIND, run
from tests.audits.filter.making import BROKEN, COPIED, IDENTICAL, N_NEW, N_SET, N_TRAIN, OF, contents, digit_sets
from tests.commands import answer, refusal
from tests.training.siamese import latents_of, patients

KEPT = "kept"


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, m] Euclidean distances of pixels in [0, 1], by definition."""
    flat = [x.reshape(len(x), -1) / 255 for x in (a, b)]
    return np.sqrt(((flat[0][:, None] - flat[1][None]) ** 2).sum(axis=2))


def test_copies_are_rejected_and_the_rest_is_kept(place: Path, filtered: Result) -> None:
    table = filtered.per_image.set_index("image")
    assert filtered.verdict["gate"] == "copied"
    assert filtered.verdict["guarantee"].startswith("For a random copy")
    assert len(table) == N_SET + 1
    assert set(table.index[table["reason"] == "score"]) >= {f"c{row % 2}/s{row:03d}_0.png" for row in range(COPIED)}
    assert table.loc[IDENTICAL, "reason"] == "same pixels"
    assert table.loc[BROKEN, "reason"] == "unreadable"
    assert "broken" not in table.loc[BROKEN, "nearest_image"]
    assert table.loc[BROKEN, "detail"] != ""
    assert (table["kept"] == (table["reason"] == "")).all()
    assert len(contents(place / "out" / KEPT)) == table["kept"].sum() + 1
    assert 30 < table["kept"].sum() < N_SET - COPIED


def test_scores_are_the_best_of_all_training_images_and_the_threshold_an_order_statistic(
    filtered: Result,
) -> None:
    sets = digit_sets()
    every = distances(sets["set"], sets["train"])
    scores = filtered.tables["scores"].set_index("image")
    rows = [int(name.split("/s")[1][:3]) for name in scores.index if name != BROKEN]
    np.testing.assert_allclose(scores["score"], -every.min(axis=1)[rows], atol=1e-6)
    pairs = filtered.tables["calibration"]
    assert len(pairs) == N_NEW == pairs["group"].nunique()
    made = miss_guarantee(pairs["score"].to_numpy(), miss_rate=0.05, confidence=0.95, detectors=1)
    threshold = filtered.verdict["thresholds"][0]
    assert threshold == made.threshold == np.sort(pairs["score"])[made.misses_allowed]
    reached = (scores["score"] >= threshold) | (scores.index == IDENTICAL)
    kept = filtered.per_image.set_index("image")["kept"]
    assert (kept[scores.index] == ~reached).all()
    assert filtered.verdict["guarantee"] == made.words("noise (0.01, 0.1)")


def test_cost_and_exposed_patients(filtered: Result) -> None:
    v = filtered.verdict
    real = filtered.tables["real_images"]
    new, train = digit_sets()["new"], digit_sets()["train"]
    reached = -distances(new, train).min(axis=1) >= v["thresholds"][0]
    assert v["real_rejected"]["successes"] == int(reached.sum()) == int(real["reaches"].sum())
    assert v["real_rejected"]["trials"] == N_NEW
    assert v["real_rejected"]["low"] <= reached.mean() <= v["real_rejected"]["high"]
    classes = filtered.per_class
    assert classes["n_before"].sum() == N_SET + 1
    assert (classes["n_before"] - classes["n_rejected"] == classes["n_kept"]).all()
    assert classes["share_kept"].sum() == pytest.approx(1)
    exposed = filtered.per_group
    assert {f"t{row:03d}" for row in (*range(COPIED), 20)} <= set(exposed["group"])
    assert exposed["identical"].iloc[0]
    assert exposed["group"].iloc[0] == "t020"
    assert len(exposed) == v["n_exposed"]
    assert exposed["n_rejected"].sum() == v["rejected"]["score"] + v["rejected"]["same pixels"]
    irs = filtered.tables["diversity"].set_index("images")
    assert irs.loc["kept", "n"] == v["n_kept"]
    assert irs.loc["before", "n"] == N_SET
    assert (irs["low"] <= irs["irs"]).all()
    assert (irs["irs"] <= irs["high"]).all()


def test_what_is_not_promised_is_named(place: Path, filtered: Result, capsys) -> None:
    v = filtered.verdict
    expected = ["blur", "rotation", "brightness", "darkening", "contrast", "jpeg", "noise stronger than 0.1"]
    assert v["not_promised"] == [*expected, "flipped", "cropped", "pasted"]
    page = (place / "out" / "report.html").read_text()
    assert "Noise copies missed" in page
    show_outcome(filtered, "filter", place / "out", as_json=False)
    for text in (page, capsys.readouterr().out):
        assert "does not cover other kinds of copies (" in text
        assert "noise stronger than 0.1, flipped, cropped, pasted)." in text
    assert "Of many copies made by noise, some are kept" in page


def test_a_summary_is_read_back_and_one_of_an_earlier_version_renders(filtered: Result) -> None:
    assert to_json(from_json(FilterSummary, filtered.summary)) == filtered.summary
    later = ("look_alikes", "n_merged", "patients_by_word", "not_promised")
    numbers = {key: value for key, value in filtered.summary["numbers"].items() if key not in later}
    numbers["left_out"] = {"in_training": 0, "same_pixels": 0, "nearly_same": 7, "known": 0}
    page = render_page(filter_page(filtered.replace(summary=filtered.summary | {"numbers": numbers})))
    assert "7 patients left out, with an image that is nearly a training image" in page


def test_calibration_people_who_are_mostly_found_in_train_are_doubted(filtered: Result) -> None:
    numbers = from_json(FilterNumbers, filtered.summary["numbers"])
    made, all_new, options = numbers.synthetic_rejected, clopper_pearson(N_NEW, N_NEW), filter_options(OF)
    assert made is not None
    assert numbers.audited is not None
    assert made.successes == (filtered.per_image["reason"] == "score").sum() + 1  # the exact one
    numbers = replace(numbers, audited=replace(numbers.audited, status="pass", reasons=(), what_would_decide=()))
    assert kept_verdict("filter", numbers, options)["status"] == "pass"
    assert promise_doubts(numbers) == []
    doubted = replace(numbers, real_rejected=all_new)
    found = kept_verdict("filter", doubted, options)
    assert found["status"] == "undecided"
    assert "either TRAIN holds images of these" in found["why"][0]
    assert [doubt.code for doubt in promise_doubts(doubted)] == [one["code"] for one in found["reasons"]]
    all_alike = replace(doubted, synthetic_rejected=replace(made, high=1.0))
    assert kept_verdict("filter", all_alike, options)["status"] == "pass"


def test_too_few_identities_give_no_number_and_nothing_is_kept(place: Path, capsys) -> None:
    command = ["filter", place / "train", place / "set", place / "few", "--detector", "pixels", "--families", "blur"]
    command += ["--calibration", place / "new", "--group-from", OF["group_from"], "--miss-rate", "0.01"]
    code, out, _ = answer(capsys, *command)
    assert code == 1
    assert f"{N_NEW} identities are there, so {299 - N_NEW} are missing" in out
    assert "NOTHING WAS KEPT: THE GUARANTEE NEEDS MORE PEOPLE" in out
    assert "fewer --families" not in out
    assert not (place / "few" / KEPT).exists()
    found = json.loads((place / "few" / "filter.json").read_text())
    assert (found["missing"], found["kept"], found["n_kept"], found["thresholds"]) == (299 - N_NEW, None, 0, [])
    assert set(pd.read_parquet(place / "few" / "manifest.parquet")["reason"]) == {"not filtered", "unreadable"}
    assert answer(capsys, *command, "--fail-on", "never")[0] == 0
    several = [*command[:3], place / "few-families", *command[4:6], "--families", "blur", "noise", *command[8:]]
    out = answer(capsys, *several)[1]
    assert out.count("are missing") == 1
    assert "fewer --families, or a larger --miss-rate" in out
    assert "new identities with a pair each of blur, noise; " in out


def test_a_threshold_of_ones_own_keeps_without_a_guarantee(place: Path) -> None:
    found = run(place, "own", None, threshold=-0.5)
    assert (found.status, found.verdict["guarantee"], found.verdict["threshold_by"]) == ("undecided", None, "user")
    assert contents(place / "own" / KEPT)
    assert found.verdict["why"] == [NoHeldOut().text]  # nobody to rank training patients among
    assert found.verdict["doubts"] == ["the threshold was given and not calibrated"]
    assert found.verdict["real_rejected"] is None
    with pytest.raises(InputError, match="gives no probability"):
        run(place, "half", None, threshold="half")
    with pytest.raises(InputError, match="give one for each"):
        run(place, "two", None, threshold=(-0.5, -0.5))
    everything = run(place, "all", None, threshold=-1e6)
    assert (everything.status, everything.verdict["n_kept"], everything.verdict["audited"]) == ("undecided", 0, None)


def test_detectors_and_families_share_the_confidence(place: Path) -> None:
    found = run(place, "shared", detector=["pixels", "pixels:4"], families=("noise:0.1", "jpeg:70"), gallery=False)
    table = found.tables["guarantees"]
    assert len(table) == 4
    assert found.verdict["shared_by"] == 4
    assert (table["needed"] == miss_guarantee([], detectors=4).needed).all()
    assert "shared by 4 detectors or families" in found.verdict["guarantee"]
    lowest = table.groupby("detector", sort=False)["threshold"].min()
    assert lowest.tolist() == found.verdict["thresholds"]
    scores = found.tables["scores"]
    reached = scores["score"] >= scores["detector"].map(lowest)
    rejected = set(scores["image"][reached])
    table = found.per_image.set_index("image")
    assert set(table.index[~table["kept"]]) == rejected | {BROKEN, IDENTICAL}
    strict = run(place, "shared-one", families=("noise:0.1", "jpeg:70"))
    assert strict.verdict["thresholds"][0] >= found.verdict["thresholds"][0]


def test_the_command_line(place: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(place)
    base = ["filter", "train", "set", "cli", "--group-from", OF["group_from"], "--calibration", "new"]
    code, out, _ = answer(capsys, *base, "--detector", "pixels", "--detector", "pixels:4", "--print-config")
    assert code == 0
    assert "detector:\n- pixels\n- pixels:4\n" in out
    (place / "cli.yaml").write_text(out)
    code, out, _ = answer(capsys, *base, "--config", "cli.yaml", "--dry-run", "--json", "--families", "noise:0.1")
    plan = json.loads(out)
    assert code == 0
    assert plan["images"] == {"training": N_TRAIN, "synthetic": N_SET, "calibration": N_NEW}
    assert (plan["unreadable"], plan["missing"], plan["detectors"]) == (
        1,
        0,
        ["pixels, euclidean", "pixels:4, euclidean"],
    )
    assert not (place / "cli").exists()
    pixels = ["--detector", "pixels", "--auditor", OF["auditor"]]
    code, out, _ = answer(capsys, *base, *pixels, "--families", "noise:0.1", "--json")
    assert (code, json.loads(out)["status"]) == (1, "undecided")  # a weak detector alone clears no set
    none_named = refusal(capsys, *base, "--families", "noise:0.1", "--auditor", OF["auditor"])
    assert "now asked: ['default, whitened']" in none_named
    assert "Did you mean 'noise'" in refusal(capsys, *base, "--detector", "pixels", "--families", "nose")
    assert "Known: 0.01, 0.1, 0.2, 0.3" in refusal(capsys, *base, "--detector", "pixels", "--families", "noise:9")
    code, out, _ = answer(capsys, "report", "cli", "--redact")
    assert code == 0
    assert "t020" not in (place / "cli" / "report-redacted.html").read_text()


def test_a_dry_run_says_how_many_identities_are_missing(place: Path) -> None:
    plan = filter_synthetic(
        place / "train", place / "set", place / "dry", calibration=place / "new", dry_run=True, **OF
    )
    assert isinstance(plan, FilterPlan)
    assert plan.missing == 0
    assert len(plan.families) == 9
    assert {f.needed for f in plan.families} == {miss_guarantee([], detectors=9).needed}
    assert not os.path.exists(place / "dry")  # noqa: PTH110


def test_a_head_gives_probabilities_and_half_is_a_threshold(place: Path, monkeypatch) -> None:
    head = Head(weight=np.linspace(-2.0, 0.5, 64), bias=3.0)

    def with_head(source: str, *, measure: str) -> PairDetector:
        """Pixels under a linear layer."""
        return replace(open_pair_detector(source, measure=measure), measure=None, head=head)

    monkeypatch.setattr(screening, "open_pair_detector", with_head)
    found = run(place, "head", threshold="half")
    sets = digit_sets()
    flat = {name: sets[name].reshape(len(sets[name]), -1) / 255 for name in ("set", "train")}
    logits = 3.0 + np.abs(flat["set"][:, None] - flat["train"][None]) @ head.weight
    table = found.per_image[found.per_image["image"] != BROKEN]
    rows = [int(name.split("/s")[1][:3]) for name in table["image"]]
    np.testing.assert_allclose(table["score"], logits.max(axis=1)[rows], atol=1e-5)
    np.testing.assert_allclose(table["probability"], 1 / (1 + np.exp(-table["score"])))
    assert found.verdict["thresholds"] == [0.0]
    one_only = (logits[rows] >= 0).sum(axis=1) == 1
    assert (table["singled_out"] == one_only | (table["reason"] == "same pixels")).all()
    assert 0 < one_only.sum() < (table["probability"] >= 0.5).sum()
    own = found.tables["guarantees"].set_index("family")
    pairs = found.tables["calibration"]
    assert own["missed"].sum() == (pairs["score"] < 0).sum()
    assert (own["missed_high"] > own["missed_share"]).all()


def filter_with_further_part(place: Path, pixels: np.ndarray, out: str) -> Result:
    """Filter the set by a table whose split ``test`` calibrates and whose split ``val`` is one image, ``{out}.png``."""
    rows = [(f"train/t{i:03d}_0.png", f"t{i:03d}", "train") for i in range(N_TRAIN)]
    rows += [(f"new/n{i:03d}_0.png", f"n{i:03d}", "test") for i in range(N_NEW)]
    rows.append((f"{out}.png", "t007", "val"))
    Image.fromarray(pixels).save(place / f"{out}.png")
    table = pd.DataFrame(rows, columns=["path", "patient", "split"]).assign(image=lambda t: t["path"])
    table.to_csv(place / f"{out}.csv", index=False)
    found = filter_synthetic(
        place / f"{out}.csv", place / "set", place / out, detector="pixels", families="noise:0.1",
        calibration_split="test", group_column="patient", auditor=OF["auditor"], **ONE_KIND,
    )  # fmt: skip
    assert isinstance(found, Result)
    return found


def test_calibration_images_may_be_a_split_of_train(place: Path, filtered: Result) -> None:
    found = filter_with_further_part(place, 255 - digit_sets()["train"][0, ..., 0], "split")
    assert (found.verdict["n_train_images"], found.verdict["n_calibration"]) == (N_TRAIN, N_NEW)
    assert any("1 image in further parts (val: 1)" in note for note in found.summary["numbers"]["notes"])
    assert sum("1 image in further parts (val: 1)" in str(note) for note in first_screen(found).notes) == 1
    assert contents(place / "split" / KEPT) == contents(place / "out" / KEPT)


def test_images_with_the_pixels_of_a_further_part_are_left_out(place: Path, filtered: Result) -> None:
    kept = next(image for image in (place / "out" / KEPT).rglob("*.png"))
    turned = np.ascontiguousarray(np.rot90(np.asarray(Image.open(kept))))
    found = filter_with_further_part(place, turned, "copied")
    left_out = found.per_image[found.per_image["reason"] == "same pixels, further part"]
    assert left_out["detail"].tolist() == ["image copied.png of the part val"]
    assert not left_out[["kept", "singled_out"]].any(axis=None)
    assert found.verdict["rejected"]["same pixels, further part"] == 1
    assert len(contents(place / "copied" / KEPT)) == len(contents(place / "out" / KEPT)) - 1
    assert "other-part-pixels" not in [reason["code"] for reason in found.reasons]
    assert "in a further part of TRAIN, as it is, mirrored or turned" in (place / "copied" / "report.html").read_text()
    described = make_statement(place / "copied").audits[0]
    assert next(one.value for one in described.figures if one.name == OTHER_PIXELS) == 0


def test_without_patients_a_pass_has_to_be_asked_for(place: Path, filtered: Result) -> None:
    found = run(place, "nobody", families="noise:0.1", group_from=None)
    assert (found.status, found.verdict["filtered"], found.verdict["guarantee"]) == ("undecided", True, None)
    assert any("--one-image-per-patient" in way for way in found.verdict["what_would_decide"])
    assert "counts as another person" in found.verdict["doubts"][0]
    said = run(place, "said", families="noise:0.1", group_from=None, one_image_per_patient=True)
    assert said.verdict["guarantee"]
    assert not any("no patient ids" in why for why in said.why)
    assert contents(place / "said" / KEPT) == contents(place / "nobody" / KEPT) == contents(place / "out" / KEPT)


def test_training_images_that_cannot_be_read_are_refused_or_leave_a_doubt(place: Path) -> None:
    shutil.copytree(place / "train", place / "broken-train")
    (place / "broken-train" / "t999_0.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    command = partial(
        filter_synthetic, place / "broken-train", place / "set", place / "doubt", threshold=-0.5,
        calibration=place / "new", **OF,
    )  # fmt: skip
    with pytest.raises(InputError, match="cannot be read"):
        command()
    found = command(skip_unreadable=True)
    assert isinstance(found, Result)
    assert any("copies of these are not found" in why for why in found.verdict["why"])


def test_images_without_a_score_are_rejected_and_their_copies_are_not_missed(place: Path) -> None:
    images = digit_sets()
    for name in ("new", "set"):
        images[name][:3] = 0  # cosine is undefined for them
        np.savez(place / f"black-{name}.npz", images=images[name], ids=[f"{name}{i}" for i in range(len(images[name]))])
    found = filter_synthetic(
        place / "train", place / "black-set.npz", place / "black", calibration=place / "black-new.npz",
        detector="pixels", measure="cosine", families="blur", auditor=OF["auditor"], **ONE_KIND,
    )  # fmt: skip
    assert isinstance(found, Result)
    assert found.per_image["reason"].tolist()[:3] == ["no score"] * 3
    assert found.per_image["score"].isna().tolist()[:3] == [True] * 3
    pairs = found.tables["calibration"].set_index("group")
    assert not pairs.loc[["new0", "new1", "new2"], "missed"].any()
    assert found.verdict["rejected"]["no score"] == 3


def test_siamese_detectors_of_one_name_that_know_some_people(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path))
    store = patients(tmp_path, n=30, each=4)
    train, new, others = (select_rows(store, np.arange(start, end)) for start, end in ((0, 40), (40, 100), (100, 120)))
    for seed in (0, 1):
        options = LatentOptions(backbone="small_cnn@none", dimension=16, device="cpu", seed=seed).filled()
        latents = latents_of(store)
        start = build_initial_network(latents, options)
        known = group_hashes(np.array(["patient010", "patient000"]), start.config.data_hash)
        seen = pd.DataFrame({"part": "training", "pixel_hash": "x", "group_hash": known})
        detector = LatentDetector(start.branch.eval(), latents.encoder, start.config, seen)
        detector.save(tmp_path / str(seed) / "net")
    np.save(tmp_path / "set.npy", np.concatenate([others.images, train.images[5:8]]))
    found = filter_synthetic(
        train, tmp_path / "set.npy", tmp_path / "out", calibration=new, families="re-identification", miss_rate=0.3,
        confidence=0.6, detector=[tmp_path / "0" / "net", tmp_path / "1" / "net"], device="cpu",
        auditor="pixels", **ONE_KIND,
    )  # fmt: skip
    assert isinstance(found, Result)
    assert found.verdict["detectors"] == ["detector:net (1)", "detector:net (2)"]
    assert found.verdict["left_out"] == {"in_training": 0, "same_pixels": 0, "known": 1}
    assert found.verdict["n_calibration"] == 14
    assert sum("1 of 10 training patients" in note for note in found.summary["numbers"]["notes"]) == 2
    assert found.per_image["reason"].tolist()[-3:] == ["same pixels"] * 3
    scores = found.tables["scores"]
    for number in (0, 1):
        detector = load_detector(tmp_path / str(number) / "net")
        assert isinstance(detector, LatentDetector)
        head = detector.head
        assert head is not None
        u, v = (detector.embed(s.images, device="cpu") for s in (others, train))
        best = score(u, v, head.weight, head.bias).max(axis=1)
        mine = scores["score"][scores["detector"] == f"detector:net ({number + 1})"].to_numpy()
        np.testing.assert_allclose(mine[: len(best)], best, atol=1e-5)

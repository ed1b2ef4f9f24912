"""The loop from folders to the kept set: copies are rejected, told and drawn again, and what is kept is clean."""

import json
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.synthesize import ledger, rounds
from memorisk.audits.synthesize import run as synthesizing
from memorisk.audits.synthesize.options import synthesize_options
from memorisk.audits.synthesize.plan import SynthesizePlan
from memorisk.audits.synthesize.result import LoopNumbers, LoopSummary
from memorisk.audits.synthesize.run import synthesize
from memorisk.audits.synthesize.verdict import loop_verdict
from memorisk.models.generators.generators import load_generator
from memorisk.report.numbers import from_json, to_json
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.statistics.pairs.regenerated_copies import regenerated_copies
from memorisk.training.generators.draws import image_seed
from tests.audits.filter.making import contents
from tests.audits.synthesize.conftest import N, run
from tests.audits.synthesize.making import HERE, N_NEW, N_TRAIN, OF, Paired, copied, copying, digit_parts
from tests.commands import answer, refusal
from tests.thorough import thorough

VOLATILE = ("log.jsonl", ".lock", "config.yaml")


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, m] Euclidean distances of pixels in [0, 1], by definition."""
    flat = [x.reshape(len(x), -1) / 255 for x in (a, b)]
    return np.sqrt(((flat[0][:, None] - flat[1][None]) ** 2).sum(axis=2))


def test_copies_are_rejected_and_the_ledger_says_of_whom(made: Result, place: Path) -> None:
    ledger = pd.read_parquet(place / "out" / "ledger.parquet")
    assert len(ledger) == made.verdict["n_drawn"] > N
    source = np.array([copied(seed) for seed in ledger["seed"]])
    copies = ledger[source >= 0]
    assert len(copies) > 15
    assert not copies["kept"].any()
    assert set(copies["reason"]) == {"score"}
    names = [f"train{row:03d}" for row in source[source >= 0]]
    assert copies["nearest_group"].tolist() == names
    assert set(made.per_group["group"]) >= set(names)
    every = copying(ledger["seed"].to_numpy(), None)
    nearest = distances(every, digit_parts()["train"]).min(axis=1)
    np.testing.assert_allclose(ledger["score"], -nearest, atol=1e-6)
    assert ((ledger["score"] >= ledger["threshold"]) == ~ledger["kept"]).all()
    assert ledger["image"].tolist() == pd.read_csv(place / "out" / "ledger.csv")["image"].tolist()


def test_every_place_is_drawn_until_one_passes_and_no_longer(made: Result) -> None:
    ledger = made.per_image
    assert made.verdict["n_kept"] == N == ledger["number"].nunique()
    for number, tries in ledger.groupby("number"):
        assert tries["attempt"].tolist() == list(range(len(tries)))
        assert tries["kept"].tolist() == [False] * (len(tries) - 1) + [True]
        assert tries["seed"].tolist() == [image_seed(1, int(number), a) for a in range(len(tries))]  # pyright: ignore
    attempts = made.tables["attempts"]
    assert attempts["n_drawn"].tolist() == ledger["attempt"].value_counts().sort_index().tolist()
    assert (attempts["n_drawn"].to_numpy()[1:] == attempts["n_rejected"].to_numpy()[:-1]).all()


def test_images_with_the_pixels_of_a_further_part_are_drawn_again(made: Result, place: Path) -> None:
    kept = made.per_image[made.per_image["kept"]].iloc[0]
    drawn = copying(np.array([kept["seed"]]), None)[0]
    Image.fromarray(np.ascontiguousarray(np.rot90(drawn))).save(place / "validation.png")
    rows = [(f"train/train{row:03d}_0.png", f"train{row:03d}", "train") for row in range(N_TRAIN)]
    rows += [(f"new/new{row:03d}_0.png", f"new{row:03d}", "test") for row in range(N_NEW)]
    table = pd.DataFrame([*rows, ("validation.png", "someone", "val")], columns=["path", "patient", "split"])
    table.assign(image=table["path"]).to_csv(place / "three-parts.csv", index=False)
    found = synthesize(
        place / "three-parts.csv", place / "three-parts", generator=f"{HERE}:copying", seed=1, images=10,
        calibration_split="test", group_column="patient", **OF | {"group_from": None},
    )  # fmt: skip
    assert isinstance(found, Result)
    left_out = found.per_image[found.per_image["reason"] == "same pixels, further part"]
    assert left_out["seed"].tolist() == [kept["seed"]]
    assert found.verdict["n_kept"] == 10
    assert "other-part-pixels" not in [reason["code"] for reason in found.reasons]


def test_kept_images_are_the_generators_own_and_only_these(made: Result, place: Path) -> None:
    kept = pd.read_csv(place / "out" / "manifest.csv")
    assert len(kept) == N
    for path, seed in zip(kept["path"], kept["seed"], strict=True):
        image = np.asarray(Image.open(place / "out" / path))
        np.testing.assert_array_equal(image, copying(np.array([seed]), None)[0])
    assert set(contents(place / "out" / "kept")) == {"metadata.csv", *(Path(path).name for path in kept["path"])}
    assert list(pd.read_csv(place / "out" / "kept" / "metadata.csv")) == ["file_name"]  # nothing of training images
    assert {p.name for p in (place / "out").iterdir()} >= {"report.html", "audit", "synthesize.json"}
    assert not {"rounds", ".kept.building", "rejected"} & {p.name for p in (place / "out").iterdir()}
    assert ((place / "out").stat().st_mode & 0o777) == 0o700


def test_the_verdict_is_that_of_the_audit_of_the_kept_set(made: Result, place: Path) -> None:
    audit = json.loads((place / "out" / "audit" / "verdict.json").read_text())
    assert (audit["n_synthetic"], audit["n_listed"], audit["n_certain_copies"]) == (N, 0, 0)
    assert (made.status, made.why) == (audit["status"], audit["why"])
    unfiltered = run(place, "raw", threshold=1, images=2 * N)
    assert unfiltered.verdict["n_rejected"] == 0
    assert unfiltered.status == "fail"  # the same auditor sees the copies


def test_what_the_guarantee_says_after_drawing_again(made: Result, place: Path) -> None:
    copies, ledger = made.verdict["copies"], made.per_image
    rejected = [int((~tries["kept"]).sum()) for _, tries in ledger.groupby("number")]
    expected = regenerated_copies(rejected, [True] * N, miss_rate=OF["miss_rate"], tries=20)
    assert (copies["share"], copies["high"]) == (expected.share, expected.high)
    assert copies["share"] == pytest.approx(0.05 / 0.95 * sum(rejected) / N)
    page = (place / "out" / "report.html").read_text()
    assert "After drawing again" in page
    assert "Drawing again gives a place further chances" in page
    assert made.verdict["guarantee"] in page.replace("&#39;", "'")


def test_table_three_is_before_and_after(made: Result, place: Path, capsys) -> None:
    row = made.verdict["table_three"]
    ledger = made.per_image
    first = ledger[ledger["attempt"] == 0]
    rate = row["figures"]["MemRate"]
    assert rate["before"]["estimate"] == pytest.approx((~first["kept"]).mean())
    assert rate["kept"]["estimate"] == 0
    reference = distances(digit_parts()["new"], digit_parts()["train"]).min(axis=1)
    reached = -reference >= made.verdict["thresholds"][0]
    assert rate["reference"]["estimate"] == pytest.approx(reached.mean())
    assert row["n"] == N
    for figure in ("FID", "IRS"):
        assert all(found["low"] <= found["estimate"] <= found["high"] for found in row["figures"][figure].values())
    code, out, _ = answer(capsys, "synthesize", "--table", place / "out", place / "out", "--json")
    assert code == 0
    table = json.loads(out)
    assert len(table) == 2
    assert table[0]["memrate_before"] == rate["before"]["estimate"]
    assert "no finished run" in refusal(capsys, "synthesize", "--table", place / "train")


HOW = {"images": 40, "batch": 16, "keep_rejected": True, "gallery": False}  # pictures are drawn once more


@pytest.fixture(scope="session")
def whole(place: Path) -> Result:
    """A loop of small blocks that nobody killed, in ``whole``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "BLOCK", 16)
        return run(place, "whole", **HOW)


@pytest.mark.parametrize("broken_at", ["screening", thorough("naming")])
def test_a_killed_loop_goes_on_to_the_same_bytes(place: Path, whole: Result, monkeypatch, broken_at: str) -> None:
    monkeypatch.setattr(rounds, "BLOCK", 16)
    calls, out, drawn = [], place / f"killed-{broken_at}", []

    def broken(*arguments, **names):
        """Fail at the fourth block, or when the kept set has its name and the last file is to be written."""
        calls.append(1)
        if broken_at == "naming" or len(calls) == 4:
            raise MemoriskError("killed")
        return honest(*arguments, **names)

    part, name = (rounds, "screen_block") if broken_at == "screening" else (synthesizing, "write_json")
    honest = getattr(part, name)
    with monkeypatch.context() as patch:
        patch.setattr(part, name, broken)
        with pytest.raises(MemoriskError, match="killed"):
            run(place, out.name, **HOW)
    assert not (out / "synthesize.json").exists()
    assert (out / "kept").exists() == (broken_at == "naming")
    generator = load_generator(f"{HERE}:copying")
    counting = replace(generator, call=lambda seeds, labels: (drawn.extend(seeds), copying(seeds, labels))[1])
    again = run(place, out.name, generator=counting, **HOW)
    assert contents(out, VOLATILE) == contents(place / "whole", VOLATILE)
    rehearsed, three_blocks = 3, 40
    assert len(drawn) == rehearsed + (0 if broken_at == "naming" else whole.verdict["n_drawn"] - three_blocks)
    assert again.verdict == whole.verdict
    assert len(contents(out / "kept")) - 1 + len(contents(out / "rejected")) == whole.verdict["n_drawn"]
    with pytest.raises(InputError, match="images"):
        run(place, out.name, **HOW | {"images": 41})


@pytest.mark.parametrize("what", [thorough("write_array"), "write_table"])
def test_a_full_disk_is_called_one(place: Path, whole: Result, monkeypatch, what: str) -> None:
    monkeypatch.setattr(rounds, "BLOCK", 16)
    honest = getattr(ledger, what)

    def full(*arguments, **how) -> None:
        """Write with room for 100 bytes, fewer than the header of an array has."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            honest(*arguments, **how)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    out = place / f"full-{what}"
    with monkeypatch.context() as patch:
        patch.setattr(ledger, what, full)
        with pytest.raises(MemoriskError, match=f"no space left on the disk for .*{out.name}: free some; what is done"):
            run(place, out.name, **HOW)
    run(place, out.name, **HOW)
    assert contents(out, VOLATILE) == contents(place / "whole", VOLATILE)


def test_a_torn_image_is_drawn_again(place: Path, whole: Result, monkeypatch) -> None:
    monkeypatch.setattr(rounds, "BLOCK", 16)
    with monkeypatch.context() as patch:
        patch.setattr(synthesizing, "write_json", None)
        with pytest.raises(TypeError):
            run(place, "torn", **HOW)
    file = next((place / "torn" / "kept").glob("*.png"))
    file.write_bytes(file.read_bytes()[:-30])
    run(place, "torn", **HOW)
    assert contents(place / "torn", VOLATILE) == contents(place / "whole", VOLATILE)


def test_places_that_never_pass_stay_empty_and_are_told(place: Path, capsys) -> None:
    command = ["synthesize", place / "train", place / "once", "--generator", f"{HERE}:copying", "--detector", "pixels"]
    command += ["--families", "noise:0.1", "--group-from", OF["group_from"], "--calibration", place / "new"]
    command += ["--images", "30", "--most-tries", "1", "--seed", "1", "--auditor", "pca:16"]
    code, out, _ = answer(capsys, *command)
    found = json.loads((place / "once" / "synthesize.json").read_text())
    assert (code, found["status"]) == (1, "undecided")
    assert found["n_empty"] == found["n_rejected"] > 0
    assert f"Of 30 places, {found['n_empty']} stayed empty after 1 try" in out
    assert len(contents(place / "once" / "kept")) - 1 == found["n_kept"] == 30 - found["n_empty"]
    assert answer(capsys, *command, "--fail-on", "never")[0] == 0
    never = run(place, "never", f"{HERE}:only_copies", images=5, most_tries=2)
    assert (never.status, never.verdict["n_kept"], never.verdict["n_drawn"]) == ("undecided", 0, 10)
    assert set(never.per_image["reason"]) == {"same pixels"}
    assert never.verdict["audited"] is None


def test_without_identities_nothing_is_drawn(place: Path) -> None:
    found = run(place, "few", miss_rate=0.01)
    assert (found.status, found.verdict["n_drawn"], found.verdict["missing"]) == ("undecided", 0, 299 - 79)
    assert not (place / "few" / "kept").exists()
    assert "Nothing" not in found.verdict["why"][0]
    assert "are missing" in found.verdict["why"][0]
    plan = synthesize(place / "train", place / "no", generator=f"{HERE}:copying", calibration=str(place / "new"),
                      dry_run=True, images=10, **OF | {"miss_rate": 0.01})  # fmt: skip
    assert isinstance(plan, SynthesizePlan)
    assert (plan.missing, plan.images, plan.first_batch) == (299 - 79, 10, 10)
    assert plan.seconds > 0
    assert not (place / "no").exists()


def test_colour_size_and_classes(place: Path) -> None:
    with pytest.raises(InputError, match="16 x 16, and training images are stored at 8 x 8: give --size"):
        run(place, "size", f"{HERE}:classes")
    found = run(place, "size", f"{HERE}:classes", size=8, images=40, keep_rejected=True)
    kept = pd.read_parquet(place / "size" / "manifest.parquet")
    assert kept["label"].value_counts().to_dict() == {"bright": 20, "dark": 20}
    assert list(pd.read_csv(place / "size" / "kept" / "metadata.csv")) == ["file_name"]  # classes of no training image
    assert Image.open(place / "size" / kept["path"][0]).size == (16, 16)
    for _, tries in found.per_image.groupby("number"):
        assert tries["label"].nunique() == 1
    assert any("kept as such, and compared as 8 x 8 x 1" in note for note in found.summary["numbers"]["notes"])
    assert len(contents(place / "size" / "rejected")) == found.verdict["n_rejected"] > 0


def test_ids_under_pseudonyms_and_a_redacted_report(place: Path) -> None:
    found = run(place, "hidden", images=20, pseudonymise=True, redact=True)
    assert found.per_image["image"].str.startswith("synthetic-").all()
    shutil.rmtree(place / "hidden" / "kept")
    for path, data in contents(place / "hidden", ("config.yaml", "log.jsonl")).items():
        assert b"train0" not in data, path
    text = pd.concat(
        [pd.read_parquet(place / "hidden" / f"{name}.parquet").astype(str) for name in ("ledger", "per_group")]
    )
    assert not text.apply(lambda column: column.str.contains("train0").any()).any()


def test_a_paired_generator_is_held_to_its_own_source_too(place: Path) -> None:
    generator = Paired(("train",))
    found = run(place, "paired", generator=generator, paired=True, images=N_TRAIN,
                gallery=True, quality="pixels:4")  # fmt: skip
    ledger, row = found.per_image, found.verdict["table_three"]
    assert ledger["source"].tolist() == [f"train{n:03d}_0.png" for n in ledger["number"]]
    copies = np.array([copied(seed) >= 0 for seed in ledger["seed"]])
    reaches = ledger["of_source"] >= ledger["threshold"]
    assert reaches[copies].all()
    assert not ledger["kept"][reaches].any()
    assert (ledger["nearest_image"] == ledger["source"])[copies].all()
    assert found.verdict["n_of_source"] == int(reaches.sum())
    first = ledger["attempt"] == 0
    assert row["figures"]["MemRate"]["before"]["estimate"] == pytest.approx(reaches[first].mean())
    assert row["figures"]["MemRate"]["kept"]["estimate"] == 0
    assert 0 <= row["figures"]["MemRate"]["reference"]["estimate"] < 0.1
    assert (row["conditioning"], row["paired"], row["features"]) == ("ensemble", True, "pixels:4")
    assert json.loads((place / "paired" / "audit" / "verdict.json").read_text())["paired"]["n_pairs"] == N_TRAIN
    page = (place / "paired" / "report.html").read_text()
    assert "reached the threshold with the very image" in page
    assert page.count("data:image/png") == min(10, len(found.per_group))  # each once


def test_whom_the_generator_knows(place: Path) -> None:
    with pytest.raises(InputError, match="trained or chosen on 79 patients of the calibration images"):
        run(place, "seen", generator=Paired(("new",)), images=4)
    more = run(place, "more", generator=Paired(("train",), missing=20), images=4)
    assert more.status == "undecided"
    assert "was trained on 20 images that TRAIN does not hold" in more.verdict["why"][0]
    unknown = run(place, "unknown", images=4).summary["numbers"]["notes"]
    assert any("is your word" in note for note in unknown)


def test_parts_of_one_table(place: Path) -> None:
    rows = [(f"{part}/{file.name}", part, file.name[:-6]) for part in ("train", "new")
            for file in sorted((place / part).glob("*.png"))]  # fmt: skip
    pd.DataFrame(rows, columns=["image", "split", "patient"]).to_csv(place / "all.csv", index=False)
    how = {"detector": "pixels", "families": ("noise:0.1",), "generator": f"{HERE}:copying", "images": 12, "seed": 1}
    found = synthesize(place / "all.csv", place / "parts", calibration_split="new", auditor="pca:16", **how)
    assert isinstance(found, Result)
    n = found.summary["numbers"]
    assert (n["n_train_images"], n["n_calibration"]) == (80, 79)
    assert json.loads((place / "parts" / "audit" / "verdict.json").read_text())["n_held_patients"] == 79


def test_refusals(place: Path, capsys) -> None:
    for settings, said in (
        ({"auditor": "pixels"}, "--auditor pixels.* is --detector pixels.*, which chooses the images itself"),
        ({"plant_kinds": ("sharpened",)}, "unknown kind of copy"),
        ({"paired": True}, "leave paired out"),
        ({"images": 0}, "images is 0"),
        ({"generator": f"{HERE}:nothing"}, "unknown function"),
        ({"train_split": "train"}, "name the part of TRAIN that the generator never saw"),
        ({"generator": f"{HERE}:careless"}, "another image of the same seed alone"),
    ):
        with pytest.raises(InputError, match=said):
            run(place, "refused", **settings)
    with pytest.raises(InputError, match="lies inside"):
        run(place, "train/out")
    assert not (place / "refused").exists()
    assert "needs TRAIN and OUT" in refusal(capsys, "synthesize", place / "train")
    code, out, _ = answer(
        capsys, "synthesize", "a", "b", "--generator", "g:f", "--detector", "pixels", "--print-config"
    )
    assert (code, "most_tries: 20" in out) == (0, True)


def test_the_audit_is_about_the_kinds_that_were_named(place: Path) -> None:
    found = run(place, "kinds", plant_kinds="exact", images=12)
    assert found.verdict["status"] != "fail"
    audit = json.loads((place / "kinds" / "audit" / "verdict.json").read_text(encoding="utf-8"))
    assert audit["plant_kinds"] == ["exact"]
    with pytest.raises(InputError, match="plant_kinds"):
        run(place, "kinds", images=12)  # another question


def test_a_summary_is_read_back(made: Result) -> None:
    assert to_json(from_json(LoopSummary, made.summary)) == made.summary


def test_training_images_that_train_lacks_keep_a_pass_away(made: Result) -> None:
    options, numbers = synthesize_options({"detector": "pixels", "generator": "g:f"}), made.summary["numbers"]

    def judged(status: str, *doubts: str) -> tuple[str, list[str]]:
        audited = numbers["audited"] | {"status": status, "reasons": [{"code": "other", "text": "as audited"}]}
        found = loop_verdict(from_json(LoopNumbers, numbers | {"audited": audited, "doubts": list(doubts)}), options)
        return found["status"], found["why"]

    assert judged("pass") == ("pass", ["as audited"])
    assert judged("pass", "copies of others") == ("undecided", ["copies of others"])
    assert judged("undecided", "copies of others") == ("undecided", ["copies of others", "as audited"])
    assert judged("fail", "copies of others") == ("fail", ["as audited"])

"""Paired mode: each synthetic image beside what it was generated from, MemRate beside that of held-out images."""

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.comparison.evidence import read_pairing
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic.flags import copy_clusters
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.statistics.copies.memorization_rate import memorization_rate
from tests.audits.synthetic import heads
from tests.audits.synthetic.heads import NAME, use_heads
from tests.audits.synthetic.heads import head as logit_head
from tests.audits.synthetic.making import N_HELD, N_SYNTHETIC, N_TRAIN, parts, store_of, write_sets
from tests.audits.synthetic.test_heads import logits
from tests.commands import answer, environment, memorisk

COPIED = 20


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    use_heads(monkeypatch)
    return tmp_path


@pytest.fixture
def sets(place: Path) -> Sets:
    """Images conditioned on the training image of their row, the first ones copies; three images of each patient."""
    train, held, synthetic = parts()
    moved = np.random.default_rng(5).integers(-6, 7, (COPIED, 8, 8, 1))
    synthetic[:COPIED] = np.clip(train[:COPIED].astype(int) + moved, 0, 255)
    stores = [
        store_of(images, place, name, groups=[f"{name}-p{row // 3}" for row in range(len(images))],
                 labels=np.arange(len(images)) % 2)
        for name, images in (("train", train), ("set", synthetic), ("held", held))
    ]  # fmt: skip
    table = stores[1].manifest.table.assign(
        origin=[f"train-{row:04d}" if row < N_TRAIN else "" for row in range(N_SYNTHETIC)]
    )
    made = replace(stores[1], manifest=replace(stores[1].manifest, table=table))
    return Sets(stores[0], made, stores[2], 0, 0, frozenset(), ())


def audited(sets: Sets, out: str, detector: str = NAME, **settings) -> Result:
    given = {"plants": 9, "detector": (detector,), "paired": "origin"} | settings
    found = audit_synthetic(sets.train, sets.synthetic, held_out=sets.held, out=out, **given)
    assert isinstance(found, Result)
    return found


def test_memrate_is_the_share_of_pairs_above_one_half(sets: Sets) -> None:
    found = audited(sets, "run")
    train, synthetic = (np.asarray(s.images) for s in (sets.train, sets.synthetic))
    own = np.diag(logits(synthetic[:N_TRAIN], train))
    table = found.tables["paired"]
    np.testing.assert_allclose(table["score"], own, atol=1e-9)
    np.testing.assert_array_equal(table["memorized"], own > 0)
    said = found.verdict["paired"]
    assert (said["n_pairs"], said["n_unpaired"]) == (N_TRAIN, N_SYNTHETIC - N_TRAIN)
    (rate,) = said["rates"]
    wanted = memorization_rate(own > 0, np.arange(N_TRAIN) // 3)
    assert rate["n_memorized"] == (own > 0).sum() >= COPIED
    assert (rate["rate"]["estimate"], rate["rate"]["low"]) == (wanted.estimate, wanted.low)
    assert rate["held"]["n_pairs"] == N_HELD
    assert rate["held"]["n_identities"] == N_HELD / 3
    assert rate["held"]["estimate"] < rate["rate"]["estimate"]
    assert rate["excess"]["low"] > 0
    page = Path("run/report.html").read_text()
    assert "Images and what they were generated from" in page
    assert (found.tables["review"]["found_by"].str.contains("paired")).sum() == rate["n_memorized"]
    redacted = audited(sets, "redacted", redact=True)
    assert redacted.verdict["paired"] == said
    assert "train-0003" not in Path("redacted/report.html").read_text()


def test_held_out_images_stand_beside_conditioned_images_of_their_class(sets: Sets) -> None:
    found = read_pairing("origin", sets, 0)
    assert found is not None
    assert sets.held is not None
    assert sorted(found.held) == list(range(N_HELD))
    np.testing.assert_array_equal(sets.held.manifest.labels[found.held], sets.train.manifest.labels[found.beside])
    assert len(set(found.beside)) == N_HELD  # nobody twice while there are others
    again, other = read_pairing("origin", sets, 0), read_pairing("origin", sets, 1)
    assert again is not None and other is not None  # noqa: PT018
    np.testing.assert_array_equal(found.beside, again.beside)
    assert (found.beside != other.beside).any()
    alone = read_pairing("origin", replace(sets, held=None), 0)
    assert alone is not None
    assert not len(alone.held)


def test_a_measure_counts_from_the_threshold_that_plants_give(sets: Sets) -> None:
    found = audited(sets, "run", "pixels")
    (rate,) = found.verdict["paired"]["rates"]
    assert not rate["probability"]
    assert "miss rate of at most 5 %" in rate["promise"]
    assert "No guarantee" in rate["promise"]  # 40 patients are fewer than 59
    assert rate["rate"] is None
    many = replace(sets, train=store_of(np.asarray(sets.train.images), Path(), "train"))
    found = audited(many, "many", "pixels", one_image_per_patient=True)
    (rate,) = found.verdict["paired"]["rates"]
    plants = found.tables["plants"].query("required")
    assert rate["rate"] is not None
    assert (-plants["distance"] > rate["threshold"]).mean() >= 0.95
    none = audited(sets, "none", "pixels", plants=0)
    assert none.verdict["paired"]["rates"][0]["rate"] is None
    assert "no planted copies to read one from" in Path("none/report.html").read_text()


def test_dismissed_pairs_are_not_memorized(sets: Sets) -> None:
    first = audited(sets, "run").verdict["paired"]["rates"][0]["n_memorized"]
    table = pd.read_csv("run/review.csv", dtype=str, keep_default_na=False)
    mine = table["synthetic_image"].isin(["set-0002", "set-0005"])
    table.loc[mine, ["verdict", "by", "reason"]] = ("dismiss", "A", "drawn so")
    table.to_csv("judged.csv", index=False)
    again = audited(sets, "run", review=Path("judged.csv"))
    assert again.verdict["paired"]["rates"][0]["n_memorized"] == first - 2


def test_a_memrate_that_chance_explains_says_so_and_asks_about_nobody(sets: Sets, monkeypatch) -> None:
    """Everybody is paired with somebody else's image: what is above the threshold are false alarms."""
    monkeypatch.setattr(heads, "head", lambda: replace(logit_head(), bias=12.0))
    images = sets.train.manifest.images
    wrong = pd.DataFrame({"synthetic_image": sets.synthetic.manifest.images[:N_TRAIN], "training_image": images[::-1]})
    wrong.to_csv("wrong.csv", index=False)
    found = audited(sets, "run", paired="wrong.csv")
    (rate,) = found.verdict["paired"]["rates"]
    assert rate["excess"]["low"] <= 0 < rate["n_memorized"]
    listed = set(found.per_group.loc[found.per_group["listed"], "group"])
    asked = found.tables["review"]
    paired = asked[asked["found_by"].str.contains("paired")]
    assert set(paired["patient"]) <= listed
    assert len(paired) < rate["n_memorized"]
    assert "No more than by chance" in Path("run/report.html").read_text()


def test_pairs_from_a_file_and_what_is_refused(sets: Sets, place: Path) -> None:
    def written(made: list[str], real: list[str]) -> str:
        pd.DataFrame({"synthetic_image": made, "training_image": real}).to_csv("pairs.csv", index=False)
        return "pairs.csv"

    found = read_pairing(written(["set-0003", "set-0001.png"], ["train-0007.png", "train-0002"]), sets, 0)
    assert found is not None
    assert (found.synthetic.tolist(), found.train.tolist()) == ([1, 3], [2, 7])
    for made, real, words in (
        (["set-0003"], ["nobody"], "1 training image that TRAIN does not have"),
        (["nothing"], ["train-0000"], r"1 image is not in SYNTHETIC \(nothing\)"),
        (["set-0003", "set-0003"], ["train-0000", "train-0001"], "1 image is paired twice"),
    ):
        with pytest.raises(InputError, match=words):
            read_pairing(written(made, real), sets, 0)
    with pytest.raises(InputError, match="neither a column of SYNTHETIC"):
        read_pairing("orgin", sets, 0)
    (place / "empty.csv").write_text("synthetic_image,training_image\nset-0001,\n")
    with pytest.raises(InputError, match="for none of the synthetic ones"):
        read_pairing("empty.csv", sets, 0)
    (place / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="needs the columns synthetic_image and training_image"):
        read_pairing("other.csv", sets, 0)
    assert read_pairing(None, sets, 0) is None


def test_clusters_join_by_a_patient_or_pair_by_pair_and_never_by_a_chain() -> None:
    hashes = np.array(["a", "b", "a", "d", "e", "f", "g", "g", "h", "i"], dtype=object)
    blank = np.array([False] * 6 + [True] * 2 + [False] * 2)
    exposing = [(1, "p"), (3, "p"), (3, "q"), (9, "q")]  # 3 exposes both: its cluster is that of the first
    found = copy_clusters(exposing, hashes, [(4, 5), (5, 8)], blank)  # 4 and 8 are no pair
    assert [rows.tolist() for rows in found.images] == [[1, 3], [0, 2], [4, 5]]
    assert [patients.tolist() for patients in found.patients] == [["p", "q"], [], []]
    assert found.cluster.tolist() == [2, 1, 2, 1, 3, 3, 0, 0, 0, 0]
    every_two = copy_clusters([], hashes, [(4, 5), (5, 8), (4, 8)], blank)
    assert [rows.tolist() for rows in every_two.images] == [[4, 5, 8], [0, 2]]
    equals = copy_clusters([(2, "p")], hashes, [(0, 4)], blank)  # 0 has the pixels of 2
    assert [rows.tolist() for rows in equals.images] == [[0, 2]]
    assert [patients.tolist() for patients in equals.patients] == [["p"]]
    none = copy_clusters([], hashes[:0], [], blank[:0])
    assert (none.images, len(none.cluster)) == ((), 0)


@pytest.mark.thorough  # as test_the_same_command_writes_the_same_bytes_and_goes_on_after_a_kill of test_audit
def test_a_killed_audit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Kill -9 while it works; the same command writes what an undisturbed one does."""
    arguments = ("audit", "synthetic", "train.npz", "set.npz", "--held-out", "held.npz", "--plants", 2, "--detector",
                 "pixels", "--detector", "small_cnn@none", "--fail-on", "never", "--out", "run")  # fmt: skip
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        write_sets(tmp_path / name, copied=5, noise=3)
    cache = tmp_path / "killed" / "cache"
    process = subprocess.Popen(memorisk(*arguments), cwd=tmp_path / "killed", env=environment(cache),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(cache.rglob("meta.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "run" / "report.html").exists()
    outputs = []
    for name in ("killed", "whole"):
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setenv("MEMORISK_CACHE", "cache")
        assert answer(capsys, *arguments)[0] == 0
        files = [f for f in sorted(Path("run").rglob("*")) if f.is_file() and f.name not in ("log.jsonl", ".lock")]
        outputs.append({str(f): f.read_bytes() for f in files})
    assert outputs[0] == outputs[1]
    assert "run/report.html" in outputs[0]

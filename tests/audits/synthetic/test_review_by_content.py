"""Judgements hold for the pixels of two images, whatever becomes of names, order and files, and for nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.compared_images import ComparedImages
from memorisk.audits.comparison.review import Review, pair_keys, read_review
from memorisk.audits.comparison.review_files import COLUMNS, ELSEWHERE, undismissed_images, write_elsewhere
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.release.export import release
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.cli.show.runs import show_outcome
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.folder import write_config
from tests.audits.synthetic.making import parts, store_of

PLAIN = Pseudonyms(None)
NO = ("dismiss", "B", "a phantom, no patient")
YES = ("confirm", "", "")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stored(place: Path, train: np.ndarray, synthetic: np.ndarray, prefix: str = "") -> Sets:
    """Sets without held-out images, their images named by number after a prefix."""
    return Sets(store_of(train, place, f"{prefix}train"), store_of(synthetic, place, f"{prefix}set"),
                None, 0, 0, frozenset(), ())  # fmt: skip


def write_lines(path: Path, sets: Sets, said: dict[tuple[int, int], tuple[str, str, str]], names=PLAIN) -> None:
    """Judge pairs of rows in a review file."""
    rows = []
    for (made, real), answer in said.items():
        contents = sets.synthetic.pixel_hashes[made], sets.train.pixel_hashes[real]
        ids = names.names([sets.synthetic.manifest.images[made], sets.train.manifest.images[real]])
        rows.append((*ids, "", "", "", "", pair_keys([contents], names)[0], *answer))
    pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(path, index=False)


def rows_of(review: Review, sets: Sets) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Rows of dismissed and of confirmed pairs."""
    return review.pairs(sets, review.dismissed), review.pairs(sets, review.confirmed)


def test_other_names_and_another_order_keep_each_judgement_at_its_images(place: Path) -> None:
    train, _, synthetic = parts()
    sets = stored(place, train, synthetic)
    write_lines(Path("review.csv"), sets, {(3, 5): NO, (4, 6): YES})
    order = np.random.default_rng(0).permutation(len(synthetic))
    back = np.random.default_rng(1).permutation(len(train))
    at = {old: int(np.flatnonzero(order == old)[0]) for old in (3, 4)}
    of = {old: int(np.flatnonzero(back == old)[0]) for old in (5, 6)}
    for prefix in ("", "other-"):  # with names that other images had, and with names of their own
        moved = stored(place, train[back], synthetic[order], prefix)
        review = read_review(Path("review.csv"), moved, PLAIN)
        assert rows_of(review, moved) == ([(at[3], of[5])], [(at[4], of[6])])
        assert (review.changed, review.elsewhere) == ((), ())


def test_pseudonyms_hold_under_their_key_alone(place: Path) -> None:
    train, _, synthetic = parts()
    sets, own, other = stored(place, train, synthetic), Pseudonyms(b"k" * 32), Pseudonyms(b"o" * 32)
    write_lines(Path("review.csv"), sets, {(3, 5): NO}, own)
    assert sets.train.pixel_hashes[5] not in Path("review.csv").read_text()
    moved = stored(place, train[::-1], synthetic[::-1], "other-")
    assert rows_of(read_review(Path("review.csv"), moved, own), moved) == ([(len(synthetic) - 4, len(train) - 6)], [])
    for names in (PLAIN, other):
        with pytest.raises(InputError, match="made under the same key"):
            read_review(Path("review.csv"), sets, names)


@pytest.mark.parametrize("alter", [lambda image: image ^ 1, lambda image: image[:, ::-1], np.transpose])
def test_an_altered_image_and_another_source_are_not_judged(place: Path, alter) -> None:
    """One grey level, mirrored, transposed: neither side is dismissed, and the pair is asked about by its rows."""
    train, _, synthetic = parts()
    sets = stored(place, train, synthetic)
    write_lines(Path("review.csv"), sets, {(3, 5): NO})
    for row, images in ((3, synthetic), (5, train)):
        changed = images.copy()
        changed[row] = alter(images[row, ..., 0])[..., None] if alter is np.transpose else alter(images[row])
        now = stored(place, *((changed, synthetic) if images is train else (train, changed)))
        review = read_review(Path("review.csv"), now, PLAIN)
        assert not review.judged
        assert [(pair.synthetic, pair.train, pair.verdict) for pair in review.changed] == [(3, 5, "dismiss")]
    twice = train.copy()
    twice[7] = synthetic[3]  # the dismissed image is the very image of another training image
    now = stored(place, twice, synthetic)
    assert rows_of(read_review(Path("review.csv"), now, PLAIN), now) == ([(3, 5)], [])


def test_judgements_of_absent_images_come_back_with_them(place: Path) -> None:
    train, _, synthetic = parts()
    sets = stored(place, train, synthetic)
    write_lines(Path("review.csv"), sets, {(3, 5): NO, (4, 6): YES, (9, 9): YES})
    fewer = np.delete(np.arange(len(synthetic)), [3, 4])
    fewer_names = replace(sets, synthetic=replace(sets.synthetic, images=synthetic[fewer],
                          manifest=sets.synthetic.manifest.subset(fewer),
                          pixel_hashes=sets.synthetic.pixel_hashes[fewer]))  # fmt: skip
    review = read_review(Path("review.csv"), fewer_names, PLAIN)
    assert (len(review.judged), len(review.elsewhere), review.changed) == (1, 2, ())
    run = place / "run"
    run.mkdir()
    write_elsewhere(run, review.elsewhere)
    write_lines(run / "review.csv", fewer_names, {(9 - 2, 9): YES})
    for source in (run, run / "review.csv"):
        assert rows_of(read_review(source, sets, PLAIN), sets) == ([(3, 5)], [(4, 6), (9, 9)])
    renamed = stored(place, train, synthetic[fewer])  # numbers that the images left out had before
    assert not read_review(run, renamed, PLAIN).changed
    write_elsewhere(run, [])
    assert (run / ELSEWHERE).is_file()


def test_an_image_of_the_reviewed_set_under_another_name_is_not_a_changed_one(place: Path) -> None:
    """A set numbered anew after its copies were left out, as `release` writes it."""
    train, _, synthetic = parts()
    sets = stored(place, train, synthetic)
    run = place / "run"
    run.mkdir()
    write_lines(run / "review.csv", sets, {(3, 5): YES, (8, 6): NO})
    shifted = stored(place, train, np.delete(synthetic, 3, axis=0))
    assert [pair.synthetic for pair in read_review(run, shifted, PLAIN).changed] == [3]  # no listing tells
    ComparedImages.of(sets.synthetic, sets.train).write(run)
    review = read_review(run, shifted, PLAIN)
    assert rows_of(review, shifted) == ([(7, 6)], [])
    assert review.changed == ()
    altered = np.delete(synthetic, 3, axis=0)
    altered[3] = synthetic[3] ^ 1
    (changed,) = read_review(run, stored(place, train, altered), PLAIN).changed
    assert (changed.synthetic, changed.train, changed.verdict) == (3, 5, "confirm")


def test_all_files_of_a_run_count_and_each_image_of_a_pair_is_left_out(place: Path) -> None:
    train, _, synthetic = parts()
    synthetic[6] = synthetic[4]
    sets = stored(place, train, synthetic)
    write_lines(Path("review.csv"), sets, {(3, 5): NO, (4, 6): YES, (6, 6): YES})
    write_lines(Path("review-2.csv"), sets, {(8, 9): NO})
    write_lines(Path("reviewed.csv"), sets, {(3, 5): YES})
    review = read_review(place, sets, PLAIN)
    assert rows_of(review, sets) == ([(8, 9)], [(3, 5), (4, 6), (6, 6)])
    assert set(undismissed_images(place)) == {"set-0003", "set-0004", "set-0006"}


def audited(sets: dict[str, str], out: str, **settings) -> Result:
    given = {"plants": 12, "recall": 0.2, "plant_kinds": ("exact", "flipped", "noised"), "one_image_per_patient": True}
    found = audit_synthetic(sets["train"], sets["set"], held_out=sets["held"], out=out, **{"detector": "pixels"} | given
                            | settings)  # fmt: skip
    assert isinstance(found, Result)
    return found


def written(folder: str, images: np.ndarray, name: str) -> str:
    """Write images as files named by a pattern."""
    Path(folder).mkdir(parents=True)
    for row, image in enumerate(images):
        Image.fromarray(image[..., 0]).save(f"{folder}/{name.format(row)}")
    return folder


def test_judgements_hold_for_files_of_other_names_forms_and_places_and_after_release(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, held, synthetic = parts()
    synthetic[4], synthetic[90] = train[3], train[8]
    for row in (4, 90):
        synthetic[row, 0, 0] ^= 3
    sets = {
        "train": written("a/train", train, "t{:04d}.png"),
        "held": written("a/held", held, "h{:04d}.png"),
        "set": written("a/set", synthetic, "{:06d}.png"),
    }
    first = audited(sets, "run")
    table = pd.read_csv("run/review.csv", dtype=str, keep_default_na=False)
    dismissed, confirmed = (table["synthetic_image"] == name for name in ("000090.png", "000004.png"))
    table.loc[:, ["verdict", "by", "reason"]] = NO
    table.loc[confirmed, ["verdict", "by", "reason"]] = YES
    table.to_csv("run/review.csv", index=False)
    assert dismissed.any()
    assert confirmed.any()
    release("run", "clean", without="run")  # numbered anew: all after the copy have other numbers
    order = np.random.default_rng(0).permutation(len(train))
    later = {
        "train": written("b/elsewhere", train[order], "{:04d}.bmp"),
        "held": written("b/held", held, "{:04d}.tif"),
        "set": "clean",
    }
    again = audited(later, "later", review="run", seed=3)
    assert again.status == "pass", again.verdict["why"]
    said = again.tables["review"]
    assert said.loc[said["verdict"] == "dismiss", "training_image"].tolist()
    assert again.verdict["n_review_changed"] == 0
    assert again.verdict["n_dismissed"] == first.tables["review"].shape[0] - confirmed.sum()

    back = written("c/set", synthetic, "again-{:03d}.png")  # the copy comes back under another name
    failed = audited(later | {"set": back}, "back", review="later", detector="pca:8")
    assert failed.status == "fail"
    assert failed.verdict["n_confirmed"] == confirmed.sum()

    synthetic[4, ::2] ^= 31  # the copy is altered under its name
    altered = audited(later | {"set": written("d/set", synthetic, "again-{:03d}.png")}, "altered", review="back")
    assert altered.status != "pass"
    assert altered.verdict["n_review_changed_copies"] >= 1
    asked = altered.tables["review"]
    assert "again-004.png" in asked.loc[asked["changed"] == "confirm", "synthetic_image"].tolist()
    show_outcome(altered, "synthetic", Path("altered"), as_json=False)
    assert "to look at: memorisk view altered, or fill altered/review.csv" in capsys.readouterr().out
    Path("redacted").mkdir()
    write_config(Path("redacted"), {"redact": True})
    show_outcome(altered.replace(folder=Path("redacted")), "synthetic", Path("redacted"), as_json=False)
    assert "again-004.png" not in capsys.readouterr().out
    page = Path("altered/report.html").read_text()
    assert "Asked about anew" in page
    assert any("other pixels" in why for why in altered.verdict["why"])


def test_a_dismissed_pair_does_not_hide_the_next_image_of_the_same_patient(place: Path) -> None:
    """One synthetic image is near to two images of one patient; the nearer pair is dismissed."""
    train, held, synthetic = parts()
    train[7] = np.clip(train[3].astype(int) + np.random.default_rng(0).integers(-12, 13, train[3].shape), 0, 255)
    synthetic[4] = np.clip(train[3].astype(int) + np.random.default_rng(1).integers(-6, 7, train[3].shape), 0, 255)
    patients = [f"p{row}" for row in range(len(train))]
    patients[7] = patients[3]
    for name, images, groups in (("train", train, patients), ("held", held, [f"h{row}" for row in range(len(held))])):
        np.savez(f"{name}.npz", images=images, groups=groups)
    np.savez("set.npz", images=synthetic)
    sets = {name: f"{name}.npz" for name in ("train", "held", "set")}
    first = audited(sets, "run", one_image_per_patient=False)
    assert first.per_image["nearest_image"][4] == first.tables["singled_out"]["training_image"][0]
    table = pd.read_csv("run/review.csv", dtype=str, keep_default_na=False)
    table.loc[table["training_image"] == first.per_image["nearest_image"][4], ["verdict", "by", "reason"]] = NO
    table.to_csv("run/review.csv", index=False)
    again = audited(sets, "again", one_image_per_patient=False, review="run")
    assert again.verdict["n_dismissed"] == 1
    assert again.per_image["nearest_image"][4] != first.per_image["nearest_image"][4]
    assert again.per_image["singled_out"][4]
    assert again.status != "pass"

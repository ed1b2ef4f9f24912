"""``images check --out``: sets of copies, the gravest first, their page in a browser, and what is left out of it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.pictures import MOST_AT_A_GLANCE
from memorisk.audits.image_set.options import CheckOptions
from memorisk.audits.image_set.pictures import set_pictures
from memorisk.audits.image_set.run import check_set
from memorisk.audits.image_set.tables import copy_sets
from memorisk.cli.main import main
from memorisk.images.set_check.check import check_images
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_table
from tests.audits.image_set.making import HOSTILE, picture, write_set
from tests.report.chromium import Chromium
from tests.report.conftest import browser

pytestmark = pytest.mark.usefixtures("drawn")

__all__ = ["browser"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set, its check with turned copies in ``run``, a check without ids in ``redacted``."""
    folder = tmp_path_factory.mktemp("check")
    table = write_set(folder / "set", label=HOSTILE)
    check_set(str(table), CheckOptions(turned=True), out=folder / "run")
    check_set(str(table), CheckOptions(redact=True), out=folder / "redacted")
    return folder


def test_sets_across_patients_splits_and_labels_stand_first(place: Path) -> None:
    sets = read_table(place / "run" / "tables" / "sets.parquet")
    shown = [(rows["image"].str[7:10].tolist(), rows["kind"].iloc[0]) for _, rows in sets.groupby("set")]
    assert shown == [
        (["000", "001"], "bytes"),
        (["004", "005"], "near"),
        (["002", "003"], "near"),
        (["006", "007"], "bytes"),
    ]
    assert sets.groupby("set")["across"].first().tolist() == ["label, group, split", "group, split", "label, group", ""]
    assert sets["similarity"].between(0.9, 1).all()
    assert json.loads((place / "run" / "check.json").read_text())["problems"]["unreadable"] == 1
    assert read_table(place / "run" / "tables" / "unreadable.parquet")["path"].tolist() == ["images/broken.png"]
    assert read_table(place / "run" / "tables" / "classes.parquet")["label"].tolist() == [HOSTILE, "malign"]


def test_a_chain_of_near_copies_makes_no_set_of_images_that_are_no_pair(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for n in range(4):
        Image.fromarray(picture(n)).save(tmp_path / "set" / f"{n}.png")
    manifest = load_manifest(tmp_path / "set")
    found = check_images(manifest)
    names = manifest.images.tolist()
    links = [(0, 1, 0.99), (1, 2, 0.98)]
    near = pd.DataFrame([{"image_a": names[a], "image_b": names[b], "similarity": s} for a, b, s in links])
    object.__setattr__(found, "near", near.assign(confirmed=True, across="group"))
    sets = copy_sets(found, manifest)
    assert sets["image"].tolist() == names[:2]
    assert sets["similarity"].tolist() == [0.99, 0.99]


def test_a_difference_is_taken_where_the_images_lie_on_one_another_and_made_bright(place: Path) -> None:
    manifest = load_manifest(place / "set" / "table.csv")
    sets = read_table(place / "run" / "tables" / "sets.parquet")
    found = {image[7:10]: one for image, one in set_pictures(sets, manifest, CheckOptions()).items()}
    assert found["000"].difference is None
    assert found["001"].difference is None, "equal pixels differ in nothing"
    mirrored, noisier = found["005"], found["003"]
    assert mirrored.difference is not None
    assert not mirrored.difference.any()
    assert (mirrored.moved, noisier.moved) == (True, False)
    assert noisier.difference is not None
    assert noisier.factor == 32
    assert np.percentile(noisier.difference, 99) > 100


@pytest.mark.browser
def test_the_page_shows_pairs_that_grow_by_a_click_and_runs_nothing(place: Path, browser: Chromium) -> None:
    page = place / "run" / "report.html"
    browser.open(page)
    assert browser.evaluate("document.images.length") == MOST_AT_A_GLANCE + 10, "8 images of 4 sets, 2 differences"
    assert browser.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
    assert "32 times brighter" in browser.evaluate("document.body.innerText")
    width = "document.querySelector('.zoom img').getBoundingClientRect().width"
    assert browser.evaluate(width) < 300
    browser.evaluate("document.querySelector('.zoom img').click()")
    assert browser.evaluate(width) == browser.evaluate("innerWidth")
    escape = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))"
    browser.evaluate(escape)
    assert browser.evaluate(width) < 300
    assert browser.requests() == [page.resolve().as_uri()]
    assert not browser.complaints()
    browser.open(page, width=390)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390


def test_redact_leaves_out_ids_and_pictures_and_no_gallery_pictures(place: Path, tmp_path: Path) -> None:
    text = (place / "redacted" / "report.html").read_text()
    assert "data:image" not in text
    for name in ("000.png", "broken.png", "p001"):
        assert name not in text
    assert "Images: [redacted]" in text
    assert "Ids and images were left out of this file" in text
    check_set(str(place / "set" / "table.csv"), CheckOptions(gallery=False), out=tmp_path / "run")
    plain = (tmp_path / "run" / "report.html").read_text()
    assert "data:image" not in plain
    assert "images/000.png" in plain


def test_pseudonymise_leaves_no_id_and_no_path_in_anything_written(place: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "key").write_bytes(bytes(range(32)))
    (tmp_path / "key").chmod(0o600)
    source, out = str(place / "set" / "table.csv"), tmp_path / "run"
    options = ["--turned", "--pseudonymise", "--pseudonym-key", str(tmp_path / "key")]
    assert main(["images", "check", source, "--out", str(out), *options]) == 1
    shown = capsys.readouterr().out
    written = {p: p.read_bytes().decode("latin-1") for p in out.rglob("*") if p.is_file() and p.suffix != ".parquet"}
    frames = {p: read_table(p).to_csv() for p in out.rglob("*.parquet")}
    assert len(frames) > 10
    for name in ("000.png", "broken.png", "p001", str(place)):
        assert name not in shown.replace(str(out), "")
        assert not [path for path, text in (written | frames).items() if name in text]
    sets, plain = (read_table(run / "tables" / "sets.parquet") for run in (out, place / "run"))
    assert sorted(sets.groupby("set")["across"].first()) == sorted(plain.groupby("set")["across"].first())
    assert sets["image"].str.fullmatch("[0-9a-f]{16}").all()
    assert (out / "report.html").read_text().count("data:image") == MOST_AT_A_GLANCE + 10


def test_report_says_what_a_check_is_and_how_its_page_is_written_again(place: Path, capsys) -> None:
    assert main(["report", str(place / "run")]) == 2
    said = capsys.readouterr().err
    assert "is a run of images check, not of an audit: its page is report.html in it" in said
    assert said.count("\n") == 1


def test_the_same_command_gives_the_same_page_and_changes_no_image(place: Path, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in (place / "set").rglob("*") if p.is_file()}
    command = ["images", "check", str(place / "set" / "table.csv"), "--turned", "--out", str(tmp_path / "run")]
    assert main(command) == 1
    page = (tmp_path / "run" / "report.html").read_bytes()
    assert page == (place / "run" / "report.html").read_bytes()
    assert main(command) == 1
    assert (tmp_path / "run" / "report.html").read_bytes() == page
    assert before == {p: p.read_bytes() for p in (place / "set").rglob("*") if p.is_file()}


def test_near_sets_the_threshold_and_says_that_chance_is_not_known(place: Path) -> None:
    source = str(place / "set" / "table.csv")
    loose = check_set(source, CheckOptions(near=0.3)).check
    assert loose.near_found > 4
    assert "as requested: how many pairs of different people are so alike is not known" in loose.near_rule.words
    assert min(loose.near["similarity"].tolist()) >= 0.3
    for value in (0, 1.5, -1):
        with pytest.raises(InputError, match=r"near is .*; it must be a correlation above 0 and up to 1"):
            check_set(source, CheckOptions(near=value))


def test_a_folder_of_something_else_is_refused_before_images_are_read(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="mine holds files that are not a run"):
        check_set(str(tmp_path / "nowhere"), CheckOptions(), out=tmp_path / "mine")
    inside = place / "set" / "images" / "run"
    assert main(["images", "check", str(place / "set" / "images"), "--out", str(inside)]) == 2
    assert not inside.exists()


def test_what_was_not_looked_for_is_told_after_what_was_found(place: Path, capsys) -> None:
    assert main(["images", "check", str(place / "set" / "table.csv")]) == 1
    lines = capsys.readouterr().out.splitlines()
    told = lines.index("note: Copies that are mirrored or turned were not looked for (--turned).")
    rule = next(n for n, line in enumerate(lines) if line.startswith("note: Two images count as nearly the same"))
    assert max(n for n, line in enumerate(lines) if line.startswith("nearly the same:")) < rule < told

"""``images check --mend``: one id per person, images that cannot be used are left out, no file is replaced."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.audits.image_set.making import picture, write_set
from tests.commands import answer, entries, refusal


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A table of 24 images of 12 people: some ids in other forms, a broken file, an empty image, strange names."""
    folder, rows = tmp_path / "a set", ["file,finding,patient,sex"]
    folder.mkdir()
    for n in range(24):
        person = n // 2
        name = f"{n:02}, =1+1.png" if n == 5 else f"{n:02}.png"
        Image.fromarray(picture(n, 16)).save(folder / name)
        rows.append(f'"{name}",{"ab"[n % 2]},{f"P-{person:03}" if n % 2 else f"p{person}"},{"FM"[person % 2]}')
    (folder / "00.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(folder / "03.png")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    return folder / "table.csv"


def test_the_next_command_takes_the_mended_table_and_its_check_is_clean(spoilt: Path, tmp_path: Path, capsys) -> None:
    before = {name: (spoilt.parent / name).read_bytes() for name in entries(spoilt.parent)}
    mended = tmp_path / "mended set.csv"
    code, text, _ = answer(capsys, "images", "check", spoilt, "--mend", mended)
    assert code == 1  # of the set as it is
    assert f"mended table: {mended}, 22 images; 2 left out\n" in text
    assert "10 sets: P-002 = p2," in text
    assert text.endswith(f"next: memorisk audit classifier '{mended}' --out RUN --dry-run\n")
    table = pd.read_csv(mended, dtype=str)
    assert {Path(path).name for path in table["path"]} == set(before) - {"table.csv", "00.png", "03.png"}
    assert sorted(table.groupby("group").size()) == [1, 1, *[2] * 10]
    assert set(table["sex"]) == {"F", "M"}, "other columns stay, for --by"
    assert mended.stat().st_mode & 0o077 == 0

    code, text, _ = answer(capsys, "images", "check", mended, "--json")
    assert (code, json.loads(text)["ok"], json.loads(text)["images"]) == (0, True, 22)
    assert "look alike" not in text
    assert answer(capsys, "audit", "classifier", mended, "--out", tmp_path / "run", "--dry-run")[0] == 0
    assert {name: (spoilt.parent / name).read_bytes() for name in entries(spoilt.parent)} == before


def test_copies_under_two_labels_stay_for_a_person_to_decide(tmp_path: Path, capsys) -> None:
    """Which label, patient or split is right, no rule knows."""
    code, text, _ = answer(capsys, "images", "check", write_set(tmp_path / "set"), "--mend", tmp_path / "m.csv")
    assert code == 1
    assert "1 left out\nwhat only you can decide stays in the table - sets of equal images across labels: 1, " in text
    assert text.endswith(f"next: memorisk images check {tmp_path / 'm.csv'}\n")
    assert len(pd.read_csv(tmp_path / "m.csv")) == 60


def test_a_table_replaces_no_file_and_does_not_lie_among_the_images(spoilt: Path, tmp_path: Path, capsys) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("mine")
    for file, message in (
        (mine, "mine.csv exists: name a new file"),
        (tmp_path / "mended.parquet", "name a new file that ends in .csv"),
        (tmp_path / "none" / "mended.csv", "does not exist"),
        ("s3://bucket/mended.csv", "--mend s3://bucket/mended.csv"),
    ):
        assert message in refusal(capsys, "images", "check", spoilt, "--mend", file)
    within = refusal(capsys, "images", "check", spoilt.parent, "--mend", spoilt.parent / "mended.csv")
    assert "lies inside the images" in within
    assert "leave --pseudonymise out" in refusal(
        capsys, "images", "check", spoilt, "--mend", tmp_path / "m.csv", "--pseudonymise"
    )
    assert mine.read_text() == "mine"
    assert entries(tmp_path / "a set").count("mended.csv") == 0

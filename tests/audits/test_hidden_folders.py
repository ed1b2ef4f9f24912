"""Folders of pseudonymised and redacted runs, searched whole for what names somebody."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import memorisk
from memorisk.cli.main import main
from memorisk.images.pixels import hash_pixels
from memorisk.runs.files import fingerprint
from tests.audits.synthetic.making import parts

PARTS = {"training": 48, "held": 40}
SMALL = {"detector": "pixels", "plants": 2, "one_image_per_patient": False, "group_column": "patient"}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Sets of images in files whose names, like ids and folders, are those of people."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    train, held, made = parts(n_train=PARTS["training"], n_held=PARTS["held"], n_synthetic=40)
    made[0], made[1] = train[0], np.clip(train[1].astype(int) + 5, 0, 255)
    found = {}
    for name, images in (("training", train), ("held", held), ("made", made)):
        folder = tmp_path / f"ward-{name}"
        folder.mkdir()
        rows = []
        for row, image in enumerate(images):
            file = f"scan-{name}-{row:03}-erika.png"
            Image.fromarray(image[..., 0]).save(folder / file)
            rows.append({"path": f"{folder.name}/{file}", "image": f"image-{name}-{row:03}-erika",
                         "patient": f"mrn-{name}-{row:03}", "label": "ab"[row % 2]})  # fmt: skip
        (folder / f"unreadable-{name}-erika.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
        rows.append({**rows[0], "path": f"{folder.name}/unreadable-{name}-erika.png",
                     "image": f"unreadable-{name}-erika", "patient": f"mrn-{name}-unreadable"})  # fmt: skip
        found[name] = tmp_path / f"{name}.csv"
        pd.DataFrame(rows).to_csv(found[name], index=False)
    return found


def names_of(tables: dict[str, Path], *sets: str) -> set[str]:
    """Ids, patients, paths, file names and folders of some sets, whole and without their ending."""
    known = set()
    for name in sets:
        table = pd.read_csv(tables[name])
        known |= {*table["image"], *table["patient"], *table["path"]}
        known |= {part for path in table["path"] for part in (Path(path).name, Path(path).stem, str(Path(path).parent))}
    return known


def unkeyed_hashes(tables: dict[str, Path], *sets: str) -> set[str]:
    """First digits of unkeyed hashes of ids, names, files and pixels."""
    digests = ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s", "sha3_256")
    texts = names_of(tables, *sets)
    contents = [text.encode() for text in texts]
    made = [fingerprint(text) for text in texts]
    for name in sets:
        for path in pd.read_csv(tables[name])["path"]:
            contents.append(Path(path).read_bytes())
            if "unreadable" not in path:
                pixels = np.asarray(Image.open(path))
                contents.append(pixels.tobytes())
                made.append(hash_pixels(pixels[..., None]))
    made += [hashlib.new(digest, content).hexdigest() for content in contents for digest in digests]
    return {one[:12] for one in made}


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Each file's path with all text in it: names, bytes, and the cells of tables."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(file.relative_to(folder))
        text = f"{name}\n{file.read_bytes().decode('latin-1')}"
        if file.suffix == ".parquet":
            text += pd.read_parquet(file).to_csv()
        yield name, text


def leaks(folder: Path, words: set[str]) -> list[tuple[str, str]]:
    """Files of a folder that hold one of some words, each with the word."""
    return [(name, next(word for word in words if word in text)) for name, text in texts_of(folder)
            if any(word in text for word in words)]  # fmt: skip


def orders_of(folder: Path, ids: dict[str, int]) -> list[str]:
    """Tables whose rows stand in the order of the ids behind their pseudonyms."""
    found = []
    for file in sorted(folder.rglob("*.parquet")):
        table = pd.read_parquet(file)
        for column in table.columns:
            places = [ids[value] for value in table[column].tolist() if isinstance(value, str) and value in ids]
            if len(places) >= 10 and places == sorted(places):
                found.append(f"{file.relative_to(folder)}: {column}")
    return found


def pseudonyms_of(tables: dict[str, Path], key: Path, *sets: str) -> dict[str, int]:
    """Place of each pseudonym in the order of the user's table."""
    from memorisk.report.result import pseudonyms

    found = {}
    for name in sets:
        table = pd.read_csv(tables[name])
        for column in ("image", "patient", "path"):
            values = [str(value) for value in table[column]]
            hashed = pseudonyms(values, key.read_bytes())
            found |= {hashed[value]: place for place, value in enumerate(values)}
    return found


def test_a_pseudonymised_synthetic_run_names_nobody(tables: dict[str, Path], tmp_path: Path) -> None:
    memorisk.audit_synthetic(
        tables["training"], tables["made"], held_out=tables["held"], out="run", pseudonymise=True, skip_unreadable=True,
        gallery=False, **SMALL,
    )  # fmt: skip
    sets = ("training", "held")
    assert leaks(Path("run"), names_of(tables, *sets)) == []
    hashes = unkeyed_hashes(tables, *sets) - unkeyed_hashes(tables, "made")  # of the set that is to go out
    assert leaks(Path("run"), hashes) == []
    assert orders_of(Path("run"), pseudonyms_of(tables, tmp_path / "config/memorisk/pseudonym.key", *sets)) == []


def test_a_pseudonymised_classifier_run_names_nobody(tables: dict[str, Path], tmp_path: Path) -> None:
    memorisk.audit_classifier(
        tables["training"], out="run", pseudonymise=True, skip_unreadable=True, gallery=False, models=4, epochs=1,
        model="small_cnn", group_column="patient", device="cpu",
    )  # fmt: skip
    assert leaks(Path("run"), names_of(tables, "training")) == []
    assert leaks(Path("run"), unkeyed_hashes(tables, "training")) == []
    assert orders_of(Path("run"), pseudonyms_of(tables, tmp_path / "config/memorisk/pseudonym.key", "training")) == []


def test_redacted_pages_and_terminals_name_nobody(tables: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    sets, given = ("training", "held", "made"), ["--redact", "--skip-unreadable", "--group-column", "patient"]
    synthetic = ["audit", "synthetic", "training.csv", "made.csv", "--held-out", "held.csv", "--detector", "pixels"]
    classifier = ["audit", "classifier", "training.csv", "--models", "4", "--epochs", "1", "--model", "small_cnn"]
    for number, words in enumerate(
        ([*synthetic, "--plants", "2"], classifier, ["images", "check", "training.csv"], [*classifier, "--dry-run"])
    ):
        out = Path(f"run-{number}")
        main([*words, *given, "--out", str(out)])
        shown = capsys.readouterr()
        page = (out / "report.html").read_text() if (out / "report.html").exists() else ""
        for text in (shown.out, shown.err, page):
            found = [name for name in names_of(tables, *sets) - {f"ward-{name}" for name in sets} if name in text]
            assert found == [], (words, text[:3000])


def test_json_of_a_redacted_check_names_nobody(tables: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    main(["images", "check", "training.csv", "--redact", "--group-column", "patient", "--out", "run", "--json"])
    out = capsys.readouterr().out
    json.loads(out)
    assert [name for name in names_of(tables, "training") if name in out] == []

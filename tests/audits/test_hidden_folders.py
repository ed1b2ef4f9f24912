"""Folders of pseudonymised and redacted runs, searched whole for what names somebody."""

import base64
import copy
import hashlib
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file

import memorisk
from memorisk.cli.main import main
from memorisk.images.pixels import hash_pixels
from memorisk.runs.files import fingerprint
from tests.audits.synthesize.making import HERE
from tests.audits.synthetic.making import parts
from tests.thorough import thorough

MODELS = "tests.audits.test_hidden_folders"
PARTS = {"training": 48, "held": 40}
SMALL = {"detector": "pixels", "plants": 2, "one_image_per_patient": False, "group_column": "patient"}


def network() -> torch.nn.Module:
    """A network of digits that has learned nothing."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4)).eval()


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
        rows[5]["patient"] = rows[4]["patient"].upper()  # one person, perhaps: the doubt names nobody, either
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
    """Each file's path with all text in it: names, bytes, and what tables, arrays and weights hold unpacked."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(file.relative_to(folder))
        yield name, "\n".join([name, *_texts_within(file)])


def _texts_within(file: Path) -> Iterator[str]:
    """The texts of a file, with digests in its bytes as hexadecimal digits."""
    content = file.read_bytes()
    yield content.decode("latin-1")
    yield content.hex()
    if file.suffix in (".json", ".jsonl"):
        yield from (json.dumps(json.loads(line), ensure_ascii=False) for line in _documents(file))
    if file.suffix == ".html":
        yield html.unescape(content.decode())
        yield from (base64.b64decode(part).hex() for part in _DATA.findall(content.decode()))
    if file.suffix == ".parquet":
        yield pd.read_parquet(file).to_csv()
        yield str(pq.read_schema(file).metadata)
    if file.suffix in (".npz", ".npy"):
        arrays = np.load(file, allow_pickle=False)
        named = dict(arrays) if file.suffix == ".npz" else {"": arrays}
        yield from (
            f"{key} {array.tolist() if array.dtype.kind in 'US' else array.tobytes().hex()}"
            for key, array in named.items()
        )
    if file.suffix == ".safetensors":
        with safe_open(file, framework="np") as weights:
            yield f"{weights.metadata()} {list(weights.keys())}"


_DATA = re.compile(r"base64,([A-Za-z0-9+/=]+)")


def _documents(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]


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
    memorisk.explain("run", images=tables["training"], probes=True, permutations=9)
    memorisk.compare("run", "run").save(Path("compared"))
    main(["report", "run"])
    for folder in (Path("run"), Path("compared")):
        assert leaks(folder, names_of(tables, "training")) == []
        assert leaks(folder, unkeyed_hashes(tables, "training")) == []
        assert orders_of(folder, pseudonyms_of(tables, tmp_path / "config/memorisk/pseudonym.key", "training")) == []


STUDIES = {
    "rare-distinctive": {
        "seeds": [1, 2],
        "settings": {"epochs": 1, "processes": 1, "sample": 40},
        "architectures": {"CNN": {"model": "small_cnn"}},
        "datasets": {"Ward": {"images": "training.csv"}},
    },
    "generators": {
        "settings": {"detectors": ["pixels:8"], "images": 20, "sampling_steps": 2, "quality": "pixels:8"},
        "generator": {"kind": "dit", "network": "tiny/8", "steps": 2, "batch_size": 4},
        "datasets": {"Ward": {"images": "training.csv", "held_out": 0.4}},
        "arms": {"all": {"training_images": "all"}},
    },
}


@pytest.mark.thorough
@pytest.mark.parametrize("study", ["rare-distinctive", thorough("generators")])
def test_a_pseudonymised_study_names_nobody(tables: dict[str, Path], tmp_path: Path, study: str) -> None:
    config = copy.deepcopy(STUDIES[study])
    config["settings"] |= {"pseudonymise": True}
    config["datasets"]["Ward"] |= {"skip_unreadable": True, "group_column": "patient"}
    Path("study.yaml").write_text(yaml.safe_dump(config))
    assert main(["study", study, "--config", "study.yaml", "--out", "run"]) == 0
    assert Path("run/report.html").is_file()
    assert leaks(Path("run"), names_of(tables, "training")) == []
    assert leaks(Path("run"), unkeyed_hashes(tables, "training")) == []
    assert orders_of(Path("run"), pseudonyms_of(tables, tmp_path / "config/memorisk/pseudonym.key", "training")) == []


def test_the_search_sees_into_every_kind_of_file(tmp_path: Path) -> None:
    word, table = "mrn-secret", pd.DataFrame({"a": ["mrn-secret"]})
    table.to_parquet(tmp_path / "cells.parquet", compression="zstd")
    noted = pd.DataFrame({"a": ["x"] * 9})
    noted.attrs["ids"] = [word]
    noted.to_parquet(tmp_path / "notes.parquet")
    np.savez_compressed(tmp_path / "texts.npz", np.array([word]))
    np.save(tmp_path / "texts.npy", np.array([word]))
    save_file({"w": np.zeros(1)}, tmp_path / "weights.safetensors", metadata={"of": word})
    (tmp_path / "escaped.json").write_text(json.dumps({"a": "mrn-secr\u00e9t"}))
    (tmp_path / "page.html").write_text("mrn&#45;secret")
    (tmp_path / word).write_text("")
    assert {name for name, _ in leaks(tmp_path, {word, "mrn-secr\u00e9t"})} == {
        path.name for path in tmp_path.iterdir()
    }


THRESHOLD = {"threshold": (-0.01,), "auditor": "pca:8", "families": ("noise:0.1",)}


@pytest.mark.parametrize("command", ["filter", "synthesize", "check", "losses"])
def test_other_pseudonymised_runs_name_nobody(tables: dict[str, Path], tmp_path: Path, command: str) -> None:
    hidden = {"out": "run", "pseudonymise": True}
    read = {"group_column": "patient", "skip_unreadable": True}
    filtering = {"detector": "pixels", "calibration": tables["held"], **THRESHOLD, **read, **hidden}
    sets: tuple[str, ...] = ("training", "held") if command in ("filter", "synthesize") else ("training",)
    match command:
        case "filter":
            memorisk.filter_synthetic(tables["training"], tables["made"], **filtering)
        case "synthesize":
            memorisk.synthesize(tables["training"], generator=f"{HERE}:copying", images=6, **filtering)
        case "losses":
            _write_losses(tables["training"], tmp_path / "mrn-losses.csv")
            memorisk.audit_losses(tmp_path / "mrn-losses.csv", **hidden)
        case _:
            given = ("--group-column", "patient", "--pseudonymise", "--turned", "--out", "run")
            main(["images", "check", "training.csv", *given])
    assert leaks(Path("run"), names_of(tables, *sets) | {"mrn-losses"}) == []
    assert leaks(Path("run"), unkeyed_hashes(tables, *sets) - unkeyed_hashes(tables, "made")) == []
    assert orders_of(Path("run"), pseudonyms_of(tables, tmp_path / "config/memorisk/pseudonym.key", *sets)) == []


def _write_losses(table: Path, path: Path) -> None:
    """Write losses of two pairs of models of the images of a table."""
    images, rng = pd.read_csv(table), np.random.default_rng(0)
    rows = []
    for seed in range(4):
        sees = rng.permutation(len(images)) % 2
        for model in "AB":
            for row, (image, patient) in enumerate(zip(images["image"], images["patient"], strict=True)):
                test = row % 4 == 0
                rows.append({"image": image, "group": patient, "label": "ab"[row % 2], "seed": seed, "role": model,
                             "split": "test" if test else "canary", "loss": rng.exponential(),
                             "member": 0 if test else int(sees[row] == (model == "A"))})  # fmt: skip
    pd.DataFrame(rows).to_csv(path, index=False)


_SYNTHETIC = ["audit", "synthetic", "training.csv", "made.csv", "--held-out", "held.csv", "--detector", "pixels"]
_CLASSIFIER = ["audit", "classifier", "training.csv", "--models", "4", "--epochs", "1", "--model", "small_cnn"]
_KEEPING = ["--calibration", "held.csv", "--detector", "pixels", "--auditor", "pca:8", "--threshold=-0.01",
            "--families", "noise:0.1"]  # fmt: skip
_WATCH = ["watch", "steps", "--train", "training.csv", "--held-out", "held.csv", "--detector", "pixels", "--images",
          "40", "--quality", "none"]  # fmt: skip
COMMANDS = {
    "synthetic": [*_SYNTHETIC, "--plants", "2"],
    "classifier": _CLASSIFIER,
    "check": ["images", "check", "training.csv"],
    "classifier plan": [*_CLASSIFIER, "--dry-run"],
    "filter": ["filter", "training.csv", "made.csv", *_KEEPING],
    "filter plan": ["filter", "training.csv", "made.csv", *_KEEPING, "--dry-run"],
    "synthesize": ["synthesize", "training.csv", "--generator", f"{HERE}:copying", "--images", "6", *_KEEPING],
    "watch": _WATCH,
    "watch json": [*_WATCH, "--json"],
    "feature": ["audit", "feature", f"{MODELS}:network", "--probes", "training.csv", "--mark", "A", "--normalise",
                "none", "--n-controls", "19"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_redacted_pages_and_terminals_name_nobody(
    tables: dict[str, Path], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sets, given = ("training", "held", "made"), ["--redact", "--skip-unreadable", "--group-column", "patient"]
    steps = Path("steps") / "step_1"
    steps.mkdir(parents=True)
    for file in sorted(Path("ward-made").glob("scan*")):
        (steps / file.name).write_bytes(file.read_bytes())
    assert main([*COMMANDS[command], *given, "--out", "run"]) in (0, 1)
    shown = capsys.readouterr()
    pages = [page.read_text() for page in Path("run").glob("**/report.html")]
    assert bool(pages) is ("plan" not in command)
    for text in (shown.out, shown.err, *pages):
        found = [name for name in names_of(tables, *sets) - {f"ward-{name}" for name in sets} if name in text]
        assert found == [], text[:3000]
        assert "image/png" not in text


@pytest.mark.parametrize("hidden", [[], ["--redact"]])
def test_what_is_redacted_of_a_finished_run_names_nobody(
    tables: dict[str, Path], hidden: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*_CLASSIFIER, "--skip-unreadable", "--group-column", "patient", "--out", "run", *hidden])
    capsys.readouterr()
    assert main(["report", "run", "--redact"]) == 0
    pages = [Path("run/report-redacted.html")]
    if hidden:
        assert (
            main(["explain", "run"])
            == main(["compare", "run", "run"])
            == main(["compare", "run", "run", "--json"])
            == 0
        )
        pages += [Path("run/report.html"), Path("run/explain/explain.html")]
    shown = capsys.readouterr()
    for text in (shown.out, shown.err, *(page.read_text() for page in pages)):
        found = [name for name in names_of(tables, "training") - {"ward-training"} if name in text]
        found += [digits for digits in unkeyed_hashes(tables, "training") if digits in text]
        assert found == []
        assert "image/png" not in text


def test_json_of_a_redacted_check_names_nobody(tables: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    main(["images", "check", "training.csv", "--redact", "--group-column", "patient", "--out", "run", "--json"])
    out = capsys.readouterr().out
    json.loads(out)
    assert [name for name in names_of(tables, "training") if name in out] == []

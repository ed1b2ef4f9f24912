"""A changed byte in a table of a run: each page that reads the table names it, and shows nothing of it."""

import shutil
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import memorisk
from memorisk.audits.image_set.options import CheckOptions
from memorisk.audits.image_set.run import SUMMARY, check_set
from memorisk.runs.errors import DamagedError
from memorisk.view.app import create_app
from tests.audits.image_set.making import write_set
from tests.commands import class_folders

READ = {
    "synthetic": {
        "verdict.json": "",
        "summary.json": "/pair/0",
        "tables/review.parquet": "/pairs",
        "per_image.parquet": "/pair/0",
        "tables/pairs.parquet": "/pair/0",
    },
    "classifier": {
        "verdict.json": "",
        "per_group.parquet": "/patients",
        "per_class.parquet": "/patients",
        "per_image.parquet": "/patients?flagged=0",
        "scores.parquet": "/patients?flagged=0",
        "manifest.parquet": "/patients?flagged=0",
    },
    "images": {SUMMARY: "", "tables/sets.parquet": "/copies", "tables/unreadable.parquet": ""},
}
"""Files of a kind of run, each with a page that reads it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, _audited_once: tuple[dict[str, Path], Path]) -> dict[str, Path]:
    """A run of each kind."""
    root = tmp_path_factory.mktemp("whole")
    check_set(str(write_set(root / "set")), CheckOptions(), out=root / "images")
    pictures = class_folders(root / "classes", ["a", "b"], [f"{number}.png" for number in range(16)])
    memorisk.audit_classifier(pictures, out=root / "classifier", models=2, epochs=1, processes=1)
    return {"synthetic": _audited_once[1], "classifier": root / "classifier", "images": root / "images"}


@pytest.mark.parametrize(("kind", "file"), [(kind, file) for kind, files in READ.items() for file in files])
def test_a_changed_byte_is_named_on_the_page(made: dict[str, Path], tmp_path: Path, kind: str, file: str) -> None:
    run = Path(shutil.copytree(made[kind], tmp_path / "runs" / "one"))
    shutil.copytree(made["images"], tmp_path / "runs" / "another")
    client = TestClient(create_app([tmp_path / "runs"]), raise_server_exceptions=False)
    place = next(text for text in client.get("/").text.split('href="/run/')[1:] if ">one<" in text).split('"')[0]
    address = f"/run/{place}{READ[kind][file]}"
    if kind == "synthetic" and file == "summary.json":  # a verdict is foreseen for answers alone
        key = client.get(address).text.split('data-pair="')[1].split('"')[0]
        client.post(f"/run/{place}/judge", json={"pair": unescape(key), "verdict": "confirm"})
    before = client.get(address)
    assert before.status_code == 200
    content = bytearray((run / file).read_bytes())
    content[len(content) // 2] ^= 1
    (run / file).write_bytes(content)
    refusal = f"{Path(file).name} is damaged"
    held = client.get(address)  # from memory, where the table was read whole
    assert refusal in held.text or held.text == before.text
    assert refusal in TestClient(create_app([tmp_path / "runs"])).get(address).text


def test_a_viewer_of_one_damaged_run_says_so_before_it_begins(made: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(made["classifier"], tmp_path / "run"))
    content = bytearray((run / "per_group.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (run / "per_group.parquet").write_bytes(content)
    with pytest.raises(DamagedError, match=r"per_group\.parquet is damaged"):
        create_app([run])

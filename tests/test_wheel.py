"""The wheel holds the package's files, all of them and no others; the sdist builds the same wheel."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def build(kind: str, source: Path, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return next(out.iterdir())


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")  # of locks/build.txt, which make test installs
    wheel = build("wheel", ROOT, tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "memorisk").rglob("*")}
    assert names == {name for name in files if (ROOT / "src" / name).is_file() and "__pycache__" not in name}
    assert {"memorisk/py.typed", "memorisk/report/templates/page.html"} <= names
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert build("wheel", source, tmp_path / "again").read_bytes() == wheel.read_bytes()

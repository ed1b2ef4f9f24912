"""The wheel holds the package's files, all of them and no others; the sdist builds the same wheel."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
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


@pytest.mark.thorough
def test_the_demo_runs_from_the_wheel_alone(tmp_path: Path) -> None:
    """In an empty environment, away from the checkout; PyTorch and the rest are those of the tests' environment."""
    pytest.importorskip("hatchling")
    wheel = build("wheel", ROOT, tmp_path / "wheel")
    assert wheel.stat().st_size < 20 << 20
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    (packages,) = (tmp_path / "empty").glob("lib/*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])  # after it; .pth files in there are not read
    given = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    place = run(python, "-c", "import memorisk; print(memorisk.__file__)").strip()
    assert Path(place).is_relative_to(packages)
    settings = ["--models", "2", "--epochs", "1", "--fail-on", "never"]
    assert "Report: " in run(python.parent / "memorisk", "audit", "classifier", "digits", "--out", "demo", *settings)
    detector = "import memorisk; print(memorisk.load_detector('default').config.published['licence'])"
    assert run(python, "-c", detector) == "Apache-2.0\n"


def test_the_container_is_given_what_a_wheel_takes_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in kept:
        (tmp_path / "context" / name).parent.mkdir(parents=True, exist_ok=True)
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copied(ROOT / name, tmp_path / "context" / name)
    copies = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(" ".join(copies).split()) == sorted(kept)
    inside, outside = (
        build("wheel", one, tmp_path / name) for one, name in ((tmp_path / "context", "in"), (ROOT, "out"))
    )
    assert inside.read_bytes() == outside.read_bytes()


@pytest.mark.parametrize(
    ("target", "lock"), [("cpu", "sign.txt"), ("cuda", "locks/sign.txt"), ("gate", "recipes/ci/gate-requirements.txt")]
)
def test_every_target_of_the_container_can_verify_a_signature(target: str, lock: str) -> None:
    stages = re.split(r"^FROM \S+ AS ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    (stage,) = [stage for stage in stages if stage.startswith(f"{target}\n")]
    assert re.search(rf"--require-hashes\b.* -r {re.escape(lock)}\b", stage)


@pytest.mark.parametrize("lock", ["core", "medical", "sign"])
def test_a_lock_for_processors_has_everything_but_what_graphics_cards_need(lock: str) -> None:
    path = ROOT / "locks" / f"{lock}.txt"
    script = [sys.executable, str(ROOT / "recipes" / "cpu_lock.py"), str(path)]
    kept, torch = (
        subprocess.run([*script, *flag], check=True, capture_output=True, text=True).stdout
        for flag in ((), ("--torch",))
    )
    names = [line.split("==")[0] for line in path.read_text().splitlines() if re.match(r"[\w.-]+(\[.*\])?==", line)]
    left = [line.split("==")[0] for line in kept.splitlines() if re.match(r"[\w.-]+(\[.*\])?==", line)]
    graphics = [name for name in names if name not in left]
    assert all(re.match("torch|torchvision|triton|nvidia|cuda", name) for name in graphics)
    assert kept.count("--hash=sha256:") > len(left) - 1
    assert "nvidia" not in kept
    assert re.fullmatch(
        r"torch==\S+\ntorchvision==\S+\n" if lock == "core" else r"(torch==\S+\n(torchvision==\S+\n)?)?\n?", torch
    )

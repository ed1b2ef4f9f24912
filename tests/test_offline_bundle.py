"""The bundle for machines without internet: nothing missing, added or changed passes; weights by the real way."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "offline_bundle.py"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("offline_bundle", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(folder: Path, name: str, version: str, code: str, needs: str = "") -> Path:
    """A wheel with one module, which is a command of that name, too."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": metadata + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    return path


def lock_of(helper: Path, version: str = "1.5") -> Path:
    """A lock file that names a wheel of helper's."""
    lock = helper.with_suffix(".lock")
    value = hashlib.sha256(helper.read_bytes()).hexdigest()
    lock.write_text(f"helper=={version} \\\n    --hash=sha256:{value}\n")
    return lock


AUDIT = """
import pathlib, sys
def main():
    names = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
    pathlib.Path(sys.prefix, "networks").write_text(" ".join(names))
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    out.mkdir()
    (out / "report.html").write_text("made")
"""


@pytest.fixture(scope="module")
def built(recipe: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two small wheels, by pip, from a folder."""
    folder = tmp_path_factory.mktemp("built")
    own = wheel(folder, "memorisk", "9.9", AUDIT, needs="helper>=1")
    lock = lock_of(wheel(folder, "helper", "1.5", "def main(): pass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        assert recipe.main(["build", str(folder / "bundle"), "--wheel", str(own), "--lock", str(lock)]) == 0
    return folder / "bundle"


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "bundle"))


def test_a_bundle_lists_what_it_holds(bundle: Path, built: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    wheels = {w["name"]: w for w in manifest["wheels"]}
    assert {name: (w["version"], w["licence"]) for name, w in wheels.items()} == {
        "memorisk": ("9.9", "MIT"),
        "helper": ("1.5", "MIT"),
    }
    file = bundle / wheels["helper"]["file"]
    assert wheels["helper"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert wheels["helper"]["bytes"] == file.stat().st_size
    assert str(built.parent) not in (bundle / "manifest.json").read_text()  # whoever carries it reads no paths
    expect = hashlib.sha256((bundle / "SHA256SUMS").read_bytes()).hexdigest()
    run = [sys.executable, str(bundle / "offline_bundle.py"), "check", str(bundle), "--expect", expect]
    assert "5 files are as they were" in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=bundle, check=True)  # by any other tool, too


def test_what_is_not_as_it_was_is_refused_by_name(
    recipe: ModuleType, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sums = (bundle / "SHA256SUMS").read_text()
    helper = bundle / "wheels" / "helper-1.5-py3-none-any.whl"
    content = helper.read_bytes()

    def refused(*more: str) -> str:
        capsys.readouterr()
        assert recipe.main(["check", str(bundle), *more]) == 2
        line = capsys.readouterr().err.strip()
        assert "\n" not in line
        return line

    helper.write_bytes(content[:-1] + b"x")
    assert "1 changed (wheels/helper-1.5-py3-none-any.whl)" in refused()
    helper.unlink()
    assert "1 missing (wheels/helper-1.5-py3-none-any.whl)" in refused()
    helper.symlink_to(bundle.parent / helper.name)  # the same bytes, from elsewhere
    assert "1 changed (wheels/helper-1.5-py3-none-any.whl)" in refused()
    helper.unlink()
    helper.write_bytes(content)
    (bundle / "wheels" / "more.whl").write_bytes(b"")
    assert "1 not of the bundle (wheels/more.whl)" in refused()
    assert recipe.main(["install", str(bundle), str(bundle.parent / "venv")]) == 2
    assert not (bundle.parent / "venv").exists()
    (bundle / "wheels" / "more.whl").unlink()
    assert recipe.main(["check", str(bundle)]) == 0
    assert "not the file whose hash was given" in refused("--expect", "0" * 64)
    for broken in (sums.replace("  ", " "), sums + sums, sums + f"{'0' * 64}  ../x\n"):
        (bundle / "SHA256SUMS").write_text(broken)
        assert "is not what build writes" in refused()
    (bundle / "SHA256SUMS").write_bytes(bytes(range(156, 256)))
    assert "SHA256SUMS is not what build writes: it is absent or no text" in refused()
    (bundle / "SHA256SUMS").unlink()
    assert "is no bundle" in refused()


def test_a_bundle_for_another_machine_is_refused(
    recipe: ModuleType, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["target"]["python"] = "2.7"
    names = [line[66:] for line in (bundle / "SHA256SUMS").read_text().splitlines()]
    for written, said in (
        (json.dumps(manifest).encode(), "is for another machine: python 2.7, here is 3."),
        (json.dumps(manifest | {"weights": [{}]}).encode(), "manifest.json is not what build writes"),
        *((wrong, "manifest.json is not what build writes") for wrong in (b"{}", b"[1]", b"{", b"\xff\xfe")),
    ):
        (bundle / "manifest.json").write_bytes(written)
        mended = [f"{recipe.sha256(bundle / name)}  {name}" for name in names]
        (bundle / "SHA256SUMS").write_text("\n".join(mended) + "\n")
        assert recipe.main(["install", str(bundle), str(bundle.parent / "venv")]) == 2
        assert said in capsys.readouterr().err
    assert recipe.main(["build", str(bundle)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_library_that_is_not_the_lock_s_is_refused(
    recipe: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    own = wheel(tmp_path, "memorisk", "9.9", AUDIT, needs="helper>=1")
    lock = lock_of(wheel(tmp_path, "helper", "1.5", "def main(): pass"))
    wheel(tmp_path, "helper", "1.5", "def main(): print('changed')")
    other, empty = tmp_path / "other.txt", tmp_path / "empty.txt"
    other.write_text("-r helper-1.5-py3-none-any.lock\n")
    empty.write_text("# nothing\n")
    for number, named in enumerate((lock, other, empty)):
        words = ["build", str(tmp_path / f"bundle{number}"), "--wheel", str(own), "--lock", str(named)]
        assert recipe.main(words) == 2
        assert "helper-1.5-py3-none-any.whl is not a file of the lock" in capsys.readouterr().err
    assert recipe.main(["build", str(tmp_path / "bundle"), "--wheel", str(own), "--extras", "medicine"]) == 2
    assert "there is no lock file medicine.txt" in capsys.readouterr().err


@pytest.mark.slow  # makes a virtual environment
def test_a_bundle_is_installed_without_an_index(
    recipe: ModuleType, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv = bundle.parent / "venv"
    assert recipe.main(["install", str(bundle), str(venv)]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "the built-in audit ran" in said
    if "in a network namespace" in said:
        assert (venv / "networks").read_text() == "lo"  # nothing but itself, which is down
    found = subprocess.run([venv / "bin" / "python", "-c", "import helper, memorisk"], check=False)
    assert found.returncode == 0


class Hub(BaseHTTPRequestHandler):
    """As much of the Hugging Face hub as its client asks for; files by repository and path."""

    files: dict[str, dict[str, bytes]]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0].lstrip("/")
        headers = {"X-Repo-Commit": COMMIT}
        if path.startswith("api/models/"):
            name = "/".join(path.split("/")[2:4])
            files = self.files.get(name, {})
            if "/tree/" in path:
                found: Any = [{"type": "file", "path": f, "size": len(c), "oid": f} for f, c in files.items()]
            else:
                siblings = [{"rfilename": file} for file in files]
                found = {"id": name, "sha": COMMIT, "siblings": siblings, "cardData": {"license": "bsd-3-clause"}}
            content = json.dumps(found).encode() if files else None
        else:
            name, _, rest = path.partition("/resolve/")
            content = self.files.get(name, {}).get(rest.partition("/")[2])
            headers["ETag"] = f'"{hashlib.sha256(content or b"").hexdigest()}"'
        self.send_response(404 if content is None else 200)
        for key, value in (headers | {"Content-Length": str(len(content or b""))}).items():
            self.send_header(key, value)
        self.end_headers()
        if body and content:
            self.wfile.write(content)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, bytes]]]:
    """Repositories on loopback."""
    files: dict[str, dict[str, bytes]] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Hub,), {"files": files}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield files
    server.shutdown()
    server.server_close()


@pytest.mark.slow  # loads PyTorch three times
def test_weights_come_by_the_real_way_and_work_from_their_file(
    recipe: ModuleType, hub: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    import timm
    import torch
    from safetensors.torch import save

    from memorisk.models.classifiers.zoo import create_model

    trunk = timm.create_model("test_resnet", num_classes=1000)
    state = {name: value.contiguous() for name, value in trunk.state_dict().items()}
    hub["timm/test_resnet.r160_in1k"] = {"model.safetensors": save(state), "config.json": b"{}", "README.md": b"x"}
    entries = recipe.fetch_weights("timm:test_resnet@r160_in1k", tmp_path / "weights")
    (entry,) = [e for e in entries if e["file"].endswith(".safetensors")]
    assert entry["licence"] == "bsd-3-clause"
    assert entry["source"] == f"timm/test_resnet.r160_in1k@{COMMIT}/model.safetensors"
    assert entry["sha256"] == hashlib.sha256(hub["timm/test_resnet.r160_in1k"]["model.safetensors"]).hexdigest()
    file = tmp_path / entry["file"]
    assert not file.is_symlink()
    model = create_model("timm:test_resnet", num_classes=2, in_chans=3, image_size=32, weights=file, seed=0)
    assert torch.equal(model.state_dict()["conv1.0.weight"], state["conv1.0.weight"])
    hub["hospital/encoder"] = {"config.json": b"{}", "model.safetensors": b"abc", "evil.py": b"print('no')"}
    entries = recipe.fetch_weights("transformers:hospital/encoder@default", tmp_path / "weights")
    assert sorted(Path(e["file"]).name for e in entries) == ["config.json", "model.safetensors"]  # no code
    with pytest.raises(
        recipe.Refused, match=r"weights transformers:hospital/absent@default: .*could not be downloaded"
    ):
        recipe.fetch_weights("transformers:hospital/absent@default", tmp_path / "weights")

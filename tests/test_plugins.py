"""Parts of another package, installed beside memorisk: found by their entry points, used like memorisk's own."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memorisk.audits.classifier.evidence import write_scores
from tests.audits.made_evidence import twin_evidence

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tests" / "plugin_package"

USE = """
import sys
from pathlib import Path

import numpy as np

import memorisk
from memorisk.models.encoders.feature_sources import parse_source
from memorisk.runs.environment import versions
from memorisk.scores.distances import fit_measure, nearest, pairwise
from memorisk.scores.twin_attacks import ATTACKS, attack_scores

assert versions()["memorisk-more"] == "1.2"

rng = np.random.default_rng(0)
queries, references = rng.random((20, 5)) + 0.1, rng.random((30, 5)) + 0.1
fitted = fit_measure("hellinger", references)
shares = [np.sqrt(rows / rows.sum(axis=1, keepdims=True)) for rows in (queries, references)]
naive = np.sqrt(((shares[0][:, None] - shares[1][None]) ** 2).sum(axis=2))
assert np.allclose(pairwise(queries, references, fitted), naive, rtol=0, atol=1e-12)
found = nearest(queries, references, fitted, k=3)
assert (found.indices == np.argsort(naive, axis=1)[:, :3]).all()
fitted.save("hellinger.safetensors")
assert type(fitted).load("hellinger.safetensors").name == "hellinger"

assert list(ATTACKS)[-1] == "loss_ratio"

folder = Path("scans")
for i in range(8):
    file = folder / "ab"[i % 2] / f"p{i}.raw8"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"RAW8" + bytes([4, 0, 4, 0]) + bytes(range(10 * i, 10 * i + 16)))
features = memorisk.load_features(folder, "thumbnail:2")
assert features.values.shape == (8, 4)
steps = np.diff(np.sort(features.values.mean(axis=1)))  # each image is ten levels brighter than the one before
assert np.allclose(steps, steps[0], rtol=1e-4) and steps[0] > 0
assert parse_source("pixels").kind == "pixels"
"""

ASK = """
from memorisk.runs.errors import InputError
from memorisk.scores.distances.measures import find_measure

try:
    find_measure("hellinger")
except InputError as error:
    print(error)
"""


def installed(folder: Path, **more: str) -> Path:
    """The package as pip leaves it in a folder of packages; ``more`` are entry points of measures."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    about = folder / f"memorisk_more-{project['version']}.dist-info"
    about.mkdir(parents=True)
    for module in PACKAGE.glob("*.py"):
        (folder / module.name).write_text(module.read_text())
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"]
    groups["memorisk.measures"] |= more
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in parts.items()) for group, parts in groups.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the package beside memorisk."""
    paths = os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "MEMORISK_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_its_parts_work_like_memorisks_own(tmp_path: Path) -> None:
    installed(tmp_path / "site")
    done = run(tmp_path, "-c", USE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"broken": "memorisk_more:nothing"}, "broken of the package memorisk-more cannot be loaded (AttributeError"),
        ({"cosine": "memorisk_more:hellinger"}, "it must be a Measure called cosine"),
        ({"ratio": "memorisk_ratio:attack"}, "it must be a Measure called ratio"),
    ],
)
def test_a_part_that_cannot_be_used_is_told_in_a_line(tmp_path: Path, entry: dict[str, str], told: str) -> None:
    installed(tmp_path / "site", **entry)
    done = run(tmp_path, "-c", ASK)
    assert told in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1


AUDIT = """
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import memorisk
from memorisk.cli.main import main
from memorisk.view.app import Viewer

for name, grey in (("dark", 20), ("bright", 200)):
    Path(name).mkdir()
    for i in range(3):
        Image.fromarray(np.full((8, 8), grey + i, np.uint8)).save(f"{name}/{i}.png")
assert main(["audit", "brightness", "dark", "--out", "runs/dark", "--dry-run"]) == 0
assert not Path("runs").exists()
assert main(["audit", "brightness", "dark", "--out", "runs/dark", "--pseudonymise"]) == 0
assert main(["audit", "brightness", "bright", "--out", "runs/bright", "--limit", "150"]) == 1
assert main(["audit", "brightness", "bright", "--out", "runs/bright", "--limit", "300"]) == 2  # another run
assert "Not too bright" not in Path("runs/bright/report.html").read_text()
assert memorisk.audit_brightness("dark", out="runs/python", progress=memorisk.no_progress).status == "pass"
assert memorisk.Result.load("runs/dark").per_image["image"].str.fullmatch("[0-9a-f]+").all()
assert main(["report", "runs/dark", "--redact"]) == 0 and Path("runs/dark/report-redacted.html").is_file()
assert main(["statement", "runs/dark", "--out", "stated", "--page", "page.html"]) == 0
card, page = Path("stated/model-card.md").read_text(), Path("page.html").read_text()
assert "Audit of brightness" in card and "Whether the images are too bright." in page
assert main(["statement", "runs/bright", "runs/dark", "--out", "both"]) == 1
assert main(["gate", "both", "--images", "bright"]) == 1
assert {run.question for run in Viewer([Path("runs")]).runs.values()} == {"Is the set too bright?"}
assert main(["track", "runs/dark", "--to", "tensorboard:tracked"]) in (0, 2)  # 2 where TensorBoard is not installed
"""


def test_the_attack_of_the_documentation_has_its_title_in_the_report(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    attack, project = ((PACKAGE / name).read_text("utf-8") for name in ("memorisk_ratio.py", "pyproject.toml"))
    assert f"```python\n{attack}```" in page
    (entry,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert entry in project
    installed(tmp_path / "site")
    evidence = twin_evidence(sizes={"a": 24, "b": 40}, n_test=12, n_seeds=4, planted={"a": 1.0}, group_size=2)
    write_scores(tmp_path / "losses.parquet", evidence)
    done = run(tmp_path, "-m", "memorisk", "audit", "losses", "losses.parquet", "--out", "run")
    assert done.returncode in (0, 1), done.stderr
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Ratio of the losses" in report
    assert "loss_ratio" not in report
    assert "loss ratio" not in report


def test_its_audit_is_everywhere(tmp_path: Path) -> None:
    installed(tmp_path / "site")
    done = run(tmp_path, "-c", AUDIT)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    shown = run(tmp_path, "-m", "memorisk", "audit", "brightness", "--help")
    assert "--limit" in shown.stdout + run(tmp_path, "-m", "memorisk", "audit", "brightness", "--help-all").stdout
    assert "Audit whether a set of images is too bright." in shown.stdout
    assert "brightness" in run(tmp_path, "-m", "memorisk", "audit", "--help").stdout


def test_without_plugins_there_are_only_memorisks_own() -> None:
    from memorisk.runs.user_code.plugins import GROUPS, plugin_versions, plugins

    assert {group: plugins(group) for group in GROUPS} == {group: {} for group in GROUPS}
    assert plugin_versions() == {}

"""The gates for GitHub and GitLab: what they may do, and their own shell steps, run here on a real statement."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from memorisk.audits.release.statement import write_statement
from tests.audits.release.conftest import TRIED, made, runs
from tests.audits.release.test_signed_release import make_key

__all__ = ["made", "runs"]  # the fixtures
CI = Path(__file__).resolve().parents[1] / "recipes" / "ci"
ACTION, WORKFLOW, GITLAB = "action.yml", "github-release-gate.yml", "gitlab-release-gate.yml"


def recipe(name: str) -> Any:
    return yaml.safe_load(((CI.parents[1] if name == ACTION else CI) / name).read_text("utf-8"))


def run(script: str, given: dict[str, str], shell: str = "bash") -> tuple[int, str]:
    """Exit code and output of a step, as the runner runs it."""
    how = (
        [shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", script] if shell == "bash" else [shell, "-ec", script]
    )
    done = subprocess.run(how, env=os.environ | given, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def gitlab_step(folder: Path) -> str:
    """The step of GitLab's job that asks, with memorisk in a folder of the test."""
    return recipe(GITLAB)["memorisk gate"]["script"][1].replace("/tmp/memorisk", str(folder / "memorisk"))


def run_gate(name: str, folder: Path, given: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of the step that asks, with the recipe's own settings where none are given."""
    if name == GITLAB:
        return run(gitlab_step(folder), {**recipe(GITLAB)["variables"], **given}, "sh")
    step, inputs = recipe(ACTION)["runs"]["steps"][1], recipe(ACTION)["inputs"]
    asked = {key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", r"\1", text) for key, text in step["env"].items()}
    defaults = {key: inputs[of]["default"] for key, of in asked.items() if "default" in inputs[of]}
    return run(step["run"], {"RUNNER_TEMP": str(folder), **defaults, **given})


@pytest.fixture
def stated(runs: Path, tmp_path: Path) -> Path:
    """A statement of a set that passes; beside it memorisk where the set-up step puts it."""
    binaries = tmp_path / "memorisk" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "memorisk").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memorisk "$@"\n')
    (binaries / "memorisk").chmod(0o755)
    return write_statement("runs/clean", out=tmp_path / "stated").folder / "privacy-statement.json"


@pytest.mark.parametrize(
    ("images", "code"), [("clean\n", 0), ("clean\ncopies\n", 1), ("copies", 1), ("", 2), ("no\n", 2)]
)
def test_the_action_lets_only_what_was_audited_through(stated: Path, tmp_path: Path, images: str, code: int) -> None:
    step = recipe(ACTION)["runs"]["steps"][1]
    given = {
        "RUNNER_TEMP": str(tmp_path),
        "STATEMENT": str(stated),
        "WEIGHTS": "",
        "IMAGES": images,
        "REQUIRE": "pass",
        "KEY": "",
        "REQUIRE_SIGNATURE": "false",
        "KINDS": " ".join(TRIED),
    }
    found, said = run(step["run"], given)
    assert found == code, said
    assert set(step["env"]) == {*given} - {"RUNNER_TEMP"}
    if not code:  # all kinds of copies are asked for unless told otherwise
        found, said = run(step["run"], given | {"KINDS": ""})
        assert (found, "passed without looking for copies" in said) == (1, True)


def test_a_name_is_never_a_command(stated: Path, tmp_path: Path) -> None:
    name = f"$(touch {tmp_path}/made); `touch {tmp_path}/made` \"' *"
    given = {"RUNNER_TEMP": str(tmp_path), "STATEMENT": str(stated), "WEIGHTS": name, "IMAGES": "", "REQUIRE": "pass"}
    given |= {"KEY": name, "REQUIRE_SIGNATURE": name, "KINDS": name}
    assert run(recipe(ACTION)["runs"]["steps"][1]["run"], given)[0] == 2
    assert run(gitlab_step(tmp_path), given, "sh")[0] == 2
    assert not (tmp_path / "made").exists()
    for step in recipe(ACTION)["runs"]["steps"]:
        assert "${{" not in step["run"]  # inputs come as variables, not as text of the script


@pytest.mark.parametrize(("images", "code"), [("clean", 0), ("clean\ncopies", 1), ("", 2)])
def test_the_job_of_gitlab_does_the_same(stated: Path, tmp_path: Path, images: str, code: int) -> None:
    given = {"STATEMENT": str(stated), "WEIGHTS": "", "IMAGES": images, "REQUIRE": "pass", "KEY": ""}
    given |= {"REQUIRE_SIGNATURE": "false", "KINDS": " ".join(TRIED)}
    found, said = run(gitlab_step(tmp_path), given, "sh")
    assert found == code, said


@pytest.mark.parametrize("name", [ACTION, GITLAB])
def test_with_a_key_what_nobody_signed_is_refused(stated: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("cryptography")
    key = make_key(tmp_path, "release-key")
    public = key.with_suffix(".pub.pem")
    signed = write_statement("runs/clean", out=tmp_path / "signed", sign=key).folder / "privacy-statement.json"
    given = {"WEIGHTS": "", "IMAGES": "clean", "KEY": f"{public}\n", "KINDS": " ".join(TRIED)}
    code, said = run_gate(name, tmp_path, given | {"STATEMENT": str(signed)})
    assert (code, "signed by key " in said) == (0, True), said
    code, said = run_gate(name, tmp_path, given | {"STATEMENT": str(stated)})
    assert (code, "is not signed" in said) == (1, True), said
    code, said = run_gate(name, tmp_path, given | {"STATEMENT": str(signed), "KEY": ""})  # as of a misspelt variable
    assert (code, "signed, but not verified" in said) == (1, True), said


@pytest.mark.parametrize("name", [ACTION, GITLAB])
@pytest.mark.parametrize(
    ("required", "code"), [(None, 1), ("true", 1), ("", 1), ("no", 1), ("False", 1), ("false ", 1), ("false", 0)]
)
def test_without_a_key_nothing_goes_out_unless_told_false(
    stated: Path, tmp_path: Path, name: str, required: str | None, code: int
) -> None:
    given = {"STATEMENT": str(stated), "WEIGHTS": "", "IMAGES": "clean", "KEY": "\n", "KINDS": " ".join(TRIED)}
    found, said = run_gate(name, tmp_path, given | ({} if required is None else {"REQUIRE_SIGNATURE": required}))
    assert (found, "a verified signature is required" in said) == (code, code == 1), said


@pytest.mark.parametrize("name", [ACTION, GITLAB])
@pytest.mark.parametrize(
    ("kinds", "asked"),
    [
        (None, []),
        ("", []),
        (" \n", []),
        ("exact", ["--kinds", "exact"]),
        ("exact  flipped\n", ["--kinds", "exact", "flipped"]),
        ("exact\nflipped", ["--kinds", "exact", "flipped"]),
        ("* $(x)", ["--kinds", "*", "$(x)"]),
    ],
)
def test_kinds_are_handed_on_word_by_word(tmp_path: Path, name: str, kinds: str | None, asked: list[str]) -> None:
    binaries = tmp_path / "memorisk" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "memorisk").write_text("#!/bin/sh\nprintf '<%s>\\n' \"$@\"\n")
    (binaries / "memorisk").chmod(0o755)
    given = {"STATEMENT": "a b", "WEIGHTS": "c d\n\n", "IMAGES": "e", "KEY": "f"}
    code, said = run_gate(name, tmp_path, given | ({} if kinds is None else {"KINDS": kinds}))
    words = [
        "gate",
        "a b",
        "--require",
        "pass",
        "--require-signature",
        "--weights",
        "c d",
        "--images",
        "e",
        "--key",
        "f",
    ]
    assert (code, said.splitlines()) == (0, [f"<{word}>" for word in (*words, *asked)])


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('case "$1" in --version) echo Python 3.10.12;; *) exit 1;; esac', "Python 3.10.12"),
        ("exit 127", "none"),
    ],
)
def test_an_old_python_is_told_in_one_line(tmp_path: Path, script: str, found: str) -> None:
    old = tmp_path / "python3"
    old.write_text(f"#!/bin/sh\n{script}\n")
    old.chmod(0o755)
    given = {"RUNNER_TEMP": str(tmp_path), "MEMORISK": "m", "ACTION": "a"}
    given["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    code, said = run(recipe(ACTION)["runs"]["steps"][0]["run"], given)
    assert code == 1
    assert said == (
        f"::error::memorisk needs Python 3.11 or newer as python3, and found {found}: "
        "put actions/setup-python before this step\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["python3"]


def test_the_workflow_is_pinned_and_may_do_little() -> None:
    workflow = recipe(WORKFLOW)
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert jobs["gate"]["permissions"] == {"contents": "read"}
    assert jobs["release"]["permissions"] == {"contents": "write"}
    assert jobs["release"]["needs"] == "gate"
    steps = [step for job in jobs.values() for step in job["steps"]]
    for step in steps:
        used = step.get("uses", "./")
        assert used.startswith("./") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used)
    assert all(not step["with"]["persist-credentials"] for step in steps if "checkout" in step.get("uses", ""))
    (asked,) = [step["with"] for step in steps if step.get("uses", "").startswith("memorisk/memorisk@")]
    inputs = recipe(ACTION)["inputs"]
    assert set(asked) <= set(inputs)
    assert {name for name, told in inputs.items() if told["required"]} <= set(asked)
    assert "secrets" not in (CI / WORKFLOW).read_text() + (CI.parents[1] / ACTION).read_text()


def test_the_weekly_workflow_is_pinned_and_may_only_read() -> None:
    workflow = recipe("github-newest-releases.yml")
    assert workflow["permissions"] == {}
    (job,) = workflow["jobs"].values()
    assert job["permissions"] == {"contents": "read"}
    assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", job["steps"][0]["uses"])
    assert not job["steps"][0]["with"]["persist-credentials"]
    assert [step["run"].split()[0] for step in job["steps"][1:]] == ["make", "cat"]


def test_nothing_is_released_before_the_gate_of_gitlab() -> None:
    jobs = recipe(GITLAB)
    assert jobs["release"]["needs"] == ["memorisk gate"]
    assert jobs["stages"].index(jobs["memorisk gate"]["stage"]) < jobs["stages"].index(jobs["release"]["stage"])
    assert "allow_failure" not in jobs["memorisk gate"]
    assert all(
        ":" in job["image"] and not job["image"].endswith(":latest") for job in (jobs["memorisk gate"], jobs["release"])
    )


@pytest.mark.slow
def test_the_whole_action_from_an_empty_environment(stated: Path, tmp_path: Path) -> None:
    """Set up as the runner does, from this checkout; it needs a package index."""
    folder, checkout = tmp_path / "runner", str(CI.parents[1])
    folder.mkdir()
    given = {"RUNNER_TEMP": str(folder), "MEMORISK": checkout, "ACTION": checkout}
    given |= {"STATEMENT": str(stated), "WEIGHTS": "", "IMAGES": "clean", "REQUIRE": "pass", "KEY": ""}
    given |= {"REQUIRE_SIGNATURE": "false", "KINDS": " ".join(TRIED)}
    for step in recipe(ACTION)["runs"]["steps"]:
        code, said = run(step["run"], given)
        assert code == 0, said
    assert not list((folder / "memorisk").glob("lib/*/site-packages/torch"))

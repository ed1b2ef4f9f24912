"""Passes of an earlier rule, and of other settings than the verdict's, go no further: statement, gate, report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.losses import audit_losses
from memorisk.audits.release.gate import gate
from memorisk.audits.release.stating import state
from memorisk.audits.rendering import render_again
from memorisk.report.in_toto import InTotoStatement
from memorisk.report.statement import Statement
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.errors import InputError


def changed(runs: Path, out: Path, **verdict: Any) -> Path:
    """A copy of the finished run of losses with another verdict; None takes a key away."""
    shutil.copytree(runs / "runs" / "losses", out)
    saved = json.loads((out / "verdict.json").read_text())
    saved = {k: v for k, v in (saved | verdict).items() if v is not None}
    (out / "verdict.json").write_text(json.dumps(saved))
    log = (out / "log.jsonl").read_text().splitlines()
    (out / "log.jsonl").write_text(
        "\n".join([*log[:-1], json.dumps(json.loads(log[-1]) | {"status": saved["status"]})])
    )
    names = sealed_files(out)
    (out / SEAL).unlink()
    write_seal(out, names)
    return out


def test_an_earlier_pass_is_not_stated_again(runs: Path, tmp_path: Path) -> None:
    old = changed(runs, tmp_path / "old", status="pass", rule=None, why=["nobody is flagged"])
    found = state(old)
    assert found.verdict.status == "undecided"
    assert found.audits[0].why[0].startswith("this pass was given by the rule of an earlier version")
    assert "nobody is flagged" not in str(found.as_json())
    failed = changed(runs, tmp_path / "failed", status="fail", rule=None, why=["1 patient is flagged"])
    assert state(failed).verdict.status == "fail"
    new = changed(runs, tmp_path / "new", status="pass")
    assert state(new).verdict.status == "pass"
    assert "noticeable_gap" in {figure.name for figure in state(new).audits[0].figures}


def test_the_report_of_an_earlier_pass_says_so_in_one_line(runs: Path, tmp_path: Path) -> None:
    old = changed(runs, tmp_path / "old", status="pass", rule=None, why=["nobody is flagged"])
    page = render_again(old).read_text(encoding="utf-8").split("<nav")[0]
    assert "given by the rule of an earlier version" in page
    assert "Could not be decided" in page
    assert "nobody is flagged" not in page


@pytest.mark.parametrize("settings", [{"level": 0.02}, {"level": 0.5}, {"correction": "by"}])
def test_lists_at_other_settings_are_not_stated(runs: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    """Neither looser nor stricter, of runs of this version and of earlier ones."""
    audit_losses("scores.parquet", out=tmp_path / "run", **settings)
    with pytest.raises(InputError, match=r"made its lists at level .* without --level and --correction"):
        state(tmp_path / "run")


def test_a_pass_at_a_larger_gap_is_not_stated(runs: Path, tmp_path: Path) -> None:
    rule = {"form": 2, "level": 0.1, "correction": "bh", "notice": 5.0}
    with pytest.raises(InputError, match="passed with --notice 5, looser than 2 nats"):
        state(changed(runs, tmp_path / "loose", status="pass", rule=rule))
    strict = changed(runs, tmp_path / "strict", status="pass", rule=rule | {"notice": 1.0})
    assert state(strict).verdict.status == "pass"
    lenient = changed(runs, tmp_path / "lenient", status="pass", rule=rule | {"notice": 2.0, "attack_gate": 0.7})
    with pytest.raises(InputError, match="passed with --attack-gate 0.7, looser than 0.6"):
        state(lenient)


def test_the_gate_stops_statements_of_an_earlier_rule(runs: Path, tmp_path: Path) -> None:
    weights = tmp_path / "net.safetensors"
    weights.write_bytes(b"weights")
    whole = state(changed(runs, tmp_path / "new", status="pass")).as_json()
    assert "tied to no weights" in stopped(whole, weights)
    earlier = json.loads(json.dumps(whole))
    del earlier["predicate"]["audits"][0]["settings"]["verdict_form"]
    assert "rule of an earlier version and may not stand" in stopped(earlier, weights)
    stricter = json.loads(json.dumps(whole))
    stricter["predicate"]["audits"][0]["level"] = 0.02
    assert "decided at other settings" in stopped(stricter, weights)


def stopped(told: dict[str, Any], weights: Path) -> str:
    """Why the gate stops a statement, written anew with its own checksum."""
    from memorisk.report.statement import content_sha256

    predicate = {k: v for k, v in told["predicate"].items() if k != "content_sha256"}
    found = InTotoStatement.from_bytes(json.dumps(told).encode(), "statement")
    told["predicate"]["content_sha256"] = content_sha256(predicate, found.subject)
    file = weights.parent / "privacy-statement.json"
    file.write_text(json.dumps(told))
    assert isinstance(
        Statement.from_in_toto(InTotoStatement.from_bytes(file.read_bytes(), "statement"), "x"), Statement
    )
    answer = gate(file, weights=[weights])
    assert not answer.passed
    return answer.line

"""A run that an earlier memorisk passed is read, and told as undecided wherever a result is handed on."""

import json
import shutil
from pathlib import Path

import pytest

from memorisk.audits.release.gate import gate
from memorisk.audits.release.stating import state
from memorisk.audits.rendering import load_result, render_again
from memorisk.report.earlier_rules import LINE, WAY
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.errors import InputError

NEW = ("n_singled", "n_singled_patients", "n_listed_at_verdict", "fewest_copied", "held_out_for_kinds", "unlike_by")


@pytest.fixture
def earlier(runs: Path, tmp_path: Path) -> Path:
    """A passed run without what verdicts hold since schema 2."""
    folder = tmp_path / "earlier"
    shutil.copytree(runs / "runs" / "clean", folder)
    verdict, summary = (json.loads((folder / f"{name}.json").read_text()) for name in ("verdict", "summary"))
    assert verdict["status"] == "pass"
    for holder in (verdict, summary["numbers"]):
        for name in NEW:
            holder.pop(name)
        for name in ("p_apart", "p_together", "across", "across_expected", "together"):
            holder["unlike"].pop(name)
    (folder / "verdict.json").write_text(
        json.dumps(verdict | {"schema": 1, "copied": 18, "why": ["a list was possible"]})
    )
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "tables" / "singled_out.parquet").unlink()
    write_seal(folder, [name for name in sealed_files(folder) if name != "tables/singled_out.parquet"])
    assert (folder / SEAL).is_file()
    return folder


def test_a_pass_by_an_earlier_rule_is_not_repeated(earlier: Path, runs: Path) -> None:
    assert load_result(earlier).verdict["why"] == [LINE]
    page = render_again(earlier).read_text()
    assert LINE[1:] in page
    assert "No copying of the kinds that were tried was found" not in page
    assert json.loads((earlier / "verdict.json").read_text())["status"] == "pass"  # the run itself is left as it is
    statement = state(earlier)
    assert statement.verdict.status == "undecided"
    assert statement.verdict.why == (f"synthetic: {LINE}",)
    assert statement.verdict.what_would_decide == (f"synthetic: {WAY}",)
    answer = gate(earlier, images=[runs / "clean"])
    assert not answer.passed
    assert "an earlier rule gave this run a pass" in answer.line
    assert state(runs / "runs" / "clean").verdict.status == "pass"


def test_a_pass_by_a_smaller_probability_is_not_stated(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "loose"
    shutil.copytree(runs / "runs" / "clean", folder)
    summary = json.loads((folder / "summary.json").read_text())
    summary["settings"]["recall"] = 0.2
    (folder / "summary.json").write_text(json.dumps(summary))
    write_seal(folder, list(sealed_files(folder)))
    with pytest.raises(InputError, match=r"passed with --recall 0\.2, looser than 0\.8"):
        state(folder)

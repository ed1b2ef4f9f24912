"""Statements from finished runs: never more than the runs say, about files and not names, the same bytes again."""

import json
import shutil
from pathlib import Path

import pytest

from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.report.verdict_forms import FORMS
from memorisk.runs.checksums import record_of
from memorisk.runs.errors import InputError
from memorisk.runs.locks import folder_lock
from tests.audits.release.conftest import PASSES, rewritten
from tests.commands import answer, refusal
from tests.thorough import thorough

STATUS = {
    "clean": "pass",
    "copies": "fail",
    "filter": "undecided",
    "quality": "not asked",
    "watch": "fail",
    "calm": "undecided",
    "losses": None,
    "feature": None,
}


@pytest.fixture
def again(runs: Path, tmp_path: Path):
    """A copy of a run, to be spoilt."""

    def copy(name: str) -> Path:
        shutil.copytree(runs / "runs" / name, tmp_path / name)
        return tmp_path / name

    return copy


@pytest.mark.parametrize("name", STATUS)
def test_each_kind_says_what_its_run_says(runs: Path, name: str) -> None:
    found = make_statement(f"runs/{name}")
    (audit,) = found.audits
    verdict = runs / "runs" / name / "verdict.json"
    told = json.loads(verdict.read_text()) if verdict.is_file() else {"status": STATUS[name], "why": []}
    assert audit.status == told["status"]
    assert STATUS[name] in (None, audit.status)
    assert list(audit.why[: len(told["why"])]) == told["why"]
    assert found.verdict.status == ("undecided" if audit.status == "not asked" else audit.status)
    assert audit.not_examined
    assert audit.assumptions
    assert audit.figures
    assert found.as_json()["predicate"]["content_sha256"]


def test_who_took_every_image_for_a_patient_is_told_and_counts_images(runs: Path, tmp_path: Path) -> None:
    audit_synthetic("train", "clean", held_out="held", out=tmp_path / "run", one_image_per_patient=True, **PASSES)
    (audit,) = make_statement(tmp_path / "run").audits
    assert any("the user asserted this" in text for text in audit.assumptions)
    assert audit.units == "images"
    assert not any("patients" in figure.title for figure in audit.figures)
    (known,) = make_statement("runs/clean").audits
    assert known.units == "patients"
    assert not any("the user asserted this" in text for text in known.assumptions)
    for told in (audit, known):
        assert not any(text.startswith("Columns") for text in told.limits)


@pytest.mark.parametrize("name", STATUS)
def test_no_id_no_path_and_no_mark_leaves_the_house(runs: Path, name: str, tmp_path: Path) -> None:
    out = write_statement(f"runs/{name}", out=tmp_path / "out").folder
    for file in sorted(out.iterdir()):
        text = file.read_text()
        names = ("train0", "held0", "copies0", "drawn0", "DOE", "patient-", "a-canary", "net.safetensors")
        for secret in (*names, str(runs), str(tmp_path)):
            assert secret not in text, (file.name, secret)
    assert sorted(p.name for p in out.iterdir()) == ["model-card.md", "privacy-statement.json"]


def test_the_same_runs_give_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_statement(["runs/clean", "runs/filter", "runs/feature"], out=tmp_path / name)
    for file in ("privacy-statement.json", "model-card.md"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_a_pass_beside_anything_else_is_none(runs: Path) -> None:
    assert make_statement("runs/clean").verdict.status == "pass"
    assert make_statement(["runs/clean", "runs/quality"]).verdict.status == "pass"  # which is no question of privacy
    assert make_statement(["runs/clean", "runs/calm"]).verdict.status == "undecided"
    both = make_statement(["runs/clean", "runs/copies"]).verdict
    assert both.status == "fail"
    assert "one passes and one fails" in both.contradictions[0].text
    assert all(reason.startswith("synthetic: ") for reason in both.why)


def test_sets_and_weights_are_found_by_content(runs: Path, tmp_path: Path, monkeypatch) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(runs / "clean", moved)
    by_place, by_name = make_statement("runs/clean").released, make_statement("runs/clean", images=[moved]).released
    assert by_place == by_name
    with pytest.raises(InputError, match="not what any of these runs looked at"):
        make_statement("runs/clean", images=["copies"])
    (moved / "000001.png").write_bytes((runs / "clean" / "000002.png").read_bytes())
    with pytest.raises(InputError, match="not what any of these runs looked at"):
        make_statement("runs/clean", images=[moved])
    weights = tmp_path / "renamed.bin"
    shutil.copyfile(runs / "models" / "net.safetensors", weights)
    (named,), (unnamed,) = (make_statement("runs/feature", weights=w).released for w in ([weights], []))
    assert (named.listing, named.bytes) == (unnamed.listing, weights.stat().st_size)
    monkeypatch.chdir(tmp_path)  # where the runs' own paths lead nowhere
    lost = make_statement([runs / "runs" / "clean", runs / "runs" / "feature"])
    assert [one.what for one in lost.released] == ["weights"]  # known by the checksum of the tensors that ran
    assert "--images" in lost.audits[0].subject.why


def test_losses_are_tied_to_no_file(runs: Path) -> None:
    found = make_statement("runs/losses")
    assert found.released == ()
    assert "which models they are of cannot be seen" in found.audits[0].subject.why


def test_a_run_that_was_changed_is_refused(again) -> None:
    for name, file, said in (
        ("copies", "verdict.json", "verdict.json is not what the run wrote"),
        ("clean", "tables/plants.parquet", "is not what the run wrote"),
        ("quality", "quality.json", "tell different figures"),
        ("watch", "watch.jsonl", "tell of different looks"),
    ):
        run = again(name)
        text = (run / file).read_bytes()
        changed = (
            text.replace(b'"fail"', b'"pass"').replace(b"0.0", b"0.9") if file.endswith(("json", "jsonl")) else text
        )
        (run / file).write_bytes(changed if changed != text else text[:-1] + b"x")
        if (record := record_of(run / file)).is_file():
            with pytest.raises(InputError, match=rf"{file} is damaged: it is not what {record.name} says"):
                make_statement(run)
            record.unlink()
        with pytest.raises(InputError, match=said):
            make_statement(run)


def test_a_run_that_is_worked_on_is_said_to_be(again) -> None:
    run = again("clean")
    (run / "verdict.json").unlink()
    with folder_lock(run), pytest.raises(InputError, match="in use by process"):
        make_statement(run)


def test_a_run_that_is_not_finished_is_refused(again) -> None:
    run = again("clean")
    with (run / "log.jsonl").open("a") as log:
        log.write('{"event": "started"}\n')
    with pytest.raises(InputError, match="has not finished"):
        make_statement(run)
    run = again("copies")
    (run / "result.sha256").unlink()
    with pytest.raises(InputError, match="issue the run's command again"):
        make_statement(run)
    (run / "verdict.json").unlink()
    with pytest.raises(InputError, match="holds no finished run"):
        make_statement(run)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("run: {benchmark: reid}", "compares detectors"),
        ("run: {study: rare-distinctive}", "a study of many models"),
        ("run: {backbone: x}", "a training"),
    ],
)
def test_what_says_nothing_of_a_release_is_refused(tmp_path: Path, capsys, config: str, said: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(config)
    (tmp_path / "run" / "training.json").write_text("{}")
    assert said in refusal(capsys, "statement", tmp_path / "run", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_answers_by_its_exit_code(runs: Path, tmp_path: Path, capsys) -> None:
    code, said, _ = answer(capsys, "statement", "runs/clean", "--images", "clean", "--out", tmp_path / "out")
    assert (code, said.splitlines()[0]) == (0, "NOTHING WAS FOUND OF WHAT WAS LOOKED FOR")
    code, said, _ = answer(capsys, "statement", "runs/clean", "runs/calm", "--out", tmp_path / "out", "--json")
    assert code == 1
    assert json.loads(said) == json.loads((tmp_path / "out" / "privacy-statement.json").read_text())
    for out, why in (
        ("runs/clean/inner", "lies inside the run"),
        ("clean", "holds other files"),
        ("runs", "other files"),
    ):
        assert why in refusal(capsys, "statement", "runs/clean", "--out", out)
    assert "named twice" in refusal(capsys, "statement", "runs/clean", "runs/../runs/clean", "--out", tmp_path / "o")


@pytest.mark.parametrize("settings", [{"level": 0.02}, thorough({"level": 0.5}), thorough({"correction": "by"})])
def test_lists_at_other_settings_are_not_stated(runs: Path, tmp_path: Path, settings: dict[str, float | str]) -> None:
    """Neither looser nor stricter, of runs of this version and of earlier ones."""
    audit_losses("scores.parquet", out=tmp_path / "run", **settings)
    with pytest.raises(InputError, match=r"made its lists at level .* without --level and --correction"):
        make_statement(tmp_path / "run")


def test_a_pass_at_a_larger_gap_is_not_stated(runs: Path, tmp_path: Path) -> None:
    rule = {"form": FORMS["losses"], "level": 0.1, "correction": "bh", "notice": 5.0}
    losses = runs / "runs" / "losses"
    loose = rewritten(losses, tmp_path / "loose", verdict={"status": "pass", "rule": rule})
    with pytest.raises(InputError, match="passed with --notice 5, looser than 2 nats"):
        make_statement(loose)
    strict = rewritten(losses, tmp_path / "strict", verdict={"status": "pass", "rule": rule | {"notice": 1.0}})
    assert make_statement(strict).verdict.status == "pass"
    assert "noticeable_gap" in {figure.name for figure in make_statement(strict).audits[0].figures}
    lenient = rule | {"notice": 2.0, "attack_gate": 0.7}
    with pytest.raises(InputError, match=r"passed with --attack-gate 0\.7, looser than 0\.6"):
        make_statement(rewritten(losses, tmp_path / "lenient", verdict={"status": "pass", "rule": lenient}))


def test_a_pass_by_a_smaller_probability_is_not_stated(runs: Path, tmp_path: Path) -> None:
    def loosen(folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text())
        summary["settings"]["recall"] = 0.2
        (folder / "summary.json").write_text(json.dumps(summary))

    with pytest.raises(InputError, match=r"passed with --recall 0\.2, looser than 0\.8"):
        make_statement(rewritten(runs / "runs" / "clean", tmp_path / "loose", change=loosen))

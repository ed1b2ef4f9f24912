"""The gate: nothing passes but a whole statement that passes and is about these very files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.report.statements.envelope import ResourceDescriptor
from memorisk.report.statements.statement import OTHER_PIXELS, SHARED_PIXELS, content_sha256
from memorisk.runs.checksums import list_folder
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_json
from tests.audits.release.conftest import TRIED, restated, rewritten
from tests.commands import answer, refusal
from tests.report.statements.test_statement import reason

LIGHT = """
import sys
HEAVY = {"numpy", "pandas", "torch", "pyarrow", "PIL", "scipy", "yaml", "timm", "jinja2", "fsspec", "matplotlib"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HEAVY:
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Absent())
from memorisk.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def stated(runs: Path, tmp_path: Path) -> Path:
    """The statement of a set that passes."""
    return write_statement("runs/clean", out=tmp_path / "stated").folder / "privacy-statement.json"


def test_what_was_audited_may_go_and_nothing_else(runs: Path, stated: Path, tmp_path: Path, capsys) -> None:
    code, said, _ = answer(capsys, "gate", stated, "--images", "clean", "--kinds", *TRIED)
    assert code == 0
    first, *notes = said.splitlines()
    assert first == "may be released: pass: clean is what was audited (synthetic); unsigned: as its author claims"
    assert notes  # what the pass rests on and leaves out
    assert all(note.startswith("note: synthetic: ") for note in notes)
    passed = json.loads(stated.read_text())["predicate"]["audits"][0]
    assert notes[0] == f"note: synthetic: {passed['reasons'][0]['text']}"
    assert notes[-1] == f"note: synthetic: {passed['limits'][-1]}"
    shutil.copytree(runs / "clean", tmp_path / "more")
    (tmp_path / "more" / "patients.csv").write_text("a")
    for other in ("copies", tmp_path / "more", "clean/000001.png"):
        code, said, _ = answer(capsys, "gate", stated, "--images", "clean", other)
        assert code == 1
        assert said.startswith(f"may not be released: {other} is not what was audited: ")
        assert said.count("\n") == 1
    code, said, _ = answer(capsys, "gate", stated, "--weights", "models/net.safetensors")
    assert code == 1
    assert "the statement is tied to no weights" in said


def test_a_run_is_tied_to_the_images_that_are_named(runs: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the run finds nothing of its own
    assert gate(runs / "runs/clean", images=[runs / "clean"], kinds=TRIED).passed
    found = gate(runs / "runs/clean", images=[runs / "copies"], kinds=TRIED)
    assert not found.passed
    assert "What --images names is not what memorisk release writes" in found.line


@pytest.mark.parametrize(("name", "status"), [("copies", "fail"), ("filter", "undecided"), ("calm", "undecided")])
def test_only_a_pass_passes(runs: Path, tmp_path: Path, name: str, status: str) -> None:
    images = {"copies": "copies", "filter": "runs/filter/kept", "calm": "clean"}[name]
    for source in (f"runs/{name}", write_statement(f"runs/{name}", out=tmp_path / "out").folder):
        found = gate(source, images=[images])
        assert (found.passed, found.status) == (False, status)
        assert found.line.startswith(f"the verdict is {status} (")
    let_through = gate(f"runs/{name}", images=[images], require="not-fail").passed
    assert let_through == (name == "filter")  # which ends with an audit of what it kept; a watch is tied to no images


def test_pixels_of_a_held_out_person_stop_a_release_whatever_is_required(runs: Path, tmp_path: Path) -> None:
    told = make_statement("runs/clean", images=["clean"]).as_json()
    predicate = told["predicate"]
    (audit,) = predicate["audits"]
    audit["status"], audit["reasons"] = "undecided", [vars(reason("so"))]
    predicate["verdict"] |= {"status": "undecided", "why": ["synthetic: so"]}
    file = restated(told, tmp_path / "statement.json")
    assert gate(file, images=["clean"], require="not-fail", kinds=TRIED).passed
    (held,) = (one for one in audit["figures"] if one["name"] == "same_pixels_held_out")
    held["value"] = 4
    found = gate(restated(told, file), images=["clean"], require="not-fail")
    assert not found.passed
    assert "4 generated images have the very pixels of a held-out image" in found.line


@pytest.mark.parametrize(
    ("figure", "whose"),
    [
        (OTHER_PIXELS, "an image in a further part of TRAIN"),
        (SHARED_PIXELS, "an image that is in training and held out"),
    ],
)
def test_pixels_of_any_person_of_the_table_stop_a_release(runs: Path, tmp_path: Path, figure: str, whose: str) -> None:
    told = make_statement("runs/clean", images=["clean"]).as_json()
    figures = told["predicate"]["audits"][0]["figures"]
    (count,) = (one for one in figures if one["name"] == figure)
    count["value"] = 0
    file = restated(told, tmp_path / "statement.json")
    assert gate(file, images=["clean"], kinds=TRIED).passed
    count["value"] = 1
    found = gate(restated(told, file), images=["clean"], require="not-fail", kinds=TRIED)
    assert not found.passed
    assert f"1 generated image has the very pixels of {whose}, a real person's" in found.line


def test_a_link_in_the_place_of_what_is_released_is_refused(runs: Path, stated: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "set").symlink_to(runs / "clean", target_is_directory=True)
    (tmp_path / "net").symlink_to(runs / "models/net.safetensors")
    assert "set is a link" in refusal(capsys, "gate", stated, "--images", tmp_path / "set")
    assert "set is a link" in refusal(capsys, "gate", stated, "--images", f"{tmp_path}/set/")
    assert "net is a link" in refusal(capsys, "gate", stated, "--weights", tmp_path / "net")


def test_a_statement_that_was_touched_stops_a_release(runs: Path, stated: Path) -> None:
    found = json.loads(stated.read_text())
    assert gate(stated, images=["clean"], kinds=TRIED).passed
    told = found["predicate"]
    told["audits"][0]["status"] = "fail"
    stated.write_text(json.dumps(found))
    assert "was changed since" in gate(stated, images=["clean"]).line
    subject = [ResourceDescriptor(one["name"], one["digest"]["sha256"]) for one in found["subject"]]
    told["content_sha256"] = content_sha256({k: v for k, v in told.items() if k != "content_sha256"}, subject)
    stated.write_text(json.dumps(found))
    assert "says pass, and its runs together fail" in gate(stated, images=["clean"]).line
    del told["verdict"]
    stated.write_text(json.dumps(found))
    answered = gate(stated, images=["clean"], kinds=TRIED)
    assert not answered.passed
    assert "verdict is missing" in answered.line


def test_a_pass_by_a_list_at_another_level_stops_a_release(runs: Path, tmp_path: Path) -> None:
    told = make_statement(rewritten(runs / "runs/losses", tmp_path / "run", verdict={"status": "pass"})).as_json()
    file = tmp_path / "statement.json"
    assert "tied to no weights" in gate(restated(told, file), weights=["models/net.safetensors"]).line
    told["predicate"]["audits"][0]["level"] = 0.02
    assert "decided at other settings" in gate(restated(told, file), weights=["models/net.safetensors"]).line


def test_bad_input_is_no_answer(runs: Path, stated: Path, tmp_path: Path, capsys) -> None:
    assert "nothing is named for release" in refusal(capsys, "gate", stated)
    for more in ([], ["--images", "clean"]):  # what is missing is named first
        line = refusal(capsys, "gate", "NOPE", *more)
        assert "NOPE: the file or folder does not exist (memorisk gate --help)" in line
    assert "the file or folder does not exist" in refusal(capsys, "gate", stated, "--images", "absent")
    assert "not valid JSON" in refusal(capsys, "gate", "models/net.safetensors", "--images", "clean")
    assert "is not a run folder" in refusal(capsys, "gate", "clean", "--images", "clean")


def test_a_run_is_asked_where_it_stands_and_weights_are_found_by_content(runs: Path, tmp_path: Path, capsys) -> None:
    status = json.loads((runs / "runs/feature/verdict.json").read_text())["status"]
    code, said, _ = answer(capsys, "gate", "runs/feature", "--weights", "models/net.safetensors", "--json")
    assert json.loads(said)["status"] == status
    assert code == (0 if status == "pass" else 1)


def test_neither_pytorch_nor_an_image_library_is_needed(runs: Path, stated: Path) -> None:
    command = [sys.executable, "-c", LIGHT, "gate", str(stated), "--images", "clean", "--kinds", *TRIED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("may be released: pass")


def test_a_pass_that_was_not_about_every_kind_of_copy_is_let_through_by_word_alone(runs: Path, stated: Path) -> None:
    found = gate(stated, images=["clean"])
    assert not found.passed
    assert found.kinds == TRIED
    assert "passed without looking for copies that are rotated, noised, jpeg, cropped, pasted" in found.line
    assert "--kinds (exact flipped)" in found.line
    assert not gate(stated, images=["clean"], kinds=("exact", "pasted")).passed
    assert not gate("runs/clean", images=["clean"], require="not-fail").passed
    assert gate(stated, images=["clean"], kinds=("exact",)).passed
    told = json.loads(stated.read_text())
    for figure in told["predicate"]["audits"][0]["figures"]:
        if figure["name"] == "found/flipped":
            figure["n"] = 0
    assert "copies that are flipped" in gate(restated(told, stated), images=["clean"], kinds=TRIED).line
    for none in ((), []):  # as of an unset variable
        with pytest.raises(InputError, match="names no kind of copy"):
            gate(stated, images=["clean"], kinds=none)
    with pytest.raises(InputError, match="unknown kind of copy 'turned'"):
        gate(stated, images=["clean"], kinds=("turned",))


def test_only_a_full_audit_of_the_very_files_opens_the_gate(runs: Path, stated: Path, tmp_path: Path) -> None:
    """A statement of another kind of run that names the files does not."""
    told = json.loads(stated.read_text())
    for kind in ("quality", "watch"):
        told["predicate"]["audits"][0]["kind"] = kind
        answered = gate(restated(told, tmp_path / "s.json"), images=["clean"], kinds=TRIED)
        assert not answered.passed
    assert answered.line == "clean was not audited: only an audit of exactly these files clears them"


def test_a_filter_is_tied_to_the_set_that_its_audit_compared(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree("runs/filter", run)
    released, alone = make_statement(run), make_statement(run / "audit", images=[run / "kept"])
    assert [audit.kind for audit in released.audits] == ["filter"]
    (kept,) = released.released
    assert kept == alone.released[0]
    assert kept.listing == list_folder(run / "kept")
    (run / "kept" / "000001.png").write_bytes((run / "kept" / "000002.png").read_bytes())
    assert make_statement(run).released == ()


def test_a_promise_without_an_audit_is_tied_to_nothing(runs: Path, tmp_path: Path) -> None:
    """An earlier filter ended without an audit; one that somebody puts in its place is not the run's."""

    def without_audit(folder: Path) -> None:
        for name in ("filter.json", "verdict.json", "summary.json"):
            saved = json.loads((folder / name).read_text())
            saved.get("numbers", saved)["audited"] = None
            write_json(folder / name, saved, recorded=name == "filter.json")

    run = rewritten(runs / "runs/filter", tmp_path / "run", change=without_audit)
    (told,) = make_statement(run).audits
    assert "without an audit of what it kept" in told.subject.why
    for require in ("pass", "not-fail"):
        assert not gate(run, images=[run / "kept"], require=require).passed
    with pytest.raises(InputError, match="not what any of these runs looked at"):
        make_statement(run, images=[run / "kept"])


def test_a_statement_of_an_earlier_form_opens_no_gate(runs: Path, stated: Path) -> None:
    """It may be about files in which more was than what was compared."""
    told = json.loads(stated.read_text())
    told["predicate"]["format_version"] = 3
    stated.write_text(json.dumps(told))
    with pytest.raises(InputError, match="has format version 3, known here is 4: write it again"):
        gate(stated, images=["clean"])

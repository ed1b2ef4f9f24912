"""The command line: every refusal in one line and with nothing written, exit codes, settings files, JSON."""

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.images.readers.registry import read_image
from memorisk.models.classifiers.zoo import create_model
from memorisk.statistics.verdicts.verdict import few_seeds
from tests.commands import answer, class_folders, entries, environment, memorisk, picture, plain_images, refusal
from tests.images.making import png_bytes

TINY = ("--models", 2, "--epochs", 1, "--processes", 1)
OWN = ("--models", 2, "--processes", 1)  # epochs are of the built-in training


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return plain_images(tmp_path_factory.mktemp("images") / "set")


@pytest.fixture(scope="module")
def run(tmp_path_factory, images) -> Path:
    """A finished run of two classes."""
    from memorisk.cli.main import main

    out = tmp_path_factory.mktemp("run") / "run"
    settings = ("--models", "4", "--epochs", "1", "--processes", "1", "--fail-on", "never")
    assert main(["audit", "classifier", str(images), "--out", str(out), *settings]) == 0
    return out


@pytest.fixture
def refused(capsys, tmp_path):
    """Call ``audit classifier`` and give back its refusal, after looking that it wrote nothing."""

    def refused(source: object, *flags: object, settings: str | None = None, tiny: bool = True) -> str:
        out = tmp_path / "out"
        before = entries(tmp_path)
        config = ()
        if settings is not None:
            (tmp_path / "settings.yaml").write_text(settings)
            config = ("--config", tmp_path / "settings.yaml")
            before = entries(tmp_path)
        few = () if not tiny else OWN if "--train" in flags else TINY
        line = refusal(capsys, *config, "audit", "classifier", source, "--out", out, *few, *flags)
        assert entries(tmp_path) == before
        return line

    return refused


def table(folder: Path, rows: list[dict], name: str = "table.csv") -> Path:
    """A table of images; the files that it names and that are missing are made."""
    for number, row in enumerate(rows):
        file = folder / row["image"]
        if ".." not in row["image"] and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture(number, 0)).save(file)
    path = folder / name
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def rows(n: int = 14, **columns) -> list[dict]:
    return [
        {"image": f"{label}{k}.png", "label": label, "patient": f"{label}-{k}", **columns}
        for label in ("a", "b")
        for k in range(n)
    ]


# Images


def test_there_are_no_images(refused, tmp_path):
    assert "the file or folder does not exist" in refused(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no images" in refused(tmp_path / "empty")
    (tmp_path / "empty.csv").write_text("image,label\n")
    assert "no " in refused(tmp_path / "empty.csv")


def test_an_unreadable_image_is_listed_and_left_out_on_request(refused, tmp_path, capsys):
    folder = plain_images(tmp_path / "set")
    (folder / "benign" / "p03.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    (folder / "malignant" / "p05.png").write_bytes(b"")
    line = refused(folder)
    assert "p03.png" in line
    assert "p05.png" in line
    assert "skip-unreadable" in line
    out = tmp_path / "out"
    command = ("audit", "classifier", folder, "--out", out, *TINY, "--fail-on", "never", "--skip-unreadable")
    code, _, err = answer(capsys, *command)
    assert (code, err) == (0, "")
    assert len(pd.read_parquet(out / "manifest.parquet")) == 26
    summary = json.loads((out / "summary.json").read_text())
    assert summary["n_images"] == 26
    assert summary["n_skipped"] == 2
    assert "2 images could not be read" in (out / "report.html").read_text()


def test_a_label_is_missing(refused, tmp_path):
    given = rows()
    given[3]["label"] = ""
    line = refused(table(tmp_path / "set", given))
    assert "1 of 28 images have no label" in line
    assert "a3.png" in line


def test_a_group_crosses_the_given_split(refused, tmp_path):
    given = rows(split="train")
    for row in given[::3]:
        row["split"] = "test"
    given[1]["patient"] = given[0]["patient"]
    line = refused(table(tmp_path / "set", given), "--splits", "given", "--group-column", "patient")
    assert "1 groups are in more than one given split" in line
    assert "a-0" in line


def test_ids_are_given_twice(refused, tmp_path):
    given = rows()
    given[5] = given[4] | {"label": "another"}
    line = refused(table(tmp_path / "set", given))
    assert "a4.png" in line


def test_a_path_leaves_the_folder(refused, tmp_path):
    Image.fromarray(picture(1, 0)).save(tmp_path / "secret.png")
    given = rows()
    given[2]["image"] = "../secret.png"
    line = refused(table(tmp_path / "set", given))
    assert "1 path leads out of the folder" in line
    assert "../secret.png" in line
    given[2]["image"] = str(tmp_path / "secret.png")
    assert "out of the folder" in refused(table(tmp_path / "set", given, "other.csv"))


def test_a_decompression_bomb(refused, tmp_path):
    folder = plain_images(tmp_path / "set")
    bomb = png_bytes([b"\0" * 1000], 50_000, 1, 0, height=50_000)
    (folder / "benign" / "bomb.png").write_bytes(bomb)
    line = refused(folder)
    assert "50,000 x 50,000" in line
    assert "bomb.png" in line


def test_a_bomb_that_declares_a_small_size(refused, tmp_path, capsys):
    folder = plain_images(tmp_path / "set")
    good = png_bytes([bytes([9 * k] * 8) for k in range(8)], 8, 8, 0)
    text = b"zTXt" + b"comment\0\0" + zlib.compress(b"\0" * 100_000_000)
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    (folder / "benign" / "p00.png").write_bytes(good[:33] + chunk + good[33:])  # after the header of 8 + 25 bytes
    np.testing.assert_array_equal(
        read_image(folder / "benign" / "p00.png")[:, 0, 0], 9 * np.arange(8)
    )  # no text is read
    long = png_bytes([b"\x07" * 8] * 200_000, 8, 8, 0, height=8)  # far more rows in the stream than declared
    (folder / "benign" / "p00.png").write_bytes(long)
    command = ("audit", "classifier", folder, "--out", tmp_path / "out", "--store", tmp_path / "store", *TINY)
    code, _, err = answer(capsys, *command, "--fail-on", "never")
    assert (code, err) == (0, "")
    (stored,) = (tmp_path / "store" / "stores").glob("[0-9a-f]*/images.npy")
    assert (np.load(stored)[0] == 7).all()  # the rows that the header declares, no more


def test_a_jpeg_cut_short(refused, tmp_path):
    folder = plain_images(tmp_path / "set")
    file = folder / "benign" / "p02.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[:-400])
    assert "p02.jpg" in refused(folder, "--size", 8)


def test_dicom_files_without_pixels(refused, tmp_path):
    pydicom = pytest.importorskip("pydicom", reason="the extra medical is not installed")
    from pydicom.dataset import FileMetaDataset

    data = pydicom.Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    data.SOPClassUID, data.SOPInstanceUID = data.file_meta.MediaStorageSOPClassUID, pydicom.uid.generate_uid()
    data.PatientID = "P1"
    (tmp_path / "tree").mkdir()
    data.save_as(tmp_path / "tree" / "note.dcm", enforce_file_format=True)
    assert "1 DICOM headers cannot be read (note.dcm: no pixels, or cut short before them" in refused(tmp_path / "tree")
    given = rows()
    given[2]["image"] = "note.dcm"
    (tmp_path / "set").mkdir()
    (tmp_path / "tree" / "note.dcm").rename(tmp_path / "set" / "note.dcm")
    line = refused(table(tmp_path / "set", given))
    assert "note.dcm" in line
    assert "without pixels" in line


def test_one_class_only(refused, tmp_path):
    folder = class_folders(tmp_path / "set", ["benign"], [f"{k}.png" for k in range(20)])
    assert "holds one class (benign): two are needed\n" in refused(folder)
    (folder / "export.csv").write_text("image,finding\n")
    assert "two are needed; export.csv may hold them: name the table" in refused(folder)


def test_a_class_too_small_is_listed_and_the_others_audited(refused, tmp_path, capsys):
    folder = plain_images(tmp_path / "set")
    class_folders(tmp_path / "more", ["rare"], ["1.png", "2.png", "3.png"])
    (tmp_path / "more" / "rare").rename(folder / "rare")
    out = tmp_path / "out"
    code, _, err = answer(capsys, "audit", "classifier", folder, "--out", out, *TINY, "--fail-on", "never")
    assert (code, err) == (0, "")
    classes = pd.read_parquet(out / "per_class.parquet").set_index("label")
    assert not classes.loc["rare", "testable"]
    assert "rare" in str(json.loads((out / "verdict.json").read_text())["not_scored"])
    nothing = class_folders(tmp_path / "tiny", ["x", "y"], ["1.png", "2.png"])
    assert "no class is large enough" in refused(nothing, "--fail-on", "never")


# Weights and models


def test_weights_that_do_not_match(refused, images, tmp_path):
    state = create_model("small_cnn", num_classes=2, in_chans=1, image_size=8, seed=0).state_dict()
    first = next(iter(state))
    torch.save({k: v for k, v in state.items() if k != first}, tmp_path / "part.pth")
    line = refused(images, "--weights", tmp_path / "part.pth")
    assert "part.pth does not fit" in line
    assert f"missing: {first}" in line


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("flag", ["--weights", "--target"])
def test_a_checkpoint_with_a_payload_is_refused_and_not_executed(refused, tmp_path, flag):
    mark = tmp_path / "executed"
    torch.save({"state_dict": Payload(f"touch {mark}")}, tmp_path / "evil.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Payload(f"touch {mark}")))
    source = table(tmp_path / "set", [r | {"split": "test" if k % 3 == 0 else "train"} for k, r in enumerate(rows())])
    for name in ("evil.pth", "bare.pth"):
        line = refused(source, flag, tmp_path / name, "--splits", "given")
        assert f"{name} is refused" in line
        assert not mark.exists()
    pickle.loads((tmp_path / "bare.pth").read_bytes())
    assert mark.exists(), "the payload of this test is harmless by itself"


def test_a_target_is_looked_at_before_any_training(refused, tmp_path, images):
    source = table(tmp_path / "set", [r | {"split": "test" if k % 3 == 0 else "train"} for k, r in enumerate(rows())])
    assert "does not exist (memorisk audit classifier --help)" in refused(source, "--target", tmp_path / "nowhere.pth")
    torch.save(
        create_model("small_cnn", num_classes=3, in_chans=1, image_size=8, seed=0).state_dict(), tmp_path / "three.pth"
    )
    assert "does not match" in refused(source, "--target", tmp_path / "three.pth")
    torch.save(torch.nn.Linear(64, 2).state_dict(), tmp_path / "other.pth")
    assert "audited from their losses (docs/losses.md)" in refused(source, "--target", tmp_path / "other.pth")
    assert "name it with target" in refused(images, "--target-classes", "a,b")


def test_networks_that_do_not_take_the_images(refused, images):
    assert "too small for small_cnn" in refused(images, "--size", 1)
    assert "needs a GPU" in refused(images, "--precision", "fp16", "--device", "cpu")


# Settings


def test_an_augmentation_that_changes_no_pixel(refused, tmp_path):
    folder = tmp_path / "same"
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for k in range(14):  # left and right are alike
            half = picture(k, label == "b")[:, :4]
            Image.fromarray(np.hstack([half, half[:, ::-1]])).save(folder / label / f"{k}.png")
    assert "augmentation 'hflip' changes no pixel" in refused(folder, "--augment", "hflip")
    assert "Did you mean 'hflip'?" in refused(folder, "--augment", "hflop")


@pytest.mark.parametrize("text", ["'yes please'", "yes please", "'true'", "1", "[true]"])
def test_a_text_where_a_boolean_belongs(refused, images, text):
    line = refused(images, settings=f"redact: {text}\n")
    assert "redact" in line
    assert "true or false" in line


UNKNOWN = [
    (("--model", "small_cn"), "Did you mean 'small_cnn'?"),
    (("--design", "balancd"), "balanced"),
    (("--modle", "small_cnn"), "Did you mean --model?"),
    (("--train", "os.path:jion"), "Did you mean 'join'?"),
    (("--train", "os.path"), "module:function"),
    (("--train", "no_such_module:train"), "--train no_such_module:train: module no_such_module is missing"),
    (("--device", "gpu"), "cpu, cuda"),
    (("--dicom-gruop", "PatientID"), "Did you mean --dicom-group?"),
]


@pytest.mark.parametrize(("flags", "hint"), UNKNOWN, ids=lambda v: " ".join(v) if isinstance(v, tuple) else "")
def test_unknown_names_come_with_the_nearest(refused, images, flags, hint):
    assert hint in refused(images, *flags)


def test_an_unknown_command_or_key_comes_with_the_nearest(capsys, refused, images):
    assert "Did you mean" in refusal(capsys, "audti")
    assert "Did you mean" in refusal(capsys, "audit", "classifer", images)
    line = refused(images, settings="modles: 4\n")
    assert "modles" in line
    assert "Did you mean --models?" in line


VALUES = [
    (("--models", 3), "even number"),
    (("--models", 4.5), "whole number"),
    (("--models", "x"), "unable to convert"),
    (("--epochs", 0), "at least 1"),
    (("--batch-size", 1), "at least 2"),
    (("--lr", "nan"), "above 0"),
    (("--level", 1.5), "between 0 and 1"),
    (("--seeds", 1, 1), "given twice"),
    (("--seeds", -1), "between 0 and"),
    (("--split-seed", -1), "between 0 and"),
    (("--threads", 0), "at least 1"),
    (("--placebo", -1), "at least 0"),
    (("--placebo", 1, "--protocol", "paper"), "balanced or matched"),
    (("--protocol", "paper", "--design", "matched"), "leave one of the two out"),
    (("--size", 0), "at least 1"),
    (("--size", 100_000), "max-pixels"),
    (("--group-from", "(("), "regular expression"),
    (("--splits", "given"), "gives no split"),
    (("--train-settings.depth", 3), "name it with --train"),
    (("--pseudonymise", "--pseudonym-key", "nowhere"), "nowhere: the file or folder does not exist"),
    (("--checkpoint-seconds", -1), "0 or more"),
    (("superfluous",), "1 word too many: superfluous"),
]


@pytest.mark.parametrize(("flags", "what"), VALUES, ids=lambda v: " ".join(map(str, v)) if isinstance(v, tuple) else "")
def test_values_outside_what_is_allowed(refused, images, flags, what):
    assert what in refused(images, *flags, tiny=False)


@pytest.mark.parametrize("text", ["", "5", "[1, 2]", "a: b: c", "\0", "models: &a [*a]", "models: {a: 1}", "lr: [1]"])
def test_settings_files_that_hold_no_settings(refused, images, text):
    line = refused(images, settings=text, tiny=False)
    assert "settings.yaml" in line, "the file at fault is named"


def test_a_settings_file_that_is_not_there(refused, images, tmp_path, capsys):
    assert "cannot be read" in refusal(capsys, "--config", tmp_path / "no.yaml", "audit", "classifier", images)
    assert "cannot be read" in refusal(capsys, "--config", tmp_path, "audit", "classifier", images)


def test_a_users_function_that_does_not_fit(refused, images, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "recipe_a.py").write_text("def few(images, labels): ...\n")
    (tmp_path / "recipe_b.py").write_text("def broken(:\n")
    (tmp_path / "recipe_c.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert "unexpected keyword argument" in refused(images, "--train", "recipe_a:few")
    assert "SyntaxError" in refused(images, "--train", "recipe_b:broken")
    assert "ZeroDivisionError" in refused(images, "--train", "recipe_c:f")


# Out folders


def test_out_folders_that_cannot_be_used(capsys, images, tmp_path, run):
    def out(path: object) -> str:
        return refusal(capsys, "audit", "classifier", images, "--out", path, *TINY)

    file = tmp_path / "file"
    file.write_text("mine")
    assert "is a file" in out(file)
    assert "cannot be made" in out(file / "run")
    assert "cannot name a folder" in out(tmp_path / ("n" * 300))
    assert "lies inside IMAGES" in out(images)
    assert "holds files that are not a run" in out(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "link to nothing" in out(tmp_path / "link")
    before = entries(run)
    line = refusal(capsys, "audit", "classifier", images, "--out", run, "--models", 4, *TINY[2:], "--lr", 0.5)
    assert "holds a run with" in line
    assert "0.5" in line
    line = refusal(capsys, "audit", "classifier", images, "--out", run, *TINY)
    assert "holds the result of 4 models" in line
    assert entries(run) == before
    assert file.read_text() == "mine"


def test_what_is_no_run_cannot_be_compared_or_rendered(capsys, run, tmp_path, images):
    before = {name: (run / name).read_bytes() for name in entries(run) if (run / name).is_file()}
    assert "not a run folder" in refusal(capsys, "report", images)
    assert "not a run folder" in refusal(capsys, "compare", run, tmp_path)
    assert "holds other files" in refusal(capsys, "compare", run, run, "--out", run)
    assert "name a file" in refusal(capsys, "report", run, "--out", tmp_path)
    assert "does not exist (memorisk audit losses --help)" in refusal(
        capsys, "audit", "losses", tmp_path / "no.csv", "--out", tmp_path / "out"
    )
    assert "lacks the columns" in refusal(
        capsys, "audit", "losses", run / "manifest.parquet", "--out", tmp_path / "out"
    )
    assert "the file or folder does not exist" in refusal(capsys, "images", "check", tmp_path / "no")
    assert entries(tmp_path) == []
    assert {name: (run / name).read_bytes() for name in before} == before


# Runs that break


def test_a_loss_that_became_nan_breaks_the_run_and_says_what_to_do(capsys, images, tmp_path):
    out = tmp_path / "out"
    command = ("audit", "classifier", images, "--out", out, "--models", 2, "--epochs", 3, "--lr", 1e30)
    line = refusal(capsys, *command, "--processes", 1, code=3)
    assert "lower the learning rate" in line
    assert "what is done is kept" in line
    assert (out / "config.yaml").is_file()
    assert not (out / "verdict.json").exists()


def test_a_users_function_that_fails_breaks_the_run(capsys, images, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "recipe_d.py").write_text(
        "def fails(*a, **k): raise KeyError('two\\nlines')\ndef number(*a, **k): return 5\n"
    )
    for name, what in (("fails", "KeyError"), ("number", "must return a torch.nn.Module")):
        out = tmp_path / name
        line = refusal(capsys, "audit", "classifier", images, "--out", out, *OWN, "--train", f"recipe_d:{name}", code=3)
        assert what in line


def test_a_defect_is_one_line_with_its_place(capsys, monkeypatch, run):
    import memorisk.audits.rendering as rendering

    def defect(*args, **kwargs):
        raise RuntimeError("never\nthought of")

    monkeypatch.setattr(rendering, "render_again", defect)
    line = refusal(capsys, "report", run, code=3)
    assert "unexpected RuntimeError at test_cli.py:" in line


@pytest.mark.parametrize("code", [None, 0, 1])
def test_code_that_ends_the_program_is_a_broken_run(capsys, monkeypatch, run, code):
    import memorisk.audits.rendering as rendering

    def leave(*args, **kwargs):
        sys.exit(code)

    monkeypatch.setattr(rendering, "render_again", leave)
    assert f"ended the program (SystemExit: {code})" in refusal(capsys, "report", run, code=3)


def test_output_that_is_not_read_to_its_end_ends_the_command_in_silence(tmp_path):
    asked = memorisk("audit", "synthetic", "--help")
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


# Exit codes and output


def test_the_gate_decides_the_exit_code(capsys, images, tmp_path):
    def code(*flags: object) -> tuple[int, str]:
        found, out, err = answer(
            capsys, "audit", "classifier", images, "--out", tmp_path / "r", *TINY, *flags, "--json"
        )
        assert err == ""
        return found, json.loads(out)["status"]

    assert code("--fail-on", "never")[0] == 0
    found, status = code("--fail-on", "high")
    assert status != "pass", "two models cannot pass"
    assert found == 1


def test_the_plan_says_that_few_seeds_cannot_pass_in_the_words_of_the_verdict(capsys, run, images, tmp_path):
    def plan(models: int, *more: object) -> str:
        command = ("audit", "classifier", images, "--out", tmp_path / "few", "--models", models, "--epochs", 1)
        return answer(capsys, *command, "--processes", 1, "--dry-run", "--one-image-per-patient", *more)[1]

    for models in (2, 4):
        few = few_seeds(models // 2)
        assert few is not None
        notes = json.loads(plan(models, "--json"))["notes"]
        assert few.text in notes[0]
        assert sum("too few to tell what a training remembers" in note for note in notes) == 1
    assert "no pass: this audit cannot pass with" in plan(4)
    verdict = json.loads((run / "verdict.json").read_text())
    why, ways = verdict["why"], verdict["what_would_decide"]
    assert [one["code"] for one in verdict["reasons"]][2] == "few-seeds"
    assert "no patient ids were given" in why[0]
    assert "not surely better than guessing" in why[1]  # more of such models would decide nothing
    assert "--one-image-per-patient" in ways[0]
    assert any("--models " in way for way in ways[2:])
    assert not any("seeds" in note for note in json.loads(plan(6, "--json"))["notes"])


def test_json_alone_stands_on_standard_output(capsys, run, images):
    command = ("audit", "classifier", images, "--out", run, "--models", 4, "--epochs", 1, "--processes", 1)
    code, out, err = answer(capsys, *command, "--fail-on", "never", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((run / "verdict.json").read_text())
    for other in (
        ("images", "check", images, "--json"),
        ("compare", run, run, "--json"),
        (*command, "--dry-run", "--json"),
    ):
        _, out, err = answer(capsys, *other)
        assert isinstance(json.loads(out), dict)
        assert err == ""


def test_in_a_real_process(images, tmp_path):
    def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            memorisk(*arguments),
            env=environment(tmp_path / "cache"),
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    refused = ran("audit", "classifier", images, "--out", "run", *TINY, "--regime", "ful")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert 'Did you mean "full"?' in refused.stderr
    assert refused.stdout == ""
    assert not (tmp_path / "run").exists()
    done = ran("audit", "classifier", images, "--out", "run", *TINY, "--fail-on", "never", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["audit"] == "classifier"
    assert [p for p in entries(tmp_path / "run") if p.endswith(".part") or "checkpoints/" in p] == []


def test_help_names_every_command_and_stays_quick_by_loading_nothing(capsys):
    code, out, err = answer(capsys, "--help")
    assert (code, err) == (0, "")
    for name in ("audit", "images", "compare", "report", "--config"):
        assert name in out
    heavy = "import sys, memorisk.cli.main as c; c.main(['--help']); print([m for m in ('cyclopts', 'multiprocessing', "
    heavy += "'yaml', 'numpy', 'pandas', 'memorisk.cli.program') if m in sys.modules], file=sys.stderr)"
    shown = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert shown.stderr == "[]\n"
    assert "Usage: memorisk" in shown.stdout


def test_help_of_a_command_loads_nothing_heavy():
    heavy = "import sys, memorisk.cli.main as c; c.main(['audit', 'losses', '--help']); print([m for m in ('torch', "
    heavy += "'numpy', 'pandas', 'timm', 'scipy', 'matplotlib', 'PIL', 'multiprocessing', 'memorisk.cli.audits', "
    heavy += "'memorisk.cli.training') if m in sys.modules], file=sys.stderr)"
    shown = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert shown.stderr == "[]\n"
    assert "Usage: memorisk audit losses" in shown.stdout


@pytest.mark.parametrize("width", ["20", "40", "80", "200"])
@pytest.mark.parametrize("colour", [{}, {"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}])
@pytest.mark.parametrize("word", ["--help", "--version"])
def test_the_first_page_is_what_cyclopts_prints(capsys, monkeypatch, width, colour, word):
    from memorisk.cli.program import app

    for name, value in {"TERM": "xterm-256color", "COLUMNS": width, **colour}.items():
        monkeypatch.setenv(name, value)
    for one in (app, app.meta):  # each keeps the console that it made for an earlier test
        monkeypatch.setattr(one, "_fallback_console", None)
    shown = answer(capsys, word)
    app.meta([word], exit_on_error=False, print_error=False)
    assert shown == (0, capsys.readouterr().out, "")


def test_every_setting_has_help(capsys):
    code, out, _ = answer(capsys, "audit", "classifier", "--help-all")
    assert code == 0
    for name in (field.name for field in fields(ClassifierOptions)):
        assert f"--{name.replace('_', '-')}" in out
    assert "--no-redact" not in out
    assert "--empty-" not in out


def test_help_shows_the_essential_options_and_what_shows_the_others(capsys):
    code, out, _ = answer(capsys, "audit", "classifier", "--help")
    assert code == 0
    assert all(name in out for name in ("--models", "--group-column", "--fail-on", "--device"))
    assert "--lora-rank" not in out
    assert out.splitlines()[-1].endswith("more options: memorisk audit classifier --help-all")
    assert "--help-all" not in answer(capsys, "compare", "--help")[1]


# Settings files


def test_printed_settings_give_the_same_settings(capsys, tmp_path):
    flags = ("--models", 4, "--lr", 0.003, "--seeds", 5, 6, "--redact", "--size", 16, "--augment", "hflip,crop")
    flags += ("--train-settings.depth", 3, "--train", "a:b", "--group-from", r"^(\d+)_", "--channels", 3)
    command = ("audit", "classifier", "my images", "--out", tmp_path / "o", *flags)
    code, first, err = answer(capsys, *command, "--print-config")
    assert (code, err) == (0, "")
    (tmp_path / "s.yaml").write_text(first)
    code, second, err = answer(capsys, "--config", tmp_path / "s.yaml", "audit", "classifier", "--print-config")
    assert (code, err) == (0, "")
    assert second == first
    found = yaml.safe_load(first)
    assert (found["images"], found["models"], found["seeds"], found["redact"]) == ("my images", 4, [5, 6], True)
    assert entries(tmp_path) == ["s.yaml"]


def test_flags_override_a_settings_file(capsys, tmp_path):
    (tmp_path / "s.yaml").write_text("images: one\nout: o\nmodels: 4\nredact: true\nlr: 1e-3\nskip_unreadable: true\n")
    config = ("--config", tmp_path / "s.yaml", "audit", "classifier")
    _, out, _ = answer(capsys, *config, "two", "--models", 6, "--no-redact", "--print-config")
    found = yaml.safe_load(out)
    assert (found["images"], found["models"], found["redact"]) == ("two", 6, False)
    assert (found["lr"], found["skip_unreadable"]) == (0.001, True)


def test_the_settings_of_a_run_repeat_it(capsys, run, tmp_path):
    out = tmp_path / "again"
    code, _, err = answer(capsys, "--config", run / "config.yaml", "audit", "classifier", "--out", out)
    assert (code, err) == (0, "")
    for name in ("scores.parquet", "per_image.parquet", "per_class.parquet", "attacks.parquet", "verdict.json"):
        assert (out / name).read_bytes() == (run / name).read_bytes(), name


# Losses of models trained elsewhere


@pytest.fixture(scope="module")
def scores(run) -> pd.DataFrame:
    table = pd.read_parquet(run / "scores.parquet")
    return table.astype(dict.fromkeys(("image", "label", "group", "split", "role"), "object"))


CHANGES = {
    "seeds that are no numbers": ({"seed": "first"}, "column seed holds 'first'"),
    "members that are no booleans": ({"member": "perhaps"}, "column member holds 'perhaps'"),
    "losses that are no numbers": ({"loss": "low"}, "losses are not finite numbers"),
    "losses below zero": ({"loss": -1.0}, "losses are not finite numbers"),
    "margins that are no numbers": ({"margin": np.nan}, "column margin"),
    "unknown splits": ({"split": "holdout"}, "column split holds 'holdout'"),
    "one role only": ({"role": "A"}, "each seed needs two models"),
    "no test images": ({"split": "canary"}, "no image has split 'test'"),
    "an image twice": ({"image": "same", "group": "same"}, "same"),
    "no label": ({"label": ""}, "has no label"),
    "one patient on both sides": ({"group": "same"}, "one side"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_score_tables_that_are_not_as_they_must_be(capsys, scores, tmp_path, name):
    columns, what = CHANGES[name]
    scores.assign(**columns).to_parquet(tmp_path / "scores.parquet")
    line = refusal(capsys, "audit", "losses", tmp_path / "scores.parquet", "--out", tmp_path / "out")
    assert what in line
    assert entries(tmp_path) == ["scores.parquet"]


def test_an_image_that_changes_its_patient_between_models(capsys, scores, tmp_path):
    changed = scores.copy()
    changed.loc[3, "group"] = "another"
    changed.to_csv(tmp_path / "scores.csv", index=False)
    line = refusal(capsys, "audit", "losses", tmp_path / "scores.csv", "--out", tmp_path / "out")
    assert "more than one group" in line


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b"PAR1garbage", b"\xff\xfe\x00a", b'"unclosed', b"image,label\n1,2,3,4\n"]
)
def test_files_that_are_no_tables(capsys, tmp_path, data):
    (tmp_path / "scores.csv").write_bytes(data)
    refusal(capsys, "audit", "losses", tmp_path / "scores.csv", "--out", tmp_path / "out")
    assert entries(tmp_path) == ["scores.csv"]


# Damaged runs


@pytest.mark.parametrize("name", ["verdict.json", "summary.json", "per_class.parquet", "config.yaml"])
def test_a_damaged_run_is_said_to_be_one(capsys, run, tmp_path, name):
    broken = tmp_path / "run"
    shutil.copytree(run, broken)
    for data in (b"{broken", b"\xff\xfe"):
        (broken / name).write_bytes(data)
        assert name.partition(".")[0] in refusal(capsys, "report", broken) or name != "config.yaml"
        refusal(capsys, "compare", broken, run)


def test_damaged_logits_are_named_and_made_anew(capsys, caplog, run, images, tmp_path):
    broken = tmp_path / "run"
    shutil.copytree(run, broken)
    first = min((broken / "logits").iterdir())
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    command = ("audit", "classifier", images, "--out", broken, "--models", 4, "--epochs", 1, "--processes", 1)
    assert answer(capsys, *command, "--fail-on", "never")[0] == 0
    assert caplog.text.count(f"{first.name} is not what was written: it is made anew") == 1
    assert first.read_bytes() == min((run / "logits").iterdir()).read_bytes()
    assert (broken / "scores.parquet").read_bytes() == (run / "scores.parquet").read_bytes()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["gate", "", "--images", "set"], "SOURCE"),
        (["gate", "--source", "", "--images", "set"], "--source"),
        (["gate", "statement.json", "--images", "set", ""], "--images"),
        (["gate", "statement.json", "--weights="], "--weights"),
        (["gate", "statement.json", "--images", "set", "--key", ""], "--key"),
        (["statement", "", "--out", "new"], "RUNS"),
        (["statement", "run", "--out", ""], "--out"),
        (["statement", "run", "--page", ""], "--page"),
        (["release", "", "new"], "SOURCE"),
        (["release", "set", ""], "OUT"),
        (["audit", "synthetic", "set", "", "--out", "new"], "SYNTHETIC"),
        (["audit", "synthetic", "set", "set", "--held-out", "", "--out", "new"], "--held-out"),
        (["view", ""], "PLACES"),
        (["--config", "", "images", "check", "set"], "--config"),
        (["study", "generators", "--config", "", "--out", "new"], "--config"),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_current_folder(capsys, tmp_path, monkeypatch, command, name):
    """A shell variable that is unset comes as an empty word, which a path would make the folder that one is in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set").mkdir()
    assert refusal(capsys, *command) == f"memorisk: {name} is empty: is a shell variable unset?\n"
    assert entries(tmp_path) == ["set"]


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "classifier", "IMAGE", "--out", "run"],
        ["audit", "synthetic", "digits", "IMAGE", "--out", "run"],
        ["audit", "synthetic", "digits", "digits", "--held-out", "digits, IMAGE", "--out", "run"],
        ["images", "check", "IMAGE"],
    ],
)
def test_a_misspelt_folder_is_refused_before_anything_heavy_is_loaded(tmp_path, command):
    (tmp_path / "IMAGES").mkdir()
    heavy = "import sys, memorisk.cli.main as c; c.main(sys.argv[1:]); print([m for m in ('torch', 'numpy', 'pandas', "
    heavy += "'PIL', 'multiprocessing') if m in sys.modules])"
    asked = [sys.executable, "-c", heavy, *command]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stderr == "memorisk: IMAGE: the file or folder does not exist. Did you mean 'IMAGES'?\n"
    assert shown.stdout == "[]\n"
    assert entries(tmp_path) == ["IMAGES"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("audit classifier digits --train nosuch:f --out run", "--train nosuch:f: module nosuch is missing"),
        (
            "audit feature nosuch.py:f --mark text:A --probes digits --out run",
            "the model nosuch.py:f: module nosuch.py",
        ),
        ("generate nosuch.py:f run", "the generator nosuch.py:f: module nosuch.py is missing"),
        ("synthesize digits run --generator nosuch:f --calibration digits", "the generator nosuch:f: module nosuch is"),
        ("audit synthetic digits digits --detector detector:nosuch --out run", "nosuch: the file or folder"),
        ("bench reid digits --detectors ours=detector:nosuch --out run", "nosuch: the file or folder"),
        ("train detector latents:nosuch --out run", "nosuch: the file or folder"),
        ("train generator digits --latent autoencoder:nosuch --out run", "nosuch: the file or folder"),
    ],
)
def test_a_misspelt_function_or_kind_is_refused_before_torch_is_loaded(command, message, tmp_path):
    code = "import sys, memorisk.cli.main as c; c.main(sys.argv[1:]); print('torch' in sys.modules)"
    asked = [sys.executable, "-c", code, *command.split()]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert message in shown.stderr
    assert shown.stdout == "False\n"
    assert entries(tmp_path) == []


MISTYPED = {
    "audit synthetic digits digits --detector defualt --out run": "unknown features 'defualt'. Did you mean 'default'?",
    "audit synthetic digits digits --detector pixel:8 --out run": "unknown kind of features 'pixel'. Did you mean 'pix",
    "audit synthetic digits digits --measure cosin --out run": "unknown measure 'cosin'. Did you mean 'cosine'?",
    "filter digits digits run --detector resnet5@none": "unknown features 'resnet5'. Did you mean 'resnet50'?",
    "filter digits digits run --families blurr": "unknown family of copies 'blurr'. Did you mean 'blur'?",
    "quality digits digits --features timm:resnet999@none --out run": "unknown model 'timm:resnet999'",
    "bench copies digits --detectors mse=M defualt=D --out run": "unknown features 'defualt'",
    "bench detectors digits --backbones resnet5@none --out run": "unknown features 'resnet5'",
    "bench detectors digits --losses tripel --out run": "unknown losses 'tripel'. Did you mean 'triplet'?",
    "audit classifier digits --model smal_cnn --out run": "unknown model 'smal_cnn'. Did you mean 'small_cnn'?",
    "audit classifier digits --device cud --out run": "unknown device 'cud'; it must be auto, cpu, cuda, cuda:0",
    "audit classifier digits --augment flipp --out run": "unknown augmentation 'flipp'",
    "audit classifier digits --weights net.pt --out run": "net.pt: the file or folder does not exist",
    "train detector digits --backbone resne@none --out run": "unknown features 'resne'",
    "train generator digits --network tinyy --out run": "'tinyy' is not a size of a DiT",
    "train generator digits --latent pixel --out run": "latent is 'pixel'; it must be pixels",
    "audit feature digits --mark texxt:A --probes digits --out run": "mark is texxt:A: neither a letter",
}
"""Commands with a mistyped value, and what the refusal says."""


def refused_early(commands: Iterable[str], folder: Path) -> list[str]:
    """Give commands to one process, which must refuse each without torch or timm; return the refusals."""
    code = "import sys, memorisk.cli.main as c\n"
    code += (
        "for words in sys.argv[1:]: print(c.main(words.split()), [m for m in ('torch', 'timm') if m in sys.modules])"
    )
    before, asked = entries(folder), list(commands)
    shown = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=True, cwd=folder)
    assert shown.stdout.splitlines() == ["2 []"] * len(asked)
    assert entries(folder) == before
    return shown.stderr.splitlines()


def test_mistyped_values_are_refused_before_torch_is_loaded(tmp_path):
    (tmp_path / "digits").mkdir()  # a folder, so that a model of this name is there
    for (command, message), line in zip(MISTYPED.items(), refused_early(MISTYPED, tmp_path), strict=True):
        assert message in line, command


def test_missing_weights_are_all_named_before_torch_is_loaded(tmp_path):
    (tmp_path / "generators.yaml").write_text(
        "{settings: {detectors: [resnet50@a.pth, 'detector:none'], quality: pixels}, datasets: {D: {images: digits}}, "
        "arms: {a: {generator: {steps: 5}}}}"
    )
    commands = {
        "bench detectors digits --backbones mlp1@a.pth=A mlp1@none pixels mlp1@b.npz=B --out run": "a.pth, b.npz",
        "bench copies digits --detectors mse mlp1@a.pth transformers:none --out run": "a.pth, none",
        "study generators --config generators.yaml --out run": "none, a.pth",
    }
    for line, paths in zip(refused_early(commands, tmp_path), commands.values(), strict=True):
        assert line.endswith(f"2 files or folders do not exist: {paths}")
    assert not (tmp_path / "run").exists()


MISTYPED_STUDIES = [
    (
        "rare-distinctive",
        "{architectures: {A: {model: small_cnn}, B: {model: smal_cnn}}, datasets: {D: {images: digits}}}",
        "unknown model 'smal_cnn'. Did you mean 'small_cnn'?",
    ),
    (
        "rare-distinctive",
        "{settings: {device: gpu}, architectures: {A: {}}, datasets: {D: {images: digits}}}",
        "unknown device 'gpu'",
    ),
    (
        "rare-distinctive",
        "{explain: {features: [resnet5]}, architectures: {A: {}}, datasets: {D: {images: digits}}}",
        "unknown model 'resnet5'",
    ),
    (
        "unique-features",
        "{datasets: {D: {images: digits, probes: digits, networks: [mlp1], augment: flipp}}}",
        "unknown augmentation 'flipp'",
    ),
    (
        "generators",
        "{settings: {detectors: [pixel:8]}, datasets: {D: {images: digits}}, arms: {a: {generator: {steps: 5}}}}",
        "unknown kind of features 'pixel'",
    ),
    (
        "generators",
        "{generator: {steps: 5, lr: -1}, datasets: {D: {images: digits}}, arms: {a: {}}}",
        "arm a: lr is -1; it must be above 0",
    ),
]
"""Studies, their files with a mistyped value, and what the refusal says."""


def test_mistyped_values_of_a_study_are_refused_before_torch_is_loaded(tmp_path):
    for number, (_, text, _) in enumerate(MISTYPED_STUDIES):
        (tmp_path / f"{number}.yaml").write_text(text)
    asked = [f"study {name} --config {n}.yaml --out run" for n, (name, _, _) in enumerate(MISTYPED_STUDIES)]
    for (_, text, message), line in zip(MISTYPED_STUDIES, refused_early(asked, tmp_path), strict=True):
        assert message in line, text

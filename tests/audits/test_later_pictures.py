"""A report gets its pictures later, from where the run read its images, and never against the run's own privacy."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import memorisk
from memorisk.audits.rendering import render_again
from memorisk.cli.main import main
from memorisk.images.pixels import hash_pixels
from memorisk.report.kinds import KINDS
from memorisk.report.page import states_images
from memorisk.runs.errors import InputError
from tests.audits.classifier_results import make_result
from tests.audits.synthetic.making import parts

PEOPLE = ("doe_x", "roe_x", "<b>poe_x")


def folder_of(images: np.ndarray, place: Path, name: str) -> Path:
    """Write images of one class as files, with patients in their names."""
    (place / name).mkdir(parents=True)
    for row, image in enumerate(images):
        Image.fromarray(image[..., 0]).save(place / name / f"{PEOPLE[row % 3]}{row}.png")
    return place / name


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of digits; three generated images are training images."""
    place = tmp_path_factory.mktemp("sets")
    train, held, synthetic = parts(n_train=60, n_held=40, n_synthetic=40)
    synthetic[:3] = train[:3]
    return {
        name: folder_of(images, place, name)
        for name, images in (("train", train), ("held", held), ("synthetic", synthetic))
    }


def audited(sets: dict[str, Path], out: Path, **settings) -> Path:
    """Audit the set, with pictures if nothing else is set."""
    how = {"held_out": sets["held"], "detector": "pixels", "plants": 0, "one_image_per_patient": True} | settings
    memorisk.audit_synthetic(sets["train"], sets["synthetic"], out=out, **how)
    return out


def filtered(sets: dict[str, Path], out: Path, **settings) -> Path:
    """Filter the set, with pictures if nothing else is set."""
    how = {"detector": "pixels", "threshold": (0.0,), "one_image_per_patient": True} | settings
    memorisk.filter_synthetic(sets["train"], sets["synthetic"], out, **how)
    return out


def pseudonymised(sets: dict[str, Path], out: Path, **settings) -> Path:
    """Audit the set under pseudonyms, with pictures if nothing else is set."""
    (key := out.parent / "key").touch(mode=0o600)
    key.write_bytes(bytes(range(32)))
    audited(sets, out, pseudonymise=True, pseudonym_key=key, **settings)
    (hashes,) = (set(pd.read_parquet(file)["pixel_hash"]) for file in out.glob("manifests/training.parquet"))
    plain = {hash_pixels(np.asarray(Image.open(file))[..., None]) for file in sets["train"].iterdir()}
    assert len(hashes) == len(plain)
    assert not hashes & plain  # an attacker with the image cannot look its hash up
    return out


def classified(sets: dict[str, Path], out: Path, **settings) -> Path:
    """Audit a classifier of two classes, with pictures if nothing else is set."""
    table = pd.DataFrame({"path": sorted(str(file) for file in sets["train"].iterdir())})
    table["label"] = ["ab"[row % 2] for row in range(len(table))]
    table.to_csv(sets["train"].parent / "classes.csv", index=False)
    memorisk.audit_classifier(
        sets["train"].parent / "classes.csv", out=out, models=4, epochs=1, processes=1, **settings
    )
    return out


@pytest.mark.parametrize("make", [audited, filtered, classified])
def test_pictures_added_later_are_those_of_the_run(make, sets: dict[str, Path], tmp_path: Path) -> None:
    """Byte by byte: a run with pictures, and one without them that gets them later."""
    first = make(sets, tmp_path / "with")
    assert states_images((first / "report.html").read_text("utf-8"))
    again = render_again(first, gallery=True, out=tmp_path / "again.html")
    assert again.read_bytes() == (first / "report.html").read_bytes()

    later = make(sets, tmp_path / "without", gallery=False)
    assert not states_images((later / "report.html").read_text("utf-8"))
    assert main(["report", str(later), "--gallery"]) == 0
    assert states_images((later / "report.html").read_text("utf-8"))
    assert stat.S_IMODE((later / "report.html").stat().st_mode) == 0o600


def test_images_that_are_gone_are_one_line(sets: dict[str, Path], tmp_path: Path, capsys) -> None:
    moved = {name: Path(shutil.copytree(place, tmp_path / name)) for name, place in sets.items()}
    run = audited(moved, tmp_path / "run", gallery=False)
    report = (run / "report.html").read_bytes()
    copied = next(moved["train"].glob("doe_x0.png"))
    copied.unlink()
    assert main(["report", str(run), "--gallery"]) == 2
    assert f"train/{copied.name}: the file does not exist" in capsys.readouterr().err
    moved["train"].rename(tmp_path / "elsewhere")
    assert main(["report", str(run), "--gallery"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "train" in line
    assert "put them back where the run read them, or leave out --gallery" in line
    assert (run / "report.html").read_bytes() == report


def test_a_redacted_run_stays_redacted(sets: dict[str, Path], tmp_path: Path) -> None:
    run = audited(sets, tmp_path / "run", redact=True)
    with pytest.raises(InputError, match="was made with --redact, and its report shows no images"):
        render_again(run, gallery=True)
    with pytest.raises(InputError, match="name one of them"):
        render_again(run, gallery=True, redact=True)


def test_pseudonyms_stay_and_only_their_user_sees_images(
    sets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = audited(sets, tmp_path / "run", pseudonymise=True)
    page = render_again(run, gallery=True, out=tmp_path / "page.html")
    assert page.read_bytes() == (run / "report.html").read_bytes()
    assert not any(person.strip("<b>") in page.read_text("utf-8") for person in PEOPLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "somebody else"))
    with pytest.raises(InputError, match="shown only on the machine and to the user that made it"):
        render_again(run, gallery=True)


def test_a_kind_without_images_is_one_line(tmp_path: Path) -> None:
    result = make_result()
    result.replace(verdict={**result.verdict, "audit": "losses", "schema": KINDS["losses"].verdict_form}).save(
        tmp_path / "run"
    )
    (tmp_path / "run" / "config.yaml").write_text("run: {audit: losses}\n")
    with pytest.raises(InputError, match=r"is a run of audit losses: the images .* leave out --gallery"):
        render_again(tmp_path / "run", gallery=True)


def test_adding_pictures_loads_no_network_library(sets: dict[str, Path], tmp_path: Path) -> None:
    run = audited(sets, tmp_path / "run", gallery=False)
    code = "import sys; from memorisk.cli.main import main; code = main(['report', sys.argv[1], '--gallery']); "
    code += "print(code, [name for name in ('torch', 'timm', 'torchvision') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


@pytest.mark.parametrize("make", [audited, filtered, classified, pseudonymised])
def test_a_report_shows_no_images_that_changed_since_the_run(make, sets: dict[str, Path], tmp_path: Path) -> None:
    there = shutil.copytree(sets["train"].parent, tmp_path / "sets")
    moved = {name: there / place.name for name, place in sets.items()}
    run = make(moved, tmp_path / "run", gallery=False)
    before = (run / "report.html").read_bytes()
    for file in moved["train"].iterdir():
        Image.fromarray(255 - np.asarray(Image.open(file))).save(file)
    with pytest.raises(InputError, match=r"_x\d+\.png: the image has changed since the run read it\); put them back"):
        render_again(run, gallery=True)
    assert (run / "report.html").read_bytes() == before

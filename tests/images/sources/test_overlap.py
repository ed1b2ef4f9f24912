"""Where results may not be written, and generated images that lie among those of patients."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.images.sources.overlap import refuse_generated_within, refuse_overlap, source_places
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.commands import refusal


def pictures(folder: Path) -> Path:
    """Three grey images in a folder of two classes."""
    for i in range(3):
        inner = folder / "ab"[i % 2]
        inner.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(inner / f"{i}.png")
    return folder


def generated(folder: Path, *, finished: bool = True) -> Path:
    """A folder as `memorisk generate` leaves it."""
    (folder / "images").mkdir(parents=True)
    Image.fromarray(np.full((4, 4), 9, np.uint8)).save(folder / "images" / "0.png")
    (folder / "manifest.csv").write_text("image,path,label\n0,images/0.png,\n")
    (folder / ("generate.json" if finished else "drawn.csv")).write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("out", "said"),
    [("scans/run", "lies inside IMAGES"), ("scans", "lies inside"), (".", "holds IMAGES"), ("x/../scans/a", "lies")],
)
def test_results_are_not_written_into_or_around_images(tmp_path: Path, out: str, said: str) -> None:
    pictures(tmp_path / "scans")
    with pytest.raises(InputError, match=said):
        refuse_overlap(tmp_path / out, {"IMAGES": str(tmp_path / "scans")})


def test_results_beside_images_are_accepted_and_every_named_source_counts(tmp_path: Path) -> None:
    one, two = pictures(tmp_path / "scans"), pictures(tmp_path / "more")
    refuse_overlap(tmp_path / "scans-run", {"IMAGES": one, "nothing": None, "built in": "digits"})
    assert source_places(f"{one},mnist:{two}") == [one.resolve(), two.resolve()]
    with pytest.raises(InputError, match="lies inside"):
        refuse_overlap(two / "run", {"IMAGES": f"{one},mnist:{two}"})


@pytest.mark.parametrize("what", ["classifier", "detector", "autoencoder", "generator"])
def test_every_training_refuses_it_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    scans = pictures(tmp_path / "scans")
    more = ("--backbone", "resnet50@none") if what == "detector" else ()
    assert "lies inside IMAGES" in refusal(capsys, "train", what, scans, "--out", scans / "run", *more)
    assert not (scans / "run").exists()


AUDITS = {
    "audit classifier": (("audit", "classifier"), ()),
    "bench detectors": (("bench", "detectors"), ()),
    "bench reid": (("bench", "reid"), ("--detectors", "mse")),
    "bench copies": (("bench", "copies"), ("--detectors", "mse")),
}


@pytest.mark.parametrize("what", AUDITS)
@pytest.mark.parametrize("source", ["{scans}", "file://{scans}"])
def test_no_audit_writes_among_its_images_also_if_a_url_names_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, source: str
) -> None:
    scans = pictures(tmp_path / "scans")
    words, more = AUDITS[what]
    command = (*words, source.format(scans=scans), "--out", scans / "run", *more)
    for arguments in (command, (*command, "--dry-run")):
        assert "lies inside" in refusal(capsys, *arguments)
    assert not (scans / "run").exists()


def test_no_audit_writes_among_its_probes_or_synthetic_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scans = pictures(tmp_path / "scans")
    (tmp_path / "net.onnx").write_bytes(b"")
    mark = ("audit", "feature", tmp_path / "net.onnx", "--mark", "A", "--normalise", "none", "--probes", scans)
    assert "lies inside the probes" in refusal(capsys, *mark, "--out", scans / "run")
    others = pictures(tmp_path / "others")
    for words in (("audit", "synthetic", others, scans, "--out"), ("filter", others, scans)):
        assert "lies inside" in refusal(capsys, *words, scans / "run")
    assert sorted(p.name for p in scans.iterdir()) == ["a", "b"]


def test_nothing_is_drawn_into_the_images_of_the_generator_s_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scans = pictures(tmp_path / "scans")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(f"images: {scans}\n")
    said = refusal(capsys, "generate", tmp_path / "run", scans / "drawn", "--images", "2")
    assert "lies inside the generator's training images" in said
    assert not (scans / "drawn").exists()


@pytest.mark.parametrize("finished", [True, False])
def test_a_generated_set_among_patients_images_is_refused(tmp_path: Path, finished: bool) -> None:
    scans = pictures(tmp_path / "scans")
    refuse_generated_within(scans, load_manifest(scans))
    generated(scans / "deep" / "made", finished=finished)
    with pytest.raises(InputError, match=r"made was drawn by memorisk generate and lies inside the images"):
        refuse_generated_within(scans, load_manifest(scans))


def test_a_generated_set_that_is_named_itself_is_meant(tmp_path: Path) -> None:
    scans, made = pictures(tmp_path / "scans"), generated(tmp_path / "made")
    for source, folders in ((made, [made]), (f"{scans},{made}", [scans, made])):
        manifest = load_manifest(source)
        refuse_generated_within(source, manifest)  # is not refused, and its images are all there
        assert len(manifest.table) == sum(len(list(folder.rglob("*.png"))) for folder in folders) > 0

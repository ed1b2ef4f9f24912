"""A watch writes neither among the images that it compares nor around them, whoever names its folder."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.watch import training_outputs
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.run import plan_watch, watch_training
from memorisk.runs.errors import InputError
from tests.commands import refusal

REFUSED = [
    ("real/train/watch", "lies inside the training images"),
    ("real/train", "lies inside the training images"),
    ("real/held/deep/watch", "lies inside the held-out images"),
    ("real", "holds the training images"),
    ("real/steps/../held/w", "lies inside the held-out images"),
]


@pytest.fixture
def place(tmp_path, digits, monkeypatch):
    """Folders of a few training, held-out and drawn images, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, images in {"train": digits[:8], "held": digits[8:16], "steps/step-1": digits[16:20]}.items():
        (tmp_path / "real" / name).mkdir(parents=True)
        for i, image in enumerate(images):
            Image.fromarray(image).save(tmp_path / "real" / name / f"{i}.png")
    return tmp_path


def files(folder):
    """All that lies there."""
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize(("out", "said"), REFUSED)
def test_of_folders_of_images(place, capsys, out, said):
    before = files(place)
    for watch in (watch_training, plan_watch):
        with pytest.raises(InputError, match=said):
            watch("real/steps", train="real/train", held_out="real/held", out=out, quality="none", stop_on="never")
    with pytest.raises(InputError, match=said):
        MemorizationWatch("real/train", "real/held", out=out, quality="none", stop_on="never")
    command = ("watch", "real/steps", "--train", "real/train", "--held-out", "real/held", "--out", out)
    assert said in refusal(capsys, *command)
    assert files(place) == before


@pytest.mark.parametrize(
    ("folder", "said"),
    [*REFUSED, ("real/steps/step-1/logs", "inside the images of step 1"), ("real/steps/logs-2", "images of step 2")],
)
def test_of_folders_of_logs(place, capsys, folder, said):
    before = files(place)
    given = {
        "train": "real/train",
        "held_out": "real/held",
        "quality": "none",
        "stop_on": "never",
        "detector": "pixels",
    }
    for watch in (watch_training, plan_watch):
        with pytest.raises(InputError, match=f"log_to .*{said}"):
            watch("real/steps", out="out", log="tensorboard", log_to=folder, **given)
    if "step" not in said and "steps/.." not in folder:
        with pytest.raises(InputError, match=f"log_to .*{said}"):
            MemorizationWatch(**given, log="tensorboard", log_to=folder)
    command = ("watch", "real/steps", "--train", "real/train", "--held-out", "real/held", "--out", "out")
    line = refusal(capsys, *command, "--log", "tensorboard", "--log-to", folder)
    assert f"--log-to {folder}" in line
    assert files(place) == before


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("real/steps/step-1", "lies inside the images of step 1"),
        ("real/steps/step-1/watch", "lies inside the images of step 1"),
        ("real/steps/watch-2", "takes for the images of step 2"),
        ("real/steps/step-9/deep", "takes for the images of step 9"),
    ],
)
def test_of_folders_of_drawn_images(place, capsys, out, said):
    before = files(place)
    given = {
        "train": "real/train",
        "held_out": "real/held",
        "out": out,
        "quality": "none",
        "stop_on": "never",
        "detector": "pixels",
    }
    for watch in (watch_training, plan_watch):
        with pytest.raises(InputError, match=said):
            watch("real/steps", **given)
    command = ("watch", "real/steps", "--train", "real/train", "--held-out", "real/held", "--out", out)
    assert said in refusal(capsys, *command)
    assert files(place) == before
    given |= {"out": "real/steps/watch", "images": 4}
    assert [len(watch_training("real/steps", **given).looks) for _ in range(2)] == [1, 1]


def test_of_a_run_the_images_it_was_trained_on(place, monkeypatch):
    monkeypatch.setattr(training_outputs, "is_training_run", lambda folder: True)
    monkeypatch.setattr(training_outputs, "read_config", lambda folder: {"images": "real/train"})
    with pytest.raises(InputError, match="lies inside the training images"):
        watch_training("real/steps", out="real/train/watch")


def test_beside_them_and_of_arrays_it_is_free(place, digits):
    given: dict[str, Any] = {"detector": "pixels", "quality": "none", "stop_on": "never", "images": 4}
    watch = MemorizationWatch("real/train", "real/held", out="real/watch", **given)
    watch.look(1, digits[16:20, :, :, None])
    assert (place / "real" / "watch" / "looks.parquet").is_file()
    arrays = MemorizationWatch(digits[:8, :, :, None], digits[8:16, :, :, None], out="real/train2", **given)
    assert np.isfinite(arrays.look(1, digits[16:20, :, :, None]).held_nearest)

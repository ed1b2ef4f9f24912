"""One training as a job: its files, its name, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import read_array, write_array
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.jobs import (
    CHECKPOINTS,
    LOGITS,
    WEIGHTS,
    TrainJob,
    check_job,
    run_training,
    save_result,
)
from memorisk.training.classifiers.user_training import CALL_FORM, user_model_logits
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import dataset_normalisation
from memorisk.training.engine.predict import predict_logits
from memorisk.training.engine.user_training import RowDataset
from tests.training.helpers import Digits


@pytest.fixture
def job(digits: Digits, quick: TrainOptions, tmp_path: Path) -> TrainJob:
    """The training of a small CNN on 90 digits, its folders made."""
    write_array(tmp_path / "images.npy", digits.images)
    for name in (LOGITS, WEIGHTS, CHECKPOINTS):
        (tmp_path / name).mkdir()
    return TrainJob(
        out=tmp_path,
        images=tmp_path / "images.npy",
        rows=np.random.default_rng(0).permutation(1797)[:90],
        targets=digits.labels,
        n_outputs=10,
        model="small_cnn",
        weights=None,
        options=quick,
        normalisation=dataset_normalisation(digits.images),
        seed=5,
    )


def test_a_job_leaves_what_fit_and_predict_give(job: TrainJob, digits: Digits) -> None:
    log = run_training(job)
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=5)
    fitted = fit(model, digits.images, digits.labels, job.rows, job.options, seed=5, normalisation=job.normalisation)
    logits = predict_logits(model, digits.images, None, job.options, normalisation=job.normalisation)
    np.testing.assert_array_equal(read_array(job.logits_file), logits)
    kept = load_file(job.out / WEIGHTS / f"{job.key}.safetensors")
    assert {k: v.tolist() for k, v in kept.items()} == {k: v.tolist() for k, v in model.state_dict().items()}
    assert log.loss == fitted.losses[-1]
    assert not list((job.out / CHECKPOINTS).iterdir())


def test_twins_never_share_their_noise(job: TrainJob) -> None:
    twin = replace(job, rows=job.rows[::-1].copy())
    assert twin.noise_seed != job.noise_seed
    assert replace(job, checkpoint_seconds=1).noise_seed == job.noise_seed
    assert replace(job, secret_noise=7).noise_seed == 7
    assert replace(job, secret_noise=7).key == job.key


def test_a_whole_epsilon_and_a_fraction_name_the_same_training(job: TrainJob) -> None:
    whole, fraction = (replace(job, options=replace(job.options, regime="dp-full", epsilon=e)) for e in (8, 8.0))
    assert whole.key == fraction.key


def test_a_job_that_is_done_is_not_run_again(job: TrainJob) -> None:
    assert not job.done
    run_training(job)
    before = job.logits_file.stat().st_mtime_ns
    assert job.done
    assert run_training(job).seconds == 0
    assert job.logits_file.stat().st_mtime_ns == before


def test_whatever_changes_the_training_changes_its_name(job: TrainJob) -> None:
    others = [
        replace(job, rows=job.rows[::-1].copy()),
        replace(job, targets=(job.targets + 1) % 10),
        replace(job, model="small_resnet"),
        replace(job, weights="none"),
        replace(job, options=replace(job.options, lr=2e-3)),
        replace(job, normalisation=None),
        replace(job, seed=6),
        replace(job, threads=2),
        replace(job, val_rows=np.array([3])),
        replace(job, own="tests.training.helpers:weights_of"),
        replace(job, own="tests.training.helpers:weights_of", own_settings={"lr": "1"}),
    ]
    keys = {job.key, *(other.key for other in others)}
    assert len(keys) == len(others) + 1
    assert replace(job, out=job.out / "moved", keep_weights=False, checkpoint_seconds=1.0).key == job.key


def test_without_weights_only_the_logits_stay(job: TrainJob) -> None:
    run_training(replace(job, keep_weights=False))
    assert not list((job.out / WEIGHTS).iterdir())


def test_the_number_of_threads_is_put_back(job: TrainJob) -> None:
    before = torch.get_num_threads()
    run_training(replace(job, threads=2, options=replace(job.options, epochs=1)))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_leave_nothing(job: TrainJob, bad: float) -> None:
    logits = np.zeros((1797, 10), dtype=np.float32)
    logits[7, 3] = bad
    with pytest.raises(MemoriskError, match="NaN or infinite"):
        save_result(job, nn.Linear(2, 2), logits)
    with pytest.raises(MemoriskError, match="shape"):
        save_result(job, nn.Linear(2, 2), np.zeros((1797, 9), dtype=np.float32))
    assert not job.done
    assert not list((job.out / WEIGHTS).iterdir())


class Tied(nn.Module):
    """Two names for one tensor, a view of another, and a state that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        both = torch.arange(8.0)
        self.register_buffer("low", both[:4])
        self.register_buffer("high", both[4:])

    def get_extra_state(self) -> dict[str, int]:
        return {"steps": 3}


def test_tied_weights_and_views_are_kept_under_each_name(job: TrainJob) -> None:
    model = Tied()
    save_result(job, model, np.zeros((1797, 10), dtype=np.float32))
    kept = load_file(job.out / WEIGHTS / f"{job.key}.safetensors")
    assert set(kept) == {"first.weight", "first.bias", "second.weight", "second.bias", "low", "high"}
    assert torch.equal(kept["second.weight"], model.first.weight)
    assert kept["high"].tolist() == [4, 5, 6, 7]


def test_what_a_training_would_refuse_is_refused_before_it(job: TrainJob, tmp_path: Path) -> None:
    check_job(job)
    with pytest.raises(InputError, match=r"weights file .* does not exist"):
        check_job(replace(job, weights=str(tmp_path / "none.pth")))
    with pytest.raises(InputError, match="augment"):
        check_job(replace(job, options=replace(job.options, augment="mirror")))
    assert not list((job.out / LOGITS).iterdir())


def test_a_users_function_is_held_to_what_it_is_given() -> None:
    def arrays(images, labels, *, val_images, val_labels, seed, device, lr="1"): ...
    def datasets(dataset, *, val_dataset, seed, device): ...
    def anything(images, labels, **settings): ...
    def one_more(images, labels, more, *, val_images, val_labels, seed, device): ...

    CALL_FORM.check("m:f", arrays, {"lr": "2"})
    CALL_FORM.check("m:f", datasets, {})
    CALL_FORM.check("m:f", anything, {"whatever": "2"})
    with pytest.raises(InputError, match=r"unknown setting of m:f 'rate'\. Known: lr"):
        CALL_FORM.check("m:f", arrays, {"rate": "2"})
    with pytest.raises(InputError, match="gives dataset, val_dataset, seed, device itself"):
        CALL_FORM.check("m:f", datasets, {"device": "cpu"})
    with pytest.raises(InputError, match="missing a required argument: 'more'"):
        CALL_FORM.check("m:f", one_more, {})
    with pytest.raises(InputError, match="not a Python function"):
        CALL_FORM.check("m:f", min, {})


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_users_module_sees_pixels_between_0_and_1_in_evaluation_mode(dtype: type) -> None:
    top = np.iinfo(dtype).max
    images = np.random.default_rng(0).integers(0, top, (600, 2, 3, 1), endpoint=True, dtype=dtype)

    class Sees(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not self.training
            assert x.dtype == torch.float32
            return x.flatten(1)

    expected = images.astype(np.float64).transpose(0, 3, 1, 2).reshape(600, 6) / top
    np.testing.assert_allclose(user_model_logits(Sees(), images, "cpu"), expected, rtol=1e-6)
    first, label = RowDataset(images, np.array([5, 9]), np.arange(600))[1]
    assert (label, first.shape) == (9, (1, 2, 3))
    assert first.numpy().tolist() == images[9].transpose(2, 0, 1).tolist()

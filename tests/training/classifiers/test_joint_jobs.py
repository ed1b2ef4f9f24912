"""Jobs that run as one computation leave the files that they would have left one by one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from memorisk.models.classifiers.specs import SPECS, ModelSpec, register_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import save_weights
from memorisk.runs.files import read_array, write_array
from memorisk.training.classifiers import joint_jobs
from memorisk.training.classifiers.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, run_training
from memorisk.training.classifiers.joint_jobs import _train_stacked, run_jointly
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Normalisation
from tests.training.helpers import Digits

NAME = "frozen_for_tests"
SIZE = 32


@pytest.fixture
def frozen() -> Iterator[str]:
    """A small vision transformer of timm under a name of its own, its trunk frozen."""
    register_spec(ModelSpec(name=NAME, architecture="test_vit", frozen_trunk=True))
    yield NAME
    del SPECS[NAME]


def make_jobs(out: Path, digits: Digits, model: str, weights: str | None, options: TrainOptions) -> list[TrainJob]:
    """Two twin pairs on 60 and 44 digits: the batches differ in their number of slots."""
    images = np.repeat(np.repeat(digits.images[:240], 4, axis=1), 4, axis=2)
    write_array(out / "images.npy", images)
    for name in (LOGITS, WEIGHTS, CHECKPOINTS):
        (out / name).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    return [
        TrainJob(
            out=out,
            images=out / "images.npy",
            rows=rng.permutation(240)[:n],
            targets=digits.labels[:240],
            n_outputs=10,
            model=model,
            weights=weights,
            options=options,
            normalisation=Normalisation((0.3,), (0.4,)),
            seed=seed,
        )
        for seed, n in ((3, 60), (3, 60), (8, 44), (8, 44))
    ]


def moved(jobs: list[TrainJob], out: Path) -> list[TrainJob]:
    for name in (LOGITS, WEIGHTS, CHECKPOINTS):
        (out / name).mkdir(parents=True)
    return [replace(job, out=out) for job in jobs]


def same_files(alone: list[TrainJob], together: list[TrainJob]) -> None:
    """What rounding leaves is small beside the difference of twins: another's rows, targets or seed would be noticed.

    The jobs train by SGD: where rounding turns the sign of a vanishing gradient, Adam moves a weight by a whole step.
    """
    twins = np.abs(read_array(alone[0].logits_file) - read_array(alone[1].logits_file)).max()
    atol = twins / 100
    for a, b in zip(alone, together, strict=True):
        assert a.key == b.key
        np.testing.assert_allclose(read_array(a.logits_file), read_array(b.logits_file), rtol=0, atol=atol)
        one, other = (load_file(j.out / WEIGHTS / f"{j.key}.safetensors") for j in (a, b))
        assert set(one) == set(other)
        for name, value in one.items():
            torch.testing.assert_close(other[name], value, rtol=0, atol=atol)
    assert not list((together[0].out / CHECKPOINTS).iterdir())


@pytest.mark.parametrize("from_file", [True, False])
def test_frozen_trunks_leave_what_each_job_alone_leaves(
    digits: Digits, frozen: str, tmp_path: Path, from_file: bool
) -> None:
    weights = None
    if from_file:
        weights = str(tmp_path / "trunk.safetensors")
        save_weights(weights, create_model(frozen, num_classes=10, in_chans=1, image_size=SIZE, seed=99))
    options = TrainOptions(epochs=3, lr=1e-2, batch_size=32, normalise="dataset", optimizer="sgd")
    (tmp_path / "alone").mkdir()
    alone = make_jobs(tmp_path / "alone", digits, frozen, weights, options)
    together = moved(alone, tmp_path / "together")
    for job in alone:
        run_training(job)
    done = []
    assert run_jointly(together, done.append)
    assert sorted(outcome.index for outcome in done) == [0, 1, 2, 3]
    assert [outcome.value.key for outcome in sorted(done, key=lambda o: o.index)] == [job.key for job in together]
    same_files(alone, together)


def test_a_trunks_features_are_computed_once_and_one_heads_logits_held_at_a_time(
    digits: Digits, frozen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = str(tmp_path / "trunk.safetensors")
    save_weights(weights, create_model(frozen, num_classes=10, in_chans=1, image_size=SIZE, seed=99))
    jobs = make_jobs(tmp_path, digits, frozen, weights, TrainOptions(epochs=1, lr=1e-2, normalise="dataset"))
    passes, kept = [], []
    features, keep = joint_jobs.trunk_features, joint_jobs.save_result
    monkeypatch.setattr(joint_jobs, "trunk_features", lambda *a, **k: passes.append(1) or features(*a, **k))

    def keep_one(job, model, logits):
        kept.append(logits.base.shape if logits.base is not None else logits.shape)
        keep(job, model, logits)

    monkeypatch.setattr(joint_jobs, "save_result", keep_one)
    assert run_jointly(jobs, lambda outcome: None)
    assert passes == [1]
    assert {shape[0] if len(shape) == 3 else 1 for shape in kept} == {1}
    todo = [job for job in jobs if not job.done]
    assert not todo


def test_stacked_networks_leave_what_each_job_alone_leaves(digits: Digits, tmp_path: Path) -> None:
    options = TrainOptions(epochs=2, lr=1e-2, optimizer="sgd")
    (tmp_path / "alone").mkdir()
    alone = make_jobs(tmp_path / "alone", digits, "small_cnn", None, options)[:2]
    together = moved(alone, tmp_path / "together")
    for job in alone:
        run_training(job)
    done = []
    _train_stacked(together, read_array(together[0].images, mmap=True), done.append)
    assert [outcome.index for outcome in done] == [0, 1]
    same_files(alone, together)


def test_on_a_cpu_whole_networks_run_one_by_one(digits: Digits, tmp_path: Path, quick: TrainOptions) -> None:
    jobs = make_jobs(tmp_path, digits, "small_cnn", None, quick)
    assert not run_jointly(jobs, pytest.fail)
    assert not any(job.done for job in jobs)
    own = [replace(job, own="tests.training.helpers:weights_of") for job in jobs]
    assert not run_jointly(own, pytest.fail)

"""One training of the study: what it is trained on, what it is asked, and that a killed one goes on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.images.alterations.mark_controls import make_controls
from memorisk.images.alterations.marks import letter
from memorisk.runs.errors import MemoriskError
from memorisk.runs.workload import no_progress
from memorisk.studies.engine.cells import read_result, write_result
from memorisk.studies.unique_features import canary_training as jobs_module
from memorisk.studies.unique_features.canary_training import (
    CanaryJob,
    influence_epochs,
    run_canary,
    run_on_gpu,
    run_together,
    stacks,
    with_canaries,
)
from memorisk.studies.unique_features.config import read_unique
from memorisk.studies.unique_features.measures import normalised_mark_check
from memorisk.studies.unique_features.plan import (
    INFLUENCE,
    LATENT,
    MARKED,
    RANDOM,
    REFERENCE,
    Planner,
    Training,
    chosen_slots,
)
from memorisk.studies.unique_features.study import prepare_sets
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.pixels import PixelSource
from tests.studies.unique_features.conftest import changed


def planner(out: Path, config: dict) -> Planner:
    study = read_unique(config)
    for name in ("results", "states", "checkpoints"):
        (out / name).mkdir(parents=True)
    return Planner(study, prepare_sets(study, no_progress), out)


@pytest.fixture
def plan(tmp_path: Path) -> Planner:
    return planner(tmp_path / "run", changed())


def others(plan: Planner) -> list[Training]:
    anything = {arm: np.arange(len(plan.sets[arm.dataset].rows), dtype=float) for arm in plan.ranked()}
    return plan.others(anything)


def test_every_model_has_a_seed_of_its_own_but_those_that_shall_start_alike(plan: Planner) -> None:
    every = others(plan)
    free = [t.job.seed for t in every if t.role in (REFERENCE, RANDOM, INFLUENCE)]
    assert len(set(free)) == len(free)
    assert len({t.job.seed for t in every if t.role == LATENT}) == 1
    base = plan.bases()[0].job.seed
    assert {t.job.seed for t in every if t.role == MARKED} == {base}


def test_in_the_papers_protocol_a_run_has_one_seed(tmp_path: Path) -> None:
    every = others(planner(tmp_path / "run", changed(protocol="paper")))
    assert not [t for t in every if t.role == REFERENCE]
    seeds = {t.run: set() for t in every if t.role == RANDOM}
    for t in every:
        if t.role == RANDOM:
            seeds[t.run].add(t.job.seed)
    assert [len(s) for s in seeds.values()] == [1, 1]
    assert seeds[0] != seeds[1]


def test_canaries_are_the_extremes_and_no_image_twice() -> None:
    values = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    assert chosen_slots(values, 2, 2) == [(3, "highest"), (4, "highest"), (1, "lowest"), (2, "lowest")]
    assert [s for s, _ in chosen_slots(values, 4, 3)] == [3, 4, 0, 2, 1]


def test_one_training_image_carries_the_mark_and_no_other_pixel_changes(plan: Planner) -> None:
    job = next(t.job for t in others(plan) if t.role == RANDOM)
    images, clean = job.pixels()
    row = job.rows[job.canary]
    assert (images != clean).any(axis=(1, 2, 3)).nonzero()[0].tolist() == [row]
    assert (images[row, 1:6, 1:6, 0] == 255 * letter("A").values).all()
    outside = np.ones((8, 8), dtype=bool)
    outside[1:6, 1:6] = False
    assert (images[row][outside] == clean[row][outside]).all()


def test_the_mark_that_is_trained_on_is_the_one_that_is_asked_about(plan: Planner) -> None:
    job = next(t.job for t in others(plan) if t.role == RANDOM)
    images, _ = job.pixels()
    normalised_mark_check(job, images)
    images[job.rows[job.canary], 2, 2, 0] ^= 1  # one grey level of one pixel
    with pytest.raises(MemoriskError, match="the mark in training is not the mark in probing"):
        normalised_mark_check(job, images)


def test_the_network_is_fed_the_mark_in_every_epoch(plan: Planner) -> None:
    """Caught at the network's door, not where we put it in."""
    job = replace(next(t.job for t in others(plan) if t.role == RANDOM), _key=[])
    images, _ = job.pixels()
    model, seen = job.model(), []
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().clone()))
    fit(model, images, job.labels, job.rows, job.options.__class__(epochs=2, lr=1e-3, normalise="dataset"), seed=1,
        normalisation=job.normalisation)  # fmt: skip
    source = PixelSource(images, job.rows, device=torch.device("cpu"), dtype=torch.float32,
                         normalisation=job.normalisation)  # fmt: skip
    marked = next(source.batches([torch.tensor([job.canary])]))[0]
    batches = [x for x in seen if len(x) > 2]
    assert sum(int((x == marked).all(dim=(1, 2, 3)).sum()) for x in batches) == 2


def test_a_job_is_named_by_all_that_it_is(plan: Planner) -> None:
    job = next(t.job for t in others(plan) if t.role == RANDOM)
    other = make_controls(job.mark, 1)[0]
    for change in ({"seed": 1}, {"canary": 5}, {"burnt": other}, {"mark": other}, {"profile": not job.profile},
                   {"rows": job.rows[1:]}, {"patience": 7}, {"data": ("x", "y")}, {"draw_seed": 9}):  # fmt: skip
        assert replace(job, **change, _key=[]).key != job.key, change
    assert replace(job, _key=[]).key == job.key


def test_answers_are_those_of_the_naive_definitions(plan: Planner) -> None:
    job = replace(next(t.job for t in others(plan) if t.role == LATENT), _key=[], keep_weights=True)
    run_canary(job)
    found = read_result(job.result_file)
    from safetensors.torch import load_file

    model = job.model()
    model.load_state_dict(load_file(job.out / "weights" / f"{job.key}.safetensors"))
    model.eval()
    mean, std = job.normalisation.mean[0], job.normalisation.std[0]

    def ask(pixels: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (
                model(torch.from_numpy(((pixels - mean) / std).astype(np.float32))[:, None]).double().softmax(1).numpy()
            )

    probes = np.load(job.probes)[..., 0].astype(np.float64) / 255
    marked = probes.copy()
    marked[:, 1:6, 1:6] = job.mark.values
    p, q = (np.clip(ask(x), 1e-7, 1) for x in (probes, marked))
    kl = (p * np.log(p / q)).sum(axis=1)
    assert float(found["mean_mark"]) == pytest.approx(kl.mean(), rel=1e-4, abs=1e-9)
    assert float(found["statistic"]) == pytest.approx(np.log(np.maximum(kl, 1e-12)).mean(), abs=1e-3)
    images = np.load(job.images)[job.rows, ..., 0].astype(np.float64) / 255
    labels = job.labels[job.rows]
    own = np.flatnonzero((labels == labels[job.canary]) & (np.arange(len(labels)) != job.canary))
    assert found["white_slots"].tolist() == own.tolist()
    shown = images[own]
    shown[:, 1:6, 1:6] = job.mark.values
    log_u = np.log(np.clip(ask(shown)[:, labels[job.canary]], 1e-7, 1))
    assert found["white_mark"] == pytest.approx(np.exp(log_u), rel=1e-4)
    assert found["white"].shape == (2, len(own))

    def excited(pixels: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(((pixels - mean) / std).astype(np.float32))[:, None]
        with torch.no_grad():
            return (model.forward_head(model.forward_features(x), pre_logits=True) > 0).numpy()

    assert found["latent_mark"] == pytest.approx((excited(marked) & ~excited(probes)).mean(axis=0), abs=0.04)


def test_checkpoints_of_tracin_cover_most_of_the_loss_reduction() -> None:
    assert influence_epochs(2.0, np.array([1.0, 0.5, 0.2, 0.04, 0.02, 0.0])).tolist() == [1, 2, 3, 4]
    assert influence_epochs(1.0, np.linspace(0.99, 0.0, 100)).tolist() == [1, 11, 22, 32, 43, 53, 64, 74, 85, 95]
    assert influence_epochs(1.0, np.array([2.0, 3.0])).tolist() == [1, 2]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("when", ["training", "asking"])
def test_a_killed_training_goes_on_to_the_same_bytes(
    plan: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    whole = plan.bases()[0].job
    run_canary(whole)
    broken = planner(tmp_path / "other", changed()).bases()[0].job
    with monkeypatch.context() as patch:
        if when == "asking":
            patch.setattr(jobs_module, "measure", lambda *given: (_ for _ in ()).throw(Killed))
        else:
            kept = jobs_module.weight_keeper(broken)

            def dies(epoch: int, model: torch.nn.Module) -> None:
                kept(epoch, model)
                if epoch == 2:
                    raise Killed

            patch.setattr(jobs_module, "weight_keeper", lambda job: dies)
        with pytest.raises(Killed):
            run_canary(broken)
    assert not broken.done
    run_canary(broken)
    assert broken.result_file.read_bytes() == whole.result_file.read_bytes()
    assert not broken.states.exists()
    assert not broken.checkpoint.exists()


def test_a_damaged_result_is_told(tmp_path: Path) -> None:
    write_result(tmp_path / "a.npz", {"x": np.array(1.5), "y": np.arange(3)})
    assert read_result(tmp_path / "a.npz")["x"].shape == ()
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:40])
    with pytest.raises(MemoriskError, match=r"a\.npz is damaged"):
        read_result(tmp_path / "a.npz")


def test_only_alike_networks_are_stacked(plan: Planner) -> None:
    jobs = [t.job for t in others(plan)]
    groups = stacks(jobs, most=5)
    assert sorted(j.key for group in groups for j in group) == sorted(j.key for j in jobs)
    for group in groups:
        assert len({(j.network, j.options.augment) for j in group}) == 1
        assert len(group) <= 5
        if "dropout" in group[0].network:
            assert len(group) == 1
    assert max(len(g) for g in groups) == 5


def test_a_stack_gives_what_each_gives_alone(plan: Planner, tmp_path: Path) -> None:
    jobs = [t.job for t in others(plan) if t.role == RANDOM][:3] + [t.job for t in others(plan) if t.role == MARKED][:1]
    run_together(jobs)
    alone = planner(tmp_path / "alone", changed())
    for job in jobs:
        one = next(t.job for t in others(alone) if t.job.key == job.key)
        run_canary(one)
        a, b = read_result(job.result_file), read_result(one.result_file)
        assert set(a) == set(b)
        for name in a:
            assert a[name] == pytest.approx(b[name], rel=2e-3, abs=2e-4), name


def test_a_stack_holds_each_canary_in_its_own_slot(plan: Planner) -> None:
    jobs: list[CanaryJob] = [t.job for t in others(plan) if t.role in (RANDOM, REFERENCE)][:22]
    clean = np.load(jobs[0].images)
    images, labels, rows = with_canaries(jobs, clean)
    for job, own in zip(jobs, rows, strict=True):
        expected = job.pixels()[0][job.rows]
        assert (images[own] == expected).all()
        assert (labels[own] == job.labels[job.rows]).all()


def test_what_fails_on_a_gpu_costs_the_others_nothing(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    import memorisk.studies.unique_features.canary_training as together

    jobs = [t.job for t in others(plan) if t.role == RANDOM][:3]
    bad = jobs[1].key

    def run(job: CanaryJob) -> str:
        if job.key == bad:
            raise MemoriskError("the loss became NaN")
        return job.key

    monkeypatch.setattr(together, "run_canary", run)
    monkeypatch.setattr(together, "run_together", lambda group: (_ for _ in ()).throw(MemoriskError("NaN")))
    told = {}
    run_on_gpu(jobs, lambda job, error: told.update({job.key: error}))
    assert {key: error is not None for key, error in told.items()} == {j.key: j.key == bad for j in jobs}

"""Losses of a network at a look: their definition, their null, and a network that remembers what it does not draw."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from memorisk.audits.watch.loss_gaps import LEVELS, NOISE, PAIRS, compared_rows, loss_fields, own_predictor
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.reasons import LossesDiffer, LossesNotCompared
from memorisk.audits.watch.verdict import watch_verdict
from memorisk.models.generators.denoiser import levels
from memorisk.models.generators.noise_losses import hashed_noise
from memorisk.runs.errors import UserCodeError
from memorisk.statistics.roc import auc_jackknife
from memorisk.training.generators.command import train_generator
from memorisk.training.generators.snapshots import Snapshot

TRAIN, HELD, DRAWN = 150, 120, 60


@pytest.fixture
def digits(digits):
    """Digits in a random order, since those of one writer follow one another."""
    return digits[np.random.default_rng(0).permutation(len(digits))]


class Remembering:
    """Best denoiser of the images that it holds: the posterior mean over them, so that it knows each of them."""

    def __init__(self, pixels: np.ndarray, width: float = 0.0) -> None:
        """Hold grey images [n, H, W] uint8; ``width`` is the spread around each of them."""
        self.held = torch.from_numpy(pixels.astype(np.float32) / 127.5 - 1).flatten(1)
        self.width = width

    def loss(self, images: torch.Tensor, noise: torch.Tensor, level: float) -> torch.Tensor:
        """Compute the mean squared error of the predicted noise, [b]."""
        signal, spread = math.sqrt(level), math.sqrt(1 - level)
        x_t = (signal * images + spread * noise).flatten(1)
        variance = level * self.width**2 + 1 - level
        weight = torch.softmax(-torch.cdist(x_t, signal * self.held).square() / (2 * variance), dim=1)
        centre = weight @ self.held
        mean = centre + self.width**2 * signal / variance * (x_t - signal * centre)
        return ((x_t - signal * mean) / spread - noise.flatten(1)).square().mean(dim=1)


class Blurring:
    """Denoiser that knows no image: it predicts the noised image, shrunk."""

    def loss(self, images: torch.Tensor, noise: torch.Tensor, level: float) -> torch.Tensor:
        """Compute the mean squared error of the predicted noise, [b]."""
        x_t = math.sqrt(level) * images + math.sqrt(1 - level) * noise
        return (math.sqrt(1 - level) * x_t - noise).square().flatten(1).mean(dim=1)


def watch_of(digits, out=None, **settings):
    """A watch of digits that compares pixels."""
    settings = {"detector": "pixels", "quality": "none", "looks": 4, "images": DRAWN, **settings}
    return MemorizationWatch(digits[:TRAIN], digits[TRAIN : TRAIN + HELD], out=out, **settings)


def test_scores_are_the_mean_logarithm_over_levels_and_antithetic_noise(digits):
    watch = watch_of(digits)
    network, by_definition = Remembering(digits[:50], 0.2), []
    predictor = own_predictor(network, "cpu")
    for store, rows in compared_rows(watch.real, watch.options):
        scores = []
        for row in rows.tolist():
            x = torch.from_numpy(np.asarray(store.images[row]).astype(np.float32).transpose(2, 0, 1) / 127.5 - 1)[None]
            at_levels = []
            for time in levels(predictor.denoiser, LEVELS):
                level = float(predictor.denoiser.alpha_bar[time])
                draws = [hashed_noise(NOISE, draw, x.shape[1:])[None] for draw in range(2 * PAIRS)]
                at_levels.append(np.mean([float(network.loss(x, noise, level)) for noise in draws]))
            scores.append(-np.mean(np.log(at_levels)))
        by_definition.append(np.array(scores))
    ours, theirs = by_definition
    fields = loss_fields(predictor, watch.real, watch.options)
    expected = stats.mannwhitneyu(ours, theirs).statistic / (len(ours) * len(theirs))
    assert len(ours) == len(theirs) == DRAWN
    assert fields["loss_auc"] == pytest.approx(expected, abs=2e-3)  # sums of float32 differ, and ranks with them


def test_a_network_that_remembers_what_it_does_not_draw_is_no_all_clear(digits, tmp_path):
    watch, others = watch_of(digits, tmp_path / "w"), digits[TRAIN + HELD :][:DRAWN]
    blind = watch.look(1, others, network=Blurring())
    assert blind.loss_auc_low < 0.5 < blind.loss_auc_high
    assert watch_verdict(watch.result()).headline.startswith("No memorization was shown")
    knows = watch.look(2, others, network=Remembering(digits[:TRAIN]))
    assert knows.loss_auc > 0.95
    assert knows.go_on  # losses name no drawn image, and stop nothing
    verdict = watch_verdict(watch.result())
    assert verdict.headline == "The images show no memorization, and the network's losses do"
    (doubt,) = (reason for reason in verdict.reasons if isinstance(reason, LossesDiffer))
    assert (doubt.n_step, doubt.auc) == (2, knows.loss_auc)
    page = watch.report()
    assert page is not None
    assert "AUC of the losses" in page.read_text(encoding="utf-8")
    again = watch_of(digits, tmp_path / "w")
    assert [look.loss_auc for look in again.looks] == [look.loss_auc for look in watch.looks]


def test_the_networks_own_images_are_remembered_by_pairs_of_the_same_patients(digits):
    """The network holds a tenth of the training images alone: as many pairs, and no others, are told apart."""
    watch = watch_of(digits, images=TRAIN)
    look = watch.look(1, digits[TRAIN + HELD :][:TRAIN], network=Remembering(digits[: TRAIN // 10], 0.5))
    assert pytest.approx(look.loss_auc, abs=0.09) == 0.5 + 0.5 * 0.1


def test_without_memory_one_look_in_twenty_is_sure_at_five_per_cent():
    """Losses are those of 1,000 images of very unequal difficulty, divided at random in each of 600 trials."""
    rng = np.random.default_rng(5)
    trials, sure, covered = 600, 0, 0
    for _ in range(trials):
        scores = rng.permutation(rng.lognormal(0, 1.5, 110))
        ours, theirs = scores[:70], scores[70:]
        interval = auc_jackknife(ours, np.arange(70), theirs, np.arange(70, 110))
        sure += interval.p_at_most(0.5) <= 0.05
        covered += interval.low <= 0.5 <= interval.high
    assert sure <= stats.binom.ppf(0.999, trials, 0.05)
    assert covered >= stats.binom.ppf(0.001, trials, 0.95)


def test_a_generator_of_memorisk_is_measured_while_it_trains(digits, tmp_path):
    pytest.importorskip("diffusers")
    watch, sizes = watch_of(digits, images=20, sampling_steps=2), []

    def on_snapshot(snapshot: Snapshot) -> bool:
        generator: Any = snapshot.generator
        before = {name: value.clone() for name, value in generator.network.state_dict().items()}
        mode = generator.network.training
        go_on = watch(snapshot)
        sizes.append(watch.looks[-1].loss_auc)
        assert generator.network.training is mode
        assert all(torch.equal(before[name], x) for name, x in generator.network.state_dict().items())
        return go_on

    how = {"steps": 4, "snapshot_every": 2, "batch_size": 8, "network": "tiny/4", "conditioned_on": "none"}
    train_generator("digits", out=tmp_path / "g", on_snapshot=on_snapshot, sample=100, **how)
    assert len(sizes) == 2
    assert all(0 < auc < 1 for auc in sizes)


def test_a_network_of_another_form_and_losses_that_are_no_numbers(digits):
    watch, others = watch_of(digits), digits[TRAIN + HELD :][:DRAWN]
    with pytest.raises(UserCodeError, match=r"network gives int: \(network, scheduler\), or an object with loss"):
        watch.look(1, others, network=3)

    class Diverged(Blurring):
        def loss(self, images: torch.Tensor, noise: torch.Tensor, level: float) -> torch.Tensor:
            return super().loss(images, noise, level) * math.nan

    look = watch.look(1, others, network=Diverged())
    assert math.isnan(look.loss_auc)
    assert look.loss_p_value == 1
    assert math.isnan(watch.look(2, others).loss_auc)
    watch.look(3, others, network=Blurring())
    (limit,) = (reason for reason in watch_verdict(watch.result()).reasons if isinstance(reason, LossesNotCompared))
    assert (limit.n_without, limit.n_looks) == (2, 3)

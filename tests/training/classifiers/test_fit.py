"""fit against a bare PyTorch loop, and what twins rely on: the same everything, slot by slot."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.neighbors import NearestCentroid
from torch import nn

from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.optimization import batch_bounds, batch_order
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.engine.predict import predict_logits
from tests.training.helpers import Digits, NoisyNet, weights_of

ROWS = np.random.default_rng(0).permutation(1797)[:150]


def small_cnn(seed: int = 0, num_classes: int = 10) -> nn.Module:
    return create_model("small_cnn", num_classes=num_classes, in_chans=1, image_size=8, seed=seed)


def noisy(seed: int = 0) -> nn.Module:
    with seeded(seed):
        return NoisyNet()


def test_equals_a_bare_loop_to_the_byte(digits: Digits) -> None:
    options = TrainOptions(epochs=3, lr=2e-3, weight_decay=1e-4, batch_size=32)
    fitted, bare = small_cnn(), small_cnn()
    log = fit(fitted, digits.images, digits.labels, ROWS, options, seed=5)

    x = torch.from_numpy(digits.images).float()
    mean, std = (255.0 * torch.tensor(v, dtype=torch.float64) for v in (log.normalisation.mean, log.normalisation.std))
    x = ((x - mean.float()) * (1 / std).float()).permute(0, 3, 1, 2)
    y = torch.from_numpy(digits.labels)
    bare.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(bare.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)
    losses = []
    for epoch in range(3):
        optimizer.param_groups[0]["lr"] = 2e-3 * (1 + np.cos(np.pi * epoch / 3)) / 2
        order, total = ROWS[batch_order(5, epoch, len(ROWS))], 0.0
        for start, stop in batch_bounds(len(ROWS), 32):
            rows = order[start:stop]
            loss = F.cross_entropy(bare(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        losses.append(total / len(ROWS))
    assert weights_of(fitted) == weights_of(bare)
    assert log.losses == pytest.approx(losses, rel=1e-12)
    assert (log.epochs, log.steps, log.n_images, log.precision) == (3, 15, 150, "fp32")


def test_learns_more_than_class_means(digits: Digits) -> None:
    train, test = np.split(np.random.default_rng(1).permutation(1797), [1000])
    model, options = small_cnn(), TrainOptions(epochs=8, lr=1e-3)
    fit(model, digits.images, digits.labels, train, options, seed=0)
    right = predict_logits(model, digits.images, test, options).argmax(axis=1) == digits.labels[test]
    centroids = NearestCentroid().fit(digits.features[train], digits.labels[train])
    assert right.mean() > centroids.score(digits.features[test], digits.labels[test])


def test_same_seed_same_bytes_other_seed_other_bytes(digits: Digits, quick: TrainOptions) -> None:
    def trained(init: int, seed: int) -> bytes:
        model = noisy(init)
        fit(model, digits.images, digits.labels, ROWS, quick, seed=seed)
        return weights_of(model)

    first = trained(0, 1)
    torch.rand(3)  # what others draw does not matter
    assert trained(0, 1) == first
    assert trained(0, 2) != first
    assert trained(1, 1) != first


def test_global_random_state_is_untouched(digits: Digits, quick: TrainOptions) -> None:
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    model = noisy()
    small_cnn()
    fit(model, digits.images, digits.labels, ROWS, quick, seed=1)
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_twins_share_order_and_dropout_slot_by_slot(digits: Digits, quick: TrainOptions) -> None:
    """Twins that differ in one slot see the same images and the same masks everywhere else."""
    rows_b = ROWS.copy()
    rows_b[17] = 1796
    seen: dict[str, list[torch.Tensor]] = {"a": [], "b": []}
    masks: dict[str, list[torch.Tensor]] = {"a": [], "b": []}
    for name, rows in (("a", ROWS), ("b", rows_b)):
        model = noisy()
        model.conv.register_forward_pre_hook(
            lambda module, x, name=name: seen[name].append(x[0].clone()) if module.training else None
        )
        model.drop = MaskKept(masks[name])
        fit(model, digits.images, digits.labels, rows, quick, seed=3)
    assert len(masks["a"]) == 2 * len(batch_bounds(len(ROWS), 64))
    assert all(torch.equal(x, z) for x, z in zip(masks["a"], masks["b"], strict=True))
    assert not any(torch.equal(x, z) for x, z in zip(masks["a"], masks["a"][1:], strict=False))
    different = [(x != z).flatten(1).any(dim=1) for x, z in zip(seen["a"], seen["b"], strict=True)]
    assert sum(int(d.sum()) for d in different) == 2  # once per epoch
    for epoch in range(2):
        position = int((batch_order(3, epoch, len(ROWS)) == 17).nonzero())
        assert torch.cat(different[3 * epoch : 3 * epoch + 3]).nonzero().item() == position


class MaskKept(nn.Module):
    """Dropout that remembers its masks."""

    def __init__(self, masks: list[torch.Tensor]) -> None:
        super().__init__()
        self.masks = masks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        self.masks.append(F.dropout(torch.ones_like(x)))
        return x * self.masks[-1]


def test_a_remainder_of_one_survives_batch_norm(digits: Digits) -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(64), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(x.flatten(1)))

    log = fit(Flat(), digits.images, digits.labels, ROWS[:65], TrainOptions(epochs=1, lr=1e-3), seed=0)
    assert log.steps == 1


def test_binary_multi_and_empty_classes(digits: Digits) -> None:
    options: dict[str, Any] = {"epochs": 25, "lr": 3e-3, "class_weights": True}
    odd = (digits.labels % 2).astype(np.float32)
    several = np.stack([odd, digits.labels > 4, np.zeros(1797)], axis=1).astype(np.float32)
    rows = ROWS[digits.labels[ROWS] != 3]
    for head, targets, n in (("binary", odd, 1), ("multi", several, 3), ("single", digits.labels, 10)):
        model = small_cnn(num_classes=n)
        log = fit(model, digits.images, targets, rows, TrainOptions(head=head, **options), seed=0)
        assert log.losses[-1] < log.losses[0] / 2, head


def test_class_weights_act_and_can_be_given(digits: Digits, quick: TrainOptions) -> None:
    rows = np.concatenate([np.flatnonzero(digits.labels == 0), np.flatnonzero(digits.labels == 1)[:20]])
    weights = len(rows) / (2 * np.bincount(digits.labels[rows], minlength=10)[:2].astype(float))
    results = []
    for given, named in ((None, False), (None, True), (np.r_[weights, np.zeros(8)], False)):
        model = small_cnn()
        options = TrainOptions(epochs=2, lr=1e-3, class_weights=named)
        fit(model, digits.images, digits.labels, rows, options, seed=0, class_weights=given)
        results.append(weights_of(model))
    assert results[0] != results[1]
    assert results[1] == results[2]


def test_only_what_requires_gradients_moves(digits: Digits, quick: TrainOptions) -> None:
    model = small_cnn()
    model.features.requires_grad_(False)
    before = {name: value.clone() for name, value in model.named_parameters()}
    fit(model, digits.images, digits.labels, ROWS, quick, seed=0)
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if not name.startswith("features.")}


def test_bf16_is_used_when_asked_for(digits: Digits) -> None:
    plain, mixed = small_cnn(), small_cnn()
    fit(plain, digits.images, digits.labels, ROWS, TrainOptions(epochs=1, lr=1e-3), seed=0)
    log = fit(mixed, digits.images, digits.labels, ROWS, TrainOptions(epochs=1, lr=1e-3, precision="bf16"), seed=0)
    assert log.precision == "bf16"
    assert weights_of(plain) != weights_of(mixed)
    assert next(mixed.parameters()).dtype == torch.float32


def test_features_and_given_normalisation(digits: Digits, quick: TrainOptions) -> None:
    features = digits.features.astype(np.float32)
    log = fit(nn.Linear(64, 10), features, digits.labels, ROWS, quick, seed=0)
    assert log.normalisation is None
    given = Normalisation((0.3,), (0.2,))
    log = fit(small_cnn(), digits.images, digits.labels, ROWS, quick, seed=0, normalisation=given)
    assert log.normalisation == given


def test_a_loss_that_becomes_nan_is_said(digits: Digits) -> None:
    with pytest.raises(MemoriskError, match=r"the loss became (nan|inf) in epoch \d: lower the learning rate .1e\+30."):
        fit(small_cnn(), digits.images, digits.labels, ROWS, TrainOptions(epochs=4, lr=1e30), seed=0)


def test_on_epoch_hears_every_epoch(digits: Digits, quick: TrainOptions) -> None:
    heard: list[tuple[int, float]] = []
    log = fit(
        small_cnn(), digits.images, digits.labels, ROWS, quick, seed=0, on_epoch=lambda e, loss: heard.append((e, loss))
    )
    assert heard == [(1, log.losses[0]), (2, log.losses[1])]


def refuse(said: str, **changed: Any) -> None:
    images, labels = np.zeros((8, 8, 8, 1), np.uint8), np.arange(8)
    given: dict[str, Any] = {
        "model": small_cnn(), "images": images, "targets": labels, "rows": np.arange(8),
        "options": TrainOptions(epochs=1, lr=1e-3), "seed": 0,
    }  # fmt: skip
    with pytest.raises(InputError, match=said) as caught:
        fit(**{**given, **changed})
    assert "\n" not in str(caught.value)


def test_refusals() -> None:
    refuse("resolve_options", options=TrainOptions(lr=1.0))
    refuse("3 targets for 8 images", targets=np.arange(3))
    refuse("at least 2 images", rows=np.array([1]))
    refuse("there are 8 images", rows=np.array([1, 8]))
    refuse("gives 10 logits; classes up to 11", targets=np.arange(8) + 4)
    refuse("does not take these images", model=create_model("small_cnn", num_classes=10, image_size=8, seed=0))
    wide = {"images": np.zeros((8, 8, 16, 1), np.uint8), "model": small_cnn()}
    refuse("of 16 x 8 pixels: --size 64 makes square ones", **wide)
    refuse("needed are logits", model=nn.Conv2d(1, 3, 3))
    refuse("seed is -4", seed=-4)
    refuse("needs a GPU", options=TrainOptions(epochs=1, lr=1e-3, precision="fp16"))
    refuse("unknown device 'gpu0'", device="gpu0")
    refuse("unknown device 'meta'", device="meta")
    if not torch.cuda.is_available():
        refuse("finds 0 GPUs; use cpu", device="cuda")

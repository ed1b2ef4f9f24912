"""Which checkpoints, and what self-influence refuses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from memorisk.runs.errors import InputError
from memorisk.scores.influence import evenly_spaced_checkpoints, self_influence
from memorisk.scores.influence.inputs import read_batch
from tests.scores.influence_cases import by_autograd, checkpoints


def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3))


IMAGES = np.random.default_rng(0).integers(0, 256, (4, 2, 2, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0])


def test_epochs_by_hand():
    """Losses 10, 9, ..., 1, 0.6, 0.5, 0.5: of 9.5 in all, 95 % are 9.025, first reached by epoch 10 (9.4)."""
    losses = [10.0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0.6, 0.5, 0.5]
    np.testing.assert_array_equal(evenly_spaced_checkpoints(losses), [0, 1, 2, 3, 4, 6, 7, 8, 9, 10])
    np.testing.assert_array_equal(evenly_spaced_checkpoints(losses, n=3), [0, 5, 10])
    np.testing.assert_array_equal(evenly_spaced_checkpoints(losses, n=1), [10])
    np.testing.assert_array_equal(evenly_spaced_checkpoints(losses, n=2, share=1), [0, 11])
    np.testing.assert_array_equal(evenly_spaced_checkpoints(losses, n=2, share=0.5), [0, 5])
    np.testing.assert_array_equal(evenly_spaced_checkpoints([1.0, 2, 0, 0.5], n=3), [0, 1, 2])


@pytest.mark.parametrize("seed", range(20))
def test_epochs_are_distinct_ascending_and_cover(seed):
    rng = np.random.default_rng(seed)
    losses = np.exp(-rng.uniform(0.01, 0.2) * np.arange(60)) + rng.normal(0, 0.01, 60)
    found = evenly_spaced_checkpoints(losses)
    assert len(set(found.tolist())) == 10
    assert found[0] == 0
    assert (np.diff(found) > 0).all()
    assert np.ptp(np.diff(found)) <= 1
    reached = (losses[0] - losses) >= 0.95 * (losses[0] - losses.min())
    assert found[-1] == np.argmax(reached)


@pytest.mark.parametrize(
    ("losses", "options", "words"),
    [
        ([1.0, 2.0, 3.0], {}, "never fall"),
        ([1.0, np.nan], {}, "finite"),
        ([1.0], {}, "two epochs"),
        ([[1.0, 2.0]], {}, "shape"),
        ([3.0, 0.1, 0.0], {}, "only 2 epochs cover 95%"),
        ([3.0, 2.0], {"n": 0}, "n must be"),
        ([3.0, 2.0], {"n": 2.5}, "n must be"),
        ([3.0, 2.0], {"share": 0}, "share must be above 0"),
        ([3.0, 2.0], {"share": -0.1}, "share must be above 0"),
        ([3.0, 2.0], {"share": 1.5}, "share"),
    ],
)
def test_epochs_refuse(losses, options, words):
    with pytest.raises(InputError, match=words):
        evenly_spaced_checkpoints(losses, **options)


def change(**options):
    model = small()
    given = {"model": model, "images": IMAGES, "labels": LABELS, "checkpoints": [model.state_dict()], "lrs": [0.1]}
    return given | options


class Scripted(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(12, 3), function

    def forward(self, x):
        return self.function(self.linear(x.flatten(1)))


def odd(function, **options):
    model = Scripted(function)
    return change(model=model, checkpoints=[model.state_dict()], **options)


def frozen():
    model = small().requires_grad_(False)
    return change(model=model, checkpoints=[model.state_dict()])


def renamed():
    state = small().state_dict()
    state["2.weight"] = state.pop("1.weight")
    return change(checkpoints=[state])


def statistics_of_the_batch():
    model = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten(), nn.Linear(12, 3))
    return change(model=model, checkpoints=[model.state_dict()])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (change(model=lambda x: x), "torch.nn.Module"),
        (change(images=IMAGES[0]), r"\[N, H, W, C\]"),
        (change(images=IMAGES.astype(np.int64)), "uint8, uint16 or floats"),
        (change(images=torch.from_numpy(IMAGES)), "NumPy array"),
        (change(images=IMAGES.tolist()), "list"),
        (change(images=IMAGES[:0], labels=LABELS[:0]), "no images"),
        (change(labels=LABELS[:3]), "labels for 4 images"),
        (change(labels=LABELS + 0.5), "integer type"),
        (change(labels=-LABELS), "class numbers"),
        (change(labels=LABELS + 1), "3 logits; label 3"),
        (change(labels=LABELS, loss="binary"), "must be 0 or 1"),
        (change(labels=LABELS % 2, loss="binary"), r"\[3\] or \[3, 1\]"),
        (change(labels=LABELS % 2, loss="multi_label"), r"\[N, labels\]"),
        (change(labels=np.zeros((4, 2)), loss="multi_label"), r"must be \[3, 2\]"),
        (change(loss="crossentropy"), "Did you mean 'cross_entropy'"),
        (change(lrs=[0.1, 0.2]), "1 wanted, 2 given"),
        (change(lrs=0.1), "1 wanted, 0 given"),
        (change(lrs=[-0.1]), "not negative"),
        (change(lrs=[np.nan]), "finite"),
        (change(lrs=["0.1"]), "must be a number"),
        (change(checkpoints=[]), "one or more"),
        (change(checkpoints=small().state_dict()), "must be a list"),
        (change(checkpoints=["a.pt"]), r"a\.pt: a checkpoint file must be \.safetensors"),
        (change(checkpoints=["/nowhere/a.safetensors"]), "no such checkpoint file"),
        (change(checkpoints=[3]), "got int"),
        (change(checkpoints=[{}]), "lacks '1.weight', '1.bias'"),
        (renamed(), "lacks '1.weight' and has besides '2.weight'"),
        (change(checkpoints=[nn.Sequential(nn.Flatten(), nn.Linear(3, 12)).state_dict()]), "has shape"),
        (change(checkpoints=[{"1.weight": [1.0], "1.bias": torch.zeros(3)}]), "not a tensor"),
        (change(checkpoints=[{k: v * np.nan for k, v in small().state_dict().items()}]), "not finite"),
        (change(batch_size=0), "batch_size"),
        (change(device="tpu"), "device"),
        (change(device="cuda:99"), "not there"),
        (change(prepare=lambda x: x[:0]), "one row per image"),
        (change(prepare=lambda x: x.repeat(1, 2, 1, 1)), "cannot be differentiated"),
        (frozen(), "requires_grad_"),
        (change(model=small().half()), "model.float"),
        (statistics_of_the_batch(), "alone than in a batch"),
        (odd(lambda z: z + torch.randn_like(z)), "alone than in a batch"),
        (odd(lambda z: (z, z)), "one tensor; got tuple"),
        (odd(lambda z: z[:, None]), r"must be \[3, classes\]"),
        (odd(lambda z: z / 0), "not finite"),
    ],
)
def test_refuses(given, words):
    with pytest.raises(InputError, match=words) as caught:
        self_influence(**given)
    assert "\n" not in str(caught.value)


def test_an_image_that_is_not_finite_is_named():
    images = np.random.default_rng(0).random((40, 2, 2, 3))
    images[29] = np.inf
    with pytest.raises(InputError, match="image 29 is not finite at checkpoint 0"):
        self_influence(**change(images=images, labels=np.zeros(40, dtype=int)))


def test_of_several_images_the_first_is_named():
    images = np.random.default_rng(0).random((40, 2, 2, 3))
    images[[29, 33]] = np.inf
    with pytest.raises(InputError, match=r"image 29 is not finite at checkpoint 0 \(of 2 images\)"):
        self_influence(**change(images=images, labels=np.zeros(40, dtype=int)))


def test_a_batch_can_be_differentiated_whatever_made_it():
    with torch.inference_mode():
        made = torch.rand(3, 2)
    for images, prepare in (
        (made, None),
        (torch.rand(3, 2), nn.Linear(2, 2)),
        (made, torch.inference_mode()(torch.exp)),
    ):
        batch = read_batch(images, slice(0, 3), torch.device("cpu"), torch.float32, prepare)
        assert not batch.is_inference()
        assert not batch.requires_grad


def test_a_broken_file_is_named(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        self_influence(**change(checkpoints=[path]))


def test_a_network_that_cannot_be_copied_is_refused():
    model = small()
    model.held = model[1].weight * 2
    with pytest.raises(InputError, match="cannot be copied"):
        self_influence(**change(model=model))


def test_tied_weights_stored_once_load(tmp_path: Path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 12)).double()
    model[3].weight = model[1].weight
    state = checkpoints(model, 1)[0]
    state["3.weight"] = state["1.weight"]
    save_file({name: value for name, value in state.items() if name != "3.weight"}, tmp_path / "tied.safetensors")
    x = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).double() / 255
    found = self_influence(model, IMAGES, LABELS, [tmp_path / "tied.safetensors"], [1.0])
    np.testing.assert_allclose(found.values, by_autograd(model, x, torch.from_numpy(LABELS), [state], [1.0]), rtol=1e-9)
    assert set(found.fallback) == {"1.weight"}


@pytest.mark.parametrize("k", [0, 5, -1, 2.0, True])
def test_top_refuses(k):
    found = self_influence(**change())
    for choose in (found.top, found.bottom):
        with pytest.raises(InputError, match="1 to 4"):
            choose(k)

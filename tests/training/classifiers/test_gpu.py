"""What holds on a CPU holds on a GPU; skipped where there is none."""

from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.models.classifiers.zoo import create_model
from memorisk.training.classifiers.fit import FitLog, fit
from memorisk.training.classifiers.linear_heads import fit_heads, new_head
from memorisk.training.classifiers.stacked import fit_stacked, stack_size
from memorisk.training.engine import pixels
from memorisk.training.engine.optimization import batch_order
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits
from tests.training.helpers import Digits

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

ROWS = np.random.default_rng(0).permutation(1797)[:200]
FP32 = TrainOptions(epochs=2, lr=1e-3, precision="fp32")


def train(
    digits: Digits, device: str, options: TrainOptions = FP32, **changed: object
) -> tuple[torch.nn.Module, FitLog]:
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)
    return model, fit(model, digits.images, digits.labels, ROWS, options, seed=1, device=device, **changed)


def test_first_epoch_is_the_cpus(digits: Digits) -> None:
    """Losses of the first epoch agree to the ten bits of TF32; later ones part, as any two devices do."""
    (_, cpu), (_, gpu) = train(digits, "cpu"), train(digits, "cuda")
    assert gpu.losses[0] == pytest.approx(cpu.losses[0], rel=2**-9)


def test_predictions_are_the_cpus(digits: Digits) -> None:
    model, _ = train(digits, "cpu")
    cpu = predict_logits(model, digits.images, None, FP32)
    gpu = predict_logits(model, digits.images, None, FP32, "cuda")
    np.testing.assert_allclose(gpu, cpu, atol=1e-4)  # in TF32 they would differ by 1e-3 of logits of order ten


@pytest.mark.parametrize("precision", ["auto", "bf16", "fp16"])
def test_mixed_precision_learns(digits: Digits, precision: str) -> None:
    _, log = train(digits, "cuda", TrainOptions(epochs=15, lr=2e-3, precision=precision))
    assert log.losses[-1] < log.losses[0] / 3
    assert log.precision in ("bf16", "fp16")


def test_streamed_and_held_pixels_give_the_same_batches(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = list(batch_order(0, 0, len(ROWS)).split(64))
    for images in (digits.images, digits.images.astype(np.uint16) * 257):
        how = pixels.dataset_normalisation(images)
        batches = []
        for share in (0.5, 0.0):
            monkeypatch.setattr(pixels, "_SHARE_OF_FREE_MEMORY", share)
            source = pixels.PixelSource(
                images, ROWS, device=torch.device("cuda"), dtype=torch.float32, normalisation=how
            )
            assert (source.held is None) == (share == 0)
            batches.append([x.cpu() for x in source.batches(slots)])
        assert all(torch.equal(a, b) for a, b in zip(*batches, strict=True))


def test_resumes(digits: Digits, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(epoch: int, loss: float) -> None:
        if epoch == 1:
            raise Killed

    file = tmp_path / "c.safetensors"
    for precision in ("fp32", "fp16"):
        options = TrainOptions(epochs=3, lr=1e-3, precision=precision)
        _, undisturbed = train(digits, "cuda", options)
        with pytest.raises(Killed):
            train(digits, "cuda", options, checkpoint=file, checkpoint_seconds=0, on_epoch=kill)
        _, resumed = train(digits, "cuda", options, checkpoint=file)
        assert resumed.resumed_from == 1
        assert resumed.losses == pytest.approx(undisturbed.losses, rel=1e-2)
        file.unlink()


def test_stack_and_heads_agree_with_one_by_one(digits: Digits) -> None:
    seeds, rows = [0, 0, 1], [ROWS, ROWS[::-1].copy(), ROWS]
    nets = [create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=s).double() for s in seeds]
    alone = [create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=s).double() for s in seeds]
    logs = fit_stacked(nets, digits.images, digits.labels, rows, FP32, seeds=seeds, device="cuda")
    features = torch.from_numpy(digits.features)
    heads = fit_heads(features, digits.labels, rows, FP32, n_outputs=10, seeds=seeds, device="cuda")
    for k, model in enumerate(alone):
        log = fit(model, digits.images, digits.labels, rows[k], FP32, seed=seeds[k], device="cuda")
        assert logs[k].losses == pytest.approx(log.losses, rel=1e-9)
        head = new_head(64, 10, seeds[k], dtype=torch.float64)
        log = fit(head, features, digits.labels, rows[k], FP32, seed=seeds[k], device="cuda")
        assert heads.losses[:, k] == pytest.approx(log.losses, rel=1e-9)


def test_small_nets_are_stacked() -> None:
    net = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)
    assert stack_size(net, FP32, n_models=16, image_shape=(8, 8, 1), device="cuda") == 16

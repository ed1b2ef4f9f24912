"""The forms of a watch in other people's loops: Lightning, transformers, diffusers, memorisk; and where it logs."""

import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.audits.watch import callbacks as module
from memorisk.audits.watch.drawn_images import sample_pipeline
from memorisk.audits.watch.evaluations import curves_of
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.models.generators.generators import FunctionGenerator
from memorisk.models.settings import GeneratorConfig
from memorisk.runs.errors import InputError, MissingExtraError

TRAIN, HELD = 400, 200


def watch_of(digits, out=None, **settings):
    """A watch without FID, of few looks."""
    settings = {"detector": "pixels", "quality": "none", "looks": 2, "images": 100, **settings}
    return MemorizationWatch(digits[:TRAIN], digits[TRAIN : TRAIN + HELD], out=out, **settings)


class TestLightning:
    """Skipped where Lightning is not installed."""

    @pytest.mark.thorough
    def test_a_trainer_is_stopped_by_a_module_that_copies_and_only_then(self, digits, tmp_path):
        lightning = pytest.importorskip("lightning.pytorch")
        seen = []

        class Copier(lightning.LightningModule):
            """Learns nothing; draws copies from a step on."""

            def __init__(self, begins):
                super().__init__()
                self.net, self.begins = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5)), begins

            def training_step(self, batch, index):
                """A loss that can be stepped on."""
                self.log("val_loss", 2.0)
                return self.net(batch[0]).mean()

            def configure_optimizers(self):
                """Plain."""
                return torch.optim.SGD(self.parameters(), 0.1)

            def sample(self, n, seed):
                """Copies, or people in neither part."""
                seen.append((self.global_step, self.training, torch.is_grad_enabled()))
                start = 0 if self.global_step >= self.begins else TRAIN + HELD
                return digits[start : start + n]

        def steps(begins, name):
            """Steps until the training ends."""
            watch = watch_of(digits, tmp_path / name, every=3, looks=4)
            data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(12, 2)), batch_size=1)
            trainer = lightning.Trainer(
                max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, callbacks=[watch.lightning(Copier.sample)], default_root_dir=tmp_path,
            )  # fmt: skip
            trainer.fit(Copier(begins), data)
            return trainer.global_step, watch.looks

        stopped, looks = steps(6, "copies")
        assert stopped == 6
        assert [(look.step, look.go_on) for look in looks] == [(3, True), (6, False)]
        assert looks[0].held_out_loss == 2.0
        assert seen == [(3, False, False), (6, False, False)]
        ran, looks = steps(100, "clean")
        assert ran == 12
        assert [look.step for look in looks] == [3, 6, 9, 12]

    def test_without_lightning_one_line_says_what_to_install(self, digits, monkeypatch):
        def missing(name):
            raise ImportError(name)

        monkeypatch.setattr(module, "import_module", missing)
        with pytest.raises(InputError, match="python -m pip install lightning"):
            watch_of(digits).lightning(lambda m, n, seed: None)


class TestTransformers:
    """A real ImageGPT, of one layer and random weights, in a real Trainer; skipped without the library."""

    @pytest.mark.thorough
    def test_a_trainer_is_stopped_by_a_model_that_copies_and_only_then(self, digits, tmp_path):
        transformers = pytest.importorskip("transformers")
        pytest.importorskip("accelerate")
        seen = []
        config = transformers.ImageGPTConfig(vocab_size=5, n_positions=16, n_embd=8, n_layer=1, n_head=1)
        items = [{"input_ids": torch.arange(16) % 4, "labels": torch.arange(16) % 4}] * 12

        def steps(begins, name):
            """Steps until the training ends, and the looks."""
            watch = watch_of(digits, tmp_path / name, every=3, looks=4)

            def sample(model, n, seed):
                """Copies from a step on, people in neither part before."""
                seen.append((trainer.state.global_step, model.training, torch.is_grad_enabled()))
                start = 0 if trainer.state.global_step >= begins else TRAIN + HELD
                return digits[start : start + n]

            settings = transformers.TrainingArguments(
                output_dir=str(tmp_path / f"{name}-trainer"), per_device_train_batch_size=1, num_train_epochs=1,
                eval_strategy="steps", eval_steps=2, save_strategy="no", report_to="none", use_cpu=True,
                disable_tqdm=True, logging_strategy="no",
            )  # fmt: skip
            trainer = transformers.Trainer(
                transformers.ImageGPTForCausalImageModeling(config), settings, train_dataset=items,
                eval_dataset=items[:2], callbacks=[watch.transformers(sample)],
            )  # fmt: skip
            trainer.train()
            return trainer.state, watch.looks

        state, looks = steps(6, "copies")
        assert state.global_step == 6
        assert [(look.step, look.go_on) for look in looks] == [(3, True), (6, False)]
        assert looks[0].held_out_loss == next(entry["eval_loss"] for entry in state.log_history if entry["step"] == 2)
        assert seen == [(3, False, False), (6, False, False)]
        state, looks = steps(100, "clean")
        assert state.global_step == 12
        assert [look.step for look in looks] == [3, 6, 9, 12]

    def test_without_the_library_one_line_names_the_extra(self, digits, monkeypatch):
        def missing(name):
            raise ImportError(name)

        monkeypatch.setattr(module, "import_module", missing)
        with pytest.raises(MissingExtraError, match=r"needs transformers.*memorisk\[transformers\]"):
            watch_of(digits).transformers(lambda m, n, seed: None)


class OfNothing:
    """Stands for an unconditional pipeline: its images are its noise."""

    def __call__(self, batch_size=1, generator=None, num_inference_steps=10, output_type="pil"):
        """[batch, 8, 8, 1] in [0, 1]."""
        assert output_type == "np"
        assert num_inference_steps == 3
        return SimpleNamespace(images=np.stack([torch.rand(8, 8, 1, generator=g).numpy() for g in generator]))


class OfClasses:
    """Stands for `DiTPipeline`: the class is the grey."""

    def __call__(self, class_labels, generator=None, output_type="pil"):
        """[batch, 8, 8, 1] in [0, 1]."""
        return SimpleNamespace(images=np.stack([np.full((8, 8, 1), label / 10) for label in class_labels]))


class TestPipelines:
    def test_each_image_has_its_seed_whatever_the_batch(self, digits):
        watch = watch_of(digits)
        whole = watch.pipeline(OfNothing(), num_inference_steps=3)(7, 1)
        parts = sample_pipeline(OfNothing(), batch=2, num_inference_steps=3)(7, 1)
        assert whole.dtype == np.uint8
        assert (whole == parts).all()
        assert (whole[:5] == sample_pipeline(OfNothing(), num_inference_steps=3)(5, 1)).all()
        assert not (whole == sample_pipeline(OfNothing(), num_inference_steps=3)(7, 2)).all()
        assert watch.look(1, watch.pipeline(OfNothing(), num_inference_steps=3)).n_images == 100

    def test_classes_go_round(self):
        found = sample_pipeline(OfClasses(), classes=3, batch=4)(7, 0)
        assert found[:, 0, 0, 0].tolist() == [0, 26, 51, 0, 26, 51, 0]
        assert sample_pipeline(OfClasses(), classes=[9, 2])(3, 0)[:, 0, 0, 0].tolist() == [230, 51, 230]

    def test_what_a_pipeline_takes_must_be_given_and_no_more(self):
        with pytest.raises(InputError, match="OfClasses takes class_labels: give classes"):
            sample_pipeline(OfClasses())
        with pytest.raises(InputError, match="OfNothing does not take prompt: leave out prompts"):
            sample_pipeline(OfNothing(), prompts=["a scan"])
        with pytest.raises(InputError, match="gives no images"):
            sample_pipeline(lambda batch_size=1, generator=None, output_type="np": [1])(2, 0)


def test_a_snapshot_of_a_training_is_looked_at(digits):
    asked = []

    def call(seeds, labels):
        """Copies by seed."""
        asked.extend(labels.tolist())
        return digits[seeds % TRAIN][..., None]

    config = GeneratorConfig(
        kind="function", name="copier", size=(8, 8), channels=1, conditioned_on="class", classes=("a", "b"),
        class_counts=(300, 100),
    )  # fmt: skip
    watch = watch_of(digits)
    snapshot = SimpleNamespace(step=10, generator=FunctionGenerator(config, "w1", call), held_out_loss=0.25)
    assert watch(snapshot) is False
    assert (watch.looks[0].weights, watch.looks[0].held_out_loss) == ("w1", 0.25)
    assert np.bincount(asked).tolist() == [75, 25]  # as the training images are divided
    assert watch(snapshot) is False
    assert len(asked) == 100  # found, not drawn again


class TestTrackers:
    def test_tensorboard_has_the_curves_of_every_look_and_no_patient(self, digits, tmp_path):
        pytest.importorskip("tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        with watch_of(digits, log="tensorboard", log_to=tmp_path / "tb") as watch:
            looks = [watch.look(step, digits[start : start + 100]) for step, start in ((5, 600), (10, 0))]
        found = EventAccumulator(str(tmp_path / "tb"))
        found.Reload()
        share = [(event.step, event.value) for event in found.Scalars("memorization/share")]
        assert share == [(look.step, pytest.approx(look.share)) for look in looks]
        assert "memorization/held_out_loss" not in found.Tags()["scalars"]
        written = b"".join(file.read_bytes() for file in (tmp_path / "tb").iterdir())
        assert b"training 0" not in written

    def test_mlflow_keeps_one_run_in_its_folder_and_asks_no_network(self, digits, tmp_path, monkeypatch):
        pytest.importorskip("mlflow")
        import socket

        def refuse(self, address):
            raise AssertionError(f"asked the network for {address}")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_ALLOW_FILE_STORE"):
            monkeypatch.setenv(name, "true")
        out = tmp_path / "w"
        for step, start in ((5, 600), (10, 0)):
            with watch_of(digits, out, log="mlflow") as watch:
                look = watch.look(step, digits[start : start + 100], held_out_loss=0.5)
        tracker = watch.trackers[0]
        history = tracker.client.get_metric_history(tracker.run, "memorization/share")
        assert [point.step for point in history] == [5, 10]
        assert history[1].value == pytest.approx(look.share)
        assert (out / "tracking" / "mlflow.json").is_file()
        watch.close()

    def test_mlflow_is_told_to_send_nothing(self, digits, tmp_path, monkeypatch):
        pytest.importorskip("mlflow")
        names = ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_ALLOW_FILE_STORE")
        for name in names:
            monkeypatch.setenv(name, "")  # undone when the test ends
            monkeypatch.delenv(name)
        watch = watch_of(digits, tmp_path / "w", log=("mlflow",))
        assert watch.trackers
        assert [os.environ[name] for name in names] == ["true"] * 3
        watch.close()

    def test_what_is_no_number_is_not_logged(self, digits):
        curves = curves_of(watch_of(digits).look(1, digits[600:700]))
        assert all(math.isfinite(value) for value in curves.values())
        assert "memorization/fid" not in curves

    @pytest.mark.parametrize(("kind", "library"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow-skinny")])
    def test_a_missing_library_names_the_extra(self, digits, tmp_path, monkeypatch, kind, library):
        import sys

        for name in ("torch.utils.tensorboard", "mlflow.tracking", "mlflow"):
            monkeypatch.setitem(sys.modules, name, None)
        watch = watch_of(digits, tmp_path / "w", log=kind)
        with pytest.raises(MissingExtraError, match=rf"needs {library}.*memorisk\[tracking\]"):
            watch.look(1, digits[600:700])

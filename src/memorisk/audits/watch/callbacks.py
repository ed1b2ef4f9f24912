"""A watch as a callback of other trainers: of Lightning and of ``transformers``, each loaded only where it is used.

The network draws in evaluation mode and without gradients, in the first process, which tells the others whether to go
on.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from memorisk.runs.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from memorisk.audits.watch.memorization_watch import MemorizationWatch

ModuleSample = Callable[[Any, int, int], Any]
"""Draws uint8 images [n, H, W, C] of (network, number of images, seed)."""


def lightning_callback(watch: "MemorizationWatch", sample: ModuleSample, held_out_loss: str = "val_loss") -> Any:
    """Return a ``Callback`` that looks every ``watch.options.every`` steps and stops the Trainer by the rule.

    Args:
        watch: The watch.
        sample: A function of (module, number of images, seed).
        held_out_loss: The logged metric to note, where there is one.

    Raises:
        InputError: Lightning is not installed.
    """
    base = _lightning_base()

    class WatchCallback(base):
        """Looks after the batch that completes a step."""

        last = 0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *given: Any, **named: Any) -> None:
            """Look, where a look is due at this step and was not had."""
            step = int(trainer.global_step)
            if step == self.last or not watch.due(step):
                return
            self.last = step
            loss = trainer.callback_metrics.get(held_out_loss)
            go_on = _look(watch, pl_module, step, sample, loss) if trainer.is_global_zero else True
            if not trainer.strategy.broadcast(go_on):
                trainer.should_stop = True

    return WatchCallback()


def trainer_callback(watch: "MemorizationWatch", sample: ModuleSample, held_out_loss: str = "eval_loss") -> Any:
    """Return a ``TrainerCallback`` of ``transformers``, which does the same.

    Args:
        watch: The watch.
        sample: A function of (model, number of images, seed).
        held_out_loss: The logged metric to note, where there is one.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
    """
    try:
        base = import_module("transformers").TrainerCallback
    except ImportError:
        raise MissingExtraError("transformers", "transformers", "a callback for its Trainer") from None
    broadcast = import_module("accelerate.utils").broadcast_object_list  # a Trainer needs accelerate itself

    class WatchCallback(base):
        """Looks after each step of the optimiser."""

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
            """Look, where a look is due at this step."""
            step = int(state.global_step)
            if not watch.due(step):
                return control
            go_on = [True]
            if state.is_world_process_zero:
                go_on = [_look(watch, given["model"], step, sample, _last(state.log_history, held_out_loss))]
            if not broadcast(go_on)[0]:
                control.should_training_stop = True
            return control

    return WatchCallback()


def _look(watch: "MemorizationWatch", network: nn.Module, step: int, sample: ModuleSample, loss: Any) -> bool:
    """Evaluate the present network, and return whether to continue."""
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            draw = partial(sample, network)
            return watch.look(step, draw, held_out_loss=None if loss is None else float(loss)).go_on
    finally:
        network.train(training)


def _last(history: list[Mapping[str, float]], name: str) -> float | None:
    """Return the last value of a metric that was logged."""
    return next((entry[name] for entry in reversed(history) if name in entry), None)


def _lightning_base() -> Any:
    """Return Lightning's class of callbacks, under either of its names.

    Raises:
        InputError: It is not installed.
    """
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return import_module(name).Callback
        except ImportError:
            continue
    raise InputError(
        "a callback for Lightning needs lightning, which is not installed: python -m pip install lightning"
    )

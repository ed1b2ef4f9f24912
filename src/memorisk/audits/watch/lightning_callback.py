"""A watch as a callback of Lightning (``lightning`` or ``pytorch_lightning``), loaded where it is asked for."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from memorisk.runs.errors import InputError

if TYPE_CHECKING:  # which makes the callback
    from memorisk.audits.watch.watching import MemorizationWatch


def lightning_callback(
    watch: "MemorizationWatch", sample: Callable[[Any, int, int], Any], held_out_loss: str = "val_loss"
) -> Any:
    """A ``Callback`` that looks every ``watch.options.every`` steps and stops the Trainer where the watch says so.

    The first process looks, and tells the others.

    Args:
        watch: The watch.
        sample: A function of (module, number of images, seed).
        held_out_loss: The logged metric to note, where there is one.

    Raises:
        InputError: Lightning is not installed.
    """
    base = _callback_class()

    class WatchCallback(base):
        """Looks after the batch that completes a step."""

        last = 0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *given: Any, **named: Any) -> None:
            """Look, where a look is due at this step and was not had."""
            step = int(trainer.global_step)
            if step == self.last or not watch.due(step):
                return
            self.last = step
            go_on = self._go_on(trainer, pl_module, step) if trainer.is_global_zero else True
            if not trainer.strategy.broadcast(go_on):
                trainer.should_stop = True

        def _go_on(self, trainer: Any, pl_module: Any, step: int) -> bool:
            """What the watch says of the module as it is now."""
            loss = trainer.callback_metrics.get(held_out_loss)
            training = pl_module.training
            pl_module.eval()
            try:
                with torch.no_grad():
                    draw = partial(sample, pl_module)
                    seen = watch.look(step, draw, held_out_loss=None if loss is None else float(loss))
            finally:
                pl_module.train(training)
            return seen.go_on

    return WatchCallback()


def _callback_class() -> Any:
    """Lightning's class of callbacks, under either of its names.

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

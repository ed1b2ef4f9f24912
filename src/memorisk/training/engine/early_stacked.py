"""Small networks trained side by side as one, each stopped early by its own validation loss.

Paper 002 trains a network a canary, hundreds of MLPs and small CNNs, each until its validation loss stops falling
(A.2). Every network here gets what `fit_early` would give it alone, up to rounding. Rounding grows from step to step:
in float32 Adam turns the sign of a vanishing gradient into a whole step. Where the lowest validation losses of two
epochs differ by no more than that, the stack may keep another of the two epochs, with a validation loss that is as
low. One that has stopped goes on idly until at least half of the stack has; then the stack shrinks to the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError
from memorisk.training.engine.devices import exact_products
from memorisk.training.engine.early_stopping import PATIENCE, EarlyLog, Record, check_early, mean_loss
from memorisk.training.engine.loop import Bounds, epochs_and_lr, run_epoch
from memorisk.training.engine.objectives import target_tensor
from memorisk.training.engine.optimizers import AnyOptimizer, build_optimizer
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.order import batch_bounds
from memorisk.training.engine.pixels import Images, Normalisation, PixelSource, check_images, choose_normalisation
from memorisk.training.engine.stacked import Together, stack_parameters
from memorisk.training.engine.together import stack_rows

OnEpochOfMany = Callable[[int, Mapping[int, nn.Module]], None]


def fit_early_stacked(
    models: Sequence[nn.Module],
    images: Images,
    targets: np.ndarray,
    rows_list: Sequence[np.ndarray],
    validation_rows: np.ndarray,
    options: TrainOptions,
    *,
    seeds: Sequence[int],
    patience: int = PATIENCE,
    device: str | torch.device = "cpu",
    normalisation: Normalisation | None = None,
    on_epoch: OnEpochOfMany | None = None,
) -> list[EarlyLog]:
    """Train K networks of one architecture together, in place, as `fit_early` would train each on its rows.

    Args:
        models: K networks, as initialised; each is left with the weights of its own best epoch, in evaluation mode.
        images: For all, as for `fit`. Where networks differ in one marked image, it is a row of its own.
        targets: Class numbers of all images, [N].
        rows_list: K arrays of equally many rows, in slot order.
        validation_rows: Images that say when to stop, the same for all; none of the rows.
        options: The settings; ``epochs`` is the most there can be.
        seeds: K seeds; twins share theirs.
        patience: Epochs without a lower validation loss after which a network stops.
        device: Where to train.
        normalisation: As for `fit`.
        on_epoch: Called after each epoch with (epochs done, {place in ``models``: network in evaluation mode} of those
            that had not stopped before it).

    Returns:
        A log per network.

    Raises:
        InputError: The networks cannot be stacked, inputs do not fit together, or as `fit_early`.
        MemoriskError: A loss of a network that has not stopped becomes NaN or infinite, or as `fit_early`.
    """
    for rows in rows_list:
        check_early(rows, validation_rows, patience)
    epochs, _ = epochs_and_lr(options)
    stack = _Stack(models, images, targets, rows_list, options, seeds, check_device(device), normalisation)
    records = [Record(epochs, stack.state(number)) for number in stack.numbers]
    losses: list[list[float]] = [[] for _ in models]
    going = list(range(len(models)))
    for epoch in range(epochs):
        trained, validation = stack.run_epoch(epoch, going), stack.validation(validation_rows)
        for number in going:
            losses[number].append(trained[number])
            records[number].add(epoch + 1, validation[number], stack.state(number))
        if on_epoch is not None:
            on_epoch(epoch + 1, {number: _filled(models[number], stack.state(number)) for number in going})
        going = [number for number in going if records[number].waited(epoch + 1) < patience]
        if not going:
            break
        stack.shrink(going)
    for model, record in zip(models, records, strict=True):
        _filled(model, record.best)
    return [record.log(tuple(lost), patience) for record, lost in zip(records, losses, strict=True)]


@torch.no_grad()
def _filled(model: nn.Module, state: Mapping[str, torch.Tensor]) -> nn.Module:
    """The network with these parameters, in evaluation mode."""
    for name, value in model.named_parameters():
        value.copy_(state[name])
    return model.eval()


class _Stack:
    """Networks in training, by their numbers; arguments as for `fit_early_stacked`."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        images: Images,
        targets: np.ndarray,
        rows_list: Sequence[np.ndarray],
        options: TrainOptions,
        seeds: Sequence[int],
        device: torch.device,
        normalisation: Normalisation | None,
    ) -> None:
        check_images(images)
        if len(targets) != len(images):
            raise InputError(f"there are {len(targets)} targets for {len(images)} images")
        self.parameters = stack_parameters(models, options, device)
        self.rows = stack_rows(rows_list, seeds, len(images))
        if len(seeds) != len(models):
            raise InputError(f"there are {len(seeds)} seeds for {len(models)} networks; one each is needed")
        self.model, self.options, self.seeds, self.device = models[0], options, tuple(seeds), device
        normalisation = normalisation or choose_normalisation(images, options.normalise)
        dtype = next(models[0].parameters()).dtype
        everything = np.arange(len(images))
        self.source = PixelSource(images, everything, device=device, dtype=dtype, normalisation=normalisation)
        self.labels, self.targets = np.asarray(targets), target_tensor(targets, options.head, dtype)
        self.bounds = batch_bounds(self.rows.shape[1], options.batch_size)
        self.numbers = list(range(len(models)))
        self.optimizer = build_optimizer([p for p in self.parameters.values() if p.requires_grad], options)
        self.together = self._build()

    def _build(self) -> Together:
        given = (self.source, self.targets, self.rows, self.options, self.seeds, self.device)
        return Together(self.model, self.parameters, *given)

    def run_epoch(self, epoch: int, going: Sequence[int]) -> dict[int, float]:
        """One epoch of all; the mean loss of each by its number. What becomes of those that stopped does not matter."""
        idle = torch.tensor([number not in going for number in self.numbers], device=self.device)
        resting = bool(idle.any())

        def losses_of(epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
            """Losses of the models, 0 for those that have stopped."""
            for losses in self.together.losses(epoch, bounds):
                yield losses.masked_fill(idle, 0) if resting else losses

        losses = run_epoch(losses_of, self.optimizer, self.options, epoch, self.bounds, numbers=self.numbers)
        return dict(zip(self.numbers, losses.tolist(), strict=True))

    @torch.no_grad()
    def validation(self, rows: np.ndarray) -> dict[int, float]:
        """The mean loss of each on these images, by its number; in float32, in batches as large as the training's."""
        slots = torch.from_numpy(np.array(rows, dtype=np.int64)).split(self.options.batch_size)
        with exact_products(self.device):
            batches = [
                self.together.forward_shared(self.parameters, x).float().cpu() for x in self.source.batches(slots)
            ]
        logits, labels = torch.cat(batches, dim=1).numpy(), self.labels[rows]
        return {number: mean_loss(logits[place], labels) for place, number in enumerate(self.numbers)}

    def state(self, number: int) -> dict[str, torch.Tensor]:
        """The parameters of one of them."""
        place = self.numbers.index(number)
        return {name: value.detach()[place] for name, value in self.parameters.items()}

    def shrink(self, numbers: Sequence[int]) -> None:
        """Go on with these alone, if they are at most half of the stack."""
        if 2 * len(numbers) > len(self.numbers):
            return
        places = [self.numbers.index(number) for number in numbers]
        kept = {name: _chosen(value, places) for name, value in self.parameters.items()}
        optimizer = build_optimizer([p for p in kept.values() if p.requires_grad], self.options)
        _hand_over(self.optimizer, optimizer, self.parameters, kept, places)
        self.parameters, self.optimizer = kept, optimizer
        self.numbers, self.rows = list(numbers), self.rows[places]
        self.seeds = tuple(self.seeds[place] for place in places)
        self.together = self._build()


def _chosen(value: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
    """A leaf of its own with some of the networks."""
    return value.detach()[list(places)].requires_grad_(value.requires_grad)


def _hand_over(
    old: AnyOptimizer,
    new: AnyOptimizer,
    parameters: Mapping[str, torch.Tensor],
    kept: Mapping[str, torch.Tensor],
    places: Sequence[int],
) -> None:
    """Give an optimiser what another knows of the chosen networks: moments by place, counts of steps as they are."""
    for name, parameter in parameters.items():
        if parameter in old.state:
            new.state[kept[name]] = {
                key: _chosen(value, places) if value.shape == parameter.shape else value
                for key, value in old.state[parameter].items()
            }

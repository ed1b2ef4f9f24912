"""Differentially private training: DP-SGD with Poisson-sampled slots, clipped per image, noise of its own per model.

Opacus clips and adds the noise (ghost clipping: norms without per-image gradients). A step samples every slot with
probability q = batch / n, sums the gradients clipped to norm C, adds N(0, (z C)^2) and divides by the expected batch
(Abadi et al. 2016). z is the smallest noise for which ``epochs * ceil(n / batch)`` steps stay within (epsilon, delta)
for adding or removing one image (Renyi accountant: Opacus', `memorisk.statistics.privacy.accounting` where it is not
installed).

Slots are sampled from (seed, epoch), so that the twins of an audit sample the same slots. Noise is never shared: the
noise of twins would cancel in their loss gap and "prove" more than epsilon (METHODS section 1, "Defence").
"""

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.files import fingerprint
from memorisk.statistics.privacy.accounting import DEFAULT_ORDERS, noise_for_epsilon, rdp_epsilon
from memorisk.statistics.privacy.patient_epsilon import group_epsilon
from memorisk.training.classifiers.fit import ClassifierTraining, FitLog
from memorisk.training.classifiers.regimes import ParameterChangeCheck, check_parameter_changes, extra_message
from memorisk.training.engine.devices import forked_generators, set_training_mode
from memorisk.training.engine.loop import Bounds, Checkpoint, OnEpoch, TrainingState, run_epochs
from memorisk.training.engine.optimization import batch_bounds, build_optimizer, step_seeds
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Images, Normalisation

_EPSILON_TOLERANCE = 1e-3
_SLOTS, _NOISE = 2, 3  # random streams in addition to those of `training.engine.optimization`


@dataclass(frozen=True)
class Privacy:
    """Promise of a private training: (epsilon, delta) for adding or removing one image, and its noise."""

    epsilon: float
    """Budget of the settings; the spent epsilon is at most this."""
    delta: float
    """Probability with which the budget may be exceeded."""
    noise_multiplier: float
    """Noise multiplier z: deviation of the noise over the clipping norm."""
    clip: float
    """Clipping norm C: norm to which each image's gradient is clipped."""
    sampling_rate: float
    """Sampling rate q: probability that a step takes a slot."""
    steps: int
    """Number of steps of the whole training."""


def spent_epsilon(
    noise_multiplier: float, sampling_rate: float, steps: int, delta: float, orders: Sequence[float] = DEFAULT_ORDERS, /
) -> float:
    """Compute the epsilon that DP-SGD spends for one image added or removed: by Opacus, or by `rdp_epsilon` without it.

    Args:
        noise_multiplier: Deviation of the noise over the clipping norm, z, above 0.
        sampling_rate: Probability that a step takes an image.
        steps: Number of optimiser steps.
        delta: Probability with which the budget may be exceeded, in (0, 1).
        orders: Orders of the Renyi divergence.

    Returns:
        Epsilon, 0 or more; both agree to a relative 1e-9 (`tests/training/classifiers/test_private.py`).
    """
    try:
        from opacus.accountants.analysis.rdp import compute_rdp, get_privacy_spent
    except ImportError:
        return rdp_epsilon(noise_multiplier, sampling_rate, steps, delta, orders)
    alphas = list(orders)
    with warnings.catch_warnings(action="ignore"):  # its remark that the best order is the largest
        divergence = compute_rdp(q=sampling_rate, noise_multiplier=noise_multiplier, steps=steps, orders=alphas)
        return max(float(get_privacy_spent(orders=alphas, rdp=divergence, delta=delta)[0]), 0.0)


@lru_cache(maxsize=64)
def privacy_of(n: int, options: TrainOptions) -> Privacy:
    """Find the noise that n images and these options need.

    Args:
        n: Number of slots trained on, counted as public.
        options: Settings of one private training, with epochs filled in.

    Raises:
        InputError: No noise gives that epsilon, or the options are not private.
    """
    if not options.private or options.epochs is None:
        raise InputError(f"regime {options.one_regime} is not private, or its epochs are not set")
    steps = options.epochs * len(batch_bounds(n, options.batch_size))
    rate = min(1.0, options.batch_size / n)
    budget = (options.epsilon[0], options.delta, rate, steps)
    noise = noise_for_epsilon(*budget)
    if spent_epsilon(noise, rate, steps, options.delta) > options.epsilon[0]:  # by Opacus: its own bisection takes 1 s
        noise = noise_for_epsilon(*budget, accountant=spent_epsilon)
    return Privacy(options.epsilon[0], options.delta, noise, options.clip, rate, steps)


def patient_epsilon(privacy: Privacy, groups: np.ndarray, *, known: bool) -> dict[str, Any]:
    """Compute epsilon for all images of a patient, by the largest patient among those trained on.

    Args:
        privacy: The promise for one image.
        groups: Patient of each image trained on, [n].
        known: Whether the data name the patient of each image; without that, a patient cannot be promised anything.

    Returns:
        Entries ``patients_known, largest_group, per_patient_epsilon``; the last two None where patients are not known.
    """
    if not known:
        return {"patients_known": False, "largest_group": None, "per_patient_epsilon": None}
    largest = int(np.unique(groups.astype(str), return_counts=True)[1].max())
    spent = (privacy.noise_multiplier, privacy.sampling_rate, privacy.steps, privacy.delta)
    epsilon = privacy.epsilon if largest == 1 else group_epsilon(*spent, largest)
    return {"patients_known": True, "largest_group": largest, "per_patient_epsilon": epsilon}


def fit_private(
    model: nn.Module,
    images: Images,
    targets: np.ndarray | torch.Tensor,
    rows: np.ndarray,
    options: TrainOptions,
    *,
    seed: int,
    noise_seed: int,
    slots: int | None = None,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    on_epoch: OnEpoch | None = None,
    normalisation: Normalisation | None = None,
    ghost: bool = True,
    privacy: Privacy | None = None,
) -> FitLog:
    """Train a network in place under differential privacy; arguments as for `fit`, in fp32.

    Args:
        model: Network prepared by `memorisk.training.classifiers.regimes.prepare_regime`.
        images: Images of the set, as for `fit`.
        targets: Targets of all images, as for `fit`.
        rows: Rows to train on, as for `fit`; each is a slot.
        options: Settings of a private regime with one epsilon.
        seed: Random seed of the sampled slots, augmentation and dropout.
        noise_seed: Random seed of the noise. The guarantee holds against people who do not know it: draw it from the
            system's entropy for a model that is to be released, and forget it.
        slots: Number of places in an epoch, as for `fit`, except that an empty slot stays empty: no image has two.
        device: Device to train on, as for `fit`.
        checkpoint: File for the state, as for `fit`.
        checkpoint_seconds: Least time between two writes of it, as for `fit`.
        on_epoch: Function called after each epoch, as for `fit`.
        normalisation: Scaling of the pixels, as for `fit`; statistics of the data set itself are not covered by the
            guarantee.
        ghost: Whether norms are computed without per-image gradients; False computes these (the same update, slower).
        privacy: Noise and sampling, if not those of the options (`privacy_of`).

    Returns:
        Log of the training; losses are over the sampled images.

    Raises:
        InputError: As `fit`, or a layer has no gradient per image.
        MemoriskError: As `fit`, or a trained tensor does not change.
    """
    begun = time.perf_counter()
    privacy = privacy or privacy_of(max(slots or 0, len(rows)), options)
    exact = replace(options, precision="fp32")
    training = ClassifierTraining(model, images, targets, rows, exact, device, normalisation, slots=slots)
    with _clipping(training, privacy, ghost=ghost) as (hooks, optimizer):
        steps = _PrivateSteps(training, privacy, hooks, optimizer, seed, noise_seed)
        resume = None
        if checkpoint is not None:
            identity = fingerprint(training.identity(seed), noise_seed, asdict(privacy))
            resume = Checkpoint(Path(checkpoint), identity, checkpoint_seconds)
        progress = steps.run(resume, on_epoch)
    return training.log(progress, time.perf_counter() - begun)


class _OutputCopy(nn.Module):
    """A layer whose output may be changed in place (timm: ``x += shortcut``); the output of Opacus' hooks may not."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *given: Any, **named: Any) -> Any:
        """Return the layer's output, copied."""
        return self.layer(*given, **named).clone()


@contextmanager
def _copy_outputs(model: nn.Module) -> Iterator[None]:
    """Put a copy after every trained convolution and normalisation for as long as they have hooks."""
    wrapped = []
    for name, module in list(model.named_modules()):
        own = any(p.requires_grad for p in module.parameters(recurse=False))
        nested = any(True for child in module.children() for _ in child.parameters())
        if name and own and not nested and not isinstance(module, nn.Linear):  # attention reads linear weights itself
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, _OutputCopy(module))
            wrapped.append((model.get_submodule(parent), leaf, module))
    try:
        yield
    finally:
        for holder, leaf, module in wrapped:
            setattr(holder, leaf, module)


def _contiguous_inputs(model: nn.Module) -> list[Any]:
    """Give every convolution its input in plain memory order.

    Opacus 1.6 reads the strides of a convolution's input as if they were plain. For channels-last images, and for those
    that a network permutes itself, it takes wrong gradients and clips by wrong norms without a warning.

    Returns:
        Handles that remove the hooks again.
    """
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d)]
    return [m.register_forward_pre_hook(lambda _, given: (given[0].contiguous(),)) for m in convolutions]


def refuse_private(model: nn.Module, n: int, options: TrainOptions) -> None:
    """Find before a training begins what it would refuse: a missing extra, no such budget, a layer without gradients.

    Raises:
        InputError: As `fit_private`.
    """
    cross_check(privacy_of(n, options))
    _hooks(model, options.clip, ghost=True).cleanup()


def cross_check(privacy: Privacy) -> float:
    """Compute the epsilon of this noise by Opacus' own accountant, which must agree with ours.

    Returns:
        Epsilon by Opacus.

    Raises:
        InputError: Opacus is not installed.
        MemoriskError: The accountants disagree by more than 1e-3, or more than the budget is spent.
    """
    if importlib.util.find_spec("opacus") is None:
        raise extra_message("opacus", "a dp regime")
    spent = (privacy.noise_multiplier, privacy.sampling_rate, privacy.steps, privacy.delta)
    theirs, ours = spent_epsilon(*spent), rdp_epsilon(*spent)
    if abs(ours - theirs) > _EPSILON_TOLERANCE * max(1.0, ours) or theirs > privacy.epsilon + _EPSILON_TOLERANCE * max(
        1.0, ours
    ):
        raise MemoriskError(
            f"Opacus' accountant finds epsilon {theirs:.4f} where ours finds {ours:.4f} of {privacy.epsilon:g}: the "
            "training is not begun; please report it"
        )
    return theirs


def _hooks(model: nn.Module, clip: float, *, ghost: bool) -> Any:
    """Attach Opacus' hooks to a network, which give the norm of each image's gradient."""
    try:
        from opacus.grad_sample import GradSampleHooksFastGradientClipping
    except ImportError as error:
        raise extra_message("opacus", "a dp regime") from error
    try:
        norm: Any = clip  # Opacus types it as a whole number
        hooks = GradSampleHooksFastGradientClipping(
            model, loss_reduction="mean", max_grad_norm=norm, use_ghost_clipping=ghost
        )
        hooks.NORM_SAMPLERS = {**hooks.NORM_SAMPLERS, nn.Linear: _linear_norms}
        return hooks
    except NotImplementedError as error:
        raise InputError(
            f"{type(model).__name__} cannot be trained under differential privacy: {one_line(error, 160)}"
        ) from error


def _linear_norms(layer: nn.Linear, activations: list[torch.Tensor], backprops: torch.Tensor) -> dict:
    """Compute Opacus' norms of a linear layer, also where it runs over rows and columns of an image, [b, h, w, d]."""
    from opacus.grad_sample.linear import compute_linear_norm_sample

    if backprops.ndim > 3:
        activations, backprops = [a.flatten(1, -2) for a in activations], backprops.flatten(1, -2)
    return compute_linear_norm_sample(layer, activations, backprops)


@contextmanager
def _clipping(training: ClassifierTraining, privacy: Privacy, *, ghost: bool) -> Iterator[tuple[Any, Any]]:
    """Put Opacus' hooks and optimiser around a network for as long as it trains, and remove them afterwards."""
    model = training.model
    model.to(memory_format=torch.contiguous_format)  # pyright: ignore[reportCallIssue] (torch's stub lacks this form)
    with ExitStack() as undo:
        undo.enter_context(_copy_outputs(model))
        for handle in _contiguous_inputs(model):
            undo.callback(handle.remove)
        hooks = _hooks(model, privacy.clip, ghost=ghost)
        undo.callback(hooks.cleanup)
        from opacus.optimizers import DPOptimizerFastGradientClipping

        trained = [p for p in model.parameters() if p.requires_grad]
        norm: Any = privacy.clip  # Opacus types it as a whole number
        optimizer = DPOptimizerFastGradientClipping(
            build_optimizer(trained, training.options),  # pyright: ignore[reportArgumentType] (it has what is used)
            noise_multiplier=privacy.noise_multiplier,
            max_grad_norm=norm,
            expected_batch_size=max(1, round(privacy.sampling_rate * len(training.targets))),
            loss_reduction="mean",
            generator=torch.Generator(training.device),
        )
        yield hooks, optimizer


class _ClippedLoss:
    """Losses of the sampled images: the members of a loss that `run_epochs` needs, clipping in its backward pass."""

    ndim = 0

    def __init__(self, steps: "_PrivateSteps", losses: torch.Tensor) -> None:
        self.steps, self.losses = steps, losses

    def backward(self) -> None:
        """Put the sum of the clipped gradients in ``.grad``."""
        if not len(self.losses):  # no image was sampled: the step is noise alone
            for parameter in self.steps.optimizer.params:
                parameter.grad = torch.zeros_like(parameter)
            return
        from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

        with warnings.catch_warnings(action="ignore", category=UserWarning):  # the pixels need no gradient
            DPTensorFastGradientClipping(self.steps.hooks, self.steps.optimizer, self.losses, "mean").backward()

    def detach(self) -> torch.Tensor:
        """Return the mean loss of the sampled images."""
        return self.losses.detach().mean() if len(self.losses) else self.losses.new_zeros(())


class _PrivateSteps:
    """The steps of one private training."""

    def __init__(
        self, training: ClassifierTraining, privacy: Privacy, hooks: Any, optimizer: Any, seed: int, noise_seed: int
    ) -> None:
        self.training, self.privacy, self.hooks, self.optimizer = training, privacy, hooks, optimizer
        self.seed, self.noise_seed = seed, noise_seed
        self.loss_of = per_image_loss(training.options.head)
        self.movement = ParameterChangeCheck(training.model)

    def run(self, checkpoint: Checkpoint | None, on_epoch: OnEpoch | None) -> TrainingState:
        """Train for all epochs."""
        set_training_mode(self.training.model)
        with forked_generators(self.training.device) as reseed:
            return run_epochs(
                lambda epoch, bounds: check_parameter_changes(self.losses(epoch, bounds, reseed), epoch, self.movement),  # pyright: ignore[reportArgumentType] (a loss by its members)
                self.training.model.state_dict(),
                self.optimizer,
                self.training.options,
                n=self.training.slots,
                checkpoint=checkpoint,
                on_epoch=on_epoch,
            )

    def losses(self, epoch: int, bounds: Bounds, reseed: Callable[[int], None]) -> Iterator[_ClippedLoss]:
        """Yield the clipped loss of each step of an epoch."""
        training = self.training
        n, rate = len(training.targets), self.privacy.sampling_rate
        slots = [s[s < n] for s in poisson_slots(self.seed, epoch, training.slots, len(bounds), rate)]
        noise = noise_seeds(self.noise_seed, epoch, len(bounds))
        for step, step_seed in enumerate(step_seeds(self.seed, epoch, len(bounds))):
            reseed(step_seed)
            self.optimizer.generator.manual_seed(noise[step])
            yield _ClippedLoss(self, self._forward(slots[step], step_seed))

    def _forward(self, slots: torch.Tensor, step_seed: int) -> torch.Tensor:
        training = self.training
        if not len(slots):
            return torch.zeros(0, device=training.device)
        x = next(training.source.batches([slots]))
        if training.augment is not None:
            x = training.augment(x, step_seed)
        return self.loss_of(training.model(x), training.targets[slots.to(training.device)])


def poisson_slots(seed: int, epoch: int, n: int, n_steps: int, rate: float) -> list[torch.Tensor]:
    """Draw the slots of each step of an epoch from (seed, epoch), each slot with probability ``rate`` by itself."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SLOTS, epoch)))
    return [torch.from_numpy(np.flatnonzero(rng.random(n) < rate)) for _ in range(n_steps)]


def noise_seeds(noise_seed: int, epoch: int, n_steps: int) -> list[int]:
    """Derive the seed of each step's noise from (noise seed, epoch, step)."""
    state = np.random.SeedSequence(noise_seed, spawn_key=(_NOISE, epoch)).generate_state(n_steps, np.uint64)
    return (state >> np.uint64(1)).tolist()


def per_image_loss(head: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the loss of each image, [b], whose mean is `memorisk.training.engine.optimization.objective`."""
    if head in ("single", "first"):
        return lambda logits, y: F.cross_entropy(logits, y, reduction="none")
    if head == "binary":
        return lambda logits, y: F.binary_cross_entropy_with_logits(logits.squeeze(1), y, reduction="none")
    return lambda logits, y: F.binary_cross_entropy_with_logits(logits, y, reduction="none").mean(dim=1)

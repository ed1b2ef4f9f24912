"""Counters for what a command really does, to hold against what its dry run said."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from memorisk.images.copies import near_copies
from memorisk.images.copies.duplicates import closest_between_groups, near_pairs
from memorisk.models.generators.dit.sampling import DiffusionSampler
from memorisk.models.generators.stylegan2_networks import GeneratorNetwork, Synthesis
from memorisk.models.windows import WindowedNetwork
from memorisk.runs.workload import Cost
from memorisk.scores import pairs, similarity
from memorisk.scores.distances import neighbours
from memorisk.scores.influence import tracin as influence
from memorisk.scores.pairs.queries import Survey
from memorisk.scores.pairs.search import Pass
from memorisk.studies.pairs import similarity as judges
from memorisk.training.classifiers import fit
from memorisk.training.engine.optimization import FusedAdam


@dataclass
class Counts:
    """What was counted; images are inputs [b, C, H, W] of up to four channels, their windows if these are embedded, or
    what a GAN draws them from."""

    steps: int = 0
    images_trained: int = 0
    images_passed: int = 0
    pairs: int = 0
    """Of searches of one against all."""
    listed: int = 0
    """Pairs that are compared one by one."""
    optimizers: list[Any] = field(default_factory=list)

    @property
    def trainings(self) -> int:
        """Different optimisers that made a step; both of a GAN have one state and are one."""
        return len({id(optimizer.state) for optimizer in self.optimizers})

    def step(self, optimizer: Any) -> None:
        """One update."""
        self.steps += 1
        self.optimizers.append(optimizer)

    def cost(self, run: Path, **stated: Any) -> Cost:
        """Everything counted, with the bytes that lie in the run folder; ``stated`` is taken as it is."""
        counted: dict[str, Any] = {
            "trainings": self.trainings,
            "steps": self.steps,
            "images_trained": self.images_trained,
            "images_passed": self.images_passed,
            "pairs": self.pairs,
            "bytes_weights": sum(tensor_bytes(path) for path in run.rglob("*.safetensors")),
            "bytes_outputs": sum(array_bytes(path) for path in run.rglob("logits/*.npy")),
        }
        return Cost(**(counted | stated))


def tensor_bytes(path: Path) -> int:
    """Bytes of the tensors in a safetensors file, by its size on the disk."""
    with path.open("rb") as file:
        return path.stat().st_size - 8 - int.from_bytes(file.read(8), "little")


def array_bytes(path: Path) -> int:
    """Bytes of the array in a .npy file, by its size on the disk."""
    with path.open("rb") as file:
        file.seek(8)
        return path.stat().st_size - 10 - int.from_bytes(file.read(2), "little")


def is_images(module: nn.Module, given: torch.Tensor) -> bool:
    """Whether a network's input stands for an image a row."""
    return isinstance(module, Synthesis | GeneratorNetwork) or (given.ndim == 4 and given.shape[1] <= 4)


def is_check(images: torch.Tensor) -> bool:
    """Whether two black images only ask a network how wide its features are, which is no part of a cost."""
    return len(images) == 2 and torch.is_inference_mode_enabled() and not images.any()


@contextmanager
def counted() -> Iterator[Counts]:
    """Count the updates, the images and the pairs of everything in the block, in this process."""
    found, depth = Counts(), [0]

    def enters(module: nn.Module, given: tuple[Any, ...]) -> None:
        """A network or a part of one gets its input."""
        images = given[0] if given and isinstance(given[0], torch.Tensor) else None
        weights = list(module.parameters()) if depth[0] == 0 else []
        if weights and images is not None and is_images(module, images) and not is_check(images):
            if torch.is_grad_enabled() and any(p.requires_grad for p in weights):
                found.images_trained += len(images)
            else:
                found.images_passed += len(images) * (module.grid.n if isinstance(module, WindowedNetwork) else 1)
        depth[0] += 1

    def leaves(module: nn.Module, given: Any, output: Any) -> None:
        """And is done with it."""
        depth[0] -= 1

    def tiled(*given: Any) -> None:
        """A tile of distances."""
        found.pairs += given[3].size
        evaluate(*given)

    def surveyed(self: Pass) -> Survey:
        """All pairs of vectors by a head; of one table with itself those that are looked at, each once."""
        survey = run(self)
        found.pairs += survey.work.pairs
        return survey

    def beside(compare: Any, at: int) -> Any:
        """What compares rows with the rows beside them."""

        def compared(*given: Any, **named: Any) -> Any:
            """Some rows."""
            found.listed += len(given[at])
            return compare(*given, **named)

        return compared

    def matched(first: Any, second: Any, *given: Any, **named: Any) -> Any:
        """Thumbnails of two sets."""
        found.pairs += len(first) * len(second)
        return between_sets(first, second, *given, **named)

    def learned(vectors: Any, *given: Any, **named: Any) -> Any:
        """Vectors of the real images."""
        found.pairs += len(vectors) * (len(vectors) - 1) // 2
        return closest_between_groups(vectors, *given, **named)

    def stepped(self: FusedAdam) -> None:
        """An update by our own Adam."""
        found.step(self)
        step(self)

    def drawing(self: DiffusionSampler, times: Any, labels: Any, rows: Any) -> Any:
        """The network of a diffusion model while it draws, which no module's call shows; with guidance asked twice."""
        ask = forward(self, times, labels, rows)

        def asked(x: torch.Tensor, k: int) -> torch.Tensor:
            """One step."""
            found.images_passed += len(x) * (1 if self.how.guidance == 1 else 2)
            return ask(x, k)

        return asked

    def unnoticed(check: Any) -> Any:
        """A check of a network on two or three images, which is no part of a cost."""

        def checked(*given: Any) -> Any:
            """Its answer."""
            before = found.images_trained, found.images_passed
            try:
                return check(*given)
            finally:
                found.images_trained, found.images_passed = before

        return checked

    make_plan = influence.make_plan
    count_outputs = fit._count_outputs  # pyright: ignore[reportPrivateUsage]
    forward = DiffusionSampler._forward  # pyright: ignore[reportPrivateUsage]
    step, between_sets, evaluate, run = FusedAdam.step, near_copies.near_copies_between, neighbours.evaluate, Pass.run
    one_by_one = [(similarity, "rowwise", 0), (pairs, "rowwise", 0), (judges, "pixel_scores", 1)]
    by_definition = [getattr(of, name) for of, name, _ in one_by_one]
    handles = [
        register_optimizer_step_post_hook(lambda optimizer, *_: found.step(optimizer)),
        register_module_forward_pre_hook(enters),
        register_module_forward_hook(leaves, always_call=True),
    ]
    FusedAdam.step, fit._count_outputs, influence.make_plan = stepped, unnoticed(count_outputs), unnoticed(make_plan)
    neighbours.evaluate, Pass.run, DiffusionSampler._forward = tiled, surveyed, drawing
    for (of, name, at), compare in zip(one_by_one, by_definition, strict=True):
        setattr(of, name, beside(compare, at))
    from memorisk.audits.classifier.planning import dry_run
    from memorisk.audits.comparison import colours, distances, other_forms
    from memorisk.audits.filter import sets

    likeness = sets.likeness
    seconds_per_image = dry_run.seconds_per_image

    def timed(*given: Any) -> Any:
        """The two steps that are timed for the estimate, which are no part of a cost."""
        steps, images, n = found.steps, found.images_trained, len(found.optimizers)
        try:
            return seconds_per_image(*given)
        finally:
            found.steps, found.images_trained = steps, images
            del found.optimizers[n:]

    def alike(*given: Any) -> Any:
        """Who looks like whom, found while the sets are read, by a dry run, too: no part of a cost."""
        before = found.pairs
        try:
            return likeness(*given)
        finally:
            found.pairs = before

    def nearly(images: Any, **named: Any) -> Any:
        """Thumbnails of one set."""
        found.pairs += len(images) * (len(images) - 1) // 2
        return near_pairs(images, **named)

    distances.near_copies_between, near_copies.near_pairs, near_copies.closest_between_groups = matched, nearly, learned
    colours.near_copies_between = other_forms.near_copies_between = matched
    sets.likeness, dry_run.seconds_per_image = alike, timed
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
        FusedAdam.step, fit._count_outputs, influence.make_plan = step, count_outputs, make_plan
        neighbours.evaluate, Pass.run, DiffusionSampler._forward = evaluate, run, forward
        for (of, name, _), compare in zip(one_by_one, by_definition, strict=True):
            setattr(of, name, compare)
        distances.near_copies_between, near_copies.near_pairs = between_sets, near_pairs
        colours.near_copies_between = other_forms.near_copies_between = between_sets
        near_copies.closest_between_groups, sets.likeness = closest_between_groups, likeness
        dry_run.seconds_per_image = seconds_per_image

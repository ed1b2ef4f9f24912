"""Whom the weights that a generator's training begins with were trained on, and who may then not be held out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.models.autoencoders.latents_seen import TrainedOn, read_trained_on
from memorisk.models.generators.dit.dit import find_dit
from memorisk.runs.errors import InputError, several
from memorisk.training.generators.options import GeneratorOptions


@dataclass(frozen=True, eq=False)
class Beginning:
    """Of a training: random, or weights that have seen images before.

    Attributes:
        name: Of the weights; "" where they are random.
        seen: What they were trained on, where that is known.
    """

    name: str = ""
    seen: TrainedOn | None = None

    @classmethod
    def of(cls, options: GeneratorOptions) -> "Beginning":
        """That which the options name.

        Args:
            options: Of the training.

        Raises:
            InputError: There are no such weights, or what they were trained on cannot be read.
        """
        if options.kind != "dit" or options.weights is None:
            return cls()
        found = find_dit(options.weights)
        return cls(found.name, found.seen)

    @property
    def unknown(self) -> str:
        """Name of the weights where nobody knows what they were trained on; else ""."""
        return self.name if self.seen is None else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said of it."""
        if not self.name:
            return ()
        unknown = f"What weights {self.name} were trained on is not known here: images of theirs may be repeated, too."
        if self.seen is None:
            return (unknown,)
        said = several(self.seen.n_training, "image", "images")
        return (f"It began with weights {self.name}, trained on {said}, which it may repeat, too.",)

    def refuse_known(self, store: ImageStore, parts: Mapping[str, np.ndarray]) -> None:
        """Refuse to hold images out whose patients the weights were trained on: nothing measured on them would hold.

        Args:
            store: The images.
            parts: Rows of each part that is held out, by its name.

        Raises:
            InputError: One is known.
        """
        if self.seen is None:
            return
        trained = self.seen.parts(store).part == "training"
        for name, rows in parts.items():
            known = sorted(set(store.manifest.groups[rows[trained[rows]]].tolist()))
            if known:
                told = several(len(known), f"{name} patient", f"{name} patients")
                raise InputError(
                    f"weights {self.name} were trained on {told} ({listed(known)}): divide the patients as for that "
                    "training (split_seed, or splits given), or begin with other weights"
                )


def notes_on_latents(options: GeneratorOptions, store: ImageStore, parts: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """What must be said of an autoencoder that knows who is held out of the generator's training.

    Args:
        options: Of the training.
        store: The images.
        parts: Rows of each part that is held out, by its name.

    Raises:
        InputError: What the autoencoder was trained on cannot be read.
    """
    kind, _, folder = options.latent.partition(":")
    seen = read_trained_on(Path(folder)) if kind == "autoencoder" else None
    if options.kind != "dit" or seen is None:
        return ()
    trained, said = seen.parts(store).part == "training", []
    for name, rows in parts.items():
        if n := len(set(store.manifest.groups[rows[trained[rows]]].tolist())):
            told = several(n, f"{name} patient", f"{name} patients")
            said.append(
                f"The autoencoder was trained on {told}: they are no strangers to what is drawn, and an audit refuses "
                "them as held-out patients."
            )
    return tuple(said)

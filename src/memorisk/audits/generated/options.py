"""What the settings of audits of generated images must agree on: several sets, of which one is held out."""

from typing import Protocol

from memorisk.runs.errors import InputError


class _Sampled(Protocol):
    @property
    def sample(self) -> object: ...


class _HeldOut(Protocol):
    @property
    def held_out(self) -> object: ...
    @property
    def held_out_split(self) -> str | None: ...


class _Divided(_HeldOut, Protocol):
    @property
    def train_split(self) -> str | None: ...


def refuse_sample(options: _Sampled) -> None:
    """Refuse a sample, since it would be drawn from one set only.

    Raises:
        InputError: One is asked for.
    """
    if options.sample is not None:
        raise InputError("sample draws from one set of images, and here are three: name smaller sets instead")


def refuse_two_held_out(options: _HeldOut) -> None:
    """Refuse held-out images that are named as a set and as a part of TRAIN.

    Raises:
        InputError: Both are named.
    """
    if options.held_out is not None and options.held_out_split is not None:
        raise InputError("held_out and held_out_split both say which images are held out: give one of them")


def check_held_out(options: _Divided) -> None:
    """Require that held-out images are named once, and are another part of TRAIN than the training images.

    Raises:
        InputError: They are named twice, or a split is missing or named for both parts.
    """
    refuse_two_held_out(options)
    if options.train_split is not None and options.held_out_split is None:
        raise InputError("train_split goes with held_out_split: which part of TRAIN is held out?")
    if options.held_out_split is not None and options.held_out_split == (options.train_split or "train"):
        raise InputError(f"held_out_split and train_split are both {options.held_out_split!r}; name two parts of TRAIN")

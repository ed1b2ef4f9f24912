"""Rules that settings of audits of generated images must keep: several sets, one held out, saved features of all."""

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


class _Featured(Protocol):
    @property
    def synthetic_features(self) -> object: ...
    @property
    def held_out_features(self) -> object: ...
    @property
    def held_out_split(self) -> str | None: ...


def refuse_sample(options: _Sampled) -> None:
    """Refuse a sample, since it would be drawn from one set only.

    Raises:
        InputError: The options name a sample.
    """
    if options.sample is not None:
        raise InputError("sample draws from one set of images, and here are three: name smaller sets instead")


def refuse_two_held_out(options: _HeldOut) -> None:
    """Refuse held-out images that are named as a set and as a part of TRAIN.

    Raises:
        InputError: Both settings are given.
    """
    if options.held_out is not None and options.held_out_split is not None:
        raise InputError("held_out and held_out_split both say which images are held out: give one of them")


def check_held_out(options: _Divided) -> None:
    """Require that held-out images are named once, and are another part of TRAIN than the training images.

    Raises:
        InputError: The images are named twice, or a split is missing or named for both parts.
    """
    refuse_two_held_out(options)
    if options.train_split is not None and options.held_out_split is None:
        raise InputError("train_split goes with held_out_split: which part of TRAIN is held out?")
    if options.held_out_split is not None and options.held_out_split == (options.train_split or "train"):
        raise InputError(f"held_out_split and train_split are both {options.held_out_split!r}; name two parts of TRAIN")


def check_saved_features(options: _Featured, *, saved: bool, held_out: bool) -> None:
    """Require files of features for all sets, or for none.

    Args:
        options: Settings that name the files in addition to that of TRAIN.
        saved: Whether features of TRAIN lie in a file; with a split it holds both parts.
        held_out: Whether there are held-out images.

    Raises:
        InputError: A file is missing, or is given without that of TRAIN.
    """
    beside = {"synthetic_features": options.synthetic_features, "held_out_features": options.held_out_features}
    if not saved:
        if names := [name for name, path in beside.items() if path is not None]:
            raise InputError(f"{names[0]} belongs to a file of features of TRAIN: name that with features")
        return
    if options.synthetic_features is None:
        raise InputError("features of TRAIN are saved ones: name those of SYNTHETIC with synthetic_features")
    if held_out and options.held_out_split is None and options.held_out_features is None:
        raise InputError("features of TRAIN are saved ones: name those of the held-out images with held_out_features")

"""A computation of features or latents that is interrupted between two batches."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memorisk.training.features import cache as feature_cache


@contextmanager
def interrupted_after(batches: int) -> Iterator[None]:
    """Write so many batches and no more; what is computed here must be interrupted."""
    write, calls = feature_cache._write, []

    def fails(*arguments) -> None:
        if len(calls) == batches:
            raise KeyboardInterrupt
        calls.append(1)
        write(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_cache, "_write", fails)
        with pytest.raises(KeyboardInterrupt):
            yield

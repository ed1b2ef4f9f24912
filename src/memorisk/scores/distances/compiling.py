"""Functions compiled by numba at their first call, run outside Python's lock and kept on the disk where it allows."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: ``numba.njit`` with a cache, or without one where no folder can be written."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # numba's word for "no locator available": a read-only installation without a home
            return njit(nogil=True, **options)(function)

    return decorate

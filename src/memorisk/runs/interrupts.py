"""Ctrl-C ends a command within seconds, also where a library waits for workers that will not answer any more."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE_SECONDS = 5.0
INTERRUPTED = 130


@contextmanager
def prompt_interrupt(line: str, *, grace: float = GRACE_SECONDS) -> Iterator[None]:
    """Raise KeyboardInterrupt on the first Ctrl-C as usual; if the process is still there after ``grace``, end it.

    A pool of processes that is interrupted while its workers start may wait for them for ever. What is done is in files
    by then, and workers end with their parent.

    Args:
        line: Written to standard error where the process had to be ended, unless it was written already.
        grace: Seconds to leave on one's own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    said = threading.Event()

    def leave() -> None:
        """End the process at once."""
        if not said.is_set():
            sys.stderr.write(line)
            sys.stderr.flush()
        os._exit(INTERRUPTED)

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        """Interrupt, and end the process if that takes too long."""
        timer = threading.Timer(grace, leave)
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    except KeyboardInterrupt:
        said.set()  # whoever catches it says so
        raise
    finally:
        signal.signal(signal.SIGINT, before)

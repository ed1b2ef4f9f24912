"""The first lines of the program, before large imports: Ctrl-C, closed streams, the limit of open files."""

import os
import signal
import sys
from types import FrameType

_FEWEST_FILES, _WANTED_FILES = 128, 4096


def main() -> int:
    """Run the command line as a program of its own."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop)  # until a command runs, which has a handler of its own
    _open_closed_streams()
    if (files := _open_files_limit()) < _FEWEST_FILES:
        sys.stderr.write(
            f"memorisk: this process may open {files:,} files; it needs {_FEWEST_FILES}: ulimit -n {_WANTED_FILES}\n"
        )
        return 2
    from memorisk.cli.main import main as run

    return run()


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End the process in one line; nothing was begun, or all is done."""
    os.write(2, b"memorisk: stopped\n")
    os._exit(130)


def _open_closed_streams() -> None:
    """Open the null device in place of standard streams that were closed: a file of a run would take their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _open_files_limit() -> int:
    """Raise the soft limit of open files to what runs with several processes need, and return it."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return _WANTED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _WANTED_FILES if hard == unlimited else min(hard, _WANTED_FILES)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _WANTED_FILES if soft == unlimited else soft

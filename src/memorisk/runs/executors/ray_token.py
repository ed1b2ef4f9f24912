"""The token that a Ray cluster may ask for (``RAY_AUTH_MODE=token``), tried before anything is written.

Ray itself asks for a token again for half a minute, ends the process where the file of one cannot be read, and at last
says that nobody answers.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memorisk.runs.errors import InputError, one_line

MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
OWN_FILE = Path("~/.ray/auth_token")
"""Where Ray looks if neither variable is set."""
_WAY_OUT = f"set {TOKEN}, or {TOKEN_FILE} to a file that holds it, or write it to {OWN_FILE}"


def try_token(address: str) -> None:
    """Ask the cluster whether it takes our token, or none.

    Args:
        address: ``host:port``, where somebody listens. Of ``ray://`` only our own side is looked at.

    Raises:
        InputError: We are to have a token and have none, or the cluster takes ours not.
    """
    if os.environ.get(MODE, "").lower() == "token":
        _own_token()
    if address.startswith("ray://"):
        return
    from ray import exceptions
    from ray._private.services import canonicalize_bootstrap_address as found

    refused = getattr(exceptions, "AuthenticationError", None)
    if refused is None:  # Ray before 2.52 knows no tokens
        return
    try:
        with _silent_stderr():
            # as `ray health-check` does: Ray has no public way to ask once
            importlib.import_module("ray._raylet").GcsClient(address=found(address) or address)
    except refused:
        raise InputError(
            f"the Ray cluster at {one_line(address, 80)} takes jobs only with its token: set {MODE}=token and "
            f"give the token: {_WAY_OUT}"
        ) from None
    except (exceptions.RayError, ConnectionError, RuntimeError, ValueError):
        return  # what else is wrong is told when Ray connects


def _own_token() -> None:
    """See that there is a token where Ray will look.

    Raises:
        InputError: There is none.
    """
    if os.environ.get(TOKEN):
        return
    named = os.environ.get(TOKEN_FILE)
    file = Path(named) if named else OWN_FILE.expanduser()
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        text = ""
    if not text:
        where = f"{TOKEN_FILE} names {one_line(named, 80)}, which" if named else f"{TOKEN} is not set and {OWN_FILE}"
        raise InputError(f"{MODE} is token, but {where} holds no token that can be read: {_WAY_OUT}")


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keep what Ray's own libraries write there out of our refusal, which is one line."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        for one in (kept, nowhere):
            with suppress(OSError):
                os.close(one)

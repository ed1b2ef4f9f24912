"""The server of ``memorisk view``: bound to loopback, for whoever has the link that it prints."""

import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from memorisk.runs.errors import InputError, MissingExtraError

try:
    from memorisk.view.app import create_app
    from memorisk.view.guard import Guard
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "starlette":
        raise
    raise MissingExtraError("starlette", "view", "memorisk view") from None

HOST = "127.0.0.1"


def serve(places: Sequence[Path], *, port: int, say: Callable[[str], None]) -> None:
    """Show runs until the process is told to end.

    Args:
        places: Run folders, or folders that hold some.
        port: Where to listen; 0 for any that is free.
        say: Called with the link once the server listens.

    Raises:
        InputError: There is no run, or the port is taken.
        MissingExtraError: Without the extra ``view``.
    """
    try:
        import uvicorn  # after what every command needs, so that an install without that is told first
    except ModuleNotFoundError:
        raise MissingExtraError("uvicorn", "view", "memorisk view") from None
    app = create_app(places)
    with listening_socket(port) as listener:
        chosen = listener.getsockname()[1]
        token = secrets.token_urlsafe(32)
        config = uvicorn.Config(
            Guard(app, chosen, token), log_level="warning", access_log=False, server_header=False, date_header=False
        )  # a log of requests would hold the token
        say(f"http://{HOST}:{chosen}/?token={token}")
        uvicorn.Server(config).run(sockets=[listener])


def listening_socket(port: int) -> socket.socket:
    """A socket on loopback.

    Args:
        port: 0 for any that is free.

    Raises:
        InputError: The port is taken, or is none.
    """
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port {port} is none: name 0 (any that is free) to 65535")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sends at once
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)  # whoever opens the link at once waits, and is not refused
    except OSError as error:
        listener.close()
        raise InputError(f"--port {port} cannot be used ({error.strerror}): leave it out, or name another") from None
    return listener

"""The server of ``memorisk view``: bound to loopback, for the browser that has the link that it prints."""

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
    """Show runs until the process ends.

    Args:
        places: Paths of run folders, or of folders that hold some.
        port: Port to listen on; 0 for any that is free.
        say: Function called with the link once the server listens.

    Raises:
        InputError: No run was found, or the port is taken.
        MissingExtraError: The extra ``view`` is not installed.
    """
    try:
        import uvicorn  # after the libraries that every command needs, so that a lack of those is reported first
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
    """Return a socket on loopback.

    Args:
        port: Port to listen on; 0 for any that is free.

    Raises:
        InputError: The port is taken, or is not a valid port.
    """
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port {port} is none: name 0 (any that is free) to 65535")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sends at once
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)  # a browser that opens the link at once waits, and is not refused
    except OSError as error:
        listener.close()
        raise InputError(f"--port {port} cannot be used ({error.strerror}): leave it out, or name another") from None
    return listener

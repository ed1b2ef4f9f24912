"""Real servers on loopback for the tests of storage: FTP by pyftpdlib, a web server of the standard library."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

USER, PASSWORD = "clinic", "correct-horse-battery"


class FtpServer:
    """An FTP server for one folder, which can be stopped, started again and told to cut or to lie."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, 0
        self.cuts = 0  # transfers to break off
        self.lies: list[str] = []  # names that listings add
        self.start()

    @property
    def url(self) -> str:
        return f"ftp://127.0.0.1:{self.port}"

    def start(self) -> None:
        filesystems = pytest.importorskip("pyftpdlib.filesystems")
        from pyftpdlib.authorizers import DummyAuthorizer
        from pyftpdlib.handlers import DTPHandler, FTPHandler
        from pyftpdlib.servers import ThreadedFTPServer

        server = self

        class Files(filesystems.AbstractedFS):
            def format_mlsx(self, *args, **kwargs):
                yield from super().format_mlsx(*args, **kwargs)
                for name in server.lies:
                    yield f"type=file;size=3;modify=20260101000000; {name}\r\n".encode()

        class Data(DTPHandler):
            def initiate_send(self):
                if server.cuts and getattr(self.cmd_channel, "_last", "") == "RETR":
                    server.cuts -= 1
                    self.cmd_channel.close()
                    return None
                return super().initiate_send()

        class Control(FTPHandler):
            use_sendfile = False
            auth_failed_timeout = 0

            def pre_process_command(self, line, cmd, arg):
                self._last = cmd
                return super().pre_process_command(line, cmd, arg)

            def log(self, *args, **kwargs):
                return None

        authorizer = DummyAuthorizer()
        authorizer.add_user(USER, PASSWORD, str(self.root), perm="elr")
        Control.authorizer, Control.abstracted_fs, Control.dtp_handler = authorizer, Files, Data
        listening = ThreadedFTPServer(("127.0.0.1", self.port), Control)
        self.port, self._stopped = listening.address[1], threading.Event()

        def serve() -> None:
            while not self._stopped.is_set():
                listening.serve_forever(timeout=0.02, blocking=False)
            listening.close_all()

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(10)


@contextmanager
def web_server(root: Path, *, cuts: int = 0) -> Iterator[tuple[str, list[str]]]:
    """A web server for a folder: its URL and the paths that were asked for; it breaks off the first answers."""
    asked: list[str] = []
    left = [cuts]

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if left[0] and self.path.endswith(".png"):
                left[0] -= 1
                whole = (root / self.path.lstrip("/")).read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(whole)))
                self.end_headers()
                self.wfile.write(whole[: len(whole) // 2])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
                return None
            return super().do_GET()

        def log_message(self, *args):
            return None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    server.handle_error = lambda *args: None  # the broken answers
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()

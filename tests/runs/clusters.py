"""Real clusters on loopback: schedulers and workers as processes of their own, and a wire that can be cut."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from memorisk.runs.files import write_text

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}


def slow_square(job: tuple[int, str, float]) -> int:
    """A number squared after a while; who did it is left in a file."""
    number, folder, seconds = job
    write_text(Path(folder) / f"began-{number}-{os.getpid()}-{time.monotonic_ns()}", "")
    time.sleep(seconds)
    write_text(Path(folder) / f"done-{number}", str(number**2))
    if number < 0:
        raise ValueError("below 0")
    return number**2


def fatal_below_zero(number: int) -> int:
    """A number, and the end of the worker that is asked for one below 0."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@contextmanager
def first_stopped(folder: Path) -> Iterator[list[int]]:
    """Stop for good the process that first begins a job of `slow_square` there; the list holds it afterwards."""
    stopped: list[int] = []

    def stop() -> None:
        """When one has begun."""
        while not (began := list(folder.glob("began-*"))):
            time.sleep(0.05)
        stopped.append(int(began[0].name.split("-")[2]))
        os.kill(stopped[0], signal.SIGSTOP)

    thread = threading.Thread(target=stop)
    thread.start()
    yield stopped
    thread.join()


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Wire:
    """Passes bytes on to a port until it is cut; then it passes new connections on."""

    target: int
    port: int = field(default_factory=free_port)
    open: list[socket.socket] = field(default_factory=list)

    def start(self) -> None:
        """Listen, in a thread of its own."""
        server = socket.create_server(("127.0.0.1", self.port))
        self.server = server
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Break every connection; how many there were."""
        broken, self.open = self.open, []
        for one in broken:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        return len(broken) // 2

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.server.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for end in (one, other):  # a connection that one side has ended is over, and none that can be cut
            with suppress(ValueError):
                self.open.remove(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@dataclass
class DaskCluster:
    """A scheduler and its workers."""

    address: str
    port: int
    workers: list[subprocess.Popen[Any]]
    nanny: bool = False

    def worker(self, name: str, *more: str) -> subprocess.Popen[Any]:
        """One more."""
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard"]
        command += ["--nanny" if self.nanny else "--no-nanny", "--name", name]
        made = subprocess.Popen([*command, *more], env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)  # fmt: skip
        self.workers.append(made)
        return made


@contextmanager
def dask_cluster(workers: int, *more: str, nanny: bool = False) -> Iterator[DaskCluster]:
    """A Dask cluster that listens when this begins."""
    port = free_port()
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    scheduler = subprocess.Popen([*command, "--no-dashboard"], env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)  # fmt: skip
    cluster = DaskCluster(f"tcp://127.0.0.1:{port}", port, [], nanny)
    try:
        for number in range(workers):
            cluster.worker(f"w{number}", *more)
        _wait_for(cluster, workers)
        yield cluster
    finally:
        below = [child for worker in cluster.workers if nanny for child in _children(worker)]
        for process in (*cluster.workers, *below, scheduler):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()


def _children(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """What a nanny has begun."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def _wait_for(cluster: DaskCluster, workers: int) -> None:
    from distributed import Client

    until = time.monotonic() + 60
    while True:
        try:
            with Client(cluster.address, timeout=2, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=30)
            return
        except (OSError, TimeoutError):
            assert time.monotonic() < until, "the cluster did not start"
            time.sleep(0.5)

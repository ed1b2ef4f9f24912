"""A Ray cluster that asks for a token: jobs run with it, and without it one line says so before anything is written."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from memorisk.runs.errors import InputError
from memorisk.runs.executors import ray
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.ray import check_ray
from tests.runs.clusters import ENVIRONMENT, fatal_below_zero, free_port

pytest.importorskip("ray")
SECRET = "5f" * 32
JOB = """
from pathlib import Path
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.ray import check_ray
from tests.runs.clusters import fatal_below_zero
place = Placement("ray", "{address}", folders=(Path("{folder}"),))
check_ray(place)
print(run_jobs(fatal_below_zero, [3, 5], place=place))
"""


@contextmanager
def guarded_head(folder: Path) -> Iterator[str]:
    """A Ray cluster of one machine that asks for the token; its address."""
    port, scratch = free_port(), folder / "ray"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port", str(port), "--num-cpus", "1",
               "--object-store-memory", str(80 * 2**20), "--include-dashboard", "false", "--disable-usage-stats",
               "--temp-dir", str(scratch)]  # fmt: skip
    try:
        done = subprocess.run(command, env=with_token(), capture_output=True, text=True, timeout=60, check=True)
        found = re.search(rf"[0-9.]+:{port}", done.stdout + done.stderr)
        assert found is not None, done.stdout + done.stderr
        yield found[0]
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if any(str(scratch) in word for word in process.info["cmdline"] or ()):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)


def with_token() -> dict[str, str]:
    """The environment of who knows it."""
    return {**ENVIRONMENT, ray.MODE: "token", ray.TOKEN: SECRET, "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.mark.thorough
def test_jobs_run_with_the_token_and_are_refused_without(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (ray.MODE, ray.TOKEN, ray.TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(prefix="ray-") as short, guarded_head(Path(short)) as address:  # Ray's sockets
        place = Placement("ray", address, folders=(tmp_path,))
        wanted = rf"^the Ray cluster at {address} takes jobs only with its token: set RAY_AUTH_MODE=token and give"
        for ask in (lambda: check_ray(place), lambda: run_jobs(fatal_below_zero, [3, 5], place=place)):
            with pytest.raises(InputError, match=wanted):
                ask()
        assert capfd.readouterr() == ("", "")
        program = [sys.executable, "-c", JOB.format(address=address, folder=tmp_path)]
        done = subprocess.run(program, env=with_token(), capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout == "[3, 5]\n", done.stderr
        wrong = {**with_token(), ray.TOKEN: SECRET[::-1]}
        done = subprocess.run(program, env=wrong, capture_output=True, text=True, timeout=120, check=False)
        assert "takes jobs only with its token" in done.stderr.splitlines()[-1]
        assert "InvalidAuthToken" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("named", [True, False])
def test_a_token_that_is_promised_and_not_there_is_told(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ray.MODE, "token")
    monkeypatch.delenv(ray.TOKEN, raising=False)
    monkeypatch.delenv(ray.TOKEN_FILE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "own" if named else tmp_path / ".ray" / "auth_token"
    if named:
        monkeypatch.setenv(ray.TOKEN_FILE, str(file))
    wanted = "RAY_AUTH_TOKEN_PATH names " if named else "RAY_AUTH_TOKEN is not set and ~/.ray/auth_token"
    with pytest.raises(InputError, match=f"RAY_AUTH_MODE is token, but {wanted}.*holds no token that can be read"):
        ray.check_token("ray://127.0.0.1:1")
    file.parent.mkdir(exist_ok=True)
    file.write_text(" \n")
    with pytest.raises(InputError, match="holds no token that can be read"):
        ray.check_token("ray://127.0.0.1:1")
    file.write_text(SECRET)
    ray.check_token("ray://127.0.0.1:1")

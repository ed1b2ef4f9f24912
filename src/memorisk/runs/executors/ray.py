"""Jobs on the workers of a Ray cluster, and the token that a cluster may ask for.

Ray runs a job whose worker or machine was lost again elsewhere, up to `RETRIES` times; it keeps its own
connections.

The token (``RAY_AUTH_MODE=token``) is tried before anything is written. Ray itself asks for a token again for half
a minute, ends the process where the file of one cannot be read, and at last says that nobody answers.
"""

import importlib
import importlib.util
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError, MissingExtraError, one_line
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.worker import (
    Heartbeat,
    LifeSigns,
    Outcome,
    WorkerRequirements,
    attempt_remotely,
    check_workers,
    inspect_machine,
    silence_message,
    worker_loss,
)
from memorisk.runs.processes import safe_start

MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
OWN_FILE = Path("~/.ray/auth_token")
"""Where Ray looks if neither variable is set."""
_WAY_OUT = f"set {TOKEN}, or {TOKEN_FILE} to a file that holds it, or write it to {OWN_FILE}"


def check_token(address: str) -> None:
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
        return  # Ray reports other errors when it connects


def _own_token() -> None:
    """See that there is a token where Ray will look.

    Raises:
        InputError: There is none.
    """
    if os.environ.get(TOKEN):
        return
    token_file = os.environ.get(TOKEN_FILE)
    file = Path(token_file) if token_file else OWN_FILE.expanduser()
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        text = ""
    if not text:
        where = (
            f"{TOKEN_FILE} names {one_line(token_file, 80)}, which"
            if token_file
            else f"{TOKEN} is not set and {OWN_FILE}"
        )
        raise InputError(f"{MODE} is token, but {where} holds no token that can be read: {_WAY_OUT}")


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keep what Ray's own libraries write there out of our refusal, which is one line."""
    try:
        saved = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        for one in (saved, nowhere):
            with suppress(OSError):
                os.close(one)


RETRIES = 5
CONNECT_SECONDS = 10
BEGIN_SECONDS = 20.0
"""That a worker at least has to begin a job: it may be a new process."""
WATCH_SECONDS = 5.0
_abandoned: list[Any] = []
"""Jobs of silent workers: as long as they are not taken back, Ray gives these workers no others."""
START_SECONDS = 120.0
"""For which a machine is waited for that is asked: Ray starts a process there, which imports what jobs need."""


def ray_outcomes(
    function: Callable[[Any], Any], jobs: Sequence[Any], place: Placement, threads: int, needs: WorkerRequirements
) -> Iterator[Outcome]:
    """Outcomes in the order in which jobs end; arguments and errors as for `runs.executors.dask.dask_outcomes`."""
    with open_ray(place.cluster) as ray:
        _check(ray, place, needs)
        task = ray.remote(attempt_remotely).options(max_retries=RETRIES, **_resource_request(place))
        every = min(WATCH_SECONDS, place.silence / 4)
        signs, waiting, last_look = LifeSigns(), {}, time.monotonic()
        tries, deaths = Counter[int](), Counter[int]()

        def hand_out(index: int) -> None:
            """Give a job to whom Ray chooses."""
            tries[index] += 1
            pulse = needs.pulse(f"{index}-{tries[index]}", every)  # Ray asks machines whether they live, not workers
            waiting[task.remote(function, jobs[index], index, threads, needs, pulse)] = index, pulse

        try:
            for index in range(len(jobs)):
                hand_out(index)
            while waiting:
                ended, _ = ray.wait(list(waiting), num_returns=1, timeout=every)
                for one in ended:
                    yield _outcome(ray, one, waiting.pop(one)[0])
                if time.monotonic() - last_look < every:
                    continue
                last_look = time.monotonic()
                room = partial(_has_room, ray, place)
                silent, idle = _silent(signs, waiting, every, place.silence, room)
                for one in (*silent, *idle):
                    index, _ = waiting.pop(one)
                    _abandoned.append(one)
                    deaths[index] += one in silent
                    if deaths[index] > RETRIES:
                        yield Outcome(index, error=f"its worker fell silent {deaths[index]} times")
                    else:
                        hand_out(index)
        finally:
            for one in waiting:
                ray.cancel(one, force=True)


def _silent(
    signs: LifeSigns,
    waiting: dict[Any, tuple[int, Heartbeat | None]],
    every: float,
    patience: float,
    has_room: Callable[[], bool],
) -> tuple[list[Any], list[Any]]:
    """Find jobs that must be handed out again, and log why.

    Those of workers that gave no sign of life for longer than one waits; and those that are not begun for so long
    while the cluster has room for them and no job begins or ends: Ray gives jobs to stopped workers, too.
    """
    signs_seen = {one: pulse.seen() for one, (_, pulse) in waiting.items() if pulse is not None}
    begun = {one: sign for one, sign in signs_seen.items() if sign is not None}
    queue = len(waiting), frozenset(begun)
    quiet = signs.quiet({**begun, None: queue}, every)
    stuck = quiet.pop(None) > max(patience, BEGIN_SECONDS) and len(begun) < len(signs_seen) and has_room()
    log = logging.getLogger(__name__)
    hung = [one for one, seconds in quiet.items() if seconds > patience]
    for one in hung:
        pulse = waiting[one][1]
        assert pulse is not None
        log.warning("%s", silence_message(pulse.worker(), quiet[one]))
        pulse.remove()
    idle = [one for one in signs_seen if one not in begun] if stuck else []
    if idle:
        log.warning("jobs that no worker begins, though there is room, are handed out again: %d", len(idle))
    return hung, idle


def _has_room(ray: Any, place: Placement) -> bool:
    """Return whether the cluster could run one more job."""
    free = ray.available_resources()
    return all(free.get(name, 0) >= n for name, n in _resource_names(place).items())


def _resource_names(place: Placement) -> dict[str, float]:
    """Name the resources that a job needs, as Ray's machines declare them."""
    return {"CPU": place.cores, "GPU": place.gpus, "memory": place.memory or 0}


def check_ray(place: Placement) -> None:
    """Ask whether there is a cluster; what its machines have is asked when jobs begin, since Ray takes seconds to say.

    Raises:
        InputError: Nobody listens at the address, or the cluster takes none of what we have as its token.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("ray", "cluster", "executor ray")
    try:
        _check_port(place.cluster)
    except (OSError, ValueError) as error:
        raise _no_cluster_error(place.cluster, error) from None
    check_token(place.cluster)


def _no_cluster_error(address: str, error: Exception) -> InputError:
    """Return the error of a cluster that does not answer."""
    return InputError(
        f"no Ray cluster answers at {one_line(address, 80)}: {one_line(error, 160)}; `ray status` tells of one"
    )


def _outcome(ray: Any, task: Any, index: int) -> Outcome:
    """Return the outcome of a job that has ended.

    Raises:
        MemoriskError: It never reached a worker.
    """
    try:
        return ray.get(task)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError):
        return worker_loss(index, RETRIES + 1)
    except ray.exceptions.RayError as error:
        raise MemoriskError(f"a job did not reach its worker: {one_line(error, 200)}; {RESUME_HINT}") from error


@contextmanager
def open_ray(address: str) -> Iterator[Any]:
    """Connect to the Ray cluster.

    Raises:
        InputError: There is no such cluster, or it takes none of what we have as its token.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "cluster", "executor ray") from None
    opened_here = not ray.is_initialized()
    try:
        if opened_here:
            _check_port(address)
            check_token(address)
            job = {} if address.startswith("ray://") else {"job_config": _job_without_folders()}
            quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
            with safe_start():
                ray.init(address=address, **job, **quiet)
            _keep_quiet()
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_cluster_error(address, error) from None
    try:
        yield ray
    finally:
        if opened_here:
            _abandoned.clear()
            ray.shutdown()


def _job_without_folders() -> Any:
    """Return the settings of a job whose workers search no folder of ours.

    Ray puts the current folder and the script's first on the path of every worker, where a ``numpy.py`` would run in
    place of NumPy. Through ``ray://`` it does not, and the settings would have to be pickled.
    """
    from ray.job_config import JobConfig

    class Job(JobConfig):
        """One whose list of folders stays empty."""

        _py_driver_sys_path = property(lambda self: [], lambda self, folders: None)

    return Job()


def _keep_quiet() -> None:
    """Keep Ray's messages on its machines out of our output, which may be JSON; Ray has no setting for it."""
    from ray._private import worker

    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False


def _check_port(address: str) -> None:
    """See whether anybody listens, since Ray itself asks for minutes.

    Raises:
        OSError: Nobody does.
        ValueError: It is no address.
    """
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host or "127.0.0.1", int(port)), timeout=CONNECT_SECONDS):
        pass


def _resource_request(place: Placement) -> dict[str, Any]:
    """Return a job's request for resources, by Ray's names."""
    request: dict[str, Any] = {"num_cpus": place.cores}
    request |= {"num_gpus": place.gpus} if place.gpus else {}
    return request | ({"memory": place.memory} if place.memory else {})


def _check(ray: Any, place: Placement, needs: WorkerRequirements) -> None:
    """Ask every machine whether it can take jobs.

    Raises:
        InputError: One cannot, or none has what a job needs.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Stay

    nodes = [node for node in ray.nodes() if node["Alive"]]
    words = _resource_names(place)
    able = [node for node in nodes if all(node["Resources"].get(name, 0) >= n for name, n in words.items())]
    if not able:
        lacking = ", ".join(f"{name} {n:g}" for name, n in words.items() if n)
        raise InputError(
            f"no machine of the Ray cluster at {one_line(place.cluster, 80)} has {lacking}, which a job needs "
            "(cores: --threads; of a pass of images those of this machine, or OMP_NUM_THREADS)"
        )
    checks = [
        ray.remote(inspect_machine)
        .options(num_cpus=0, scheduling_strategy=Stay(node["NodeID"], soft=False))
        .remote(needs)
        for node in able
    ]
    ended, _ = ray.wait(checks, num_returns=len(checks), timeout=START_SECONDS)
    seen, silent = [], []
    for one, node in zip(checks, able, strict=True):
        if one not in ended:
            silent.append(str(node["NodeManagerAddress"]))
            ray.cancel(one, force=True)
            continue
        try:
            seen.append(ray.get(one))
        except ray.exceptions.RayError:  # a machine that was lost meanwhile is no reason not to begin
            continue
    check_workers(seen, place.cluster, silent)

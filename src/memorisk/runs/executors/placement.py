"""Placement of jobs: where they are to run, and what one needs; all commands take the same settings of a cluster."""

import os
import re
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.options import grouped
from memorisk.runs.settings import check_choices

_ADDRESS_VARIABLE = "DASK_SCHEDULER_ADDRESS"
SILENCE_SECONDS = 120.0
"""Seconds without a sign of life after which a worker's job is given to another."""
_LEAST_SILENCE_SECONDS = 5.0
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Placement:
    """Place where jobs run.

    Attributes:
        executor: ``local`` for processes of this machine, ``dask`` for the workers of a cluster.
        cluster: Address of the cluster.
        memory: Bytes that a job needs; None for no requirement.
        gpus: Number of GPUs that a job needs.
        folders: Folders that every worker must see as this process does, since jobs read and write there.
        files: Files that every worker must see, too, since jobs read them, such as weights.
        silence: Seconds without a sign of life after which a worker's job is given to another.
    """

    executor: str = "local"
    cluster: str = ""
    memory: int | None = None
    gpus: int = 0
    folders: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    silence: float = SILENCE_SECONDS

    @property
    def remote(self) -> bool:
        """Return whether jobs leave this machine."""
        return self.executor != "local"


@grouped("where", essential="executor")
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Place where the jobs of a command run."""

    executor: Literal["local", "dask"] = "local"
    """Run jobs in processes of this machine (local), or on the workers of a Dask cluster (docs/cluster.md)."""
    cluster: str | None = None
    """Address of the cluster, as in tcp://HOST:8786; by default DASK_SCHEDULER_ADDRESS."""
    job_memory: str | None = None
    """Memory that each job requests from the cluster, as in 8GB; by default no request."""
    worker_silence: float | None = None
    """Seconds without a heartbeat after which a worker's job goes to another worker; by default 120."""

    def check_cluster(self) -> None:
        """Check what can be wrong without asking the cluster.

        Raises:
            InputError: An unknown executor, settings of a cluster without a cluster, or a text that is not a size.
        """
        check_choices(self, ClusterOptions)
        if self.executor == "local":
            for name in ("cluster", "job_memory", "worker_silence"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"{'--' + name.replace('_', '-')} is for a cluster, and --executor is local: name "
                        "--executor dask"
                    )
        if self.job_memory is not None:
            parse_bytes(self.job_memory)
        if self.worker_silence is not None and not _LEAST_SILENCE_SECONDS <= self.worker_silence < inf:
            raise InputError(
                f"--worker-silence is {self.worker_silence:g}: give {_LEAST_SILENCE_SECONDS:g} seconds or more, in "
                "which a worker that works says something"
            )

    def reach_cluster(self, *, gpus: int = 0) -> None:
        """Check that a cluster answers at the address, before anything is written.

        Args:
            gpus: Number of GPUs that a job needs.

        Raises:
            InputError: No address is known, no cluster answers there, or no worker offers what a job needs.
        """
        place = self.placement(gpus=gpus)
        if place.remote:
            from memorisk.runs.executors.dask import check_dask

            check_dask(place)

    def placement(self, *folders: Path, gpus: int = 0) -> Placement:
        """Return where jobs run that read and write these folders.

        Args:
            folders: Folders on storage that all machines share.
            gpus: A job needs.

        Raises:
            InputError: No address of the cluster is known.
        """
        if self.executor == "local":
            return Placement(gpus=gpus)
        address = self.cluster or os.environ.get(_ADDRESS_VARIABLE, "")
        if not address:
            raise InputError(
                f"executor {self.executor} needs the address of a cluster: cluster tcp://HOST:8786, or "
                f"{_ADDRESS_VARIABLE} in the environment"
            )
        memory = None if self.job_memory is None else parse_bytes(self.job_memory)
        places = tuple(folder.resolve() for folder in folders)
        silence = SILENCE_SECONDS if self.worker_silence is None else self.worker_silence
        return Placement(self.executor, address, memory, gpus, places, silence=silence)


def parse_bytes(text: str) -> int:
    """Return a size in bytes, of ``8GB``, ``512 MiB`` or a plain number.

    Raises:
        InputError: The text is not a size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].upper() not in _UNITS or float(match[1]) <= 0:
        raise InputError(f"job_memory is {one_line(text, 40)}; give a size such as 8GB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])

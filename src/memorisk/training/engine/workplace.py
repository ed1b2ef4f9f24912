"""Where the searches of a command, and its passes of images through networks, run: here, or on a cluster.

One thing that a detector is given (`memorisk.training.detectors.pair_detectors.PairDetector`): its features and what
compares them then go there by themselves, and everything that is made from them stays as it was written.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from memorisk.images.cache import cache_folder
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.executors.pool import connection
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.lock import folder_lock
from memorisk.runs.unfinished import ABANDONED, write_guard
from memorisk.scores.searching import HERE, Search
from memorisk.training.features.jobs import FeatureWork
from memorisk.training.features.shared_search import SharedSearch

SEARCHES = "searches"


@dataclass(frozen=True)
class Workplace:
    """Where searches and passes of images run."""

    search: Search = HERE
    """Looks at all pairs."""
    features: FeatureWork | None = None
    """Computes features; None for this process."""


LOCAL = Workplace()


@contextmanager
def open_workplace(
    options: ClusterOptions, store: Path | None, out: Path, *, device: str, threads: int | None = None
) -> Iterator[Workplace]:
    """This machine, or the cluster that a command names, as long as it runs.

    Tables, answers and images of jobs lie below the store's folder, which all machines see. They are removed when the
    command ends well; what a killed one left, the same command goes on from.

    Args:
        options: Where jobs run.
        store: Folder of decoded images; None for the usual one.
        out: The run folder: what makes a command the same.
        device: Of jobs.
        threads: Of a job; None for one of a search, whose answers are the same by any number, and for as many of a
            pass of images as it has here: the last bits of a network's sums depend on them.

    Raises:
        InputError: The folder cannot be written, or the same command runs already.
        MemoriskError: No space is left.
    """
    if options.executor == "local":
        yield LOCAL
        return
    cache = cache_folder(store).resolve()
    root, key = cache / SEARCHES, fingerprint(str(out.resolve()))
    with write_guard(root, "tables of a search"):
        root.mkdir(mode=0o700, exist_ok=True)
        _remove_abandoned(root)
    with folder_lock(root, name=f"{key}.lock"):
        folder = root / key
        with write_guard(root, "tables of a search"):
            folder.mkdir(mode=0o700, exist_ok=True)
        of_pass, gpus = threads or torch.get_num_threads(), int(device.startswith("cuda"))
        search = SharedSearch(options.placement(cache, cores=threads or 1, gpus=gpus), folder, threads or 1)
        with connection(search.place):
            place = options.placement(cache, cores=of_pass, gpus=gpus)
            yield Workplace(search, FeatureWork(place, folder, of_pass))
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    """Remove what commands left that were killed and not given again for a week.

    Clocks are set, so that age alone says little: one whose lock another command holds is in use.
    """
    for folder in root.iterdir():
        with suppress(OSError, InputError):
            if folder.is_dir() and time.time() - folder.stat().st_mtime > ABANDONED:
                with folder_lock(root, name=f"{folder.name}.lock"):
                    shutil.rmtree(folder, ignore_errors=True)

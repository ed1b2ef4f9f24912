"""A training of a detector of any kind, and the folder that it leaves.

The folder keeps the state of the training until that ends, its history afterwards.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.models.lcmem import LatentDetector
from memorisk.models.provenance import CONFIG
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, write_json
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.epoch_training import EpochTraining
from memorisk.training.engine.loop import CHECKPOINT, BestEpoch

HISTORY = "history.json"
Kind = TypeVar("Kind", Detector, LatentDetector)


@dataclass(frozen=True)
class FittedDetector(Generic[Kind]):
    """A detector with the history of its training."""

    detector: Kind
    """Detector with the weights of the best epoch."""
    history: tuple[Mapping[str, Any], ...]
    """Figures per epoch from 0, the untrained start: ``epoch``, ``loss`` and those of the validation images (None where
    missing)."""
    best_epoch: int
    """Epoch whose weights were kept; never 0."""
    notes: tuple[str, ...]
    """Notes for the report, one sentence each."""

    def save(self, folder: Path, key: str) -> None:
        """Write the detector and its history; the state of the training is removed.

        Args:
            folder: Folder of the detector.
            key: Key of its training.
        """
        write_json(folder / HISTORY, {"key": key, "history": self.history, "notes": self.notes}, recorded=True)
        self.detector.save(folder)
        remove_recorded(folder / CHECKPOINT)

    @classmethod
    def read(cls, folder: Path, key: str, kind: type[Kind]) -> "FittedDetector[Kind]":
        """Read the detector and the history that an earlier call wrote.

        Args:
            folder: Folder of the detector.
            key: Key of the requested training.
            kind: Class of its detector.

        Raises:
            InputError: The folder holds another detector.
        """
        try:
            history = read_json(folder / HISTORY)
        except (OSError, ValueError):
            history = {}
        detector = load_detector(folder) if history.get("key") == key else None
        if not isinstance(detector, kind):
            raise InputError(
                f"{one_line(folder)} holds a detector that was trained otherwise, or on other images: name another "
                "folder, or delete that one"
            )
        return cls(detector, tuple(history["history"]), detector.config.best_epoch, tuple(history["notes"]))


class DetectorTraining(EpochTraining, Generic[Kind]):
    """A training of a detector, checked and on its device."""

    kind: type[Kind]
    """Class of the detector."""

    @abstractmethod
    def fitted(self, record: BestEpoch, epochs: int) -> FittedDetector[Kind]:
        """Build the detector of the network's present weights, those of the best epoch.

        Args:
            record: Figures of all epochs.
            epochs: Number of epochs done.
        """

    def fit(self, folder: str | Path, progress: Progress = no_progress) -> FittedDetector[Kind]:
        """Train and leave the detector in a folder; once it is done it is only read.

        Args:
            folder: Folder of the detector: new, empty, or that of the same training.
            progress: Function called with (stage, steps done, steps).

        Raises:
            InputError: The folder holds another detector.
            MemoriskError: The loss or an embedding became NaN or infinite.
        """
        target = Path(folder)
        if (target / CONFIG).is_file():
            return FittedDetector.read(target, self.key, self.kind)
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with limited_threads(self.options.threads):
            record, done = self.run(target / CHECKPOINT, progress)
            self.restore(record)
            fitted = self.fitted(record, done.epoch)
        fitted.save(target, self.key)
        return fitted

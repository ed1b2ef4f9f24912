"""Answers of a model to probes with and without marks: one pass per mark, of which only divergences are kept.

The probes are normalised once per batch; a mark changes only its own rectangle of the input, which is put back after,
and an opaque mark's rectangle is the same on every probe; divergences are computed for many controls at once. A
mark costs a forward pass and little else (``benchmarks/bench_marks.py``). Answers that were written where the model
runs need no model, no probes and no mark here.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memorisk.images.alterations.marks import Mark, burn, burn_into
from memorisk.models.blackbox.predictors import Predictor
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.blackbox.saved_outputs import SavedOutputs
from memorisk.runs.errors import MemoriskError
from memorisk.runs.workload import CountProgress
from memorisk.scores.marks import kl_divergence, mean_log_kl
from memorisk.training.engine.predict import predict_batch_size

FloatArray = NDArray[np.float64]
STILL = 1e-9
"""Largest divergence, in nats, that is rounding and does not count as an answer to a mark."""
BLOCK = 1 << 18
"""Probabilities of controls that are kept until their divergences are computed together."""


@dataclass(frozen=True, eq=False)
class MarkAnswers:
    """Answers of one model to the mark, its controls and random patches, as divergences in nats.

    Attributes:
        mark: KL(clean || marked) of each probe, [n].
        controls: Mean over probes of log KL, of each control, [C].
        controls_mean: Mean KL over probes, of each control, [C].
        random: KL of a fresh random patch for each probe, [draws, n].
        transparent: Largest |KL| of the mark at opacity 0; NaN where the model had no such probes.
        transparent_log: Mean over probes of its log KL.
        shift: Mean change of each class's probability by the mark, [K].
        clean: Mean probability of each class without it, [K].
    """

    mark: FloatArray
    controls: FloatArray
    controls_mean: FloatArray
    random: FloatArray
    transparent: float
    transparent_log: float
    shift: FloatArray
    clean: FloatArray

    @property
    def moved_by_mark(self) -> bool:
        """Return whether the mark changes an answer by more than rounding, and more than a repetition does."""
        return bool(self.mark.max() > np.fmax(STILL, self.transparent))

    @property
    def moved_by_controls(self) -> bool:
        """Return whether any control changes answers by more than rounding."""
        return bool(self.controls_mean.max() > STILL)

    @property
    def statistic(self) -> float:
        """Mean over probes of the mark's log KL."""
        return float(mean_log_kl(self.mark))


def ask_about_marks(
    predictor: Predictor,
    preprocessing: Preprocessing,
    images: np.ndarray,
    mark: Mark,
    controls: Sequence[Mark],
    *,
    draws: int = 3,
    seed: int = 0,
    progress: CountProgress = lambda done, total: None,
) -> MarkAnswers:
    """Query a model with clean, marked and control probes.

    Args:
        predictor: Model to query.
        preprocessing: Preprocessing of its input; the first batch asserts it on the marked pixels.
        images: Probes, uint8 or uint16 [n, H, W, C], read batch by batch.
        mark: Mark to burn into the probes.
        controls: Controls of the mark.
        draws: Redraws of the paper's random patches z_r ~ U[0, 1], a fresh one for each probe; 0 for none.
        seed: Seed of the random patches.
        progress: Called with probes done and their number.

    Raises:
        InputError: A mark does not fit, or the predictor raises one.
        MemoriskError: The patched input differs from the result of the declared preprocessing.
    """
    n = len(images)
    mark_kl, random_kl = np.empty(n), np.empty((draws, n))
    log_kl, kl = np.zeros(len(controls)), np.zeros(len(controls))
    transparent, transparent_log, shift, clean_sum = 0.0, 0.0, 0.0, 0.0
    rng = np.random.default_rng([seed, 2])
    stamp, unseen = _Stamp(mark, preprocessing), _Stamp(mark.at(0.0), preprocessing)
    stamps = [_Stamp(control, preprocessing) for control in controls]
    for own, patched in _batches(images, preprocessing):
        clean = predictor.probabilities(patched.x)
        if own.start == 0:
            patched.check(stamp)
        with patched.burnt(stamp):
            marked = predictor.probabilities(patched.x)
        mark_kl[own] = kl_divergence(clean, marked)
        shift, clean_sum = shift + (marked - clean).sum(axis=0), clean_sum + clean.sum(axis=0)
        with patched.burnt(unseen):
            gone = kl_divergence(clean, predictor.probabilities(patched.x))
        transparent = max(transparent, float(np.abs(gone).max()))
        transparent_log += float(mean_log_kl(gone)) * len(clean)
        for some, divergences in _divergences(predictor, patched, clean, stamps):
            log_kl[some] += mean_log_kl(divergences) * len(clean)
            kl[some] += divergences.sum(axis=-1)
        for draw in range(draws):
            with patched.random(stamp, rng):
                random_kl[draw, own] = kl_divergence(clean, predictor.probabilities(patched.x))
        progress(own.stop, n)
    return MarkAnswers(
        mark_kl, log_kl / n, kl / n, random_kl, transparent, transparent_log / n, np.asarray(shift) / n,
        np.asarray(clean_sum) / n,
    )  # fmt: skip


def label_probabilities(
    predictor: Predictor,
    preprocessing: Preprocessing,
    images: np.ndarray,
    mark: Mark,
    label: int,
    *,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """Query p(label | x_u) and p(label | x_r) of each image, from which the white-box score M_w is computed.

    Args:
        predictor: Model to query.
        preprocessing: Preprocessing of its input.
        images: Images of the label, uint8 or uint16 [n, H, W, C].
        mark: Mark to burn into the images.
        label: Number of the class.
        seed: Seed of the random patches, a fresh one for each image.
    """
    rng = np.random.default_rng([seed, 3])
    marked, random = np.empty(len(images)), np.empty(len(images))
    stamp = _Stamp(mark, preprocessing)
    for own, patched in _batches(images, preprocessing):
        with patched.burnt(stamp):
            marked[own] = predictor.probabilities(patched.x)[:, label]
        with patched.random(stamp, rng):
            random[own] = predictor.probabilities(patched.x)[:, label]
    return marked, random


def _unit(stored: np.ndarray) -> NDArray[np.float32]:
    """Return stored pixels as float32 in [0, 1]."""
    return stored.astype(np.float32) / np.float32(np.iinfo(stored.dtype).max)


class _Stamp:
    """A mark on its own rectangle, and that rectangle as preprocessing gives it where no pixel below shines through."""

    def __init__(self, mark: Mark, preprocessing: Preprocessing) -> None:
        top, left_edge = mark.corner(*preprocessing.size)
        self.mark, self.alone = mark, replace(mark, place=(0, 0))
        self.rows, self.columns = slice(top, top + mark.shape[0]), slice(left_edge, left_edge + mark.shape[1])
        self.preprocessing = replace(preprocessing, size=mark.shape)
        below = np.zeros((1, *mark.shape, preprocessing.channels), np.float32)
        self.opaque = self.preprocessing.apply(burn_into(below, self.alone)) if np.all(mark.alpha == 1) else None

    def on(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rectangle on these pixels [n, H, W, C] as [n, C, h, w], or as [1, C, h, w] for all."""
        if self.opaque is not None:
            return self.opaque
        return self.preprocessing.apply(burn_into(pixels[:, self.rows, self.columns].copy(), self.alone))


class _PatchedBatch:
    """A batch of inputs of which one rectangle is exchanged and put back."""

    def __init__(self, preprocessing: Preprocessing, pixels: NDArray[np.float32]) -> None:
        self.preprocessing, self.pixels = preprocessing, pixels
        self.x = preprocessing.apply(pixels)

    @contextmanager
    def exchanged(self, stamp: _Stamp, part: NDArray[np.float32]) -> Iterator[None]:
        """Exchange the rectangle that the stamp covers in the batch, for as long as the block lasts."""
        view = self.x[:, :, stamp.rows, stamp.columns]
        original = view.copy()
        view[:] = part
        try:
            yield
        finally:
            view[:] = original

    def burnt(self, stamp: _Stamp) -> AbstractContextManager[None]:
        """Exchange the rectangle for the mark, for as long as the block lasts."""
        return self.exchanged(stamp, stamp.on(self.pixels))

    def random(self, stamp: _Stamp, rng: np.random.Generator) -> AbstractContextManager[None]:
        """Exchange the rectangle of the mark for a fresh uniform patch of its size in each image."""
        part = rng.random((len(self.pixels), *stamp.mark.shape, 1), dtype=np.float32)
        part = np.ascontiguousarray(np.broadcast_to(part, (*part.shape[:3], self.pixels.shape[3])))
        return self.exchanged(stamp, stamp.preprocessing.apply(part))

    def check(self, stamp: _Stamp) -> None:
        """Assert that the exchanged rectangle equals that of the whole marked image after preprocessing."""
        with self.burnt(stamp):
            if not np.array_equal(self.x, self.preprocessing.apply(burn(self.pixels, stamp.mark))):
                raise MemoriskError("the marked probes are not what the declared preprocessing gives: please report it")


def _batches(images: np.ndarray, preprocessing: Preprocessing) -> Iterator[tuple[slice, _PatchedBatch]]:
    """Yield the slice of the images and their inputs, batch by batch."""
    size = predict_batch_size(images)
    for start in range(0, len(images), size):
        pixels = _unit(images[start : start + size])
        yield slice(start, start + len(pixels)), _PatchedBatch(preprocessing, pixels)


def _divergences(
    predictor: Predictor, patched: _PatchedBatch, clean: FloatArray, stamps: Sequence[_Stamp]
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield KL(clean || marked) [k, n] of every stamp, k of them at a time."""
    step = max(1, BLOCK // clean.size)
    for first in range(0, len(stamps), step):
        answers = []
        for stamp in stamps[first : first + step]:
            with patched.burnt(stamp):
                answers.append(predictor.probabilities(patched.x))
        yield slice(first, first + len(answers)), kl_divergence(clean, np.stack(answers))


def answers_of_outputs(
    path: str | Path, *, output: str = "auto"
) -> tuple[MarkAnswers, list[MarkAnswers], SavedOutputs]:
    """Read the answers of the model and of its references from saved outputs.

    Args:
        path: File of outputs, .npz (`memorisk.models.blackbox.saved_outputs.write_saved_outputs`).
        output: Kind of the outputs in the file: "logits", "probabilities" or "auto".

    Returns:
        Answers of the model, of each reference, and the file.

    Raises:
        InputError: The file does not have the required form.
    """
    saved = SavedOutputs.read(path, output=output)
    clean, transparent = saved.clean(), saved.transparent()
    gone = np.full(len(clean), np.nan) if transparent is None else kl_divergence(clean, transparent)
    own = _answers(clean, saved.marked(), [kl_divergence(clean, q) for q in saved.controls()], gone)
    references, controls = [], saved.references_controls()
    for r_clean, r_marked in zip(saved.references_clean(), saved.references_marked(), strict=True):
        alike = [kl_divergence(r_clean, next(controls)) for _ in range(saved.n_controls)]
        references.append(_answers(r_clean, r_marked, alike, gone))
    return own, references, saved


def _answers(clean: np.ndarray, marked: np.ndarray, controls: list[np.ndarray], gone: np.ndarray) -> MarkAnswers:
    return MarkAnswers(
        mark=kl_divergence(clean, marked),
        controls=np.array([float(mean_log_kl(kl)) for kl in controls]),
        controls_mean=np.array([float(kl.mean()) for kl in controls]),
        random=np.empty((0, len(clean))),
        transparent=float(np.abs(gone).max()),
        transparent_log=float(mean_log_kl(gone)),
        shift=(marked - clean).mean(axis=0),
        clean=clean.mean(axis=0),
    )

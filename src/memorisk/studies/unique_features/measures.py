"""Measures of each model of the study: both forms of M, M_w, and the latents that only the mark excites."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from memorisk.audits.feature.mark_answers import ask_about_marks, label_probabilities
from memorisk.images.alterations.marks import burn
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import read_array
from memorisk.scores.marks import CLIP, paper_score
from memorisk.studies.engine.cells import Arrays

if TYPE_CHECKING:
    from memorisk.studies.unique_features.canary_training import CanaryJob

_HALF_LEVEL = 0.5
_ROUNDING = 1e-4
_BATCH = 256


class MarkModel:
    """A trained network in the form that `ask_about_marks` queries."""

    name = "network"

    def __init__(self, model: nn.Module, device: str, n_classes: int) -> None:
        self.model, self.device, self.n_classes = model.to(device).eval(), device, n_classes

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Compute the probabilities of classes, [n, C, H, W] float32 -> [n, K] float64."""
        with torch.inference_mode():
            return self.model(torch.from_numpy(x).to(self.device)).double().softmax(1).cpu().numpy()

    def latents(self, x: np.ndarray) -> np.ndarray:
        """Return whether each latent before the last layer is above 0, [n, C, H, W] float32 -> [n, L]."""
        with torch.inference_mode():
            features = self.model.forward_features(torch.from_numpy(x).to(self.device))  # pyright: ignore
            return (self.model.forward_head(features, pre_logits=True) > 0).cpu().numpy()  # pyright: ignore

    def describe(self) -> dict[str, Any]:
        """Return an empty description, since the study knows the model."""
        return {}


def preprocessing_of(job: "CanaryJob", size: tuple[int, int], channels: int) -> Preprocessing:
    """Return the training's normalisation, for the probes."""
    return Preprocessing(size, channels, job.normalisation.mean, job.normalisation.std)


def measure(job: "CanaryJob", model: nn.Module, clean: np.ndarray | None) -> Arrays:
    """Query a model.

    Args:
        job: Job of the training.
        model: Trained model.
        clean: Pixels of the training images without the mark, [N, H, W, C], for M_w; None to leave M_w out.

    Returns:
        Arrays by name: ``mean_mark``, ``mean_random`` [redraws] and ``welch`` [redraws] of the published form;
        ``statistic``
        and ``controls`` [C], mean log KL; ``transparent``; ``white_slots``, ``white`` [redraws, n]
        (log p(y|x_u) - log p(y|x_r)), ``white_mark`` and ``white_random`` [n]; ``latent_mark`` and ``latent_random``
        [L].
    """
    probes = read_array(job.probes, mmap=True)
    mark_model = MarkModel(model, job.device, job.n_classes)
    prepared = preprocessing_of(job, (probes.shape[1], probes.shape[2]), probes.shape[3])
    answers = ask_about_marks(
        mark_model, prepared, probes, job.mark, job.controls, draws=job.redraws, seed=job.draw_seed
    )
    scores = [paper_score(answers.mark, random) for random in answers.random]
    arrays: Arrays = {
        "mean_mark": np.array(answers.mark.mean()),
        "mean_random": answers.random.mean(axis=1),
        "welch": np.array([score.p for score in scores]),
        "statistic": np.array(answers.statistic),
        "controls": answers.controls,
        "transparent": np.array(answers.transparent),
    }
    if clean is not None:
        arrays |= _white_box(job, mark_model, prepared, clean)
    if job.latent:
        arrays |= _latents(job, mark_model, prepared, probes)
    return arrays


def normalised_mark_check(job: "CanaryJob", images: np.ndarray) -> None:
    """Check that the mark in training equals the mark in probing, before augmentation.

    METHODS section 2, "Checks shipped with each run". Training images are stored in whole grey levels, so that the two
    may differ by half of one; letters do not differ at all.

    Raises:
        MemoriskError: The marks differ.
    """
    if job.canary is None:
        return
    row, mark = job.rows[job.canary], job.carried
    top = np.iinfo(images.dtype).max
    levels = _HALF_LEVEL / top if ((mark.values * top) % 1).any() or ((mark.alpha * top) % 1).any() else 0.0
    stored = images[row : row + 1].astype(np.float32) / np.float32(top)
    prepared = preprocessing_of(job, (images.shape[1], images.shape[2]), images.shape[3])
    trained = prepared.apply(stored)
    burnt = prepared.apply(burn(stored, mark))
    opaque = np.broadcast_to(mark.alpha == 1, mark.shape)
    line, column = mark.corner(images.shape[1], images.shape[2])
    part = np.s_[:, :, line : line + mark.shape[0], column : column + mark.shape[1]]
    allowed = _ROUNDING + levels / min(job.normalisation.std)
    far = np.abs(trained[part] - burnt[part])[:, :, opaque]
    if far.size and far.max() > allowed:
        raise MemoriskError("the mark in training is not the mark in probing: please report it")


def _white_box(job: "CanaryJob", mark_model: MarkModel, prepared: Preprocessing, clean: np.ndarray) -> Arrays:
    """Compute M_w of every training image of the canary's class but the canary; of all classes where there is none."""
    own = np.ones(len(job.rows), dtype=bool)
    labels = job.labels[job.rows]
    if job.canary is not None:
        own = labels == labels[job.canary]
        own[job.canary] = False
    slots = np.flatnonzero(own)
    logs = np.empty((job.redraws, len(slots)), dtype=np.float32)
    marked, random = np.empty(len(slots)), np.zeros(len(slots))
    for label in np.unique(labels[slots]):
        at = labels[slots] == label
        images = clean[job.rows[slots[at]]]
        for draw in range(job.redraws):
            u, r = label_probabilities(mark_model, prepared, images, job.mark, int(label), seed=job.draw_seed + draw)
            logs[draw, at] = np.log(np.clip(u, CLIP, 1)) - np.log(np.clip(r, CLIP, 1))
            marked[at], random[at] = u, random[at] + r / job.redraws
    return {"white_slots": slots, "white": logs, "white_mark": marked, "white_random": random}


def _latents(job: "CanaryJob", mark_model: MarkModel, prepared: Preprocessing, probes: np.ndarray) -> Arrays:
    """Compute the share of probes in which the mark, or a random patch, excites a latent.

    Only latents that the clean probe does not excite count.
    """
    rng = np.random.default_rng([job.draw_seed, 4])
    (line, column), (h, w) = job.mark.corner(probes.shape[1], probes.shape[2]), job.mark.shape
    marked, random = np.zeros(0), np.zeros(0)
    for start in range(0, len(probes), _BATCH):
        stored = probes[start : start + _BATCH]
        pixels = stored.astype(np.float32) / np.float32(np.iinfo(stored.dtype).max)
        patched = pixels.copy()
        patched[:, line : line + h, column : column + w] = rng.random((len(pixels), h, w, 1), dtype=np.float32)
        clean, u, r = (mark_model.latents(prepared.apply(x)) for x in (pixels, burn(pixels, job.mark), patched))
        marked = (u & ~clean).sum(axis=0) + (marked if start else 0)
        random = (r & ~clean).sum(axis=0) + (random if start else 0)
    return {"latent_mark": marked / len(probes), "latent_random": random / len(probes)}

"""Answers that were written where the model is: no model, no probes, no mark is needed here."""

from pathlib import Path

import numpy as np

from memorisk.audits.feature.mark_probing import MarkAnswers
from memorisk.models.blackbox.saved_outputs import SavedOutputs
from memorisk.scores.marks import kl_divergence, mean_log_kl


def answers_of_outputs(
    path: str | Path, *, output: str = "auto"
) -> tuple[MarkAnswers, list[MarkAnswers], SavedOutputs]:
    """What saved outputs say of the model and of its references.

    Args:
        path: An .npz file (`memorisk.models.blackbox.saved_outputs.write_saved_outputs`).
        output: What it holds: "logits", "probabilities" or "auto".

    Returns:
        Answers of the model, of each reference, and the file.

    Raises:
        InputError: The file is not as it must be.
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

"""Whom rejected images point at, by what points: the very pixels of a training image, or a score."""

import numpy as np

from memorisk.audits.filter.screening import PIXELS, SCORE, Screened


def exposed_numbers(screened: Screened | None, patients: np.ndarray) -> dict[str, int]:
    """Training patients at whom rejected images point, by what points.

    Args:
        screened: Of the images; None where there is no threshold.
        patients: [N] of the training images.

    Returns:
        ``n_identical`` by the very pixels of an image; ``n_by_score`` by scores alone, ``n_by_score_singled_out`` of
        them with an image that no other patient's reaches; ``n_exposed`` the first and the last together.
    """
    if screened is None:
        return dict.fromkeys(("n_exposed", "n_identical", "n_by_score", "n_by_score_singled_out"), 0)
    nearest = screened.nearest
    pointed = np.unique(patients[nearest[np.isin(screened.reason, (SCORE, PIXELS))]])
    identical = np.unique(patients[screened.identical[screened.identical >= 0]])
    singled = np.setdiff1d(patients[nearest[screened.singled_out]], identical)
    return {
        "n_exposed": len(identical) + len(singled),
        "n_identical": len(identical),
        "n_by_score": len(np.setdiff1d(pointed, identical)),
        "n_by_score_singled_out": len(singled),
    }

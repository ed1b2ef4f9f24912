"""Saved outputs of models that see a mark, as logits made of noise, and their audit."""

from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.feature.run import audit_feature
from memorisk.models.blackbox.saved_outputs import write_saved_outputs
from memorisk.report.result import Result

PROBES, CLASSES, CONTROLS, REFERENCES = 100, 3, 9, 24
Arrays = dict[str, Any]


def answers(seed: int) -> Arrays:
    """Logits of a model that answers to the mark as to its controls; its sensitivity varies by chance."""
    rng = np.random.default_rng(seed)
    clean = rng.normal(size=(PROBES, CLASSES))
    size = 0.3 * np.exp(0.1 * rng.normal())
    moved = size * rng.normal(size=(1 + CONTROLS, PROBES, CLASSES))
    return {"clean": clean, "marked": clean + moved[0], "controls": clean + moved[1:]}


def planted(model: Arrays) -> Arrays:
    """Logits of the same model that is three times as sensitive to the mark."""
    return model | {"marked": model["clean"] + 3 * (model["marked"] - model["clean"])}


def audit(folder: Path, model: Arrays, references: list[Arrays], **settings: Any) -> Result:
    """Audit saved outputs of a model with its references."""
    theirs: Arrays = {f"references_{name}": np.stack([one[name] for one in references]) for name in model}
    write_saved_outputs(folder / "out.npz", **model, **theirs, transparent=model["clean"])
    return audit_feature(str(folder / "out.npz"), out=folder / "run", **settings)


def harmless_references() -> list[Arrays]:
    """Outputs of models that never saw the mark."""
    return [answers(100 + i) for i in range(REFERENCES)]

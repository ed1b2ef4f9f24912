"""Names and strengths of the families of copies that LCMem is tested on and that a filter promises to remove."""

_FACTORS = (1.1, 1.3, 1.6, 2.0)
FAMILIES: dict[str, tuple[float, ...]] = {
    "blur": (0.1, 1.0, 2.0, 6.0),
    "noise": (0.01, 0.1, 0.2, 0.3),
    "rotation": (5.0, 10.0, 20.0, 30.0),
    "brightness": _FACTORS,
    "darkening": _FACTORS,
    "contrast": _FACTORS,
    "jpeg": (95.0, 70.0, 40.0, 10.0),
}
"""Strengths of each family of copies, from the weakest to the strongest."""

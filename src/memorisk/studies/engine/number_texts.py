"""Numbers as the papers print them."""

import numpy as np

from memorisk.report.columns import MINUS, is_missing

NONE = "n/a"
NEAR_ZERO, LARGE_RATIO = 0.01, 10
"""A baseline M below the first, in nats, that grows at least as many times as the second is printed as a ratio without
d,
as the paper does for DRUSEN (0.004 to 0.480: 120×)."""

_REGIMES = {"full": "Full fine-tune", "lora": "LoRA only", "dp-lora": "DP-LoRA", "dp-full": "DP-full"}
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def signed_number(value: object, digits: int = 2) -> str:
    """Format a number with its sign: ``+1.33``, ``−0.99``; a number that rounds to nothing is ``+0.00``."""
    if is_missing(value):
        return NONE
    text = f"{float(str(value)):+.{digits}f}"
    return _minus(text if any(c in "123456789" for c in text) else text.replace("-", "+"))


def plain_number(value: object, digits: int) -> str:
    """Format a number without a plus sign."""
    return NONE if is_missing(value) else _minus(f"{float(str(value)):.{digits}f}")


def digits_text(value: object, digits: int) -> str:
    """Format a computed number with a hyphen for a minus sign; anything that is no finite number is "n/a"."""
    return f"{value:.{digits}f}" if isinstance(value, float) and np.isfinite(value) else NONE


def share_text(value: object) -> str:
    """Format a class's share of the images in per cent: ``3.3``, and ``0.03`` below 0.1 %."""
    if is_missing(value):
        return NONE
    per_cent = 100 * float(str(value))
    return f"{per_cent:.1f}" if per_cent >= 0.1 or per_cent == 0 else f"{per_cent:.2f}"


def change_text(before: float, after: float, percent: float) -> str:
    """Format ``+753%``; from a baseline near 0 the ratio (``120×``), as the paper's table 3 does for DRUSEN."""
    if any(is_missing(v) for v in (before, after)) or before == 0:
        return NONE
    if _unstable(before, after):
        return _minus(f"{after / before:.0f}×")
    return NONE if is_missing(percent) else _minus(f"{percent:+.0f}%")


def effect_size_text(before: float, after: float, d: float) -> str:
    """Format Cohen's d with its sign; it is left out where the change is printed as a ratio."""
    return NONE if any(is_missing(v) for v in (before, after)) or _unstable(before, after) else signed_number(d)


def _unstable(before: float, after: float) -> bool:
    return abs(before) < NEAR_ZERO and abs(after) >= LARGE_RATIO * abs(before)


def mean_and_spread(cell: str) -> str:
    """Format a cell of ``rarity.table_one`` with a true minus sign."""
    return _minus(cell) or NONE


def thousands_text(n: int) -> str:
    """Format numbers of images as table 9 does: ``50 K``, ``~10 K``, and small ones as they are."""
    if n < 1000:
        return str(n)
    return f"{'' if n % 1000 == 0 else '~'}{n / 1000:.0f} K"


def power_of_ten(value: float) -> str:
    """Format a learning rate as table 10 does: ``1×10⁻⁴``."""
    if is_missing(value) or not value > 0:
        return NONE
    digits, exponent = f"{value:.6e}".split("e")
    return f"{float(digits):g}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def regime_name(regime: str, *, short: bool = False) -> str:
    """Return the paper's name of a regime: "full" is "Full fine-tune" ("Full FT"), "dp-lora-8" is "DP-LoRA ε=8"."""
    kind = next((k for k in _REGIMES if regime == k or regime.startswith(f"{k}-")), None)
    if kind is None:
        return regime
    name = "Full FT" if short and kind == "full" else _REGIMES[kind]
    epsilon = regime[len(kind) + 1 :]
    return f"{name} ε={epsilon}" if epsilon else name


def _minus(text: str) -> str:
    return text.replace("-", MINUS)

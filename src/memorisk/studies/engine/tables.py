"""Tables of a study: numbers as the papers print them, Markdown, and blocks of a page.

A table has two forms: the paper's layout, every cell a text, and the corrected numbers with their intervals.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from memorisk.report.blocks import Column, Table
from memorisk.report.columns import FORMATS, MINUS, is_missing
from memorisk.report.text import visible
from memorisk.studies.rare_distinctive.results import StudyTable

CORRECTED = "Corrected. Intervals are 95 %."


def paper_block(table: StudyTable) -> Table:
    """The table in the paper's layout, every cell a text."""
    columns = [
        Column(source=str(name), heading=str(name), row_heading=i == 0) for i, name in enumerate(table.paper.columns)
    ]
    elsewhere = f"tables/{table.name}_paper.parquet"
    return Table(frame=table.paper, columns=columns, caption="As the paper prints it.", elsewhere=elsewhere)


def corrected_block(table: StudyTable, columns: Sequence[Column], caption: str = CORRECTED) -> Table:
    """The corrected numbers, some of their columns."""
    elsewhere = f"tables/{table.name}_ours.parquet"
    return Table(frame=texts_as_missing(table.ours), columns=columns, caption=caption, elsewhere=elsewhere)


def texts_as_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """Empty texts as missing, which the page shows as a dash."""
    shown = {str(c): [None if isinstance(v, str) and not v else v for v in frame[c]] for c in frame}
    return frame.assign(**{c: v for c, v in shown.items() if any(x is None for x in v)})


NONE = "n/a"
MOST_ROWS = 40
"""Rows of a table in Markdown; the others are counted."""

NEAR_ZERO, LARGE_RATIO = 0.01, 10
"""A baseline M below this, in nats, that grows at least so many times over is printed as a ratio without d, as the
paper does for DRUSEN (0.004 to 0.480: 120×)."""

_REGIMES = {"full": "Full fine-tune", "lora": "LoRA only", "dp-lora": "DP-LoRA", "dp-full": "DP-full"}
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL = str.maketrans({c: "\\" + c for c in "\\|`*<"})


def signed_number(value: object, digits: int = 2) -> str:
    """A number with its sign: ``+1.33``, ``−0.99``; what rounds to nothing is ``+0.00``."""
    if is_missing(value):
        return NONE
    text = f"{float(str(value)):+.{digits}f}"
    return _minus(text if any(c in "123456789" for c in text) else text.replace("-", "+"))


def plain_number(value: object, digits: int) -> str:
    """A number without a plus sign."""
    return NONE if is_missing(value) else _minus(f"{float(str(value)):.{digits}f}")


def share_text(value: object) -> str:
    """A class's share of the images in per cent: ``3.3``, and ``0.03`` below 0.1 %."""
    if is_missing(value):
        return NONE
    per_cent = 100 * float(str(value))
    return f"{per_cent:.1f}" if per_cent >= 0.1 or per_cent == 0 else f"{per_cent:.2f}"


def change_text(before: float, after: float, percent: float) -> str:
    """``+753%``; from a baseline near 0 the ratio (``120×``), as the paper's table 3 does for DRUSEN."""
    if any(is_missing(v) for v in (before, after)) or before == 0:
        return NONE
    if _unstable(before, after):
        return _minus(f"{after / before:.0f}×")
    return NONE if is_missing(percent) else _minus(f"{percent:+.0f}%")


def effect_size_text(before: float, after: float, d: float) -> str:
    """Cohen's d with its sign; left out where the change is printed as a ratio."""
    return NONE if any(is_missing(v) for v in (before, after)) or _unstable(before, after) else signed_number(d)


def _unstable(before: float, after: float) -> bool:
    return abs(before) < NEAR_ZERO and abs(after) >= LARGE_RATIO * abs(before)


def mean_and_spread(cell: str) -> str:
    """A cell of ``rarity.table_one`` with a true minus sign."""
    return _minus(cell) or NONE


def thousands_text(n: int) -> str:
    """Numbers of images as table 9 has them: ``50 K``, ``~10 K``, and small ones as they are."""
    if n < 1000:
        return str(n)
    return f"{'' if n % 1000 == 0 else '~'}{n / 1000:.0f} K"


def power_of_ten(value: float) -> str:
    """A learning rate as table 10 has it: ``1×10⁻⁴``."""
    if is_missing(value) or not value > 0:
        return NONE
    digits, exponent = f"{value:.6e}".split("e")
    return f"{float(digits):g}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def regime_name(regime: str, *, short: bool = False) -> str:
    """A regime as the paper calls it: "full" is "Full fine-tune" ("Full FT"), "dp-lora-8" is "DP-LoRA ε=8"."""
    kind = next((k for k in _REGIMES if regime == k or regime.startswith(f"{k}-")), None)
    if kind is None:
        return regime
    name = "Full FT" if short and kind == "full" else _REGIMES[kind]
    epsilon = regime[len(kind) + 1 :]
    return f"{name} ε={epsilon}" if epsilon else name


def _minus(text: str) -> str:
    return text.replace("-", MINUS)


def markdown_table(frame: pd.DataFrame, columns: Sequence[Column] | None = None) -> str:
    """A table as Markdown: cells on one line, their special characters escaped.

    Args:
        frame: Text in every cell where no columns are given.
        columns: Which columns, their headings and formats.
    """
    shown = [Column(source=str(c), heading=str(c)) for c in frame.columns] if columns is None else list(columns)
    cut = frame.head(MOST_ROWS)
    lines = [_line([c.heading for c in shown]), "| " + " | ".join("---:" if c.numeric else "---" for c in shown) + " |"]
    for values in cut.itertuples(index=False, name=None):
        row = dict(zip(cut.columns, values, strict=True))
        lines.append(_line([cell_text(row, column) for column in shown]))
    if len(frame) > len(cut):
        lines += ["", f"{len(frame) - len(cut):,} more rows are not shown here."]
    return "\n".join(lines)


def cell_text(row: dict[str, Any], column: Column) -> str:
    """One cell as plain text, with its interval in brackets."""
    value = row.get(column.source)
    if is_missing(value):
        return column.missing or "–"
    written = value if isinstance(value, str) else FORMATS[column.format](value)
    limits = [row.get(c) for c in column.interval or ()]
    if not limits or any(is_missing(v) for v in limits):
        return written
    return f"{written} [{', '.join(FORMATS[column.format](v) for v in limits)}]"


def escape_markdown(text: str) -> str:
    """A text of unknown origin on one line of Markdown: nothing in it is markup."""
    return visible(text).translate(_SPECIAL).replace("](", "]\\(")


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(escape_markdown(text) for text in texts) + " |"

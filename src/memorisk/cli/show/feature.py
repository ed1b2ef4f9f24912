"""What the terminal shows of a mark."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from memorisk.audits.feature.page import TITLES, noticed
from memorisk.cli.show.common import limits, signed
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS
from memorisk.runs.files import plain

_COUNTED = ("controls", "models", "references", "probes")


def show_feature(result: Result, out: Path, *, as_json: bool) -> None:
    """The verdict in a sentence, its numbers, and where the report lies."""
    v = result.verdict
    if as_json:
        sys.stdout.write(json.dumps(plain(v), indent=2, ensure_ascii=False) + "\n")
        return
    console = Console()
    lines = [
        ("M, log sensitivity over a control's", _with_limits(v)),
        ("p", f"{v['p_value']:.3g}, {v['method']}; smallest possible {v['smallest_p']:.2g}"),
        ("found in four of five cases", " ".join(noticed(v)).strip()),
        (", ".join(_COUNTED), ", ".join(str(v[f"n_{k}"]) for k in _COUNTED)),
        *(
            [("M as published, its Welch p", f"{v['M_paper']:.3g}, {v['p_welch_paper']:.3g} (not used)")]
            if v["M_paper"] is not None
            else []
        ),
        *([("M_w, white box", f"{v['M_w']:.3g}")] if v["M_w"] is not None else []),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)
    console.print()
    console.print(Text(TITLES[result.status][1].upper(), style="bold"))
    for reason in v["why"]:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    if v["what_would_decide"]:
        console.print(Text(WAYS[result.status]))
        for way in v["what_would_decide"]:
            console.print(Text(f"  {way}"), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def _with_limits(v: dict[str, Any]) -> str:
    if v["M_low"] is None:
        return signed(v["M"])
    return f"{signed(v['M'])} ({limits(v['M_low'], v['M_high'])})"

"""What the terminal shows of a filtered set."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from memorisk.report.result import Result
from memorisk.runs.files import plain

if TYPE_CHECKING:  # it loads images and networks
    from memorisk.audits.filter.plan import FilterPlan

STATUS = {"pass": "FILTERED, WITH A GUARANTEE", "fail": "NOTHING WAS KEPT"}


def show_filter(result: Result, out: Path, *, as_json: bool) -> None:
    """The verdict in a sentence, its numbers, and where set and report lie."""
    v = result.verdict
    if as_json:
        _json(v)
        return
    from memorisk.audits.filter.verdict import is_weak_alone  # here, since it loads images
    from memorisk.audits.filter.words import WEAK, WEAKLY, unpromised

    console = Console()
    for name, value in _lines(v):
        console.print(Text(f"{name}: {value}"), soft_wrap=True)
    console.print()
    otherwise = "FILTERED, WITHOUT A GUARANTEE" if v["filtered"] else "NOTHING IS KEPT: THERE IS NO THRESHOLD"
    otherwise = WEAKLY.upper() if is_weak_alone(v) else otherwise
    console.print(Text(STATUS.get(result.status, otherwise), style="bold"))
    for reason in v["why"]:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    if v["what_would_decide"]:
        console.print(Text("What would decide it"))
        for way in v["what_would_decide"]:
            console.print(Text(f"  {way}"), soft_wrap=True)
    if v["n_kept"] and v["weak_features"]:
        console.print(Text(WEAK), soft_wrap=True)
    if v["n_kept"]:
        console.print(Text(unpromised(v)), soft_wrap=True)
        console.print(Text(f"Kept set: {out / 'kept'}"), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def show_filter_plan(plan: "FilterPlan", *, as_json: bool) -> None:
    """What would be compared and could be promised."""
    if as_json:
        _json(asdict(plan))
        return
    from memorisk.audits.filter.words import not_counted  # here, since it loads images
    from memorisk.audits.synthetic.words import Terms

    console = Console()
    lines = [
        ("images", ", ".join(f"{what} {n:,}" for what, n in plan.images.items())),
        ("unreadable synthetic images, rejected", f"{plan.unreadable:,}"),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("calibration patients left out", f"{sum(plan.left_out.values()):,}"),
        *(("calibration", told) for told in not_counted(vars(plan), Terms("patients"))),
        *(("detector", name) for name in plan.detectors),
        *(
            ("copies", f"{f['family']}: {f['identities']:,} identities of {f['needed']:,} needed")
            for f in plan.families
        ),
        ("identities missing for the guarantee", f"{plan.missing:,}"),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def _lines(v: dict[str, Any]) -> list[tuple[str, str]]:
    from memorisk.audits.filter.words import exposed_lines, not_counted  # here, since it loads images
    from memorisk.audits.synthetic.words import Terms

    rejected = ", ".join(f"{n:,} {reason}" for reason, n in v["rejected"].items() if n)
    lines = [
        ("synthetic images", f"{v['n_synthetic']:,}, kept {v['n_kept']:,}"),
        ("rejected", f"{v['n_rejected']:,}" + (f" ({rejected})" if rejected else "")),
        (f"calibration {v['units']}", f"{v['n_calibration']:,}; missing for the guarantee {v['missing']:,}"),
        *(("calibration", told) for told in not_counted(v, Terms(v["units"]))),
        ("compared by", "; ".join(v["detectors"])),
    ]
    if v["filtered"]:
        lines += exposed_lines(v)
    if (real := v["real_rejected"]) is not None:
        limits = f"{100 * real['low']:.1f} to {100 * real['high']:.1f} %"
        lines.append(("real images of new people that would be rejected", f"{100 * real['estimate']:.1f} % ({limits})"))
    return lines


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")

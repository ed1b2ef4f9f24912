"""What the terminal shows of a set of synthetic images."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from memorisk.report.frames import texts
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS
from memorisk.runs.errors import several
from memorisk.runs.files import plain

if TYPE_CHECKING:  # it loads images and networks
    from memorisk.audits.synthetic.plan import SyntheticPlan

STATUS = {
    "pass": "NO COPYING OF THE KINDS THAT WERE TRIED WAS FOUND",
    "fail": "NOT READY FOR RELEASE",
    "undecided": "COULD NOT BE DECIDED",
}


def show_synthetic(result: Result, out: Path, *, as_json: bool) -> None:
    """The verdict in a sentence, its numbers, and where the report lies."""
    v, units = result.verdict, str(result.summary["numbers"]["units"])
    if as_json:
        _json(v)
        return
    console = Console()
    for name, value in _lines(v, units):
        console.print(Text(f"{name}: {value}"), soft_wrap=True)
    console.print()
    console.print(Text(STATUS[result.status], style="bold"))
    for reason in v["why"]:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    if v["what_would_decide"]:
        console.print(Text(WAYS[result.status]))
        for way in v["what_would_decide"]:
            console.print(Text(f"  {way}"), soft_wrap=True)
    if result.summary["groups_given"] is False:
        text = "No patient ids were given: every image stands for itself (--group-from, --group-column)."
        console.print(Text(f"Note: {text}"), soft_wrap=True)
    if n := sum(not verdict for verdict in texts(result.tables["review"], "verdict")):
        pairs = several(n, "pair", "pairs")
        text = f"{pairs} to look at: {out / 'review.csv'}; fill it, then the same command with --review"
        console.print(Text(text), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def show_synthetic_plan(plan: "SyntheticPlan", *, as_json: bool) -> None:
    """What would be compared and could be said."""
    if as_json:
        _json(asdict(plan))
        return
    console = Console()
    listed = "none possible" if plan.shortest_list is None else f"{plan.shortest_list:,}"
    if not plan.images["held out"]:
        listed = "none: no held-out images, hence distances only"
    lines = [
        ("images", ", ".join(f"{what} {n:,}" for what, n in plan.images.items())),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("left out", f"{plan.left_out:,} held-out patients with a training image"),
        ("features", plan.features),
        ("planted copies", f"{plan.plants:,} of {plan.plant_patients:,} patients"),
        ("shortest list of patients", listed),
        ("held-out patients wanted", f"{plan.held_out_wanted:,} or more"),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def _lines(v: dict[str, Any], units: str) -> list[tuple[str, str]]:
    known, recall = v["n_held_patients"] is not None, v["recall"]
    lines = [
        (f"training {units}, synthetic images", f"{v['n_train_patients']:,}, {v['n_synthetic']:,}"),
        (f"held-out {units}", f"{v['n_held_patients']:,}" if known else "none"),
        ("compared by", f"{v['features']}, {v['measure']}"),
        ("pixel-identical copies", _identical(v)),
        (f"training {units} with a nearly identical image", _near(v)),
    ]
    if known:
        possible = v["shortest_list"] <= v["n_train_patients"]
        shortest = f"shortest possible list {v['shortest_list']:,}" if possible else "no list was possible"
        lines += [
            ("images singled out", f"{v['n_singled']:,}"),
            (f"{units} listed", f"{v['n_listed']:,}; {shortest}"),
            ("nearer than every held-out one", f"{v['n_ahead']:,}, p {v['p_ahead']:.3g}"),
        ]
    for said in v["paired"]["rates"] if v["paired"] else ():
        lines.append((f"MemRate by {said['detector']}", _rate(said)))
    if recall is not None:
        limits = f"{100 * recall['low']:.0f} to {100 * recall['high']:.0f} %"
        lines.append(("planted copies noticed", f"{recall['successes']} of {recall['trials']} ({limits})"))
        each = (f"{kind} {s['successes']} of {s['trials']}" for kind, s in v["recall_by_kind"].items())
        lines.append(("of each kind", ", ".join(each)))
    return lines


def _rate(said: dict[str, Any]) -> str:
    """MemRate beside its value on held-out images."""
    if said["rate"] is None:
        return "no threshold"
    shown = [
        f"{100 * r['estimate']:.1f} % ({100 * r['low']:.1f} to {100 * r['high']:.1f} %)" if r else "no images"
        for r in (said["rate"], said["held"])
    ]
    by_chance = "; no larger than by chance" if said["excess"] and said["excess"]["low"] <= 0 else ""
    return f"{shown[0]}; held out {shown[1]}{by_chance}"


def _identical(v: dict[str, Any]) -> str:
    """All there are, those that a person dismissed too."""
    n = v["n_dismissed_identical_images"]
    return f"{v['n_certain_copies'] + n:,}{f', {n:,} dismissed' if n else ''}"


def _near(v: dict[str, Any]) -> str:
    """How many, beside held-out ones."""
    held = "" if v["n_near_held"] is None else f"; held out {v['n_near_held']:,}"
    return f"{v['n_near_train']:,}{held}"


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")

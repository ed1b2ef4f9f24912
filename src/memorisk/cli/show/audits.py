"""What the terminal shows of audits: a mark, a set of synthetic images, a watch and its evaluations."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorisk.audits.feature.page import TITLES, noticeable_sensitivity
from memorisk.cli.show.common import limits, signed
from memorisk.report.columns import column_texts
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS
from memorisk.runs.errors import plural
from memorisk.runs.files import json_value

if TYPE_CHECKING:
    from memorisk.audits.synthetic.run import SyntheticPlan
    from memorisk.audits.watch.evaluations import Evaluation
    from memorisk.audits.watch.memorization_watch import MemorizationWatch
    from memorisk.audits.watch.run import WatchPlan, WatchResult

_COUNTED = ("controls", "models", "references", "probes")


def show_feature(result: Result, out: Path, *, as_json: bool) -> None:
    """The verdict in a sentence, its numbers, and where the report lies."""
    v = result.verdict
    if as_json:
        sys.stdout.write(json.dumps(json_value(v), indent=2, ensure_ascii=False) + "\n")
        return
    console = Console()
    lines = [
        ("M, log sensitivity over a control's", _with_limits(v)),
        ("p", f"{v['p_value']:.3g}, {v['method']}; smallest possible {v['smallest_p']:.2g}"),
        ("found in four of five cases", " ".join(noticeable_sensitivity(v)).strip()),
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
    if n := sum(not verdict for verdict in column_texts(result.tables["review"], "verdict")):
        pairs = plural(n, "pair", "pairs")
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
    sys.stdout.write(json.dumps(json_value(value), indent=2, ensure_ascii=False) + "\n")


def show_evaluation(look: "Evaluation") -> None:
    """A line as soon as it was had."""
    Console().print(Text(look.words), soft_wrap=True)


def show_watch(found: "WatchResult", *, as_json: bool) -> None:
    """A row a look, what the rule says, and where the report lies."""
    if as_json:
        stop = None if found.stop is None else found.stop.step
        told = {"looks": [asdict(look) for look in found.looks], "stop": stop}
        _json(told | {"headline": found.headline, "rule": found.rule, "notes": found.notes})
        return
    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("step", "memorized share (95 %)", "listed", "FID", "as many", "held-out", "loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for look in found.looks:
        share = f"{look.share:.1%} ({look.share_low:.1%} to {look.share_high:.1%})" if look.share == look.share else ""
        table.add_row(
            f"{look.step:,}", share, f"{look.listed:,}", _number(look.fid), _number(look.fid_same_number),
            _number(look.fid_held_out), _number(look.held_out_loss),
        )  # fmt: skip
    console.print(table)
    console.print()
    console.print(Text((found.headline or "Nothing was looked at").upper(), style="bold"), soft_wrap=True)
    if found.rule:
        console.print(Text(found.rule), soft_wrap=True)
    if found.looks and found.looks[-1].fid_name:
        told = "as many: of no more drawn images than are held out; held-out: of real images in the place of these"
        console.print(Text(f"{found.looks[-1].fid_name}; {told}"), soft_wrap=True)
    for note in found.notes:
        console.print(Text(note), soft_wrap=True)
    console.print(Text("The final audit needs held-out patients who had no part in this watch."), soft_wrap=True)
    console.print(Text(f"Report: {found.folder / 'report.html'}"), soft_wrap=True)


def show_watch_within(watch: "MemorizationWatch") -> None:
    """Of a watch within a training: its last look, whether and why it ended the training, its rule, its report."""
    console, looks, stop = Console(), watch.looks, watch.stopped_at
    console.print(Text(f"watch: {looks[-1].words}" if looks else "watch: nothing was looked at"), soft_wrap=True)
    from memorisk.audits.watch.verdict import RULES, can_stop, watch_verdict

    if stop is not None and not looks[-1].go_on:
        said = f"it stopped the training at step {looks[-1].step:,}: {RULES[watch.options.stop_on]}"
    elif can_stop(watch):
        said = "it did not stop the training"
    else:
        said = "it could not have stopped the training"
    console.print(Text(f"watch: {said}"), soft_wrap=True)
    if looks:
        console.print(Text(f"watch: {watch_verdict(watch)[1]}"), soft_wrap=True)
    console.print(Text(f"watch: {watch.rule}"), soft_wrap=True)
    for note in watch.notes:
        console.print(Text(f"watch: {note}"), soft_wrap=True)
    if (report := watch.report()) is not None:
        console.print(Text(f"watch: {report}"), soft_wrap=True)


def show_watch_plan(plan: "WatchPlan", *, as_json: bool, within: bool = False) -> None:
    """What would be looked at; within a training there is nothing of it yet, and it is said whose lines they are."""
    if as_json:
        _json(asdict(plan))
        return
    console = Console()
    steps = f"{len(plan.steps)}" + (f", step {plan.steps[0]:,} to {plan.steps[-1]:,}" if plan.steps else "")
    lines = [
        *([] if within else [("to be looked at now", steps)]),
        ("looks planned", "not known" if plan.looks is None else f"{plan.looks:,}"),
        ("images a look", f"{plan.images:,}"),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("compared by", plan.detector),
        (
            "stops on",
            f"{plan.rule}, error of the first look {plan.error:.2g}, held-out patients needed {plan.needed:,}",
        ),
        ("rule", plan.why),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    for name, value in lines:
        console.print(Text(f"{'watch, ' if within else ''}{name}: {value}"), soft_wrap=True)


def _number(value: float) -> str:
    return f"{value:.4g}" if value == value else ""

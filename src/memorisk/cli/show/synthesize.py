"""What the terminal shows of a loop, of its plan, and of several put together."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from memorisk.report.result import Result
from memorisk.runs.files import plain

if TYPE_CHECKING:  # it loads images and networks
    from memorisk.audits.synthesize.plan import SynthesizePlan

STATUS = {
    "pass": "MADE AND FILTERED, WITH A GUARANTEE",
    "fail": "NOT TO BE SHARED",
    "undecided": "COULD NOT BE DECIDED",
}
NOTHING_KEPT = "NOTHING WAS KEPT"


def show_loop(result: Result, out: Path, *, as_json: bool) -> None:
    """The verdict in a sentence, its numbers, and where set and report lie."""
    v = result.verdict
    if as_json:
        _json(v)
        return
    from memorisk.audits.filter.words import WEAK, unpromised  # here, since it loads images

    console = Console()
    for name, value in _lines(v):
        console.print(Text(f"{name}: {value}"), soft_wrap=True)
    console.print()
    console.print(Text(NOTHING_KEPT if v["filtered"] and not v["n_kept"] else STATUS[result.status], style="bold"))
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
    if v["filtered"]:
        console.print(Text(f"Ledger: {out / 'ledger.csv'}"), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def show_loop_plan(plan: "SynthesizePlan", *, as_json: bool) -> None:
    """What would be drawn and could be promised."""
    if as_json:
        _json(asdict(plan))
        return
    from memorisk.audits.filter.words import not_counted  # here, since it loads images
    from memorisk.audits.synthetic.words import Terms

    console = Console()
    lines = [
        ("generator", plan.generator),
        ("images that are to pass", f"{plan.images:,}, up to {plan.most_tries:,} tries each"),
        *(("class", f"{name}: {n:,}") for name, n in plan.classes.items()),
        *([("training images whose conditions take part", f"{plan.sources:,}")] if plan.sources else []),
        *(
            (what, f"{n['images']:,} images, {n['patients']:,} patients")
            for what, n in (("training", plan.training), ("calibration", plan.calibration), ("held out", plan.held_out))
        ),
        ("calibration patients left out", f"{sum(plan.left_out.values()):,}"),
        *(("calibration", told) for told in not_counted(vars(plan), Terms("patients"))),
        *(("detector", name) for name in plan.detectors),
        *(
            ("copies", f"{f['family']}: {f['identities']:,} identities of {f['needed']:,} needed")
            for f in plan.families
        ),
        ("identities missing for the guarantee", f"{plan.missing:,}"),
        *([("rejected of new patients", _share_of(plan.new_rejected))] if plan.new_rejected else []),
        ("seconds of drawing", f"{plan.seconds:,.0f} if all pass at once, {plan.most_seconds:,.0f} at most "
                               f"(by a batch of {plan.first_batch:,})"),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]  # fmt: skip
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def show_table_three(table: pd.DataFrame, *, as_json: bool) -> None:
    """Paper 004's table 3."""
    from memorisk.audits.synthesize.table_three import rate_words  # here, since it loads networks

    if as_json:
        _json(table.to_dict(orient="records"))
        return
    console = Console()
    for row in table.to_dict(orient="records"):
        console.print(
            Text(f"{row['conditioning']} ({row['generator']}, {row['n']:,} images)", style="bold"), soft_wrap=True
        )
        for figure, form in (("fid", _number), ("irs", _number), ("memrate", _share)):
            parts = [f"{what} {_limits(row, f'{figure}_{what}', form)}" for what in ("before", "kept", "reference")]
            console.print(Text(f"  {figure.upper() if figure != 'memrate' else 'MemRate'}: {'; '.join(parts)}"),
                          soft_wrap=True)  # fmt: skip
        console.print(Text(f"  features {row['features']}; {rate_words(row)}"), soft_wrap=True)


def _limits(row: dict[Any, Any], name: str, form: Any) -> str:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if value != value:
        return "not known"
    return form(value) if low != low else f"{form(value)} [{form(low)}, {form(high)}]"


def _number(value: float) -> str:
    return f"{value:.3f}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _lines(v: dict[str, Any]) -> list[tuple[str, str]]:
    from memorisk.audits.filter.words import exposed_lines, not_counted, promised_kinds  # here, since it loads images
    from memorisk.audits.synthesize.words import is_bounded
    from memorisk.audits.synthetic.words import Terms

    rejected = ", ".join(f"{n:,} {reason}" for reason, n in v["rejected"].items() if n)
    told = f" ({rejected})" if rejected else ""
    lines = [
        ("images", f"{v['n_kept']:,} kept of {v['n_asked']:,} asked for, {v['n_drawn']:,} drawn"),
        ("rejected", f"{v['n_rejected']:,}{told}"),
        (f"calibration {v['units']}", f"{v['n_calibration']:,}; missing for the guarantee {v['missing']:,}"),
        *(("calibration", told) for told in not_counted(v, Terms(v["units"]))),
        ("compared by", "; ".join(v["detectors"])),
    ]
    if v["filtered"]:
        lines += exposed_lines(v)
    if v["n_empty"]:
        lines.append(("places that stayed empty", f"{v['n_empty']:,} of {v['n_asked']:,}"))
    if is_bounded(v):
        made = f"copies made by {promised_kinds(v)} among the kept images"
        lines.append(
            (made, f"at most {100 * v['copies']['high']:.2g} % (95 % limit); of other copies nothing is promised")
        )
    if (audit := v["audited"]) is not None:
        found = (
            f"{audit['n_listed']:,} training {v['units']} listed; nearer as a whole: p {audit['nearer']['p_value']:.2g}"
        )
        lines.append((f"audited by {audit['auditor']}", f"{audit['status']}; {found}"))
    elif v["auditor"] is not None:
        lines.append((f"audited by {v['auditor']}", "nothing was kept to look at"))
    return lines


def _share_of(real: dict[str, Any]) -> str:
    """A share with its limits."""
    share, low, high = (100 * real[name] for name in ("estimate", "low", "high"))
    return f"{share:.0f} % ({low:.0f} to {high:.0f} %)"


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")

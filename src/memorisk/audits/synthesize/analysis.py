"""From what was measured to a `Result`: the tables of a filter over everything drawn, and the loop's own.

``per_image`` is the ledger: a row an image ever drawn. ``tables/attempts``: a row an attempt. The rest is as
`audits.filter.analysis` has it.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.filter.analysis import described_detectors, numbers_of
from memorisk.audits.filter.tables import FilterTables
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthesize.evidence import LoopEvidence
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.outlook import is_hopeless
from memorisk.audits.synthesize.verdict import loop_verdict
from memorisk.report.frames import rows, truths
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.training.generators.drawing.drawing import image_name

KEPT, REJECTED = "kept", "rejected"


@dataclass(frozen=True)
class DrawnNames(Pseudonyms):
    """Pseudonyms of real images and people; the names of drawn images say nothing and stay."""

    drawn: frozenset[str] = frozenset()

    def names(self, values: Any) -> np.ndarray:
        """As `Pseudonyms.names`."""
        given = [str(value) for value in values]
        hidden = super().names(given)
        return np.array([name if name in self.drawn else other for name, other in zip(given, hidden, strict=True)],
                        dtype=object)  # fmt: skip


def analyse_loop(evidence: LoopEvidence, options: SynthesizeOptions, names: Pseudonyms) -> Result:
    """Numbers, verdict and tables.

    Args:
        evidence: Of the loop.
        options: What was asked for.
        names: Replaces ids of real images, or leaves them.
    """
    numbers, filtered, ledger = loop_numbers(evidence, options), evidence.filtered, evidence.ledger
    known = drawn_names(evidence, names)
    made = FilterTables(filtered, known)
    tables = {"guarantees": made.guarantees(), "calibration": made.calibration()}
    per_image = made.per_image()
    if ledger is not None:
        per_image = _ledger(per_image, evidence, known, options)
        tables |= {"scores": made.scores(), "real_images": made.real_images(), "detectors": made.detectors()}
        tables |= {"diversity": made.diversity(), "attempts": _attempts(per_image)}
    result = Result(
        per_image=per_image,
        per_group=made.per_group(),
        per_class=made.per_class(),
        summary=_summary(evidence, numbers, options, names),
        verdict=loop_verdict(numbers, options),
        tables=tables,
    )
    return names.without_paths(result)


def loop_numbers(evidence: LoopEvidence, options: SynthesizeOptions) -> dict[str, Any]:
    """The numbers behind the verdict, in JSON's own types but for NaN."""
    ledger, copies, audited = evidence.ledger, evidence.copies, evidence.audited
    drawn = 0 if ledger is None else len(ledger.plan)
    kept = 0 if ledger is None else len(ledger.kept)
    paired = ledger is not None and bool(np.isfinite(ledger.of_source).any())
    of_source = 0
    if ledger is not None and paired:
        thresholds = np.array(evidence.filtered.screened.thresholds)[:, None]  # pyright: ignore[reportOptionalMemberAccess]
        of_source = int((ledger.of_source >= thresholds).any(axis=0).sum())
    attempts = 0 if ledger is None else int(ledger.plan["attempt"].to_numpy().max()) + 1
    hopeless = is_hopeless(evidence.filtered.real)
    return numbers_of(evidence.filtered, options) | {
        "generator": evidence.config.name,
        "generator_source": evidence.source,
        "conditioned_on": evidence.config.conditioned_on,
        "conditioning": evidence.config.conditioning,
        "n_asked": options.images,
        "n_drawn": drawn,
        "n_empty": 0 if ledger is None else options.images - kept,
        "n_attempts": attempts,
        "hopeless": hopeless,
        "gave_up": hopeless and not kept and 0 < attempts < options.most_tries,
        "most_tries": options.most_tries,
        "paired": paired,
        "n_of_source": of_source,
        "copies": None if copies is None else asdict(copies),
        "doubts": list(evidence.doubts),
        "auditor": evidence.auditor,
        "audited": None if audited is None else audited.as_json(),
        "table_three": evidence.table_three,
    }


def kept_table(result: Result) -> pd.DataFrame:
    """``manifest.csv``: a row a kept image, by its place."""
    if "number" not in result.per_image:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in ("image", "path", "label")})
    kept = truths(result.per_image, "kept")  # the ledger's order is that of places
    table = rows(result.per_image, kept)
    names = [image_name(int(number)) for number in table["number"]]
    columns = ("label", "seed", "attempt", "source", "detector", "score", "threshold", "probability", "nearest_image",
               "nearest_group")  # fmt: skip
    found = {"image": names, "path": [f"{KEPT}/{name}.png" for name in names]}
    return pd.DataFrame(found | {name: table[name].to_numpy() for name in columns})


def drawn_names(evidence: LoopEvidence, names: Pseudonyms) -> DrawnNames:
    """Pseudonyms that leave ids of drawn images, but those that are an id of somebody real."""
    sets, drawn = evidence.filtered.sets, set()
    if evidence.ledger is not None:
        drawn = set(evidence.ledger.plan["image"])
    for store in (sets.train, sets.calibration):
        if store is not None:
            drawn -= {*map(str, store.manifest.images), *map(str, store.manifest.groups)}
    return DrawnNames(names.key, frozenset(drawn), paths=names.paths)


def _ledger(table: pd.DataFrame, evidence: LoopEvidence, names: Pseudonyms, options: SynthesizeOptions) -> pd.DataFrame:
    """The ledger: what a filter says of each image, with its place, attempt, seed and source, in order."""
    ledger = evidence.ledger
    assert ledger is not None
    plan, of_source = ledger.plan, ledger.of_source
    more = pd.DataFrame(
        {
            "image": names.names(plan["image"]),
            "number": plan["number"].to_numpy(),
            "attempt": plan["attempt"].to_numpy(),
            "seed": plan["seed"].to_numpy(),
            "source": np.where(plan["source"] == "", "", names.names(plan["source"])),
        }
    )
    if len(of_source) > 1:
        for place, matches in enumerate(evidence.filtered.screened.synthetic):  # pyright: ignore[reportOptionalMemberAccess]
            more[f"score_{place + 1}"] = matches.score
    if np.isfinite(of_source).any():
        for place, score in enumerate(of_source):
            more["of_source" if len(of_source) == 1 else f"of_source_{place + 1}"] = score
    table = table.drop(columns=["path", "detail"], errors="ignore")
    joined = table.merge(more, on="image", how="left", validate="one_to_one")
    written = np.where(joined["kept"], [f"{KEPT}/{image_name(int(n))}.png" for n in joined["number"]], "")
    if options.keep_rejected:
        written = np.where(joined["kept"], written, [f"{REJECTED}/{image}.png" for image in joined["image"]])
    joined.insert(1, "path", written.astype(object))
    return joined.sort_values(["number", "attempt"], kind="stable").reset_index(drop=True)


def _attempts(table: pd.DataFrame) -> pd.DataFrame:
    """A row an attempt: images drawn, rejected and kept."""
    attempt, kept = table["attempt"].to_numpy(dtype=np.int64), table["kept"].to_numpy(dtype=bool)
    drawn, passed = np.bincount(attempt), np.bincount(attempt[kept], minlength=int(attempt.max()) + 1)
    columns = {"n_drawn": drawn, "n_rejected": drawn - passed, "n_kept": passed}
    return pd.DataFrame({"attempt": np.arange(len(drawn)) + 1, **columns})


def _summary(
    evidence: LoopEvidence, numbers: dict[str, Any], options: SynthesizeOptions, names: Pseudonyms
) -> dict[str, Any]:
    sets = evidence.filtered.sets
    settings = ("families", "seed", "fail_on", "resize", "threshold", "balance", "paired", "images", "most_tries")
    return {
        "audit": "synthesize",
        "names": {
            "training": names.source(sets.train.manifest.name),
            "synthetic": evidence.config.name,
            "calibration": "" if sets.calibration is None else names.source(sets.calibration.manifest.name),
        },
        "shape": list(sets.train.images.shape[1:]),
        "numbers": numbers,
        "generator": asdict(evidence.config) | {"details": {}},
        "sampling": asdict(options.sampling()),
        "features": described_detectors(evidence.filtered.opened),
        "settings": {name: getattr(options, name) for name in settings},
        "pseudonymised": options.pseudonymise,
        "versions": versions(),
    }

"""Analysis of a loop to a `Result`: the tables of a filter over everything drawn, and the loop's own.

The evidence is what the filter says of everything drawn, its audit of the kept images among it, and what the kept
images bound.

``per_image`` is the ledger: one row per image ever drawn. ``tables/attempts``: one row per attempt. The rest is as
`audits.filter.analysis` has it. Pictures of the closest pairs are made only when the user requests them: rejected
images are drawn once more, and not written.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.pictures import MAX_PICTURES, Pair, PairPicture, closest_pairs
from memorisk.audits.filter.analysis import (
    FilterEvidence,
    described_detectors,
    numbers_of,
    set_names,
)
from memorisk.audits.filter.choice import Choice
from memorisk.audits.filter.decisions import Decision
from memorisk.audits.filter.result import KEPT
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.filter.tables import FilterTables
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.run_images import SYNTHETIC, TRAIN, parts_of
from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.loop import Loop
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.result import (
    LoopNumbers,
    LoopSettings,
    LoopSetup,
    LoopSummary,
    TableThreeRow,
)
from memorisk.audits.synthesize.verdict import is_hopeless, loop_verdict
from memorisk.images.store import store_of_pixels
from memorisk.report.columns import booleans, column_texts, rows
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.runs.settings import fields_of
from memorisk.statistics.pairs.regenerated_copies import RegeneratedCopies, regenerated_copies
from memorisk.training.generators.draws import draw, image_name


@dataclass(frozen=True, eq=False)
class LoopEvidence:
    """Everything that a report needs."""

    loop: Loop
    filtered: FilterEvidence
    """Evidence of everything drawn, as a filter judged it."""
    ledger: Ledger | None = None
    """Ledger of the loop; None without a threshold, where nothing was drawn."""
    copies: RegeneratedCopies | None = None
    """Effect of drawing again on the guarantee."""
    table_three: TableThreeRow | None = None
    """A row of the paper's table 3."""


def undrawn_evidence(loop: Loop) -> LoopEvidence:
    """Return the evidence of a loop that may not begin, since identities are missing."""
    candidates, nothing = loop.candidates, Decision(np.empty(0, dtype=np.int64), np.empty(0, dtype=object))
    sets = _with_drawn(loop, np.zeros((0, *loop.train.images.shape[1:]), np.uint8))
    choice = Choice(candidates.families, candidates.counted)
    return LoopEvidence(loop, FilterEvidence(sets, loop.detectors, choice, nothing))


def filter_evidence(loop: Loop, ledger: Ledger) -> FilterEvidence:
    """Return everything drawn as evidence of a filter; "before" are the first draws of every place."""
    plan, choice, calibrated = ledger.plan, loop.calibrated.choice, loop.calibrated
    assert choice is not None
    no_pixels = np.broadcast_to(np.zeros(1, np.uint8), (len(plan), *loop.train.images.shape[1:]))
    ids, labels = plan["image"].tolist(), plan["class"].tolist()
    sets = _with_drawn(loop, no_pixels, ids=ids, labels=labels, hashes=ledger.hashes)
    decision = Decision(np.arange(len(plan)), ledger.reason)
    screened = ledger.screened(choice.thresholds, calibrated.real)
    chosen = {"first draws": ledger.first, "kept": ledger.kept}
    evidence = FilterEvidence(sets, loop.detectors, choice, decision)
    return evidence.with_screening(calibrated.opened, screened, chosen, loop.options.seed)


def _with_drawn(loop: Loop, pixels: np.ndarray, **more: Any) -> FilterSets:
    """Return the sets of the loop with drawn images as the synthetic ones; further arguments as `store_of_pixels`."""
    drawn = store_of_pixels(pixels, loop.train, "drawn images", **more)
    return replace(loop.sets, synthetic=drawn, candidates=drawn.manifest)


def bound_copies(ledger: Ledger, options: SynthesizeOptions) -> RegeneratedCopies:
    """Bound the copies among the kept images; the units are places."""
    number = ledger.plan["number"].to_numpy()
    rejected = np.bincount(number[ledger.reason != ""], minlength=ledger.n_asked)
    filled = np.isin(np.arange(ledger.n_asked), number[ledger.kept])
    return regenerated_copies(rejected, filled, miss_rate=options.miss_rate, tries=options.most_tries)


REJECTED = "rejected"


@dataclass(frozen=True)
class DrawnNames(Pseudonyms):
    """Pseudonyms of real images and people; the names of drawn images say nothing and stay."""

    drawn: frozenset[str] = frozenset()

    def names(self, values: Any) -> np.ndarray:
        """Return pseudonyms as `Pseudonyms.names` does, but leave the names of drawn images."""
        texts = [str(value) for value in values]
        hidden = super().names(texts)
        return np.array([name if name in self.drawn else other for name, other in zip(texts, hidden, strict=True)],
                        dtype=object)  # fmt: skip


def analyse_loop(evidence: LoopEvidence, names: Pseudonyms) -> Result:
    """Compute numbers, verdict and tables.

    Args:
        evidence: Evidence of the loop.
        names: Pseudonyms, which replace ids of real images or leave them.
    """
    numbers, options = loop_numbers(evidence), evidence.loop.options
    pseudonyms = drawn_image_names(evidence, names)
    filter_tables = FilterTables(evidence.filtered, pseudonyms)
    tables, per_image = filter_tables.further(), filter_tables.per_image()
    if evidence.ledger is not None:
        per_image = _ledger(per_image, evidence, evidence.ledger, pseudonyms)
        tables["attempts"] = _attempts(per_image)
    result = Result(
        per_image=per_image,
        per_group=filter_tables.per_group(),
        per_class=filter_tables.per_class(),
        summary=to_json(_summary(evidence, numbers, names)),
        verdict=loop_verdict(numbers, options),
        tables=tables,
    )
    return names.without_paths(result)


def loop_numbers(evidence: LoopEvidence) -> LoopNumbers:
    """Return the numbers behind the verdict."""
    loop, ledger = evidence.loop, evidence.ledger
    options, config = loop.options, loop.generator.config
    drawn = 0 if ledger is None else len(ledger.plan)
    n_kept = 0 if ledger is None else len(ledger.kept)
    paired = ledger is not None and bool(np.isfinite(ledger.of_source).any())
    of_source = 0
    if ledger is not None and paired:
        thresholds = np.array(loop.thresholds)[:, None]
        of_source = int((ledger.of_source >= thresholds).any(axis=0).sum())
    attempts = 0 if ledger is None else int(ledger.plan["attempt"].to_numpy().max()) + 1
    hopeless = is_hopeless(evidence.filtered.real)
    return LoopNumbers(
        filter=numbers_of(evidence.filtered, options),
        generator=config.name,
        generator_source=loop.generator.source,
        conditioned_on=config.conditioned_on,
        conditioning=config.conditioning,
        n_asked=options.images,
        n_drawn=drawn,
        n_empty=0 if ledger is None else options.images - n_kept,
        n_attempts=attempts,
        hopeless=hopeless,
        gave_up=hopeless and not n_kept and 0 < attempts < options.most_tries,
        most_tries=options.most_tries,
        paired=paired,
        n_of_source=of_source,
        copies=evidence.copies,
        doubts=loop.real.doubts,
        table_three=evidence.table_three,
    )


def kept_table(result: Result) -> pd.DataFrame:
    """Return the table ``manifest.csv``: one row per kept image, by its place."""
    if "number" not in result.per_image:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in ("image", "path", "label")})
    is_kept = booleans(result.per_image, "kept")  # the ledger's order is that of places
    table = rows(result.per_image, is_kept)
    names = [image_name(int(number)) for number in table["number"]]
    columns = ("label", "seed", "attempt", "source", "detector", "score", "threshold", "probability", "nearest_image",
               "nearest_group")  # fmt: skip
    columns_of_files = {"image": names, "path": [f"{KEPT}/{name}.png" for name in names]}
    return pd.DataFrame(columns_of_files | {name: table[name].to_numpy() for name in columns})


def drawn_image_names(evidence: LoopEvidence, names: Pseudonyms) -> DrawnNames:
    """Make pseudonyms that leave ids of drawn images, but those that are an id of a real person."""
    sets, drawn = evidence.filtered.sets, set()
    if evidence.ledger is not None:
        drawn = set(evidence.ledger.plan["image"])
    for store in (sets.train, sets.calibration):
        if store is not None:
            drawn -= {*map(str, store.manifest.images), *map(str, store.manifest.groups)}
    return DrawnNames(names.key, frozenset(drawn), paths=names.paths)


def _ledger(table: pd.DataFrame, evidence: LoopEvidence, ledger: Ledger, names: Pseudonyms) -> pd.DataFrame:
    """Return the ledger: what a filter says of each image, with its place, attempt, seed and source, in order."""
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
        for place in range(len(of_source)):
            more[f"score_{place + 1}"] = ledger.score(place)
    if np.isfinite(of_source).any():
        for place, score in enumerate(of_source):
            more["of_source" if len(of_source) == 1 else f"of_source_{place + 1}"] = score
    table = table.drop(columns=["path", "detail"], errors="ignore")
    joined = table.merge(more, on="image", how="left", validate="one_to_one")
    written = np.where(joined["kept"], [f"{KEPT}/{image_name(int(n))}.png" for n in joined["number"]], "")
    if evidence.loop.options.keep_rejected:
        written = np.where(joined["kept"], written, [f"{REJECTED}/{image}.png" for image in joined["image"]])
    joined.insert(1, "path", written.astype(object))
    return joined.sort_values(["number", "attempt"], kind="stable").reset_index(drop=True)


def _attempts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each attempt: images drawn, rejected and kept."""
    attempt, is_kept = table["attempt"].to_numpy(dtype=np.int64), table["kept"].to_numpy(dtype=bool)
    drawn, passed = np.bincount(attempt), np.bincount(attempt[is_kept], minlength=int(attempt.max()) + 1)
    columns = {"n_drawn": drawn, "n_rejected": drawn - passed, "n_kept": passed}
    return pd.DataFrame({"attempt": np.arange(len(drawn)) + 1, **columns})


def _summary(evidence: LoopEvidence, numbers: LoopNumbers, names: Pseudonyms) -> LoopSummary:
    sets, options, config = evidence.filtered.sets, evidence.loop.options, evidence.loop.generator.config
    return LoopSummary(
        names=set_names(sets, config.name, names),
        shape=sets.train.images.shape[1:],
        numbers=numbers,
        generator=replace(config, details={}),
        sampling=options.sampling(),
        setup=LoopSetup(
            features=described_detectors(evidence.filtered.opened),
            settings=LoopSettings(**fields_of(LoopSettings, options)),
            pseudonymised=options.pseudonymise,
            versions=versions(),
        ),
    )


def rejected_pairs(loop: Loop, ledger: Ledger, result: Result, names: Pseudonyms) -> dict[Pair, PairPicture]:
    """Return pictures of the pair that exposes each patient most, the closest first, by the ids in the report.

    Args:
        loop: Loop whose generator draws the images again.
        ledger: Ledger that gives seeds and conditions.
        result: Result whose tables name the pairs.
        names: Pseudonyms that the tables were written with.
    """
    images = set(column_texts(result.per_group.head(MAX_PICTURES), "synthetic_image"))
    chosen = rows(ledger.plan, [str(image) in images for image in ledger.plan["image"]]).reset_index(drop=True)
    if not len(chosen):
        return {}
    pixels = loop.real.form.pixels(draw(loop.generator, chosen, loop.options.sampling(), loop.device))
    sets = _with_drawn(loop, pixels, ids=chosen["image"].tolist())
    return closest_pairs(result, parts_of({TRAIN: sets.train, SYNTHETIC: sets.synthetic}, names))

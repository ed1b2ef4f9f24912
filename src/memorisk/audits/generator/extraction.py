"""Can patients be drawn? Images that the released generator draws, and their audit (``--extract``; METHODS section 7).

Images are drawn from seeds, of each class in turn where the generator has classes, and audited as any generated set:
`audits.synthetic`, with the training images of the split and, as the null, its test images. Both are compared with the
same draws, so that seeds and conditions are shared. Of images in further parts of the split, as validation images are,
the pixels alone are compared. The audit's verdict enters the generator's as a reason.

``RUN/extraction`` holds ``images/`` (PNG), ``manifest.csv``, ``draws.json`` (what the images depend on) and ``audit/``.
A picture has its name when it is whole, and blocks are drawn whole: after a kill at any point the same command
continues to the same bytes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import Cliques, Extraction
from memorisk.audits.classifier.evidence import Context
from memorisk.audits.classifier.planning.plan import Parts
from memorisk.audits.comparison.sets import source_name
from memorisk.audits.filter.final_audit import audit_settings
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.reasons import (
    CLIQUES,
    EXTRACTED,
    DrawsUndecided,
    NoPatientDrawn,
    OtherPartDrawn,
    PatientsDrawn,
    RareDraws,
)
from memorisk.audits.run_images import DRAWN, EXTRACTION
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.reasons import OtherPartPixels
from memorisk.audits.synthetic.result import SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.run import SyntheticPlan, audit_parts
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.models.generators.generators import Generator
from memorisk.models.generators.released import open_released
from memorisk.models.settings import DEFAULT_DETECTOR, SamplingOptions
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.runs.checksums import SEAL, file_sha256
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, write_json
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Cost, Progress
from memorisk.statistics.copies.pairs_of_people import EXPECTED_PAIRS
from memorisk.statistics.verdicts.reasons import FAIL, Reason
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.draws import (
    DRAWN_LIST,
    IMAGES,
    draw,
    plan_draws,
    read_drawn_hashes,
    set_table,
    write_images,
    write_tables,
)
from memorisk.training.generators.generation import drawing_cost

AUDIT, RECORD = "audit", "draws.json"
SAMPLING = SamplingOptions(sampler="ddpm", sampling_steps=250)
"""Settings of the draws. New noise in many steps draws more of what is remembered (docs/results)."""
ALMOST_SURELY = 0.95
_TRIED = 16


@dataclass(frozen=True, eq=False)
class Extracted:
    """Outcome of an extraction."""

    numbers: Extraction
    reasons: tuple[Reason, ...]
    tables: Mapping[str, pd.DataFrame]

    def noted_in(self, context: Context) -> Context:
        """Return the context of the generator's audit with the numbers and reasons of the extraction."""
        target = context.target
        assert target is not None
        assert target.verdict is not None
        target = replace(target, verdict=replace(target.verdict, extraction=self.numbers))
        return replace(context, target=target, other_reasons=[*context.other_reasons, *self.reasons])


def least_noticed_share(n: int) -> float:
    """Return the share of the draws from which on an image is among ``n`` of them with probability `ALMOST_SURELY`.

    Example:
        >>> round(least_noticed_share(300), 3)
        0.01
    """
    return 1 - (1 - ALMOST_SURELY) ** (1 / n)


def open_drawing(store: ImageStore, options: GeneratorAuditOptions) -> Generator:
    """Open the generator that is to be released, as one that draws images of the size of a store's.

    Args:
        store: The images.
        options: Settings with ``target``.

    Raises:
        InputError: It cannot be read.
    """
    assert options.target is not None
    return open_released(options.target, options.kind).drawing(one_line(options.target.name, 60), store.shape)


def check_extraction(
    out: Path, store: ImageStore, parts: Parts, options: GeneratorAuditOptions, progress: Progress
) -> None:
    """Draw a few images and plan their audit, so that what does not fit is refused before any twin is trained.

    Args:
        out: The run folder; it need not exist.
        store: The images.
        parts: Parts of the audit.
        options: Settings of the audit.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Draws and images cannot be compared, or the folder holds other draws.
    """
    assert options.extract is not None
    generator = open_drawing(store, options)
    _refuse_other_draws(out, generator, options)
    few = plan_draws(generator, min(_TRIED, options.extract), seed=options.split_seed)
    with limited_threads(options.threads):
        drawn = draw(generator, few, SAMPLING, str(check_device(options.device)))
    train, held, others = _compared(store.manifest, parts)
    plan = audit_parts(
        train, store_of_pixels(drawn, store, EXTRACTION), held, others, out=out / EXTRACTION / AUDIT,
        options=_audit_options(options, store, held), progress=progress, dry_run=True,
    )  # fmt: skip
    assert isinstance(plan, SyntheticPlan)


def _audit_options(options: GeneratorAuditOptions, store: ImageStore, held: Manifest) -> SyntheticOptions:
    """Return the settings of the audit of the draws."""
    settings = audit_settings(options, store.shape[2], (DEFAULT_DETECTOR,))
    return synthetic_options(settings | {"held_out": source_name(held)})


def extraction_cost(store: ImageStore, options: GeneratorAuditOptions) -> Cost:
    """Count what drawing costs; nothing without ``extract``.

    Args:
        store: The images.
        options: Settings of the audit.
    """
    if options.extract is None:
        return Cost()
    return drawing_cost(open_drawing(store, options), SAMPLING, options.extract)


def extract(
    run: RunFolder, store: ImageStore, parts: Parts, options: GeneratorAuditOptions, progress: Progress
) -> Extracted:
    """Draw images, audit them, and say what that means for the generator.

    Args:
        run: The run folder.
        store: The images.
        parts: Parts of the audit.
        options: Settings of the audit.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The folder holds other draws, or the sets cannot be compared.
    """
    assert options.extract is not None
    generator = open_drawing(store, options)
    folder = run.subfolder(EXTRACTION)
    _refuse_other_draws(run.path, generator, options)
    write_json(folder / RECORD, _record(generator, options))
    _draw(folder, generator, options, progress)
    train, held, others = _compared(store.manifest, parts)
    result = audit_parts(
        train, run / DRAWN, held, others, out=folder / AUDIT, options=_audit_options(options, store, held),
        progress=progress,
    )  # fmt: skip
    assert isinstance(result, Result)
    return _summarised(result, file_sha256(folder / AUDIT / SEAL), options, random_split=parts.random)


def _record(generator: Generator, options: GeneratorAuditOptions) -> dict[str, Any]:
    """Return what the draws depend on."""
    device = str(check_device(options.device)).partition(":")[0]
    return {
        "generator": generator.source,
        "images": options.extract,
        "seed": options.split_seed,
        "device": device,
        "threads": options.threads,
        **asdict(SAMPLING),
    }


def _refuse_other_draws(out: Path, generator: Generator, options: GeneratorAuditOptions) -> None:
    """Refuse a folder with draws of another generator or of other settings.

    Raises:
        InputError: It holds such draws.
    """
    file, own = out / EXTRACTION / RECORD, _record(generator, options)
    before = read_json(file) if file.is_file() else own
    changed = [name for name in own if before.get(name) != own[name]]
    if changed:
        raise InputError(
            f"{one_line(out / EXTRACTION)} holds draws with another {changed[0]} "
            f"({one_line(before.get(changed[0]), 40)}, now {one_line(own[changed[0]], 40)}): delete that folder, or "
            "name another --out"
        )


def _draw(folder: Path, generator: Generator, options: GeneratorAuditOptions, progress: Progress) -> None:
    """Draw the images that are not there yet; a block is drawn whole, since the last bits may depend on it."""
    assert options.extract is not None
    (folder / IMAGES).mkdir(mode=0o700, exist_ok=True)
    plan = plan_draws(generator, options.extract, seed=options.split_seed)
    names, device = plan["image"].tolist(), str(check_device(options.device))
    hashes = read_drawn_hashes(folder, names)
    if len(hashes) == len(names):
        return
    with limited_threads(options.threads):
        for begin in range(0, len(plan), SAMPLING.batch):
            progress("drawing images from the target", begin, len(plan))
            block = plan.iloc[begin : begin + SAMPLING.batch]
            missing = ~block["image"].isin(hashes).to_numpy()
            if missing.any():
                images = draw(generator, block, SAMPLING, device)
                hashes |= write_images(folder, block["image"][missing].tolist(), images[missing])
    write_tables(folder, set_table(plan, hashes))
    (folder / DRAWN_LIST).unlink(missing_ok=True)


def _compared(manifest: Manifest, parts: Parts) -> tuple[Manifest, Manifest, Manifest | None]:
    """Return the training images of the generator and the test images, without their splits, and all further images.

    The further images keep their splits, which name their parts; None where there are none.
    """
    whole = Manifest(
        manifest.table.drop(columns="split", errors="ignore"),
        manifest.root, manifest.name, (), manifest.skipped, manifest.n_not_sampled, manifest.id_doubts,
    )  # fmt: skip
    trained, held = np.isin(parts.part.astype(str), ("canary", "train")), parts.rows("test")
    further = np.setdiff1d(np.flatnonzero(~trained), held)
    others = manifest.subset(further) if len(further) else None
    return whole.subset(np.flatnonzero(trained)), whole.subset(held), others


def _summarised(result: Result, sha256: str, options: GeneratorAuditOptions, *, random_split: bool) -> Extracted:
    """Take from the audit what concerns the generator."""
    assert options.extract is not None
    n, numbers = options.extract, from_json(SyntheticSummary, result.summary).numbers
    listing, aligned, held = numbers.listing, numbers.aligned, numbers.sets.held
    table = _clique_table(result)
    extraction = Extraction(
        n_drawn_images=n,
        seed=options.split_seed,
        sampling_steps=SAMPLING.sampling_steps,
        least_noticed_share=least_noticed_share(n),
        status=result.status,
        codes=tuple(str(reason["code"]) for reason in result.reasons),
        certain=bool(numbers.pixels.n_certain),
        n_certain_patients=numbers.pixels.n_certain_patients,
        other_parts=numbers.sets.other_parts,
        other_copies=numbers.pixels.other_copies,
        n_listed_patients=None if listing is None else listing.n_listed_at_verdict,
        n_singled_images=None if listing is None else listing.n_singled_images,
        n_confirmed_images=None if aligned is None else aligned.n_shown_images,
        n_held_out_patients=0 if held is None else held.n_held_patients,
        promise=numbers.power.promise,
        cliques=_cliques(table, numbers, n),
        folder=f"{EXTRACTION}/{AUDIT}",
        sha256=sha256,
    )
    pairs = result.tables["review"]
    columns = ["training_image", "synthetic_image", "patient"]
    return Extracted(
        extraction,
        tuple(_reasons(extraction, result, random_split=random_split)),
        {EXTRACTED: pairs.loc[:, [name for name in columns if name in pairs]], CLIQUES: table},
    )


def _reasons(extraction: Extraction, result: Result, *, random_split: bool) -> list[Reason]:
    """Turn the audit's verdict into reasons; without a random split only pixels show a copy."""
    n = extraction.n_drawn_images
    limit = RareDraws(n_drawn=n, least_share=extraction.least_noticed_share, n_sampling_steps=extraction.sampling_steps)
    if failures := _failures(extraction, result, random_split=random_split):
        return [*failures, limit]
    if extraction.status == "pass":
        return [NoPatientDrawn(n_drawn=n, promise=extraction.promise or ""), limit]
    first = str(result.reasons[0]["text"]) if result.reasons else ""
    ways = list(result.what_would_decide)
    way = ways[0] if ways else ""
    return [DrawsUndecided(n_drawn=n, because=first, way=way), limit]


def _failures(extraction: Extraction, result: Result, *, random_split: bool) -> list[Reason]:
    """Return what was drawn: patients of the training, by statistics only of a random split, or of a further part."""
    n, failures = extraction.n_drawn_images, list[Reason]()
    codes = {reason["code"] for reason in result.reasons if reason["bears_on"] == FAIL}
    if extraction.n_certain_patients or (random_split and codes - {OtherPartPixels.code}):
        failures.append(
            PatientsDrawn(
                n_drawn=n,
                n_certain=extraction.n_certain_patients,
                n_listed=extraction.n_listed_patients or 0,
                n_confirmed=extraction.n_confirmed_images or 0,
            )
        )
    if copies := extraction.other_copies:
        failures.append(OtherPartDrawn(n_drawn=n, n_images=sum(copies.values()), by_part=copies))
    return failures


def _clique_table(result: Result) -> pd.DataFrame:
    """Return one row per clique: number of draws, the nearest training image of any of them, whether it is flagged."""
    clusters, images = result.tables["clusters"], result.per_image
    nearest = images.iloc[np.lexsort((images["image"], images["distance"], images["cluster"]))]
    first = nearest.drop_duplicates("cluster").set_index("cluster")
    rows = first.loc[clusters["cluster"].to_numpy()]
    table = pd.DataFrame(
        {
            "clique": clusters["cluster"].to_numpy(),
            "n_images": clusters["n_images"].to_numpy(),
            "flagged": clusters["n_groups"].to_numpy() > 0,
            "image": rows["image"].to_numpy(dtype=object),
            "nearest_image": rows["nearest_image"].to_numpy(dtype=object),
            "nearest_group": rows["nearest_group"].to_numpy(dtype=object),
        }
    )
    largest_first = np.lexsort((table["clique"].to_numpy(), -table["n_images"].to_numpy()))
    return table.iloc[largest_first].reset_index(drop=True)


def _cliques(table: pd.DataFrame, numbers: SyntheticNumbers, n: int) -> Cliques:
    """Count cliques, with what chance makes of as many images of different people.

    The rule by which two images are nearly the same expects fewer than `EXPECTED_PAIRS` among the pairs of a draw and
    a person; of the pairs among draws it expects so many times their number.
    """
    people = numbers.sets.n_train_patients + (0 if numbers.sets.held is None else numbers.sets.held.n_held_patients)
    chance = None if numbers.pixels.near_threshold is None else EXPECTED_PAIRS * (n - 1) / (2 * people)
    sizes = table["n_images"].to_numpy(dtype=np.int64)
    return Cliques(
        n_cliques=len(table),
        n_images=int(sizes.sum()),
        n_largest_images=int(sizes.max(initial=0)),
        n_flagged=int(table["flagged"].to_numpy().sum()),
        chance_pairs=chance,
    )

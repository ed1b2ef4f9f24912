"""Is anybody listed where a generator cannot have memorized? Real twins, and images that none of them saw.

    python recipes/generator_null.py [--images digits] [--size 16] [--pairs 24] [--tables 200] [--go-on] [--out PAGE]

Pairs of twins are trained on halves of a pool of digits. The other digits, which no twin saw, are divided at random
into scored and test part, and the coins of a design say which twin of each pair "saw" a scored image. So every list is
false. Each table takes pairs at random from those that were trained. The page counts p-values of at most 0.05, tables
that list anyone, and failures of the whole verdict. It also has the shape of the noise of trainings, which plans assume
(`statistics.verdicts.scales`): how much its size differs between images, and its tails.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.evidence import Context, Evidence
from memorisk.audits.classifier.planning.plan import Parts, Plan, make_plan
from memorisk.audits.classifier.result import DenoisingUtility
from memorisk.audits.generator.evidence import generator_evidence, unseen_weights
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.plan import draw_parts
from memorisk.audits.generator.trainings import twin_recipe
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.files import read_array
from memorisk.scores.noise_errors import joined_losses, level_weights
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.training.classifiers.twins import twin_design
from memorisk.training.generators.twins.jobs import run_twin
from memorisk.training.generators.twins.recipes import LOSSES, TwinJob

POOL = 600
"""Number of images of which each twin sees half."""
WORLDS = {"trained as by default": {}, "trained for one step": {"steps": 1}}
"""Settings of the twins by world."""
COLUMNS = (
    *("twins", "tables", "p of at most 0.05, %", "tables that list anyone, %", "failures, %"),
    *("noticeable gap, SD, median", "spread of noise", "degrees of freedom"),
)
HEADING = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def main() -> None:
    """Train the twins of each world, draw the tables and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", default="digits")
    parser.add_argument("--size", type=int)
    parser.add_argument("--label-column")
    parser.add_argument("--group-column")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--go-on", action="store_true", help="keep the rows of the page, and count the others")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    columns = {name: getattr(chosen, name) for name in ("label_column", "group_column", "sample", "size")}
    options = GeneratorAuditOptions(models=chosen.models, one_image_per_patient=True, **columns)
    store = build_store(load_manifest(chosen.images, options), options)
    kept = chosen.out.read_text(encoding="utf-8") if chosen.go_on and chosen.out and chosen.out.exists() else ""
    rows = {name: line for line in kept.splitlines() if (name := line.split(" | ")[0].removeprefix("| ")) in WORLDS}
    for world, settings in WORLDS.items():
        if world in rows:
            continue
        with TemporaryDirectory() as folder, ProcessPoolExecutor(chosen.processes) as pool:
            losses, unseen = train_pairs(Path(folder), store, replace(options, **settings), chosen.pairs, pool)
            arguments = [(store, options, losses, unseen, seed) for seed in range(chosen.tables)]
            outcomes = np.array(list(pool.map(audited, arguments, chunksize=4)))
        rows[world] = row(world, outcomes, noise_shape(losses[..., unseen]))
        print(rows[world], flush=True)
        if chosen.out:
            lines = [rows[name] for name in WORLDS if name in rows]
            chosen.out.write_text(page(lines, chosen.pairs, chosen.models), encoding="utf-8")


def train_pairs(
    folder: Path, store: ImageStore, options: GeneratorAuditOptions, n_pairs: int, pool: ProcessPoolExecutor
) -> tuple[np.ndarray, np.ndarray]:
    """Train pairs of twins on halves of a pool of images.

    Args:
        folder: Folder for the losses.
        store: The images.
        options: Settings of the twins.
        n_pairs: Number of pairs.
        pool: Processes that train.

    Returns:
        Losses of both models of each pair on all images, [pairs, 2, L, N], and rows of the images that none saw.
    """
    rows = np.random.default_rng(0).permutation(len(store.images))
    (folder / LOSSES).mkdir(mode=0o700)
    for name in ("weights", "checkpoints"):
        (folder / name).mkdir(mode=0o700)
    labels, groups = store.manifest.labels, store.manifest.groups
    part = np.where(np.isin(np.arange(len(rows)), rows[:POOL]), "canary", "test")
    plan = Plan("balanced", Parts(part, labels, groups, [], [], random=True), [], None, rows[:0], rows[:0])
    recipe, jobs = twin_recipe(plan, options), []
    for seed in range(n_pairs):
        design = twin_design(labels, groups, rows[:POOL], rows[:0], seed=seed)
        shared = {"out": folder, "store": store, "slots": design.slots, "recipe": recipe, "seed": seed}
        jobs += [TwinJob(rows=own, keep_weights=False, **shared) for own in (design.rows_a, design.rows_b)]
    list(pool.map(run_twin, jobs))
    losses = np.stack([read_array(job.losses_file) for job in jobs])
    return losses.reshape(n_pairs, 2, *losses.shape[1:]), np.sort(rows[POOL:])


def audited(given: tuple[ImageStore, GeneratorAuditOptions, np.ndarray, np.ndarray, int]) -> list[float]:
    """Audit one table of images that no twin saw: share of small p-values, whether anyone is listed, whether it fails.

    Args:
        given: Images, settings, losses, rows of unseen images, and the seed of the table.
    """
    store, options, losses, unseen, seed = given
    evidence, context = null_table(store, options, losses, unseen, seed)
    result = analyse(evidence, options, context)
    p = result.per_group["p_value"].to_numpy(dtype=np.float64)
    listed = int(result.per_class["verdict_flagged"].sum()) > 0
    gaps = result.per_class["noticeable_gap"].to_numpy(dtype=np.float64)
    return [float(np.nanmean(p <= 0.05)), float(listed), float(result.status == "fail"), float(np.nanmax(gaps))]


def null_table(
    store: ImageStore, options: GeneratorAuditOptions, losses: np.ndarray, unseen: np.ndarray, seed: int
) -> tuple[Evidence, Context]:
    """Draw a score table of images that no twin saw.

    Args:
        store: The images.
        options: Settings of the audit.
        losses: Losses of all pairs, [pairs, 2, L, N].
        unseen: Rows of the images that none saw.
        seed: Random seed of pairs, parts and coins.
    """
    rng = np.random.default_rng([71, seed])
    manifest = store.manifest.subset(unseen)
    own = replace(options, seeds=tuple(int(s) for s in rng.integers(1 << 31, size=options.models // 2)), models=None)
    parts: Parts = draw_parts(manifest, [], own, seed)
    plan = make_plan(manifest, parts, own)
    pairs = losses[rng.choice(len(losses), len(own.seeds), replace=False)][..., unseen]
    weights = unseen_weights(plan, pairs[:, 0], pairs[:, 1])
    evidence = generator_evidence(plan, pairs[:, 0], pairs[:, 1], weights)
    learned = DenoisingUtility(explained=1.0, explained_low=1.0, beats_guessing=True)
    context = Context(design=plan.design, scale="spreads", audit="generator", utility=learned)
    return evidence, context


def noise_shape(losses: np.ndarray) -> tuple[float, float]:
    """Measure the gaps of images that no twin saw: deviation of the logarithm of their size over images, and tails.

    The deviation is less what sizes of as many normal draws would have; the tails are the degrees of freedom of the t
    distribution with the same kurtosis within images, infinite where it is not above the normal one.

    Args:
        losses: Losses of unseen images under both models of each pair, [pairs, 2, L, n].
    """
    every = np.ones(losses.shape[-1], dtype=bool)
    weights = level_weights(losses[:, 0], losses[:, 1], every)
    gap = joined_losses(losses[:, 1], weights) - joined_losses(losses[:, 0], weights)
    gap = gap - gap.mean(axis=1, keepdims=True)
    normal = np.random.default_rng(0).standard_normal((len(gap), 20_000))
    size, chance = (np.sqrt(np.square(values).mean(axis=0)) for values in (gap, normal))
    spread = np.sqrt(max(0.0, np.log(size).var() - np.log(chance).var()))
    beyond = 3 * (np.mean((gap / size) ** 4) / np.mean((normal / chance) ** 4) - 1)
    return float(spread), float(4 + 6 / beyond) if beyond > 0 else np.inf


def row(world: str, outcomes: np.ndarray, shape: tuple[float, float]) -> str:
    """Write the row of a world.

    Args:
        world: Name of the world.
        outcomes: Outcomes of its tables, [tables, 4].
        shape: Shape of the noise.
    """
    n = len(outcomes)
    listed, failed = (clopper_pearson(int(outcomes[:, i].sum()), n) for i in (1, 2))
    shares = [f"{100 * s.estimate:.1f} ({100 * s.low:.1f} to {100 * s.high:.1f})" for s in (listed, failed)]
    cells = [world, str(n), f"{100 * outcomes[:, 0].mean():.2f}", *shares, f"{np.median(outcomes[:, 3]):.2g}"]
    return f"| {' | '.join([*cells, f'{shape[0]:.2f}', f'{shape[1]:.0f}'])} |"


def page(lines: list[str], n_pairs: int, n_models: int) -> str:
    """Write the page.

    Args:
        lines: Rows of the table.
        n_pairs: Number of pairs that were trained.
        n_models: Number of models of an audit.
    """
    table = "\n".join(lines)
    return f"""# Is anyone listed where a generator cannot have memorized?

Output of `recipes/generator_null.py`: audits of {n_models} twins of the small diffusion network on digits that none of
the twins saw, so that every list is false. Each table draws its pairs from {n_pairs} that were trained, divides the
unseen images anew and throws the coins anew. At most 10 % of tables may list anyone, and 5 % of p-values may be at most
0.05.

{HEADING}
{table}
"""


if __name__ == "__main__":
    main()

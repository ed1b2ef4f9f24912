"""The plan of the images that a generator draws, and the files of the set that they make.

Every image has a seed, and a class or a condition, planned before the first is drawn. The seed is a hash of (seed,
number, attempt), so that an image can be made again alone, and a rejected one another time. Image i of a longer plan
with the same balance of classes is image i of the shorter one.

A picture is written under a temporary name and renamed; its hash is then appended to a list. A later run of the same
command draws again each picture that has no hash or does not match it.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from memorisk.images.plain_png import encode_png
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import Draw, Generator
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_table, write_table
from memorisk.runs.options import Balance
from memorisk.runs.settings import check_choice
from memorisk.runs.tables import csv_line, write_csv

PLAN_COLUMNS = ("image", "number", "attempt", "seed", "label", "class", "source", "condition")
_NAME = re.compile(r"synthetic-([0-9]{6,})(?:-again-([0-9]+))?", re.ASCII)
_STREAM = 71  # keeps these draws apart from others of the same seed


def image_seed(seed: int, number: int, attempt: int = 0) -> int:
    """Derive the seed of one image: 63 bits of BLAKE2b over (seed, number, attempt), the same on every machine.

    Args:
        seed: Random seed of the set.
        number: Number of the image in it, from 0.
        attempt: Number of earlier drawings of it.
    """
    digest = hashlib.blake2b(f"{seed}/{number}/{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def image_name(number: int, attempt: int = 0) -> str:
    """Return the id of an image, also its file's name: ``synthetic-000017``, of its third drawing ``...-again-2``."""
    return f"synthetic-{number:06d}" + (f"-again-{attempt}" if attempt else "")


def parse_name(image: str) -> tuple[int, int]:
    """Return number and attempt of an image by its id.

    Raises:
        InputError: The text is not such an id.
    """
    match = _NAME.fullmatch(image)
    if match is None or image != image_name(int(match[1]), int(match[2] or 0)):
        raise InputError(f"{one_line(repr(image), 60)} is not an id of a generated image, as {image_name(17)} is")
    return int(match[1]), int(match[2] or 0)


def conditions_of(generator: Generator) -> Conditions | None:
    """Return the conditions of a generator's training images with their ids, or None where it keeps none."""
    own = getattr(generator, "known", None)
    if isinstance(own, Conditions):
        return own
    values = generator.conditions
    if values is None:
        return None
    nameless = np.full(len(values), "")
    return Conditions(values, nameless, nameless, generator.config.conditioning)


def plan_draws(
    generator: Generator,
    n: int,
    *,
    seed: int = 0,
    balance: Literal["classes", "training"] = "classes",
    paired: bool = False,
    secret: int | None = None,
) -> pd.DataFrame:
    """Plan the images of a set.

    Args:
        generator: Generator to sample from.
        n: Number of images.
        seed: Random seed of the set.
        balance: Balance of the classes. ``classes``: as many of each, up to one; ``training``: in the proportions of
            the training images, by largest remainders.
        paired: Whether each training image's condition gets an image, in their order; where n is not a multiple of
            their number, a random part of them gets one more.
        secret: Random seed of the choice of conditions alone, and then of their order too, so that the
            number or the seed of an image does not give away whose condition it has; by default ``seed``.

    Returns:
        Table with one row per image: image (id), number, attempt (0), seed, label (number of its class, -1 without),
        class (its name, or ""), source (training image whose condition it has, or ""), condition (row of that, -1
        without).

    Raises:
        InputError: Images are fewer than one, or this generator does not support the balance or pairs.
    """
    if n < 1:
        raise InputError(f"images is {n}; it must be a whole number of at least 1")
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be a whole number from 0")
    check_choice("balance", balance, Balance)
    config = generator.config
    sources = conditions_of(generator) if config.conditioned_on == "vector" else None
    if config.conditioned_on == "vector" and (sources is None or not len(sources)):
        raise InputError(f"{one_line(config.name, 60)} keeps no conditions of its training images")
    if paired and sources is None:
        raise InputError(
            f"{one_line(config.name, 60)} is not conditioned on its training images, and no image of it belongs to one "
            "of them: leave paired out"
        )
    if sources is None:
        names = list(config.classes) if config.conditioned_on == "class" else [""]
        counts = np.array(config.class_counts or [0] * len(names)) if config.classes else np.ones(1, dtype=int)
        place = _class_of(n, counts[: len(names)], balance, config.name)
        names_of, label, row, source = np.array(names, dtype=object)[place], place, np.full(n, -1), np.full(n, "")
        label = label if config.conditioned_on == "class" else np.full(n, -1)
    else:
        chosen = seed if secret is None else secret
        row = _paired_rows(n, len(sources), chosen) if paired else _drawn_rows(n, sources, chosen, balance, config.name)
        if paired and secret is not None:
            row = np.random.default_rng([_STREAM, secret, n]).permutation(row)
        number = {name: i for i, name in enumerate(config.classes)}
        names_of, source = sources.labels[row], sources.images[row]
        label = np.array([number.get(name, -1) for name in names_of.tolist()])
    columns = {
        "image": [image_name(i) for i in range(n)],
        "number": np.arange(n),
        "attempt": np.zeros(n, dtype=np.int64),
        "seed": np.array([image_seed(seed, i) for i in range(n)], dtype=np.int64),
        "label": label.astype(np.int64),
        "class": names_of.astype(object),
        "source": source.astype(object),
        "condition": row.astype(np.int64),
    }
    return pd.DataFrame({name: columns[name] for name in PLAN_COLUMNS})


def draw_again(plan: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Plan the same images another time: of the same class or condition, by the seed of the next attempt.

    Args:
        plan: Rows of `plan_draws`, or of this function.
        seed: Random seed of the set.
    """
    return set_attempts(plan, plan["attempt"].to_numpy(dtype=np.int64) + 1, seed)


def set_attempts(plan: pd.DataFrame, attempt: np.ndarray, seed: int) -> pd.DataFrame:
    """Plan the same images at a certain attempt each, ``attempt`` [n]; arguments as for `draw_again`."""
    pairs = list(zip(plan["number"].tolist(), attempt.tolist(), strict=True))
    return plan.assign(
        image=[image_name(*pair) for pair in pairs],
        attempt=attempt,
        seed=np.array([image_seed(seed, *pair) for pair in pairs], dtype=np.int64),
    ).reset_index(drop=True)


def draw_of(generator: Generator, plan: pd.DataFrame) -> Draw:
    """Convert rows of a plan to the input of a generator.

    Args:
        generator: Generator to sample from.
        plan: Rows of `plan_draws`.
    """
    seeds, on = plan["seed"].to_numpy(dtype=np.int64), generator.config.conditioned_on
    if on == "class":
        return Draw(seeds, labels=plan["label"].to_numpy(dtype=np.int64))
    if on == "vector":
        sources = conditions_of(generator)
        assert sources is not None  # the plan was made from them
        return Draw(seeds, conditions=sources.values[plan["condition"].to_numpy(dtype=np.int64)])
    return Draw(seeds)


def draw(
    generator: Generator, plan: pd.DataFrame, how: SamplingOptions | None = None, device: str = "auto"
) -> np.ndarray:
    """Draw the images of a plan.

    Args:
        generator: Generator to sample from.
        plan: Rows of `plan_draws`.
        how: Sampling settings of a diffusion model.
        device: Device to draw on: cpu, cuda, or auto.

    Returns:
        Images, [n, H, W, C] uint8.
    """
    config = generator.config
    images = np.empty((len(plan), *config.size, config.channels), dtype=np.uint8)
    for begin, block in draw_blocks(generator, plan, how, device):
        images[begin : begin + len(block)] = block
    return images


def draw_blocks(
    generator: Generator, plan: pd.DataFrame, how: SamplingOptions | None = None, device: str = "auto"
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the images of a plan in batches: (row of the first, [b, H, W, C] uint8). Arguments as for `draw`."""
    how = how or SamplingOptions()
    wanted = draw_of(generator, plan)
    for begin in range(0, len(wanted), how.batch):
        yield begin, generator.sample(wanted.rows(slice(begin, begin + how.batch)), how, device=device)


def _class_of(n: int, counts: np.ndarray, balance: str, name: str) -> np.ndarray:
    """Choose the class of each image, [n], the classes mixed; ``counts`` [k] of the training images."""
    if balance == "classes":
        return np.arange(n) % len(counts)
    if not counts.sum():
        raise InputError(f"{one_line(name, 60)} does not know how many training images each class had: balance classes")
    exact = n * counts / counts.sum()
    number = np.floor(exact).astype(np.int64)
    number[np.argsort(number - exact, kind="stable")[: n - int(number.sum())]] += 1
    place = np.repeat(np.arange(len(counts)), number)
    within = np.concatenate([(np.arange(k) + 0.5) / k for k in number if k])
    return place[np.argsort(within, kind="stable")]


def _paired_rows(n: int, known: int, seed: int) -> np.ndarray:
    """Choose [n] rows of conditions, each n // known times and a random part of them once more."""
    rest = np.sort(np.random.default_rng([_STREAM, seed]).permutation(known)[: n % known])
    return np.concatenate([np.tile(np.arange(known), n // known), rest])


def _drawn_rows(n: int, known: Conditions, seed: int, balance: str, name: str) -> np.ndarray:
    """Draw [n] rows of conditions of the wanted classes, without replacement until a class has been used up."""
    names, of = np.unique(known.labels, return_inverse=True)
    place = _class_of(n, np.bincount(of, minlength=len(names)), balance, name)
    rows = np.empty(n, dtype=np.int64)
    for one in range(len(names)):
        pool, mine = np.flatnonzero(of == one), np.flatnonzero(place == one)
        rounds = range(-(-len(mine) // len(pool)))
        turns = [np.random.default_rng([_STREAM, seed, one, turn]).permutation(pool) for turn in rounds]
        rows[mine] = np.concatenate([np.empty(0, dtype=np.int64), *turns])[: len(mine)]
    return rows


IMAGES, TABLE, CSV, DRAWN_LIST = "images", "manifest.parquet", "manifest.csv", "drawn.csv"
TABLE_COLUMNS = ("image", "path", "label", "seed", "source", "attempt", "sha256")


def image_path(image: str) -> str:
    """Return the path of its picture, below the set's folder."""
    return f"{IMAGES}/{image}.png"


def write_images(folder: Path, names: list[str], images: np.ndarray) -> dict[str, str]:
    """Write pictures and then their hashes to the list.

    Args:
        folder: Folder of the set; its folder of images exists.
        names: Identifiers of the images, [n].
        images: Images, [n, H, W, C] uint8.

    Returns:
        SHA-256 of each file, by id.
    """
    hashes = {}
    for name, image in zip(names, images, strict=True):
        data, target = encode_png(image), folder / image_path(name)
        temporary = target.with_name(f".{target.name}.part")
        temporary.write_bytes(data)
        temporary.chmod(0o600)
        temporary.replace(target)
        hashes[name] = hashlib.sha256(data).hexdigest()
    handle = os.open(folder / DRAWN_LIST, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write("".join(f"\n{csv_line(entry)}" for entry in hashes.items()))  # a torn line ends here
    return hashes


def read_drawn_hashes(folder: Path, names: list[str]) -> dict[str, str]:
    """Return SHA-256 by id of the images among ``names`` [n] whose files are as they were written."""
    recorded: dict[str, str] = {}
    if (folder / TABLE).is_file():
        table = read_table(folder / TABLE)
        recorded |= dict(zip(table["image"].tolist(), table["sha256"].tolist(), strict=True))
    if (folder / DRAWN_LIST).is_file():
        lines = (line.partition(",") for line in (folder / DRAWN_LIST).read_text(encoding="utf-8").splitlines())
        recorded |= {name: digest for name, _, digest in lines if digest}
    intact = {}
    for name in names:
        file = folder / image_path(name)
        if name in recorded and file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == recorded[name]:
            intact[name] = recorded[name]
    return intact


def set_table(plan: pd.DataFrame, hashes: dict[str, str]) -> pd.DataFrame:
    """Build the set's table, one row per image: ``label`` is its class, ``source`` the training image it belongs to."""
    names = plan["image"].tolist()
    added = {
        "path": [image_path(name) for name in names],
        "label": plan["class"].tolist(),
        "sha256": [hashes[name] for name in names],
    }
    return pd.DataFrame({name: added[name] if name in added else plan[name].tolist() for name in TABLE_COLUMNS})


def write_tables(folder: Path, table: pd.DataFrame) -> None:
    """Write the table as Parquet and as CSV."""
    write_table(folder / TABLE, table, recorded=True)
    write_csv(folder / CSV, table)

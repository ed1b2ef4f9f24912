"""A way to copy that is added by one entry is planted, promised, measured, trained on, required and put into words."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tests.commands import environment

NEW = "embossed"
WORDS = "raised in relief"


def emboss(image: np.ndarray, base: np.ndarray, rng: np.random.Generator, limits: tuple[float, float]) -> tuple:
    """A planted copy: a share of the shifted image taken off."""
    share = rng.uniform(*limits)
    return np.clip(image - share * np.roll(image, 1, axis=1), 0, 255).astype(image.dtype), f"{share:.2f}"


def embossing(x: Any, strength: Any, draws: object) -> Any:
    """Copies of one strength, for a filter and a benchmark."""
    return (x - strength[:, None, None, None].to(x.dtype) * x.roll(1, dims=3)).clamp(0, 1)


def random_emboss(x: Any, uniform: Any, generator: object) -> Any:
    """Copies of a drawn strength, for a training."""
    return embossing(x, uniform, generator)


def add_entry() -> None:
    """Put the entry into the registry before anything has read it, and its functions into their modules."""
    from memorisk.images.alterations import transformations as registry

    read = [name for name in sys.modules if name.startswith("memorisk.images.alterations.")]
    assert read == [registry.__name__]
    entry = registry.Transformation(
        WORDS,
        registry.PlantKind(NEW, 99, "relief of {:g} to {:g}", (0.2, 0.9), required=True),
        registry.CopyFamily("embossing", 9, (0.2, 0.5, 0.9), "Relief"),
        registry.Augmentation("emboss", 7),
    )
    registry.TRANSFORMATIONS = (entry, *registry.TRANSFORMATIONS)  # the first: places in the list decide nothing
    from memorisk.images.alterations import augmentations, graded, planting

    planting.embossed, graded.embossing, augmentations.emboss = emboss, embossing, random_emboss  # pyright: ignore


def facts(folder: Path) -> dict[str, Any]:
    """What each part of memorisk knows of the ways to copy, and checksums of what it draws."""
    import torch

    from memorisk.audits.comparison.plants import draw_plants
    from memorisk.audits.filter.calibration import draw_pairs
    from memorisk.audits.filter.choice import count_candidates
    from memorisk.audits.filter.families import not_promised, parse_families
    from memorisk.audits.filter.options import FilterOptions
    from memorisk.audits.release.gate import gate
    from memorisk.audits.synthetic.options import SyntheticOptions
    from memorisk.images.alterations.graded import augmented
    from memorisk.report.page import render_page
    from memorisk.report.statements.officer.page import officer_page
    from memorisk.report.statements.statement import FOUND, Figure
    from memorisk.report.verdict_forms import FORMS
    from memorisk.runs.checksums import list_folder, listing_sha256
    from memorisk.studies.pairs.copies import strongest_columns
    from memorisk.studies.pairs.options import BenchCopiesOptions
    from memorisk.training.detectors.lcmem.augmentations import PairAugmentation
    from tests.audits.synthetic.test_hidden import stores
    from tests.report.statements.test_statement import audit, statement

    train, synthetic = stores(folder, n_train=60)
    plants = draw_plants(train, synthetic, 3, seed=0, further=2)
    named = draw_plants(train, synthetic, 2, seed=0, kinds=("jpeg", "shifted"), further=2)
    names = [family.name for family in parse_families(("re-identification", "copies", "flipped", "cropped"))]
    sets = SimpleNamespace(
        calibration=train, alike=SimpleNamespace(unit={name: n for n, name in enumerate(train.manifest.groups)})
    )
    candidates = count_candidates(cast(Any, sets), 1, FilterOptions(detector=("mse",)))
    pairs = {family.name: draw_pairs(family, train, 0) for family in parse_families(tuple(names))}

    release = folder / "release"
    release.mkdir()
    (release / "a.png").write_bytes(b"\x89PNG")
    listing = list_folder(release)
    stated = statement()
    tried = [kind for kind in SyntheticOptions().kinds if kind != NEW]
    figures = tuple(Figure(name=f"{FOUND}{kind}", title=kind, value=1.0, n=40) for kind in tried)
    stated = replace(
        stated,
        audits=(audit(figures=figures, settings={"verdict_form": FORMS["synthetic"]}),),
        released=(replace(stated.released[0], listing=listing, sha256=listing_sha256(listing), files=1),),
    )
    (folder / "statement.json").write_bytes(stated.as_in_toto().as_bytes())
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return {
        "plants": [
            (str(kind), int(source), int(base), parameter, checksum(pixels))
            for drawn in (plants, named)
            for kind, source, base, parameter, pixels in zip(
                drawn.kind, drawn.source, drawn.base, drawn.parameter, drawn.pixels, strict=True
            )
        ],
        "required": SyntheticOptions().kinds,
        "candidates": [family.name for family in candidates.families],
        "not promised": not_promised(()),
        "pairs": {name: [pairs[name].first.tolist(), *copies(pairs[name])] for name in names},
        "bench": BenchCopiesOptions().chosen_families(),
        "columns": [column.source for column in strongest_columns()],
        "graded": {
            name: checksum(
                augmented(np.asarray(train.images), np.arange(3), name, 0.5 if name != "jpeg" else 50, seed=0)
            )
            for name in BenchCopiesOptions().chosen_families()
        },
        "training": PairAugmentation().operations,
        "trained": checksum(
            PairAugmentation(operations=("emboss",)).apply(x, torch.Generator().manual_seed(0)).numpy()
        ),
        "gate": gate(folder / "statement.json", images=[release]).line,
        "page": render_page(officer_page(stated)),
    }


def copies(pairs: Any) -> list[str]:
    return [] if pairs.copies is None else [checksum(np.asarray(pairs.copies.images))]


def checksum(pixels: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def test_one_entry_is_everywhere_and_moves_no_other_draw(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    command = [sys.executable, "-m", __name__, str(tmp_path / "with")]
    answered = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert answered.returncode == 0, answered.stderr
    new, old = json.loads(answered.stdout), json.loads(json.dumps(facts(tmp_path / "without")))

    assert [plant for plant in new["plants"] if plant[0] != NEW] == old["plants"]
    assert sum(plant[0] == NEW for plant in new["plants"]) == 3 + 2
    assert new["required"] == [*old["required"], NEW]
    for name in ("candidates", "not promised", "bench", "columns"):
        assert [one for one in new[name] if one != "embossing"] == old[name]
        assert "embossing" in new[name]
    for name in ("pairs", "graded"):
        assert {key: value for key, value in new[name].items() if key != "embossing"} == old[name]
        assert "embossing" in new[name]
    assert new["training"] == [*old["training"], "emboss"]
    assert new["trained"] != old["trained"]
    assert f"copies that are {NEW}" not in old["gate"]
    assert f"copies that are {NEW}" in new["gate"]
    assert WORDS not in old["page"]
    assert WORDS in new["page"]


if __name__ == "__main__":
    add_entry()
    print(json.dumps(facts(Path(sys.argv[1]))))

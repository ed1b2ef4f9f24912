"""What is asked of any generator; a user's own function as one."""

import numpy as np
import pytest

from memorisk.models.generators.generators import (
    Draw,
    GeneratorConfig,
    check_draw,
    load_generator,
    read_description,
    save_description,
)
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError, MemoriskError

MODULE = """
from pathlib import Path

import numpy as np

def grey(seeds, labels):
    return np.stack([np.random.default_rng(s).integers(0, 256, (4, 6), dtype=np.uint8) for s in seeds])

def coloured(seeds, labels):
    return np.stack([np.full((4, 4, 3), 10 * l, dtype=np.uint8) for l in labels])

coloured.classes = ["melanoma", "naevus"]

def floats(seeds, labels):
    return np.zeros((len(seeds), 4, 4))

def weak(seeds, labels):
    if seeds.max() > 5:
        np.zeros(3).reshape(2, 2)
    return grey(seeds, labels)

def broken(seeds, labels):
    return 1 / 0

def uneven(seeds, labels):
    return np.zeros((len(seeds), 4 + len(seeds), 4), dtype=np.uint8)

def leaves(seeds, labels):
    raise SystemExit(0)

def ragged(seeds, labels):
    return [np.zeros((4 + k, 4), dtype=np.uint8) for k in range(2)]
"""


@pytest.fixture(autouse=True)
def made(tmp_path, monkeypatch):
    (tmp_path / "drawn.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "drawn", raising=False)


def test_a_function_draws_alone_as_in_a_batch():
    generator = load_generator("drawn:grey")
    assert (generator.config.size, generator.config.channels, generator.config.conditioned_on) == ((4, 6), 1, "none")
    seeds = np.array([7, 1, 3])
    together = generator.sample(Draw(seeds), SamplingOptions(batch=2))
    assert together.shape == (3, 4, 6, 1)
    for image, seed in zip(together, seeds, strict=True):
        np.testing.assert_array_equal(generator.sample(Draw(np.array([seed])))[0], image)
    assert generator.sample(Draw(np.zeros(0, dtype=int))).shape == (0, 4, 6, 1)


def test_a_function_with_classes_gets_labels():
    generator = load_generator("drawn:coloured")
    assert generator.config.classes == ("melanoma", "naevus")
    assert generator.sample(Draw(np.array([0, 0]), np.array([0, 1])))[:, 0, 0, 0].tolist() == [0, 10]
    with pytest.raises(InputError, match="conditioned on labels"):
        generator.sample(Draw(np.array([0])))
    with pytest.raises(InputError, match="from 0 to 1"):
        generator.sample(Draw(np.array([0]), np.array([2])))


@pytest.mark.parametrize(
    ("named", "said"),
    [("drawn:floats", "uint8"), ("drawn:none", "grey"), ("nowhere", "does not exist"), ("drawn:coloured ", "function")],
)
def test_what_draws_nothing_is_refused(named, said):
    with pytest.raises(InputError, match=said):
        load_generator(named)


def test_only_functions_of_the_users_module_are_offered():
    with pytest.raises(InputError, match=r"Known: grey, coloured, floats, weak, broken, uneven, leaves, ragged$"):
        load_generator("drawn:nothing")


def test_images_of_several_sizes_are_refused():
    with pytest.raises(InputError, match="several sizes"):
        load_generator("drawn:uneven").sample(Draw(np.arange(3)), SamplingOptions(batch=2))


def test_a_failing_function_is_named_as_the_users_own():
    generator = load_generator("drawn:weak")
    line = 1 + MODULE.split("\n").index("        np.zeros(3).reshape(2, 2)")
    wanted = rf"own function drawn:weak failed for 2 seeds \(5, 6\) at drawn.py:{line}: ValueError: cannot reshape"
    with pytest.raises(MemoriskError, match=wanted) as failed:
        generator.sample(Draw(np.array([1, 2, 5, 6])), SamplingOptions(batch=2))
    assert failed.value.exit_code == 3
    with pytest.raises(InputError, match=r"your own function drawn:broken failed .* ZeroDivisionError"):
        load_generator("drawn:broken")
    with pytest.raises(InputError, match=r"your own function drawn:leaves failed .* SystemExit: 0"):
        load_generator("drawn:leaves")
    with pytest.raises(InputError, match=r"drawn:ragged gave no array for 1 seeds .* images of one size are needed"):
        load_generator("drawn:ragged")


def test_settings_of_diffusion_models_are_refused():
    generator = load_generator("drawn:grey")
    for setting in ({"sampler": "ddpm"}, {"sampling_steps": 20}, {"guidance": 2.0}):
        with pytest.raises(InputError, match="drawn:grey is not a diffusion model"):
            generator.sample(Draw(np.array([1])), SamplingOptions(**setting))
        how = SamplingOptions(**setting, batch=3)
        assert how.of_kind("dit") == how
        assert how.of_kind("function") == SamplingOptions(batch=3)


def test_a_description_round_trips_and_damage_is_named(tmp_path):
    config = GeneratorConfig(kind="gan", name="g", size=(8, 8), channels=1, classes=("a",), details={"z": 4})
    save_description(tmp_path, config)
    assert read_description(tmp_path) == config
    file = tmp_path / "generator.json"
    for old, new in (('"gan"', '"pickle"'), ("8", "-8"), ('"format": 1', '"format": 2')):
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match="is not a description"):
            read_description(tmp_path)
        file.write_text(text)
    file.unlink()
    with pytest.raises(InputError, match="holds no generator"):
        load_generator(tmp_path)


@pytest.mark.parametrize(
    "draw",
    [
        Draw(np.array([-1])),
        Draw(np.array([0.5])),
        Draw(np.zeros((2, 1), dtype=int)),
        Draw(np.array([0]), conditions=np.zeros((1, 3), dtype=np.float32)),
        Draw(np.array([0]), conditions=np.array([[np.nan, 0]], dtype=np.float32)),
    ],
)
def test_a_draw_that_is_none_is_refused(draw):
    config = GeneratorConfig(kind="dit", name="d", size=(8, 8), channels=1, conditioned_on="vector", condition_dim=2)
    with pytest.raises(InputError):
        check_draw(config, draw)


@pytest.mark.parametrize("wrong", [{"sampler": "euler"}, {"sampling_steps": 0}, {"guidance": -1.0}, {"batch": 0}])
def test_sampling_that_is_none_is_refused(wrong):
    with pytest.raises(InputError):
        SamplingOptions(**wrong).validate()

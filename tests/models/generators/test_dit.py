import stat
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from memorisk.models.autoencoder import whole_autoencoder
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.folder import DiTGenerator, save_dit
from memorisk.models.generators.dit.network import DiTSpec, new_dit, null_labels, spec_of
from memorisk.models.generators.dit.weights import find_dit, open_dit
from memorisk.models.generators.generators import Draw, load_generator
from memorisk.models.settings import SamplingOptions, parse_size
from memorisk.runs.errors import InputError
from tests.models.small_dit import K, small_dit, small_generator, small_spec

diffusers = pytest.importorskip("diffusers")
QUICK = SamplingOptions(sampling_steps=3)
WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"


def save(generator: DiTGenerator, folder, **more):
    save_dit(generator.network, folder, generator.config, scheduler=generator.scheduler, vae=generator.vae, **more)
    return folder


def test_sizes_have_the_papers_names():
    assert parse_size("XL/2") == (1152, 28, 16, 2)
    spec = DiTSpec.named("tiny/4", side=32, channels=3)
    assert (spec.hidden, spec.depth, spec.heads, spec.tokens, spec.outputs) == (128, 4, 4, 64, 3)
    for text, said in (("XL", "NAME/PATCH"), ("XL/0", "NAME/PATCH"), ("M/2", "size of a DiT"), ("XL/-2", "NAME/PATCH")):
        with pytest.raises(InputError, match=said):
            parse_size(text)
    for wrong, said in (
        ({"patch": 3}, "does not divide 10"),
        ({"heads": 5}, "heads"),
        ({"depth": 0}, "depth"),
        ({"conditioned_on": "none"}, "classes is 3"),
        ({"conditioned_on": "text"}, "condition"),
    ):
        with pytest.raises(InputError, match=said):
            replace(small_spec(), **wrong).validate()


@pytest.mark.parametrize("conditioned_on", ["none", "class", "vector"])
def test_a_new_network_begins_as_the_paper(conditioned_on):
    spec = small_spec(conditioned_on, hidden=64, learn_sigma=True)
    network = new_dit(spec, 5)
    assert spec_of(network) == spec
    x, y = torch.randn(2, 3, 10, 10), null_labels(spec, 2)
    assert (network(x, torch.tensor([3, 900]), class_labels=y).sample == 0).all()
    tokens = network.pos_embed(x)
    block = network.transformer_blocks[1]
    assert torch.equal(block(tokens, timestep=torch.tensor([3, 900]), class_labels=y), tokens)  # the identity
    bound = (6 / (64 + 256)) ** 0.5
    up = block.ff.net[0].proj
    assert 0.9 * bound < up.weight.abs().max() <= bound
    assert (up.bias == 0).all()
    first, other = (b.norm1.emb for b in network.transformer_blocks)
    for mine, its in zip(first.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)
    assert first.timestep_embedder.linear_2.weight.std().item() == pytest.approx(0.02, rel=0.1)
    same, differs = new_dit(spec, 5).state_dict(), new_dit(spec, 6).state_dict()
    assert all(torch.equal(t, same[name]) for name, t in network.state_dict().items())
    assert not torch.equal(network.pos_embed.proj.weight, differs["pos_embed.proj.weight"])


def test_conditions_are_lost_where_that_is_said_and_nowhere_else():
    for told in ("class", "vector"):
        spec = small_spec(told)
        network = small_dit(spec).train()
        x, t = torch.randn(1, 3, 10, 10).expand(40, -1, -1, -1), torch.full((40,), 7)
        y = torch.zeros(40, dtype=torch.int64) if told == "class" else torch.ones(40, K)
        given = network(x, t, class_labels=y).sample
        torch.testing.assert_close(given, given[:1].expand_as(given))  # diffusers' own dropping would move some
        y[::2] = null_labels(spec, 20)
        lost = network(x, t, class_labels=y).sample
        torch.testing.assert_close(lost[1::2], given[1::2])
        assert (lost[::2] - given[::2]).abs().amax(dim=(1, 2, 3)).min() > 1e-3
        assert lost.isfinite().all()


@pytest.mark.parametrize(("told", "latent"), [("none", False), ("class", True), ("vector", False)])
def test_a_folder_gives_the_generator_back(tmp_path, told, latent):
    generator = small_generator(told, latent=latent, learn_sigma=True)
    known = Conditions(np.eye(K), np.arange(K).astype(str), np.array(["a"] * K), "prediction")
    folder = save(generator, tmp_path / "g", conditions=known if told == "vector" else None)
    again = load_generator(folder)
    assert again.source == generator.source != small_generator(told, latent=latent).source
    assert again.config == generator.config
    labels = np.array([0, 2]) if told == "class" else None
    draw = Draw(np.array([8, 9]), labels, np.eye(K, dtype=np.float32)[:2] if told == "vector" else None)
    for sampler in ("ddpm", "dpm-solver"):
        how = replace(QUICK, sampler=sampler)
        ours = generator.sample(draw, how, device="cpu")
        np.testing.assert_array_equal(again.sample(draw, how, device="cpu"), ours)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "model_index.json").is_file() == (told == "class")
    if told == "vector":
        np.testing.assert_array_equal(again.conditions, np.eye(K))
    assert again.seen_parts(None) is None


def test_a_folder_without_its_description_is_none(tmp_path, monkeypatch):
    """The description is written last and taken away first, so that a killed save leaves no half of a generator."""
    generator = small_generator()
    folder = save(generator, tmp_path / "g")

    def killed(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("memorisk.models.generators.dit.folder.save_weights", killed)
    with pytest.raises(KeyboardInterrupt):
        save(generator, folder)
    with pytest.raises(InputError, match=r"no generator\.json"):
        load_generator(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("proj_out_2.bias"), "proj_out_2.bias is missing"),
        (lambda t: t.update(more=torch.zeros(1)), "more is unknown"),
        (lambda t: t.update({"proj_out_2.bias": torch.zeros(3)}), r"proj_out_2.bias is \[3\] and not \[12\]"),
        (lambda t: t["proj_out_2.bias"].fill_(torch.nan), "proj_out_2.bias is not finite"),
    ],
)
def test_damaged_weights_are_refused(tmp_path, change, said):
    folder = save(small_generator(), tmp_path / "g")
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(InputError, match=said):
        load_generator(folder)
    (folder / WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be loaded from safetensors"):
        load_generator(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(InputError, match=r"holds neither diffusion_pytorch_model\.safetensors nor"):
        load_generator(folder)


def test_what_does_not_fit_its_description_is_refused(tmp_path):
    generator = small_generator()
    for wrong in ({"size": (12, 12)}, {"channels": 1}, {"classes": ("a", "b")}):
        with pytest.raises(InputError, match="description"):
            save(replace_config(generator, **wrong), tmp_path / "g")
    assert not (tmp_path / "g").exists()
    folder = save(replace_config(generator, latent="autoencoder x"), tmp_path / "h")
    with pytest.raises(InputError, match="vae is amiss"):
        load_generator(folder)
    kept = replace_config(generator, details={"recipe": {"drop_condition": 0.0}})
    with pytest.raises(InputError, match="drop_condition 0"):
        kept.sample(Draw(np.arange(1), np.arange(1)), SamplingOptions(guidance=2.0), device="cpu")


def replace_config(generator: DiTGenerator, **changes) -> DiTGenerator:
    """Another description, which is not checked before it is saved."""
    found = object.__new__(DiTGenerator)
    config = replace(generator.config, **changes)
    for name, value in {**vars(generator), "config": config}.items():
        object.__setattr__(found, name, value)
    return found


def test_diffusers_pipeline_opens_the_folder_and_draws_the_same(tmp_path):
    generator = small_generator("class", latent=True, learn_sigma=True, classes=1000)
    folder = save(generator, tmp_path / "g")
    pipeline = diffusers.DiTPipeline.from_pretrained(str(folder))
    pipeline.set_progress_bar_config(disable=True)
    assert pipeline.get_label_ids(["c7"]) == [7]
    labels, seeds = [7, 0, 999], [1, 2, 3]
    for guidance in (1.0, 4.0):
        given = [torch.Generator().manual_seed(seed) for seed in seeds]
        theirs = pipeline(
            labels, guidance_scale=guidance, generator=given, num_inference_steps=8, output_type="np"
        ).images
        how = SamplingOptions(sampling_steps=8, guidance=guidance)
        ours = generator.sample(Draw(np.array(seeds), np.array(labels)), how, device="cpu")
        assert theirs.std() > 0.02
        assert np.abs(ours.astype(int) - (theirs * 255).round()).max() <= 1


def test_weights_that_are_there_are_kept_but_for_the_conditions(tmp_path):
    theirs = small_generator("class", latent=True, learn_sigma=True)
    folder = save(theirs, tmp_path / "g")
    found = find_dit(str(folder))
    assert (found.transformer, found.vae) == (folder / "transformer", folder / "vae")
    assert find_dit(str(folder / WEIGHTS)) == find_dit(str(folder / "transformer"))
    own = theirs.network.state_dict()
    same = {"side": 5, "channels": 4}
    for told, count in (("class", K), ("class", 5), ("vector", 6), ("none", 0)):
        sizes = {"class": {"classes": count}, "vector": {"condition_dim": count}, "none": {}}[told]
        network = open_dit(str(folder), **same, conditioned_on=told, **sizes)
        spec = spec_of(network)
        assert (spec.conditioned_on, spec.learn_sigma) == (told, True)
        moved = {name for name, t in network.state_dict().items() if name not in own or not same_tensor(own[name], t)}
        assert bool(moved) == (count != K)
        assert all("class_embedder" in name for name in moved)
    wider = open_dit(str(folder / "transformer"), side=9, channels=4, classes=K)
    expected = new_dit(replace(spec_of(theirs.network), side=9), 0).pos_embed.pos_embed
    assert torch.equal(wider.pos_embed.pos_embed, expected)
    assert wider(torch.randn(1, 4, 9, 9), torch.tensor([3]), class_labels=torch.tensor([1])).sample.std() > 0


def same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


def test_a_pipeline_of_pytorch_files_is_read_as_one_of_safetensors(tmp_path):
    """As the hub holds the paper's own: its older pipelines have no safetensors."""
    theirs = small_generator("class", latent=True, learn_sigma=True)
    folder = save(theirs, tmp_path / "g")
    expected = open_dit(str(folder), side=5, channels=4, classes=K).state_dict()
    for part in ("transformer", "vae"):
        safe = folder / part / "diffusion_pytorch_model.safetensors"
        torch.save(load_file(safe), safe.with_suffix(".bin"))
        safe.unlink()
    network = open_dit(str(folder), side=5, channels=4, classes=K)
    assert all(torch.equal(t, expected[name]) for name, t in network.state_dict().items())
    vae = whole_autoencoder(str(folder / "vae")).state_dict()
    assert all(torch.equal(t, vae[name]) for name, t in theirs.vae.state_dict().items())
    file = folder / "transformer/diffusion_pytorch_model.bin"
    assert find_dit(str(file)) == find_dit(str(folder / "transformer"))
    torch.save({**network.state_dict(), "more": torch.zeros(1)}, file)
    with pytest.raises(InputError, match="more is unknown"):
        open_dit(str(folder), side=5, channels=4, classes=K)
    torch.save(network, file)
    with pytest.raises(InputError, match="would run code"):
        open_dit(str(folder), side=5, channels=4, classes=K)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    folder = save(small_generator("class", latent=True, learn_sigma=True), tmp_path / "g")
    for asked, said in (
        ({"channels": 3}, "draws 4 channels, and 3 are requested"),
        ({"learn_sigma": False}, "set learn_sigma to true"),
        ({"size": "XL/2"}, "2 blocks of width 32 .* not XL/2"),
        ({"side": 0}, "side"),
    ):
        with pytest.raises(InputError, match=said):
            open_dit(str(folder), **({"side": 5, "channels": 4, "classes": K} | asked))
    for text, said in ((str(tmp_path / "none"), "does not exist"), (str(tmp_path), "not a DiT of diffusers")):
        with pytest.raises(InputError, match=said):
            find_dit(text)


def test_a_name_is_downloaded_only_where_the_hub_is_there(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"facebook/DiT-of-nobody@default could not be downloaded: .*cannot be reached"
    ):
        find_dit("facebook/DiT-of-nobody@default")

import itertools
from typing import get_args

import numpy as np
import pytest
import torch

from memorisk.models.generators.dit import forward as dit_forward
from memorisk.models.generators.dit.folder import DiTGenerator
from memorisk.models.generators.dit.forward import CachedForward, rows_are_independent
from memorisk.models.generators.dit.network import null_labels, spec_of
from memorisk.models.generators.dit.sampling import DiffusionSampler, sampling_scheduler
from memorisk.models.generators.generators import Draw
from memorisk.models.settings import Sampler, SamplingOptions
from memorisk.runs.errors import InputError
from tests.models.small_dit import K, noise_of_training, small_dit, small_generator, small_spec
from tests.thorough import thorough

pytest.importorskip("diffusers")
RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((7, K)).astype(np.float32)


def asked(conditioned_on: str, n: int = 7) -> Draw:
    labels = np.arange(n) % K if conditioned_on == "class" else None
    return Draw(np.arange(n) * 1000 + 3, labels, VECTORS[:n] if conditioned_on == "vector" else None)


def labels_of(draw: Draw) -> torch.Tensor:
    """As the network takes them."""
    found = draw.labels if draw.labels is not None else draw.conditions
    return torch.from_numpy(np.zeros(len(draw), dtype=np.int64) if found is None else found)


def naive(generator, draw: Draw, how: SamplingOptions) -> np.ndarray:
    """All images in one batch, by the network's own forward pass and a loop."""
    network, spec = generator.network, spec_of(generator.network)
    generators = [torch.Generator().manual_seed(int(seed)) for seed in draw.seeds]
    shape = (1, spec.channels, spec.side, spec.side)
    x = torch.cat([torch.randn(shape, generator=g) for g in generators])
    pixels = generator.vae is None
    steps = sampling_scheduler(generator.scheduler, how, pixels=pixels, learn_sigma=spec.learn_sigma)
    with torch.inference_mode():
        for time in steps.timesteps:
            at = time.expand(len(draw))
            given = network(x, at, class_labels=labels_of(draw)).sample
            free = network(x, at, class_labels=null_labels(spec, len(draw))).sample
            noise, rest = given[:, : spec.channels], given[:, spec.channels :]
            noise = how.guidance * noise + (1 - how.guidance) * free[:, : spec.channels]
            if how.sampler == "ddpm":
                x = steps.step(torch.cat([noise, rest], dim=1), time, x, generator=generators).prev_sample
            else:
                x = steps.step(noise, time, x).prev_sample
        if generator.vae is not None:
            x = generator.vae.decode(x / generator.vae.config.scaling_factor).sample
    return np.rint((x / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).numpy() * 255)


@pytest.mark.parametrize("conditioned_on", ["none", "class", "vector"])
def test_the_lean_forward_pass_is_the_networks_own(conditioned_on):
    spec = small_spec(conditioned_on, learn_sigma=True)
    network = small_dit(spec, std=0.2)
    labels = labels_of(asked(conditioned_on))
    labels = torch.cat([labels[:5], null_labels(spec, 2)])
    x, times = torch.randn(7, 3, 10, 10), torch.tensor([999, 500, 1])
    with torch.inference_mode():
        lean = CachedForward(network)
        every = lean.modulations(lean.times(times), lean.conditions(labels))
        for k, time in enumerate(times):
            plain = network(x, time.expand(7), class_labels=labels).sample
            assert plain.std() > 0.1
            torch.testing.assert_close(lean(x, *every.at(k)), plain, rtol=1e-4, atol=1e-5)
            one = lean.modulations(lean.times(times), lean.conditions(labels[-1:])).at(k)
            torch.testing.assert_close(lean(x[-1:], *one), plain[-1:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("sampler", "latent"),
    [
        case if case in (("ddpm", True), ("ddim", False), ("dpm-solver", True)) else thorough(*case)
        for case in itertools.product(get_args(Sampler), [False, True])
    ],
)
def test_an_image_has_the_same_bytes_alone_and_beside_others(sampler, latent):
    told, guidance = ("vector", 1.0) if sampler == "ddpm" and latent else ("class", 2.5)
    generator = small_generator(told, latent=latent, learn_sigma=sampler == "ddpm")
    how = SamplingOptions(sampler=sampler, sampling_steps=18, guidance=guidance)
    draw, order = asked(told), np.array([3, 6, 0, 5, 1, 4, 2])
    threads = torch.get_num_threads()
    found = generator.sample(draw, how, device="cpu")
    assert found.std() > 5
    assert len({image.tobytes() for image in found}) == 7
    alone = [generator.sample(draw.rows(slice(k, k + 1)), how, device="cpu")[0] for k in (0, 2, 6)]
    np.testing.assert_array_equal(np.stack(alone), found[[0, 2, 6]])
    try:
        torch.set_num_threads(3)  # and shared among threads in another way
        np.testing.assert_array_equal(generator.sample(draw.rows(order), how, device="cpu"), found[order])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("sampler", get_args(Sampler))
@pytest.mark.parametrize(("latent", "told"), [(False, "class"), (True, "vector")])
def test_samplers_do_what_a_plain_loop_does(sampler, latent, told):
    generator = small_generator(told, latent=latent, learn_sigma=True)
    how = SamplingOptions(sampler=sampler, sampling_steps=9, guidance=3.0)
    found, plain = generator.sample(asked(told), how, device="cpu"), naive(generator, asked(told), how)
    assert plain.std() > 5
    assert np.abs(found.astype(int) - plain).max() <= 1  # a pixel whose value ends near a half


@pytest.mark.parametrize("told", ["none", "class", "vector"])
def test_batches_of_a_gpu_draw_the_same_images(monkeypatch, told):
    """Its way, taken on a CPU here: batches, all conditions of one in one product."""
    generator = small_generator(told, latent=told == "class", learn_sigma=True)
    how = SamplingOptions(sampler="ddpm", sampling_steps=6, guidance=1.0 if told == "none" else 2.0, batch=3)
    exact = generator.sample(asked(told), how, device="cpu")
    monkeypatch.setattr(DiffusionSampler, "_on_cpu", False)
    found = generator.sample(asked(told), how, device="cpu")
    assert np.abs(found.astype(int) - exact).max() <= 1


def test_seeds_and_conditions_change_an_image():
    generator = small_generator("class")
    draw = Draw(np.array([1, 1, 2]), np.array([0, 1, 0]))
    first, other_class, other_seed = generator.sample(draw, SamplingOptions(sampling_steps=4), device="cpu")
    assert (first != other_class).any()
    assert (first != other_seed).any()


def test_guidance_of_one_takes_one_pass(monkeypatch):
    passes, call = [], CachedForward.__call__
    monkeypatch.setattr(CachedForward, "__call__", lambda *given: passes.append(1) or call(*given))
    generator, draw = small_generator("class"), asked("class", 1)  # one image is one group on any processor
    images = []
    for guidance, taken in ((1.0, 4), (2.0, 8), (0.0, 8)):
        passes.clear()
        images.append(generator.sample(draw, SamplingOptions(sampling_steps=4, guidance=guidance), device="cpu"))
        assert len(passes) == taken
    assert (images[0] != images[1]).any()


def test_a_learned_variance_is_ddpms_alone():
    """The half of the output that is the variance reaches the images of DDPM, and of no other sampler."""
    for sampler in get_args(Sampler):
        generator, how = small_generator("class", learn_sigma=True), SamplingOptions(sampler=sampler, sampling_steps=5)
        before = generator.sample(asked("class", 2), how, device="cpu")
        bias = generator.network.proj_out_2.bias.view(2, 2, 6)  # a patch of 2 x 2, 3 channels and their variances
        bias[..., 3:] += 2.0
        after = generator.sample(asked("class", 2), how, device="cpu")
        assert (before != after).any() == (sampler == "ddpm")


def test_predictions_of_pixels_are_cut_on_the_way():
    """One step of each sampler ends at the prediction of the image, here x itself or more."""
    for sampler, pixels in itertools.product(get_args(Sampler), [True, False]):
        how = SamplingOptions(sampler=sampler, sampling_steps=1)
        steps = sampling_scheduler(noise_of_training(), how, pixels=pixels, learn_sigma=False)
        found = steps.step(torch.zeros(1, 3, 2, 2), steps.timesteps[0], torch.full((1, 3, 2, 2), 30.0)).prev_sample
        assert (found == 1).all() if pixels else (found >= 30).all()


def test_a_noise_that_ends_without_signal_is_drawn_from():
    """Of a cosine (Nichol and Dhariwal) the last times keep less than a thousandth of the image."""
    cosine = noise_of_training(beta_schedule="squaredcos_cap_v2", clip_sample=False)
    assert cosine.alphas_cumprod[-1].sqrt() < 1e-3
    plain = small_generator("class", latent=True)
    generator = DiTGenerator(plain.network, plain.config, cosine, plain.vae)
    for sampler in get_args(Sampler):
        how = SamplingOptions(sampler=sampler, sampling_steps=10)
        steps = sampling_scheduler(cosine, how, pixels=False, learn_sigma=False)
        assert steps.alphas_cumprod[steps.timesteps[0]].sqrt() > 5e-3  # what divides an error of the first step
        x = torch.randn(1, 4, 5, 5, generator=torch.Generator().manual_seed(0))
        for time in steps.timesteps:
            x = steps.step(x * (1 - steps.alphas_cumprod[time]).sqrt(), time, x).prev_sample  # noise of N(0, 1) data
        assert 0.3 < x.std() < 3
        assert generator.sample(asked("class", 1), how, device="cpu").std() > 5


def test_where_places_differ_images_stand_alone(monkeypatch):
    generator, how = small_generator("class"), SamplingOptions(sampling_steps=6)
    monkeypatch.setattr(dit_forward, "rows_are_independent", lambda *sizes: True)
    grouped = generator.sample(asked("class"), how, device="cpu")
    assert CachedForward(generator.network).group == dit_forward.GROUP_NUMBERS // (25 * 32)
    monkeypatch.setattr(dit_forward, "rows_are_independent", lambda *sizes: False)
    assert CachedForward(generator.network).group == 1
    found = generator.sample(asked("class"), how, device="cpu")
    assert np.abs(found.astype(int) - grouped).max() <= 1
    np.testing.assert_array_equal(generator.sample(asked("class", 1), how, device="cpu"), found[:1])


def test_rows_that_do_not_stand_apart_are_noticed(monkeypatch):
    linear = dit_forward.F.linear
    moving = torch.linspace(0, 1e-3, 10)[:, None, None]
    monkeypatch.setattr(dit_forward.F, "linear", lambda x, w, b: linear(x, w, b) + moving)
    assert not rows_are_independent(10, 25, 36, 2, 12, 12)


def test_an_activation_that_depends_on_the_place_is_noticed(monkeypatch):
    """Vectorised kernels compute the last numbers of an array by another approximation; here the last image's."""
    gelu, sizes = dit_forward.F.gelu, (3, 25, 18, 2, 12, 12)
    monkeypatch.setattr(dit_forward.F, "linear", lambda x, w, b: x[..., :1] * w[:, 0] + b)  # the same at any place
    monkeypatch.setattr(dit_forward.F, "scaled_dot_product_attention", lambda q, k, v: q + k + v)
    monkeypatch.setattr(dit_forward.F, "gelu", lambda x, approximate: torch.relu(x))
    rows_are_independent.cache_clear()
    assert rows_are_independent(*sizes)

    def by_place(x, approximate):
        found = gelu(x, approximate=approximate)
        found.view(-1)[-8:] *= 1 + 2**-20
        return found

    monkeypatch.setattr(dit_forward.F, "gelu", by_place)
    rows_are_independent.cache_clear()
    assert not rows_are_independent(*sizes)
    rows_are_independent.cache_clear()


def test_threads_of_the_caller_change_nothing(monkeypatch):
    """What is computed once for all images is computed by one thread, too: products may be divided among threads."""
    seen, times = [], CachedForward.times
    monkeypatch.setattr(
        CachedForward, "times", lambda lean, steps: seen.append(torch.get_num_threads()) or times(lean, steps)
    )
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        small_generator("class").sample(asked("class", 2), SamplingOptions(sampling_steps=2), device="cpu")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert seen == [1]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match=r"sampling_steps is 1001; .* 1000 times"):
        small_generator("none").sample(asked("none"), SamplingOptions(sampling_steps=1001), device="cpu")
    nothing = asked("none").rows(slice(0))
    with pytest.raises(InputError, match=r"sampling_steps is 1001; .* 1000 times"):
        small_generator("none").sample(nothing, SamplingOptions(sampling_steps=1001), device="cpu")
    with pytest.raises(InputError, match="no condition to keep to"):
        small_generator("none").sample(asked("none"), SamplingOptions(guidance=2.0), device="cpu")
    empty = small_generator("none").sample(asked("none", 0), device="cpu")
    assert empty.shape == (0, 10, 10, 3)

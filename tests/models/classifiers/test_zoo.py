"""Networks are built by name, at any size, from their seed alone."""

import socket

import pytest
import timm
import torch
from huggingface_hub import constants

from memorisk.models import hub
from memorisk.models.classifiers.small_networks import SmallCNN
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import OWN_NETWORKS, create_model, seeded, takes_any_size
from memorisk.models.network_parts import head_module, head_names, stem_names, trunk_output
from memorisk.runs.errors import InputError

TINY = ["test_vit", "test_resnet", "test_convnext", "test_efficientnet"]


def build(name: str, size: int = 32, **changed: object) -> torch.nn.Module:
    return create_model(name, **{"num_classes": 5, "image_size": size, "seed": 0, "weights": "none", **changed})


@pytest.mark.parametrize("name", [*OWN_NETWORKS, *TINY])
@pytest.mark.parametrize("channels", [1, 3])
def test_contract(name: str, channels: int) -> None:
    """Every network takes its images, gives logits, knows its stem, trunk and head, and learns through all of them."""
    model = build(name, in_chans=channels).eval()
    x = torch.randn(2, channels, 32, 32, generator=torch.Generator().manual_seed(0))
    logits = model(x)
    assert logits.shape == (2, 5)
    torch.testing.assert_close(head_module(model)(trunk_output(model, x)), logits)
    assert len(head_names(model)) == 1
    assert len(stem_names(model)) == (0 if name.startswith("mlp1") else 1)  # an MLP reads the image by no convolution
    assert all(model.get_submodule(stem).weight.shape[1] == channels for stem in stem_names(model))
    logits.square().sum().backward()
    without = [name for name, value in model.named_parameters() if value.grad is None]
    assert without == []


@pytest.mark.parametrize("name", [*OWN_NETWORKS, *TINY])
def test_a_network_says_whether_its_tensors_depend_on_the_size_of_images(name: str) -> None:
    smaller, larger = ([value.shape for value in build(name, size).state_dict().values()] for size in (32, 64))
    assert takes_any_size(name) == (smaller == larger)


@pytest.mark.parametrize("name", ["small_cnn", "resnet20_cifar", "test_vit"])
def test_the_seed_alone_decides(name: str) -> None:
    before = torch.get_rng_state()
    first = torch.nn.utils.parameters_to_vector(build(name).parameters())
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    assert torch.equal(torch.nn.utils.parameters_to_vector(build(name).parameters()), first)
    assert not torch.equal(torch.nn.utils.parameters_to_vector(build(name, seed=1).parameters()), first)


def test_seeded_restores_the_state_after_an_error() -> None:
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(3):
        _ = 1 / 0
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("size", [4, 5, 8, 14, 28, 32, 63])
def test_small_cnn_at_every_size(size: int) -> None:
    model = SmallCNN(3, 1, size)
    assert model(torch.zeros(2, 1, size, size)).shape == (2, 3)
    n = sum(p.numel() for p in model.parameters())
    assert 17_000 < n < 210_000


def test_sizes_in_the_docstrings() -> None:
    def count(model: torch.nn.Module) -> int:
        return sum(p.numel() for p in model.parameters())

    assert f"{count(SmallCNN(10, 1, 8)):,} parameters at 8 px" in (SmallCNN.__doc__ or "")
    assert f"{count(SmallCNN(10, 1, 28)):,} at 28 px" in (SmallCNN.__doc__ or "")
    small_resnet = OWN_NETWORKS["small_resnet"](7, 3, 64)
    assert f"{count(small_resnet):,} parameters" in (type(small_resnet).__doc__ or "")


@pytest.mark.parametrize("name", ["resnet50", "vit_base_patch16_224", "mae", "medsam", "biomedclip"])
def test_the_papers_five_are_built_at_their_size(name: str) -> None:
    """On torch's meta device: shapes without memory or time."""
    with torch.device("meta"):
        try:
            model = build(name, 224)
        except InputError as error:
            if "meta tensors" not in str(error):
                raise
            pytest.skip("this timm cannot build the network on the meta device")
        logits = model(torch.empty(2, 3, 224, 224))
    assert logits.shape == (2, 5)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert (trained == 5 * 768 + 5) == (name == "biomedclip")
    reference = timm.create_model(model_spec(name).architecture, num_classes=5) if name == "resnet50" else None
    if reference is not None:
        assert trained == sum(p.numel() for p in reference.parameters())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "medsam", "weights": None}, "needs its pre-trained weights: name their file, or 'none'"),
        ({"name": "small_cnn", "weights": "default"}, "no weights of small_cnn are published"),
        ({"name": "mae", "weights": "default"}, "no weights of mae are published"),
        ({"name": "resnet50", "weights": "tv_in2k"}, "Did you mean 'tv_in1k'"),
        ({"name": "small_cnn", "size": 3}, "images of 3 px are too small"),
        ({"name": "small_cnn", "num_classes": 0}, "num_classes is 0; it must be at least 1"),
        ({"name": "small_cnn", "seed": -1}, "seed is -1"),
        ({"name": "xcit_nano_12_p16_224", "size": 5}, "cannot be built for 5 px"),
        ({"name": "small_cnn", "weights": "missing.safetensors"}, "weights file missing.safetensors does not exist"),
        ({"name": "small_cnn", "weights": "folder/without"}, "does not exist"),
    ],
)
def test_refusals(changed: dict, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        build(**changed)
    assert "\n" not in str(caught.value)


def test_a_download_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, pretrained: bool, **sized: object) -> None:
        assert (name, pretrained) == ("resnet50.tv_in1k", True)
        assert constants.HF_HUB_OFFLINE is not reachable, "without a network only the cache is asked"
        raise OSError("no\nroute")

    monkeypatch.setattr(timm, "create_model", fail)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for reachable, said in ((True, r"no\\nroute"), (False, "the Hugging Face hub cannot be reached")):
        monkeypatch.setattr(hub, "_reachable", lambda endpoint, found=reachable: found)
        for name, weights in (("resnet50", "tv_in1k"), ("resnet50.tv_in1k", "default")):
            with pytest.raises(
                InputError, match=rf"the weights resnet50.tv_in1k could not be loaded: {said}.*name the"
            ):
                build(name, weights=weights)
        assert constants.HF_HUB_OFFLINE is False


def test_a_hub_that_is_not_there_is_found_out_without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real socket: nobody listens, then somebody does; a proxy is taken at its word."""
    for name in hub._PROXIES:
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert not hub._reachable(endpoint)
        monkeypatch.setenv("HTTPS_PROXY", "http://proxy.hospital:3128")
        assert hub._reachable(endpoint)
        monkeypatch.delenv("HTTPS_PROXY")
        server.listen()
        assert hub._reachable(endpoint)


def test_random_weights_never_download(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = timm.create_model

    def watched(name: str, pretrained: bool, **sized: object) -> torch.nn.Module:
        assert not pretrained
        return plain(name, pretrained=pretrained, **sized)

    monkeypatch.setattr(timm, "create_model", watched)
    build("test_resnet", weights=None)
    build("test_resnet.r160_in1k", weights="none")

"""What a regime trains: adapters of the attention, networks made fit for DP, the check that it moves."""

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.regimes import (
    ParameterChangeCheck,
    check_parameter_changes,
    merge_adapters,
    prepare_regime,
)
from memorisk.training.engine.options import TrainOptions, resolve_options

LORA = TrainOptions(regime=("lora",))
DP_FULL = TrainOptions(regime=("dp-full",), epsilon=(8,))


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (96, 32, 32, 3), dtype=np.uint8)


def adapter_parameters(model: nn.Module) -> int:
    return sum(p.numel() for name, p in model.named_parameters() if ".lora_" in name)


def vit() -> nn.Module:
    return create_model("small_vit", num_classes=3, in_chans=3, image_size=32, seed=0)


def test_adapters_of_vit_b_16_have_the_papers_number_of_parameters() -> None:
    model = create_model("vit_base_patch16_224", num_classes=7, weights="none", seed=0)
    prepare_regime(model, LORA, seed=1)
    assert adapter_parameters(model) == 442_368
    trained = {name for name, p in model.named_parameters() if p.requires_grad and ".lora_" not in name}
    assert trained == {"head.weight", "head.bias"}
    adapted = {name.split(".lora_")[0].split(".", 2)[2] for name, _ in model.named_parameters() if ".lora_" in name}
    assert adapted == {"attn.qkv", "attn.proj"}


@pytest.mark.parametrize("rank", [1, 4])
def test_parameters_grow_with_the_rank(rank: int) -> None:
    model = vit()
    prepare_regime(model, TrainOptions(regime=("lora",), lora_rank=rank), seed=1)
    assert adapter_parameters(model) == 4 * rank * ((96 + 288) + (96 + 96))


def test_adapters_start_as_nothing_and_from_their_seed(images: np.ndarray) -> None:
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    plain, adapted, again, other = vit(), vit(), vit(), vit()
    state = torch.random.get_rng_state()
    for model, seed in ((adapted, 1), (again, 1), (other, 2)):
        prepare_regime(model, LORA, seed=seed)
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.no_grad():
        assert torch.equal(plain.eval()(x), adapted.eval()(x))
    starts = [dict(m.named_parameters())["blocks.0.attn.qkv.lora_A.default.weight"] for m in (adapted, again, other)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])


def test_merged_adapters_leave_a_plain_network_with_the_same_outputs(images: np.ndarray) -> None:
    model = vit()
    layout = {name: value.shape for name, value in model.state_dict().items()}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    options = TrainOptions(regime=("lora",), epochs=2, lr=1e-2, normalise="dataset")
    prepare_regime(model, options, seed=1)
    fit(model, images, np.arange(96) % 3, np.arange(96), options, seed=0)
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        trained = model.eval()(x)
        merge_adapters(model)
        assert torch.allclose(model(x), trained, atol=1e-5)
    assert {name: value.shape for name, value in model.state_dict().items()} == layout
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {
        *(f"blocks.{i}.attn.{part}.weight" for i in range(4) for part in ("qkv", "proj")), "head.weight", "head.bias",
    }  # fmt: skip


def test_networks_without_attention_are_refused_with_the_way_out() -> None:
    model = create_model("small_resnet", num_classes=3, in_chans=3, image_size=32, seed=0)
    with pytest.raises(InputError, match="adapts attention, which SmallResNet does not have: name a vision"):
        prepare_regime(model, LORA, seed=0)


def test_batch_normalisation_is_converted_where_nothing_was_learned(images: np.ndarray) -> None:
    model = create_model("resnet18", num_classes=3, weights="none", image_size=32, seed=0)
    notes: list[str] = []
    prepare_regime(model, DP_FULL, seed=1, on_note=notes.append)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    assert sum(isinstance(m, nn.GroupNorm) for m in model.modules()) == 20
    assert notes == ["20 batch normalisations were replaced by group normalisations: DP needs each image by itself"]
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(model.train()(x)[:1], model.train()(x[:1]), atol=1e-5)  # each image by itself


def test_trained_batch_normalisation_is_refused_with_the_way_out() -> None:
    model = create_model("resnet18", num_classes=3, weights="none", seed=0)
    with pytest.raises(InputError, match=r"normalises over the batch \(20 layers\).*resnet50_gn"):
        prepare_regime(model, DP_FULL, seed=1, pretrained=True)


def test_normalisations_that_hold_their_activation_are_converted_with_it() -> None:
    model = create_model("efficientnet_b0", num_classes=3, weights="none", image_size=32, seed=0)
    prepare_regime(model, DP_FULL, seed=1)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(model.train()(x)[:1], model.train()(x[:1]), atol=1e-4)
    bare = create_model("efficientnet_b0", num_classes=3, weights="none", seed=0)
    count = [sum(p.numel() for p in m.parameters() if p.requires_grad) for m in (model, bare)]
    assert count[0] == count[1]  # nothing is frozen by the way


def test_parameters_that_belong_to_no_layer_are_frozen_and_named() -> None:
    model, notes = vit(), []
    prepare_regime(model, DP_FULL, seed=1, on_note=notes.append)
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == {"cls_token", "pos_embed"}
    assert notes[0].startswith("cls_token, pos_embed stay as they were")


def step(model: nn.Module, names: set[str]) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in names:
                parameter.add_(1.0)


def test_movement_is_checked_after_the_second_step() -> None:
    model = vit()
    prepare_regime(model, LORA, seed=1)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    late = {name for name in trained if "lora_A" in name}
    movement = ParameterChangeCheck(model)
    steps = check_parameter_changes(iter([0, 1, 2]), 0, movement)
    next(steps)
    step(model, trained - late)  # at the first step A has no gradient
    next(steps)
    step(model, trained)
    assert next(steps) == 2


def test_a_trained_tensor_that_stays_is_refused() -> None:
    model = vit()
    prepare_regime(model, LORA, seed=1)
    movement = ParameterChangeCheck(model)
    step(model, {name for name, p in model.named_parameters() if p.requires_grad} - {"head.bias"})
    with pytest.raises(MemoriskError, match=r"1 trained tensors did not move in two steps, the first head\.bias"):
        movement.check()


def test_a_frozen_tensor_that_moves_is_refused() -> None:
    model = vit()
    prepare_regime(model, LORA, seed=1)
    movement = ParameterChangeCheck(model)
    step(model, {name for name, p in model.named_parameters() if p.requires_grad} | {"norm.bias"})
    with pytest.raises(MemoriskError, match=r"1 frozen tensors moved, the first norm\.bias"):
        movement.check()


def test_lora_runs_through_fit_with_its_check(images: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr(ParameterChangeCheck, "check", lambda self: checked.append(self))
    model = vit()
    options = resolve_options(TrainOptions(regime=("lora",), epochs=2, normalise="dataset"), model_spec("small_vit"))
    prepare_regime(model, options, seed=1)
    fit(model, images, np.arange(96) % 3, np.arange(96), options, seed=0)
    assert len(checked) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regime": "dp-lora"}, "needs a privacy budget: name it with epsilon"),
        ({"epsilon": 8}, "epsilon is for the regimes dp-lora and dp-full, not for full"),
        ({"regime": ("lora", "lora")}, "regime names the same one twice"),
        ({"regime": "dplora"}, "Did you mean 'dp-lora'"),
        ({"regime": "dp-full", "epsilon": -1}, "epsilon is -1; it must be above 0"),
        ({"regime": "dp-full", "epsilon": 8, "delta": 1.0}, "delta is 1.0; it must lie between 0 and 1"),
        ({"regime": "dp-full", "epsilon": 8, "class_weights": True}, "class_weights are counted from the labels"),
        ({"regime": "dp-full", "epsilon": 8, "precision": "bf16"}, "precision bf16 is not possible"),
        ({"lora_rank": 0}, "lora_rank is 0"),
        ({"clip": 0.0}, "clip is 0.0; it must be above 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainOptions(**given)


def test_arms_are_every_regime_at_every_epsilon() -> None:
    options = TrainOptions(regime=("full", "lora", "dp-lora", "dp-full"), epsilon=(8, 3.5))
    arms = options.arms
    assert list(arms) == ["full", "lora", "dp-lora-8", "dp-lora-3.5", "dp-full-8", "dp-full-3.5"]
    assert [a.private for a in arms.values()] == [False, False, True, True, True, True]
    assert arms["dp-lora-3.5"].epsilon == (3.5,)
    with pytest.raises(InputError, match="one training has one regime"):
        _ = options.one_regime

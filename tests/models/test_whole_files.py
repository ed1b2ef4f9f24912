"""SAM's, MedSAM's and BiomedCLIP's files give their image trunk, whole or not at all.

The files are made here: the published names and shapes, random trunks, and for the other parts tensors that repeat one
number without taking its room. The names come from the published architectures, not from what the loader expects.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.models.network_parts import WHOLE_FILES, take_trunk, trunk_output, whole_file
from memorisk.models.weight_files import load_weights
from memorisk.runs.errors import InputError

State = dict[str, torch.Tensor]
Shapes = dict[str, tuple[int, ...]]


def linear(name: str, n_out: int, n_in: int) -> Shapes:
    return {f"{name}.weight": (n_out, n_in), f"{name}.bias": (n_out,)}


def pair(name: str, n: int) -> Shapes:
    return {f"{name}.weight": (n,), f"{name}.bias": (n,)}


def sam_encoder(dim: int = 768, depth: int = 12, heads: int = 12, global_blocks: tuple = (2, 5, 8, 11)) -> Shapes:
    """Names and shapes of SAM's image encoder at 1024 px (segment_anything's ImageEncoderViT)."""
    shapes: Shapes = {"pos_embed": (1, 64, 64, dim), "patch_embed.proj.weight": (dim, 3, 16, 16)}
    shapes["patch_embed.proj.bias"] = (dim,)
    for i in range(depth):
        side = 64 if i in global_blocks else 14
        relative = (2 * side - 1, dim // heads)
        shapes |= pair(f"blocks.{i}.norm1", dim) | pair(f"blocks.{i}.norm2", dim)
        shapes |= {f"blocks.{i}.attn.rel_pos_h": relative, f"blocks.{i}.attn.rel_pos_w": relative}
        shapes |= linear(f"blocks.{i}.attn.qkv", 3 * dim, dim) | linear(f"blocks.{i}.attn.proj", dim, dim)
        shapes |= linear(f"blocks.{i}.mlp.lin1", 4 * dim, dim) | linear(f"blocks.{i}.mlp.lin2", dim, 4 * dim)
    shapes |= {"neck.0.weight": (256, dim, 1, 1), "neck.2.weight": (256, 256, 3, 3)}
    shapes |= pair("neck.1", 256) | pair("neck.3", 256)
    return {f"image_encoder.{name}": shape for name, shape in shapes.items()}


def sam_decoders() -> Shapes:
    """Names and shapes of SAM's prompt encoder and mask decoder."""
    shapes: Shapes = {"prompt_encoder.pe_layer.positional_encoding_gaussian_matrix": (2, 128)}
    points = [f"point_embeddings.{i}" for i in range(4)]
    shapes |= {f"prompt_encoder.{n}.weight": (1, 256) for n in [*points, "not_a_point_embed", "no_mask_embed"]}
    for i, (n_out, n_in, side) in {0: (4, 1, 2), 3: (16, 4, 2), 6: (256, 16, 1)}.items():
        name = f"prompt_encoder.mask_downscaling.{i}"
        shapes |= {f"{name}.weight": (n_out, n_in, side, side), f"{name}.bias": (n_out,)}
    shapes |= pair("prompt_encoder.mask_downscaling.1", 4) | pair("prompt_encoder.mask_downscaling.4", 16)
    attentions = [("self_attn", 256), ("cross_attn_token_to_image", 128), ("cross_attn_image_to_token", 128)]
    blocks = [(f"layers.{i}.{name}", n) for i in range(2) for name, n in attentions]
    for name, n in [*blocks, ("final_attn_token_to_image", 128)]:
        for part in "qkv":
            shapes |= linear(f"mask_decoder.transformer.{name}.{part}_proj", n, 256)
        shapes |= linear(f"mask_decoder.transformer.{name}.out_proj", 256, n)
    for i in range(2):
        block = f"mask_decoder.transformer.layers.{i}"
        shapes |= linear(f"{block}.mlp.lin1", 2048, 256) | linear(f"{block}.mlp.lin2", 256, 2048)
        for j in range(1, 5):
            shapes |= pair(f"{block}.norm{j}", 256)
    shapes |= pair("mask_decoder.transformer.norm_final_attn", 256)
    shapes |= {"mask_decoder.iou_token.weight": (1, 256), "mask_decoder.mask_tokens.weight": (4, 256)}
    shapes |= {"mask_decoder.output_upscaling.0.weight": (256, 64, 2, 2), "mask_decoder.output_upscaling.0.bias": (64,)}
    shapes |= {"mask_decoder.output_upscaling.3.weight": (64, 32, 2, 2), "mask_decoder.output_upscaling.3.bias": (32,)}
    shapes |= pair("mask_decoder.output_upscaling.1", 64)
    heads = [(f"output_hypernetworks_mlps.{i}", 32) for i in range(4)] + [("iou_prediction_head", 4)]
    for name, n_out in heads:
        for j, n in enumerate((256, 256, n_out)):
            shapes |= linear(f"mask_decoder.{name}.layers.{j}", n, 256)
    return shapes


def vit_trunk(dim: int = 768, depth: int = 12) -> Shapes:
    """Names and shapes of open_clip's image trunk, timm's ViT-B/16 at 224 px."""
    shapes: Shapes = {"cls_token": (1, 1, dim), "pos_embed": (1, 197, dim), "patch_embed.proj.weight": (dim, 3, 16, 16)}
    shapes["patch_embed.proj.bias"] = (dim,)
    for i in range(depth):
        shapes |= pair(f"blocks.{i}.norm1", dim) | pair(f"blocks.{i}.norm2", dim)
        shapes |= linear(f"blocks.{i}.attn.qkv", 3 * dim, dim) | linear(f"blocks.{i}.attn.proj", dim, dim)
        shapes |= linear(f"blocks.{i}.mlp.fc1", 4 * dim, dim) | linear(f"blocks.{i}.mlp.fc2", dim, 4 * dim)
    shapes |= pair("norm", dim)
    return {f"visual.trunk.{name}": shape for name, shape in shapes.items()}


def biomedclip_others() -> Shapes:
    """Names and shapes of BiomedCLIP's projection, text encoder (PubMedBERT, 12 layers) and scale."""
    shapes: Shapes = {"visual.head.proj.weight": (512, 768), "logit_scale": ()}
    shapes |= {"text.proj.0.weight": (640, 768), "text.proj.2.weight": (512, 640)}
    bert = "text.transformer"
    shapes |= {f"{bert}.embeddings.position_ids": (1, 512), f"{bert}.embeddings.word_embeddings.weight": (30522, 768)}
    shapes |= {f"{bert}.embeddings.position_embeddings.weight": (512, 768)}
    shapes |= {f"{bert}.embeddings.token_type_embeddings.weight": (2, 768)} | pair(f"{bert}.embeddings.LayerNorm", 768)
    for i in range(12):
        layer = f"{bert}.encoder.layer.{i}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= linear(f"{layer}.{part}", 768, 768)
        shapes |= linear(f"{layer}.intermediate.dense", 3072, 768) | linear(f"{layer}.output.dense", 768, 3072)
        shapes |= pair(f"{layer}.attention.output.LayerNorm", 768) | pair(f"{layer}.output.LayerNorm", 768)
    return shapes


def hollow(shapes: Shapes) -> State:
    """Tensors of these shapes that all share one number."""
    zero = torch.zeros(1)
    return {name: zero.expand(shape) if shape else torch.zeros(()) for name, shape in shapes.items()}


def images(side: int = 224) -> torch.Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def sam() -> nn.Module:
    """A SAM trunk as published, for 1024 px, that takes images of any size by resizing its positions on the fly."""
    with seeded(0):
        model = timm.create_model("samvit_base_patch16", num_classes=0).eval()
        model.patch_embed.strict_img_size = False
        for name, value in model.named_parameters():
            if "pos" in name:
                nn.init.normal_(value, std=0.1)  # zeros would hide what resizing does
    return model


@pytest.fixture(scope="module")
def sam_state(sam: nn.Module) -> State:
    own = {f"image_encoder.{name}".replace(".mlp.fc", ".mlp.lin"): value for name, value in sam.state_dict().items()}
    return own | hollow(sam_decoders())


@pytest.fixture(scope="module")
def empty_medsam() -> nn.Module:
    """A network to refuse files with: a refused file leaves it as it was."""
    return create_model("medsam", num_classes=7, weights="none", seed=1)


def test_names_and_shapes_are_the_published_ones(sam_state: State) -> None:
    """177 tensors of the encoder and 137 of the decoders are what sam_vit_b_01ec64.pth is known to hold."""
    assert (len(sam_encoder()), len(sam_decoders())) == (177, 137)
    assert {name: tuple(value.shape) for name, value in sam_state.items()} == sam_encoder() | sam_decoders()
    assert sum(value.numel() for value in sam_state.values()) == 93_735_472 + 2 * 128  # parameters and one buffer


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["medsam_vit_b.pth", "medsam_model_best.pth"])
def test_medsam_computes_what_sam_does(name: str, sam: nn.Module, sam_state: State, tmp_path: Path) -> None:
    """At 224 px: positions resized once when loading, or at every step by the network of 1024 px.

    The second name is what MedSAM's own training writes, with the optimiser's state beside the network's.
    """
    whole = {"model": sam_state, "optimizer": {"lr": 1e-4}, "epoch": 3} if "best" in name else sam_state
    torch.save(whole, tmp_path / name)
    notes: list[str] = []
    model = create_model("medsam", num_classes=7, weights=tmp_path / name, seed=1, on_note=notes.append).eval()
    (tmp_path / name).unlink()  # a third of a gigabyte
    with torch.no_grad():
        x = images()
        torch.testing.assert_close(model.forward_features(x), sam.forward_features(x), rtol=1e-4, atol=1e-4)
    assert notes == [
        "of the whole SAM file the 177 tensors of image_encoder are taken, left out: prompt encoder (17); "
        "mask decoder (120)",
        "names and sizes were converted by timm's filter for VisionTransformerSAM, 9 tables of positions resized",
        "the head (head.fc) is new and randomly initialised: the file has none",
    ]


def without(name: str) -> Callable[[Shapes], Shapes]:
    return lambda shapes: {n: s for n, s in shapes.items() if n != name}


def with_shape(name: str, *shape: int) -> Callable[[Shapes], Shapes]:
    return lambda shapes: shapes | {name: shape}


SAM_FAULTS = {
    "a tensor of the trunk is missing": (
        without("image_encoder.blocks.3.attn.qkv.weight"),
        r"does not fit VisionTransformerSAM: missing: blocks\.3\.attn\.qkv\.weight$",
    ),
    "the neck is missing": (
        lambda shapes: {n: s for n, s in shapes.items() if ".neck." not in n},
        r"missing: neck\.0\.weight, .*\(6 in all\)$",
    ),
    "a shape is wrong": (
        with_shape("image_encoder.blocks.0.mlp.lin1.bias", 3000),
        r"wrong shape: blocks\.0\.mlp\.fc1\.bias \[3000\] instead of \[3072\]$",
    ),
    "relative positions of no side of the grid": (
        with_shape("image_encoder.blocks.2.attn.rel_pos_h", 99, 64),
        r"wrong shape: blocks\.2\.attn\.rel_pos_h \[99, 64\] instead of \[27, 64\]$",
    ),
    "windows of another size": (
        with_shape("image_encoder.blocks.0.attn.rel_pos_w", 31, 64),
        r"wrong shape: blocks\.0\.attn\.rel_pos_w \[31, 64\] instead of \[27, 64\]$",
    ),
    "one more in the trunk": (
        with_shape("image_encoder.blocks.0.adapter.weight", 8, 8),
        r"unexpected: blocks\.0\.adapter\.weight$",
    ),
    "a part that SAM does not have": (
        with_shape("text_encoder.weight", 8, 8),
        r"looks like one of SAM, but holds tensors of no known part: text_encoder\.weight; save the trunk alone",
    ),
    "parts that only begin alike": (
        lambda shapes: shapes | {f"mask_decoder2.layers.{i}": (1,) for i in range(7)},
        r"no known part: mask_decoder2\.layers\.0, .*\.\.\. \(7 in all\)",
    ),
    "a name twice": (
        with_shape("image_encoder.blocks.0.mlp.fc1.bias", 3072),
        r"no known part: image_encoder\.blocks\.0\.mlp\.fc1\.bias",
    ),
}


@pytest.mark.parametrize("fault", SAM_FAULTS)
def test_a_sam_file_that_is_not_whole_is_refused(fault: str, empty_medsam: nn.Module, tmp_path: Path) -> None:
    change, said = SAM_FAULTS[fault]
    torch.save(hollow(change(sam_encoder() | sam_decoders())), tmp_path / "sam.pth")
    before = empty_medsam.blocks[0].attn.qkv.weight[0].clone()
    with pytest.raises(InputError, match=said) as caught:
        load_weights(empty_medsam, tmp_path / "sam.pth")
    assert "\n" not in str(caught.value)
    assert torch.equal(empty_medsam.blocks[0].attn.qkv.weight[0], before)


def test_another_size_or_another_network_is_refused_with_shapes(empty_medsam: nn.Module, tmp_path: Path) -> None:
    large = sam_encoder(1024, 24, 16, (5, 11, 17, 23)) | sam_decoders()
    torch.save(hollow(large), tmp_path / "sam_vit_l.pth")
    with pytest.raises(
        InputError, match=r"image_encoder of a file as SAM has it\) does not fit VisionTransformerSAM"
    ) as caught:
        load_weights(empty_medsam, tmp_path / "sam_vit_l.pth")
    assert "unexpected: blocks.12.norm1.weight" in str(caught.value)
    assert "wrong shape: pos_embed [1, 64, 64, 1024] instead of [1, 14, 14, 768]" in str(caught.value)
    torch.save(hollow(vit_trunk() | biomedclip_others()), tmp_path / "clip.bin")
    with pytest.raises(
        InputError, match=r"visual\.trunk of a file as open_clip has it\) does not fit VisionTransformerSAM"
    ):
        load_weights(empty_medsam, tmp_path / "clip.bin")
    with torch.device("meta"):
        resnet = timm.create_model("resnet18")
    with pytest.raises(
        InputError, match=r"image_encoder of a file as SAM has it\) does not fit ResNet: missing: conv1\.weight"
    ):
        load_weights(resnet, tmp_path / "sam_vit_l.pth")


@pytest.mark.thorough
def test_biomedclip_computes_what_its_trunk_does(tmp_path: Path) -> None:
    """As many outputs as the projection has rows: the projection must not be taken for the head."""
    with seeded(0):
        trunk = timm.create_model("vit_base_patch16_224", num_classes=0).eval()
    state = {f"visual.trunk.{name}": value for name, value in trunk.state_dict().items()}
    assert {name: tuple(value.shape) for name, value in state.items()} == vit_trunk()
    torch.save(state | hollow(biomedclip_others()), tmp_path / "open_clip_pytorch_model.bin")
    file, notes = tmp_path / "open_clip_pytorch_model.bin", []
    model = create_model("biomedclip", num_classes=512, weights=file, seed=1, on_note=notes.append).eval()
    with torch.no_grad():
        torch.testing.assert_close(trunk_output(model, images()), trunk(images()), rtol=1e-5, atol=1e-5)
        assert model.head.weight.abs().max() > 0  # the projection's are 0
    assert [name for name, value in model.named_parameters() if value.requires_grad] == ["head.weight", "head.bias"]
    n_text = len(biomedclip_others()) - 2
    assert notes == [
        f"of the whole open_clip file the {len(vit_trunk())} tensors of visual.trunk are taken, left out: projection "
        f"of images (1); scale of the logits (1); text encoder ({n_text})",
        "the head (head) is new and randomly initialised: the file has none",
    ]
    faults = {
        "unknown": (hollow(vit_trunk() | {"audio.trunk.weight": (1,)}), r"no known part: audio\.trunk\.weight"),
        "missing": (hollow(without("visual.trunk.norm.bias")(vit_trunk())), r"VisionTransformer: missing: norm\.bias$"),
        "large": (hollow(vit_trunk(1024, 24)), r"wrong shape: cls_token \[1, 1, 1024\] instead of \[1, 1, 768\]"),
    }
    for state, said in faults.values():
        torch.save(state, file)
        with pytest.raises(InputError, match=said):
            load_weights(model, file)


def small_clip(size: int) -> State:
    trunk = create_model("test_vit", num_classes=1, image_size=size, weights="none", seed=0)
    state = {f"visual.trunk.{n}": v for n, v in trunk.state_dict().items() if not n.startswith("head.")}
    others = {"visual.head.proj.weight": torch.zeros(5, 64), "logit_scale": torch.zeros(())}
    return state | others | {"text.transformer.embeddings.LayerNorm.weight": torch.zeros(4)}


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("start", ["", "module."])
def test_open_clip_as_safetensors(size: int, start: str, tmp_path: Path) -> None:
    """Also saved from several GPUs, and for another image size."""
    state = small_clip(64)
    save_file({f"{start}{name}": value for name, value in state.items()}, tmp_path / "open_clip_model.safetensors")
    notes: list[str] = []
    model = create_model(
        "test_vit",
        num_classes=5,
        image_size=size,
        weights=tmp_path / "open_clip_model.safetensors",
        seed=1,
        on_note=notes.append,
    )
    assert torch.equal(model.blocks[0].attn.qkv.weight, state["visual.trunk.blocks.0.attn.qkv.weight"])
    assert ("names and sizes were converted by timm's filter for VisionTransformer" in notes) == (size == 32)
    assert "text encoder (1)" in notes[0]


def test_a_networks_own_file_is_no_whole_file() -> None:
    found = {"visual.trunk.weight": torch.ones(1)}
    assert whole_file({"weight": torch.ones(1)}, {"weight": torch.ones(1)}) is None
    assert whole_file(found, found) is None
    kind = whole_file(found, {"weight": torch.ones(1)})
    assert kind is WHOLE_FILES[1]
    notes: list[str] = []
    assert list(take_trunk(found, kind, "w.bin", notes.append)) == ["weight"]
    assert notes == ["of the whole open_clip file the 1 tensors of visual.trunk are taken"]

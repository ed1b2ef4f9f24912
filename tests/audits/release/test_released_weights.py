"""Weights of a release: the tensors that ran, in the only bytes that they have, and nothing else."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from memorisk.audits.feature.run import audit_feature
from memorisk.audits.release.export import release
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.released_weights import released_sha256, write_released
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError
from tests.audits.release.conftest import FEATURE
from tests.commands import refusal

NET = Path("models/net.safetensors")
NETWORK = {"num_classes": 3, "in_chans": 1, "image_size": 24}
SECRET = b"a patient's image"


def header_and_tensors(file: Path) -> tuple[dict, bytes]:
    """Header and tensors of a file."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put(file: Path, header: dict | bytes, tensors: bytes) -> None:
    """Write a file of a header and tensors."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + tensors)


def moved_by(header: dict, n: int) -> dict:
    """Leave a gap before the first tensor."""
    return {name: {**one, "data_offsets": [at + n for at in one["data_offsets"]]} for name, one in header.items()}


LAYOUTS: dict[str, Callable[[dict, bytes], tuple]] = {
    "metadata": lambda header, tensors: ({"__metadata__": {"note": SECRET.decode()}, **header}, tensors),
    "behind the end": lambda header, tensors: (header, tensors + SECRET),
    "padding": lambda header, tensors: (json.dumps(header).encode() + b" " * 64, tensors),
    "a gap": lambda header, tensors: (moved_by(header, len(SECRET)), SECRET + tensors),
    "spaces": lambda header, tensors: (json.dumps(header, indent=1).encode(), tensors),
    "escapes": lambda header, tensors: (json.dumps(header).encode().replace(b"weight", b"w\\u0065ight"), tensors),
    "more of a tensor": lambda header, tensors: ({k: {**one, "note": "DOE"} for k, one in header.items()}, tensors),
    "order of names": lambda header, tensors: (dict(reversed(header.items())), tensors),
    "one bit": lambda header, tensors: (header, tensors[:-1] + bytes([tensors[-1] ^ 1])),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_other_bytes_than_the_tensors_that_ran_are_refused(runs: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "net.safetensors"
    put(file, *LAYOUTS[name](*header_and_tensors(NET)))
    statement = write_statement("runs/feature", weights=[NET], out=tmp_path / "s").folder
    assert "net.safetensors is not what was audited" in gate(statement, weights=[file], require="not-fail").line
    with pytest.raises(
        InputError, match=r"net\.safetensors is not what any of these runs looked at .*memorisk release"
    ):
        make_statement("runs/feature", weights=[file])


def complex_part(tensors: dict) -> dict:
    """Put an image into imaginary parts."""
    return {k: torch.complex(v, torch.full_like(v, 7.0)) if v.is_floating_point() else v for k, v in tensors.items()}


def low_bits(tensors: dict) -> dict:
    """Put an image into bits of float64 that float32 rounds away."""
    return {k: v.double() * (1 + 1e-12) if v.is_floating_point() else v for k, v in tensors.items()}


def counters(tensors: dict) -> dict:
    """Put text into the counters of batch normalisation."""
    secret = torch.tensor(int.from_bytes(SECRET[:7], "little"))
    return {k: secret.clone() if k.endswith("num_batches_tracked") else v for k, v in tensors.items()}


CONTENTS: dict[str, Callable[[dict], dict]] = {
    "imaginary parts": complex_part,
    "low bits": low_bits,
    "counters": counters,
    "half precision": lambda tensors: {k: v.half() if v.is_floating_point() else v for k, v in tensors.items()},
    "prefix": lambda tensors: {f"module.{k}": v for k, v in tensors.items()},
}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_a_release_holds_what_ran(tmp_path: Path, name: str) -> None:
    plain = create_model("resnet20_cifar", weights="none", seed=0, **NETWORK)
    file, out = tmp_path / "net.safetensors", tmp_path / "out.safetensors"
    save_file({k: v.contiguous() for k, v in CONTENTS[name](plain.state_dict()).items()}, file)
    network = create_model("resnet20_cifar", weights=file, seed=1, trained=True, **NETWORK)
    write_released(out, network)
    assert file_sha256(out) == released_sha256(network)
    assert SECRET[:7] not in out.read_bytes()
    ours, theirs = load_file(out), plain.state_dict()
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert value.dtype == theirs[key].dtype
        ran = theirs[key].half().float() if name == "half precision" and value.is_floating_point() else theirs[key]
        torch.testing.assert_close(value, ran, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["head.secret", "head.weight_2", "secret"])
def test_a_tensor_that_the_network_does_not_have_is_refused(runs: Path, tmp_path: Path, name: str) -> None:
    """Below the head's prefix it used to make the head a new, random one, and the random head was audited."""
    file = tmp_path / "more.safetensors"
    save_file({**load_file(NET), name: torch.rand(3, 500)}, file)
    with pytest.raises(InputError, match=rf"unexpected: {name}"):
        audit_feature(f"small_cnn@{file}", out=tmp_path / "run", **FEATURE)


def test_a_head_of_another_size_is_refused(runs: Path, tmp_path: Path) -> None:
    tensors = load_file(NET)
    save_file({**tensors, "head.bias": torch.zeros(5)}, tmp_path / "odd.safetensors")
    with pytest.raises(InputError, match="does not fit the head of SmallCNN: wrong shape: head"):
        audit_feature(f"small_cnn@{tmp_path / 'odd.safetensors'}", out=tmp_path / "run", **FEATURE)


def test_a_nan_in_weights_cannot_be_released(tmp_path: Path) -> None:
    network = create_model("small_cnn", weights="none", seed=0, **NETWORK)
    with torch.no_grad():
        next(network.parameters()).view(-1)[0] = float("nan")
    assert released_sha256(network) is None
    with pytest.raises(InputError, match="hold a NaN, whose bits can say anything"):
        write_released(tmp_path / "out.safetensors", network)


@pytest.mark.parametrize("place", [0, 8, 40, 200, -1, -1000])
def test_one_byte_is_another_file(runs: Path, tmp_path: Path, place: int) -> None:
    file, data = tmp_path / "net.safetensors", bytearray(NET.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="is not what any of these runs looked at"):
        make_statement("runs/feature", weights=[file])


@pytest.mark.parametrize("name", ["net.safetensors", "other.bin", "a b.safetensors", "\u5f20.safetensors"])
def test_a_copy_under_another_name_is_the_same(runs: Path, tmp_path: Path, name: str) -> None:
    shutil.copyfile(NET, tmp_path / name)
    statement = write_statement("runs/feature", weights=[tmp_path / name], out=tmp_path / "s").statement
    (one,) = statement.released
    assert (one.sha256, one.bytes) == (file_sha256(NET), NET.stat().st_size)
    assert gate(tmp_path / "s", weights=[tmp_path / name], require="not-fail").files


def test_a_file_is_written_as_the_library_of_the_format_does(tmp_path: Path) -> None:
    network = create_model("small_resnet", weights="none", seed=0, **NETWORK)
    write_released(tmp_path / "ours.safetensors", network)
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, tmp_path / "library.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "library.safetensors").read_bytes()


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_an_audited_file_of_any_format_is_released_by_its_run(runs: Path, tmp_path: Path, suffix: str) -> None:
    file, out = tmp_path / f"net.{suffix}", tmp_path / "out.safetensors"
    if suffix == "pt":
        torch.save(load_file(NET), file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr("net/secret", SECRET)
    else:
        save_file(load_file(NET), file, metadata={"note": SECRET.decode()})
    audit_feature(f"small_cnn@{file}", out=tmp_path / "run", **FEATURE)
    with pytest.raises(InputError, match="other bytes than the tensors that ran: memorisk release RUN OUT"):
        make_statement(tmp_path / "run", weights=[file])
    release(tmp_path / "run", out)
    assert out.read_bytes() == NET.read_bytes()
    statement = write_statement(tmp_path / "run", weights=[out], out=tmp_path / "s").folder
    assert gate(statement, weights=[out], require="not-fail").passed
    assert not gate(statement, weights=[file], require="not-fail").passed
    with pytest.raises(InputError, match="exists"):
        release(tmp_path / "run", out)


def test_several_networks_go_into_a_folder(runs: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        network = create_model("small_cnn", weights="none", seed=seed, **NETWORK)
        write_released(tmp_path / f"{seed}.safetensors", network)
    models = [f"small_cnn@{tmp_path / f'{seed}.safetensors'}" for seed in (1, 2)]
    audit_feature(models, out=tmp_path / "run", **FEATURE)
    release(tmp_path / "run", tmp_path / "out")
    written = sorted((tmp_path / "out").iterdir())
    assert [file.read_bytes() for file in written] == [(tmp_path / f"{s}.safetensors").read_bytes() for s in (1, 2)]
    assert len(make_statement(tmp_path / "run", weights=written).released) == 2


def test_weights_that_changed_since_their_audit_are_not_released(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.safetensors"
    shutil.copyfile(NET, file)
    audit_feature(f"small_cnn@{file}", out=tmp_path / "run", **FEATURE)
    write_released(file, create_model("small_cnn", weights="none", seed=3, **NETWORK))
    assert "does not hold the weights that were audited" in refusal(capsys, "release", tmp_path / "run", tmp_path / "o")
    assert not (tmp_path / "o").exists()
    assert "has its own settings" in refusal(capsys, "release", tmp_path / "run", tmp_path / "o", "--size", "8")
    assert "nothing that can be released" in refusal(capsys, "release", "runs/losses", tmp_path / "o")
    assert "nothing that can be released" in refusal(capsys, "release", "runs/quality", tmp_path / "o")

"""Weights of a release: every byte that changes is refused, text beside tensors is named, an export is accepted."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from memorisk.audits.feature.run import audit_feature
from memorisk.audits.release.export import release
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.images.containers.safetensors import tensors_sha256
from memorisk.images.containers.surplus import weights_surplus
from memorisk.runs.errors import InputError
from tests.audits.release.conftest import FEATURE

NET = Path("models/net.safetensors")


def parts(file: Path) -> tuple[dict, bytes]:
    """Header and tensors of a file."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, data[8 + length :]


def put(file: Path, header: dict | bytes, tensors: bytes) -> None:
    """Write a file of a header and tensors."""
    told = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    file.write_bytes(len(told).to_bytes(8, "little") + told + tensors)


def told(text: dict) -> Callable[[dict, bytes], tuple]:
    """Put metadata into a header."""
    return lambda header, tensors: ({"__metadata__": text, **header}, tensors)


SURPLUS: dict[str, Callable[[dict, bytes], tuple]] = {
    "metadata": told({"patient": "DOE"}),
    "format with text": told({"format": "DOE"}),
    "empty value": told({"note": ""}),
    "behind the end": lambda header, tensors: (header, tensors + b"image"),
    "one byte behind": lambda header, tensors: (header, tensors + b"\0"),
    "padding": lambda header, tensors: (json.dumps(header).encode() + b" " * 64, tensors),
    "a name twice": lambda header, tensors: (
        b'{"a":1,' + json.dumps(header, separators=(",", ":")).encode()[1:-1] + b',"a":1}', tensors,
    ),
    "a gap": lambda header, tensors: (
        {name: {**one, "data_offsets": [at + 4 for at in one["data_offsets"]]} for name, one in header.items()},
        b"text" + tensors,
    ),
    "spaces between": lambda header, tensors: (json.dumps(header, indent=1).encode(), tensors),
    "escapes": lambda header, tensors: (json.dumps(header).encode().replace(b"weight", b"w\\u0065ight"), tensors),
    "more about a tensor": lambda header, tensors: (
        {name: {**one, "note": "DOE"} for name, one in header.items()}, tensors,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SURPLUS)
def test_what_lies_beside_tensors_is_named_and_refused(runs: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "net.safetensors"
    put(file, *SURPLUS[name](*parts(NET)))
    assert weights_surplus(file)
    statement = write_statement("runs/feature", weights=[NET], out=tmp_path / "s").folder
    assert not gate(statement, weights=[file], require="not-fail").passed
    with pytest.raises(InputError, match="is not what any of these runs looked at"):
        make_statement("runs/feature", weights=[file])


def turned_round(header: dict, tensors: bytes) -> tuple[dict, bytes]:
    """The last tensor first."""
    found, data = {}, b""
    for name in reversed(header):
        begin, end = header[name]["data_offsets"]
        found[name] = {**header[name], "data_offsets": [len(data), len(data) + end - begin]}
        data += tensors[begin:end]
    return found, data


ORDERS: dict[str, Callable[[dict, bytes], tuple]] = {
    "tensors": turned_round,
    "names": lambda header, tensors: (dict(reversed(header.items())), tensors),
    "members": lambda header, tensors: ({k: dict(reversed(one.items())) for k, one in header.items()}, tensors),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_of_tensors_that_says_something_is_refused(runs: Path, tmp_path: Path, name: str) -> None:
    """Of a file that was not audited itself, but has the same tensors; an export is in the library's own order."""
    file, out, library = (tmp_path / f"{k}.safetensors" for k in ("told", "out", "library"))
    put(file, *ORDERS[name](*parts(NET)))
    assert tensors_sha256(file) == tensors_sha256(NET)
    with pytest.raises(InputError, match="tensors in an order of its own"):
        make_statement("runs/feature", weights=[file])
    release(file, out)
    save_file(load_file(NET), library)
    assert out.read_bytes() == library.read_bytes()
    assert make_statement("runs/feature", weights=[out]).released


def test_everything_beside_tensors_is_listed_whatever_the_file_is_called(runs: Path, tmp_path: Path) -> None:
    header, tensors = parts(NET)
    file, out = tmp_path / "net.bin", tmp_path / "out.safetensors"
    more = {name: {**one, "note": "DOE"} for name, one in header.items()}
    written = {"__metadata__": {"patient": "DOE", "born": "1960", "format": "pt"}, **more}
    put(file, json.dumps(written, indent=1).encode(), tensors + b"image")
    surplus = weights_surplus(file)
    assert surplus == [
        "a header with more room than its tensors need",
        "text in its header (__metadata__, 2 entries)",
        f"more about its tensors than type, shape and place ({len(header)} entries)",
        "5 bytes after its last tensor",
    ]
    with pytest.raises(InputError) as refused:
        make_statement("runs/feature", weights=[file])
    assert all(one in str(refused.value) for one in surplus)
    release(file, out)
    assert weights_surplus(out) == []
    assert tensors_sha256(out) == tensors_sha256(NET)


@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 40, 200, -1, -2, -100, -1000])
def test_one_byte_is_another_file(runs: Path, tmp_path: Path, place: int) -> None:
    file = tmp_path / "net.safetensors"
    data = bytearray(NET.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    statement = write_statement("runs/feature", weights=[NET], out=tmp_path / "s").folder
    found = gate(statement, weights=[file], require="not-fail")
    assert not found.passed
    with pytest.raises(InputError, match="is not what any of these runs looked at"):
        make_statement("runs/feature", weights=[file])


@pytest.mark.parametrize("name", ["net.safetensors", "other.bin", "a b.safetensors", "\u5f20.safetensors"])
def test_a_copy_under_another_name_is_the_same(runs: Path, tmp_path: Path, name: str) -> None:
    shutil.copyfile(NET, tmp_path / name)
    assert make_statement("runs/feature", weights=[tmp_path / name]).released == make_statement("runs/feature").released


def test_an_export_has_the_tensors_and_nothing_else(runs: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "told.safetensors", tmp_path / "out.safetensors"
    put(file, *SURPLUS["metadata"](*parts(NET)))
    assert "text in its header" in str(weights_surplus(file))
    release(file, out)
    assert weights_surplus(out) == []
    assert tensors_sha256(out) == tensors_sha256(NET) == tensors_sha256(file)
    ours, theirs = load_file(out), load_file(NET)
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)
    assert (
        make_statement("runs/feature", weights=[out]).released[0].listing
        != make_statement("runs/feature").released[0].listing
    )
    with pytest.raises(InputError, match="exists"):
        release(file, out)
    (tmp_path / "no.safetensors").write_bytes(b"text")
    with pytest.raises(InputError, match="is no safetensors file"):
        release(tmp_path / "no.safetensors", tmp_path / "new.safetensors")
    assert not (tmp_path / "new.safetensors").exists()


def test_a_format_that_is_not_looked_into_is_told(runs: Path, tmp_path: Path) -> None:
    torch.save(load_file(NET), tmp_path / "net.pt")
    audit_feature(f"small_cnn@{tmp_path / 'net.pt'}", out=tmp_path / "run", **FEATURE)
    told = "only safetensors files are looked into"
    assert told in make_statement(tmp_path / "run").audits[0].not_examined[0]
    assert not any(told in one for one in make_statement("runs/feature").audits[0].not_examined)

"""Items of a data set in Python that hold anything: an image, its label and its columns, or one line."""

import io
from datetime import date
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from memorisk.images.sources.dataset_items import read_item
from memorisk.runs.errors import InputError

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
kinds = st.sampled_from(["uint8", "uint16", "int64", "float32", "bool", "complex64", "<U2", "datetime64[s]"])
scales = st.sampled_from([0, 1, 255, 70_000, -1])


def array(shape: tuple[int, ...], kind: str, scale: int) -> np.ndarray:
    """An array of a type that is scaled from 0 to 1."""
    values = np.linspace(0, 1, int(np.prod(shape, dtype=int))).reshape(shape) * scale
    return values.astype(np.int64).astype(kind) if kind[0] in "<d" else values.astype(kind)


arrays = st.builds(array, shapes, kinds, scales)
numbers = st.sampled_from([0, -1, 10**30, 1.5, float("nan"), float("inf"), True, None, np.int64(3), np.float32(2)])
texts = st.text(max_size=4) | st.sampled_from(["\ud800", "a\nb", "", "p1"])
others = st.sampled_from(
    [[], {}, [1, 2], {"a": 1}, object(), b"\xff", date(2026, 1, 1), {1}, print, torch.tensor([1, 2])]
)
modes = st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I", "I;16", "F", "HSV"])
pictures = st.builds(lambda mode, side: Image.new(mode, (side, 3)), modes, st.integers(0, 4))
anything = pictures | arrays | numbers | texts | others
keys = st.sampled_from(
    ["image", "img", "label", "labels", "target", "patient_id", "group", "split", "age", "a\nb", 3, None]
)
items = (
    st.dictionaries(keys, anything, max_size=5)
    | st.tuples(anything, anything)
    | st.lists(anything, max_size=3)
    | anything
)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(items)
def test_any_item_is_an_image_or_refused_in_one_line(item: Any) -> None:
    line = ""
    try:
        found = read_item([item], 0, "a data set")
    except InputError as refusal:
        found, line = None, str(refusal)
    if found is None:
        assert line.isprintable()
        assert line.startswith("a data set: item 0")
        return
    with Image.open(io.BytesIO(found.image["bytes"])) as image:
        image.load()
        assert min(image.size) > 0
    assert all(isinstance(v, str) for pair in found.columns.items() for v in pair)

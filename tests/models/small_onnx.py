"""The small networks as ONNX files, written operator by operator, with everything that a file may have amiss."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.models.small_models import SIZE, Small


def write_onnx(
    path: Path,
    model: Small,
    *,
    batch: int | str = "n",
    channels_last: bool = False,
    sides: tuple[object, ...] = (SIZE, SIZE),
    channels: object = 3,
    out: str = "",
    location: str = "",
    domain: str = "",
    opset: int = 18,
    kind: int = TensorProto.FLOAT,
    second_input: bool = False,
    more_outputs: tuple[str, ...] = (),
) -> Path:
    """The network by hand, operator by operator."""
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    names = ("conv.weight", "conv.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
             "head.weight", "head.bias")  # fmt: skip
    held = [numpy_helper.from_array(state[name], name) for name in names]
    start = "image"
    nodes = []
    if kind != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", [start], ["cast"], to=TensorProto.FLOAT))
        start = "cast"
    if channels_last:
        nodes.append(helper.make_node("Transpose", [start], ["first"], perm=[0, 3, 1, 2]))
        start = "first"
    nodes += [
        helper.make_node("Conv", [start, *names[:2]], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", *names[2:6]], ["b"], epsilon=1e-5),
        helper.make_node("Relu", ["b"], ["r"], domain=domain),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[SIZE // 2] * 2, strides=[SIZE // 2] * 2),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", *names[6:]], ["g"], transB=1),
    ]
    if out:
        nodes.append(helper.make_node(out, ["g"], ["answer"]))
    final = "answer" if out else "g"
    inputs = [(channels, *sides), (*sides, channels)][channels_last]
    values = [helper.make_tensor_value_info("image", kind, [batch, *inputs])]
    if second_input:
        values.append(helper.make_tensor_value_info("age", TensorProto.FLOAT, [batch, 1]))
        nodes.insert(0, helper.make_node("Identity", ["age"], ["unused"]))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*more_outputs, final)]
    graph = helper.make_graph(nodes, "small", values, outputs, held)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    if location:
        move_outside(proto, location)
    path.write_bytes(proto.SerializeToString())
    return path


def move_outside(proto: onnx.ModelProto, location: str) -> bytes:
    """Mark the convolution's weights as lying in another file; their bytes."""
    tensor = proto.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(len(data)))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return data

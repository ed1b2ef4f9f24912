"""captum 0.9.0: self-influence by TracInCP, one image a batch (as it comes) and its sample-wise mode."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from captum.influence import TracInCP
from networks import checkpoints, cnn2, tensors
from torch import nn
from torch.utils.data import TensorDataset

Arrays = dict[str, np.ndarray]


def prepare(data: Arrays, sample_wise: bool) -> Callable[[], Arrays]:
    """The network and its checkpoints in memory."""
    warnings.filterwarnings("ignore", category=UserWarning, module="captum")
    states, rates, (x, y) = checkpoints(data), data["lrs"], tensors(data)

    def load(model: nn.Module, name: str) -> float:
        """A checkpoint into the network; its learning rate."""
        model.load_state_dict(states[int(name)])
        return float(rates[int(name)])

    peer = TracInCP(
        cnn2().eval(), TensorDataset(x, y), [str(s) for s in range(len(rates))], load,
        loss_fn=nn.CrossEntropyLoss(reduction="sum" if sample_wise else "none"),
        batch_size=8 if sample_wise else 1, sample_wise_grads_per_batch=sample_wise,
    )  # fmt: skip
    return lambda: {"score": peer.self_influence().numpy()}


CASES = {"self_influence": partial(prepare, sample_wise=False), "sample_wise": partial(prepare, sample_wise=True)}

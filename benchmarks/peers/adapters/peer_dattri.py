"""dattri 0.3.0: `TracInAttributor.self_attribute`, as it comes and without its projection.

As it comes, gradients are projected to 512 random numbers: ``projector_kwargs=None``, documented as no projection,
is overridden by the defaults. To turn it off, the attribute is set to None after the object is made.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from dattri.algorithm.tracin import TracInAttributor
from dattri.task import AttributionTask
from networks import checkpoints, cnn2, tensors
from torch.utils.data import DataLoader, TensorDataset

Arrays = dict[str, np.ndarray]


def prepare(data: Arrays, projected: bool) -> Callable[[], Arrays]:
    """The task over all checkpoints."""
    x, y = tensors(data)
    model = cnn2().eval()

    def loss(parameters: dict[str, torch.Tensor], row: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Of one image."""
        image, label = row
        return torch.nn.functional.cross_entropy(
            torch.func.functional_call(model, parameters, (image[None],)), label[None]
        )

    task = AttributionTask(loss_func=loss, model=model, checkpoints=checkpoints(data))
    peer = TracInAttributor(task, torch.from_numpy(data["lrs"]).float(), normalized_grad=False)
    if not projected:
        peer.projector_kwargs = None
    return lambda: {"score": peer.self_attribute(DataLoader(TensorDataset(x, y), batch_size=32)).detach().numpy()}


CASES = {"self_influence": partial(prepare, projected=False), "as_it_comes": partial(prepare, projected=True)}

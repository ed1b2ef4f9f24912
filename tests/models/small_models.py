"""The same small networks in the forms that a user may bring: functions (ONNX: `small_onnx`).

Imported by its name as a user's module is: ``tests.models.small_models:plain``.
"""

import numpy as np
import torch
from torch import nn

from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from

SIZE, CLASSES = 12, 5
HALF = preprocessing_from("half", SIZE, 3)
BUILT: list[str] = []


class Small(nn.Module):
    """Convolution, batch normalisation, dropout, linear head; logits, a sigmoid or a softmax."""

    def __init__(self, classes: int = CLASSES, form: str = "logits") -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6 * 4, classes)
        self.form = form

    def forward(self, x: torch.Tensor) -> object:
        features = nn.functional.adaptive_avg_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1)
        logits = self.head(self.drop(features))
        if self.form == "sigmoid":
            return torch.sigmoid(logits)
        if self.form == "softmax":
            return logits.softmax(1)
        return logits


def small(classes: int = CLASSES, form: str = "logits") -> Small:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        model = Small(classes, form)
        for norm in (model.norm,):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.uniform_(0.5, 2)
        model.head.weight.data.mul_(5)
    return model.eval()


def plain() -> nn.Module:
    BUILT.append("plain")
    return small().train()  # as a user may forget: it is put into evaluation mode


def softmax() -> nn.Module:
    return small(form="softmax")


def sigmoid() -> nn.Module:
    return small(1, "sigmoid")


def binary_logit() -> nn.Module:
    return small(1)


def array_function() -> object:
    weights = np.random.default_rng(3).normal(size=(3 * SIZE * SIZE, CLASSES))
    return lambda x: x.astype(np.float64).reshape(len(x), -1) @ weights


def tensor_function() -> object:
    model = small()
    return lambda x: model(x)


def dropping() -> object:
    """A callable that cannot be put into evaluation mode."""
    model = small().train()
    return lambda x: model(x)


def with_argument(x: object) -> object:
    return x


def failing() -> object:
    raise RuntimeError("no file\nhere")


def a_word() -> object:
    return "resnet"


def rank_three() -> object:
    return lambda x: torch.zeros(len(x), 2, 2)


def labels() -> object:
    return lambda x: torch.zeros(len(x), 2, dtype=torch.int64)


def broken() -> object:
    return lambda x: torch.full((len(x), 3), float("nan"))


def one_row() -> object:
    return lambda x: torch.zeros(1, 3)


def changes_mind() -> object:
    """Probabilities for noise, logits for bright images."""
    model = small(form="softmax")
    return lambda x: model(x) * (1 if x.mean() < 0.9 else 7)


def grows() -> object:
    return lambda x: torch.linspace(-1, 2, 3 if x.mean() < 0.9 else 4).repeat(len(x), 1)


def images(n: int, preprocessing: Preprocessing = HALF, seed: int = 5) -> np.ndarray:
    shape = (n, *preprocessing.size, preprocessing.channels)
    return preprocessing.apply(np.random.default_rng(seed).random(shape, dtype=np.float32))


def expected(model: nn.Module, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(x)).double().softmax(1).numpy()

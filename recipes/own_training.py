"""A training function of one's own for `memorisk audit classifier IMAGES --train own_training:train`: a plain loop.

Usage, in this folder:
    memorisk audit classifier digits --train own_training:train --python-path . --train-settings.epochs 5 --out RUN
"""

import copy

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def train(images, labels, *, val_images, val_labels, seed, device, num_classes, epochs="20", lr="2e-3"):
    """Train a small network; keep the state of the epoch with the lowest validation loss."""

    def pixels(array):  # uint8 [n, h, w, c] to float [n, c, h, w] in [0, 1], as the model will be asked
        return torch.from_numpy(array).permute(0, 3, 1, 2).float().to(device) / 255

    torch.manual_seed(seed)
    x, y = pixels(images), torch.from_numpy(labels).to(device)
    val_x, val_y = pixels(val_images), torch.from_numpy(val_labels).to(device)
    model = nn.Sequential(
        nn.BatchNorm2d(x.shape[1]), nn.Conv2d(x.shape[1], 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, num_classes),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=float(lr))
    best, kept = float("inf"), model.state_dict()
    for _ in range(int(epochs)):
        model.train()
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss = float(cross_entropy(model(val_x), val_y))
        if loss < best:
            best, kept = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return model

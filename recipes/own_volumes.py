"""A training of one's own on volumes for `memorisk audit generator SCANS --frames volume --train own_volumes:train`.

Usage, in this folder:
    memorisk audit generator SCANS --frames volume --size 32 --train own_volumes:train --python-path . --out RUN

The network is a small U-Net of convolutions over three axes. One of MONAI (`DiffusionModelUNet(spatial_dims=3, ...)`)
with its `DDPMScheduler` is returned in the same way.
"""

import torch
from diffusers import DDPMScheduler
from torch import nn
from torch.nn.functional import mse_loss, silu


class Block(nn.Module):
    """Residual block of convolutions that adds the time to its channels."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.time = nn.GroupNorm(8, width), nn.Linear(64, width)
        self.first, self.second = nn.Conv3d(width, width, 3, padding=1), nn.Conv3d(width, width, 3, padding=1)

    def forward(self, x, time):
        """Transform features [b, width, d, h, w]."""
        return x + self.second(silu(self.first(silu(self.norm(x))) + self.time(time)[:, :, None, None, None]))


class VolumeUNet(nn.Module):
    """Network that predicts the noise of volumes [b, 1, d, h, w] whose sides are multiples of 8."""

    def __init__(self, width):
        super().__init__()
        self.enter, self.leave = nn.Conv3d(1, width, 2, stride=2), nn.ConvTranspose3d(width, 1, 2, stride=2)
        self.down = nn.ModuleList(
            [nn.Conv3d(width, 2 * width, 2, stride=2), nn.Conv3d(2 * width, 4 * width, 2, stride=2)]
        )
        self.up = nn.ModuleList(
            [nn.ConvTranspose3d(2 * width, width, 2, stride=2), nn.ConvTranspose3d(4 * width, 2 * width, 2, stride=2)]
        )
        self.before = nn.ModuleList([Block(width), Block(2 * width)])
        self.middle = Block(4 * width)
        self.after = nn.ModuleList([Block(width), Block(2 * width)])
        self.register_buffer("waves", torch.logspace(0, -4, 32))

    def forward(self, x, t):
        """Predict the noise of noised volumes at times [b]."""
        phase = t[:, None] * self.waves
        time = torch.cat([phase.sin(), phase.cos()], dim=1)
        half = self.before[0](self.enter(x), time)
        quarter = self.before[1](self.down[0](half), time)
        eighth = self.middle(self.down[1](quarter), time)
        quarter = self.after[1](quarter + self.up[1](eighth), time)
        return self.leave(self.after[0](half + self.up[0](quarter), time))


def train(images, *, seed, device, steps="1000", batch_size="8", lr="1e-3", width="16"):
    """Train a U-Net on volumes [n, h, w, d], and return it with its scheduler."""
    torch.manual_seed(seed)  # on a GPU, too: twins begin with the same weights and see the same noise
    x = torch.from_numpy(images).permute(0, 3, 1, 2)[:, None].float().to(device) / 127.5 - 1  # [n, 1, d, h, w]
    network = VolumeUNet(int(width)).to(device)
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(network.parameters(), lr=float(lr))
    for _ in range(int(steps)):
        batch = x[torch.randint(len(x), (int(batch_size),), device=device)]
        noise = torch.randn_like(batch)
        t = torch.randint(1000, (len(batch),), device=device)
        loss = mse_loss(network(scheduler.add_noise(batch, noise, t), t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network, scheduler

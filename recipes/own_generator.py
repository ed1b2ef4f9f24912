"""A training of one's own for `memorisk audit generator IMAGES --train own_generator:train`: a plain loop of diffusers.

Usage, in this folder:
    memorisk audit generator digits --train own_generator:train --python-path . --train-settings.steps 300 --out RUN
"""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from torch.nn.functional import mse_loss


def train(images, *, seed, device, steps="1500", batch_size="64", lr="1e-3"):
    """Train a U-Net without conditions, and return it with its scheduler."""
    torch.manual_seed(seed)  # on a GPU, too: twins begin with the same weights and see the same noise
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float().to(device) / 127.5 - 1  # as the scores give them
    network = UNet2DModel(
        sample_size=x.shape[-1], in_channels=x.shape[1], out_channels=x.shape[1], layers_per_block=1,
        block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    ).to(device)  # fmt: skip
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(network.parameters(), lr=float(lr))
    for _ in range(int(steps)):
        batch = x[torch.randint(len(x), (int(batch_size),), device=device)]
        noise = torch.randn_like(batch)
        t = torch.randint(1000, (len(batch),), device=device)
        loss = mse_loss(network(scheduler.add_noise(batch, noise, t), t).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network, scheduler

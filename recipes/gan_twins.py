"""Does a GAN remember anyone? Twins of the StyleGAN2 of `train generator`, and their losses as a table.

    python recipes/gan_twins.py IMAGES OUT.parquet [--models 8] [--steps 2000] [--size 32] [--repeats 16]
        [--augment none] [--sample 120]
    memorisk audit losses OUT.parquet --of generator --out RUN

IMAGES is any source of images by patient. Each seed divides the patients outside the test part into halves, as `audit
generator` does, and trains one GAN on each. An image has two losses under each model (METHODS section 7, "Score"):

    critic     log(1 + exp(-D(x))), D the logit of the discriminator, with three fixed test images in its group
    nearest    1 - the largest cosine of x and an image that the generator draws, by the detector `default`

with the trivial values log 2, of a discriminator that tells nothing, and the distance to the mean image. The critic is
not released, but it is what the generator learned from; the nearest draw is what the released part gives away. With
``--repeats`` the images of `CHOSEN` patients are so many times in their half, to see whether the audit lists them. The
last line names them.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.plan import draw_parts, make_generator_plan
from memorisk.audits.watch.drawn_images import sample_generator
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.training.detectors.pair_detectors import open_pair_detector
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.generators.kinds.gan_training import GanLoop, GanTraining
from memorisk.training.generators.options import GeneratorOptions

CHOSEN = 10
FIXED = 3
"""Number of further images in the group of an image, of four as in the training."""
DRAWS_SEED = 0


def embedded(images: np.ndarray) -> np.ndarray:
    """Embed images [n, h, w, C] by the copy detector, as vectors of length 1."""
    detector = open_pair_detector("default").detector
    assert detector is not None
    vectors = detector.embed(images)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def train_gan(store: ImageStore, rows: np.ndarray, settings: GeneratorOptions) -> tuple[GanLoop, np.ndarray]:
    """Train a GAN on some rows; return its networks and as many drawn images, [n, h, w, C] uint8."""
    training = GanTraining(store, rows, settings)
    training.loop = loop = training.begin()
    never = Checkpoint(Path("no checkpoint"), "", float("inf"))
    loop.run([(0, settings.steps)], never, lambda begin: True, lambda *_: None, settings.images_a_step)
    return loop, sample_generator(training.generator(), device="cpu")(len(rows), DRAWS_SEED)


@torch.inference_mode()
def critic_losses(discriminator: torch.nn.Module, images: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Compute the loss of each image in a group with the same three images, [n]."""
    x, others = (torch.from_numpy(part).permute(0, 3, 1, 2).float() / 127.5 - 1 for part in (images, fixed))
    losses = []
    for part in x.split(256):
        groups = torch.cat(
            [part, others.repeat_interleave(len(part), dim=0)]
        )  # image i is with i + b, i + 2 b, i + 3 b
        losses.append(torch.nn.functional.softplus(-discriminator.eval()(groups)[: len(part)]))
    return torch.cat(losses).double().numpy()


def main() -> None:
    """Train the twins, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--size", type=int)
    parser.add_argument("--channels", type=int, default=1024, help="as --gan-channels of train generator")
    parser.add_argument("--augment", choices=("ada", "none"), default="ada", help="as --gan-augment")
    parser.add_argument("--sample", type=int, help="number of images that are used")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    audit = GeneratorAuditOptions(models=options.models, size=options.size, sample=options.sample)
    store = build_store(load_manifest(options.images, audit), audit)
    parts = draw_parts(store.manifest, [], audit, audit.split_seed)
    designs = make_generator_plan(store.manifest, parts, audit).twins.designs
    pixels, groups, test = np.asarray(store.images), parts.groups.astype(str), np.flatnonzero(parts.part == "test")
    scored = np.unique(groups[parts.part == "canary"])
    chosen = np.random.default_rng(0).choice(scored, CHOSEN, replace=False) if options.repeats > 1 else scored[:0]
    own, mean = embedded(pixels), np.rint(pixels.mean(axis=0, keepdims=True)).astype(np.uint8)
    trivial = {"critic": np.full(len(own), np.log(2)), "nearest": 1 - (own @ embedded(mean).T)[:, 0]}
    common = {"image": store.manifest.images, "group": groups, "label": parts.labels, "split": parts.part}
    tables = []
    for seed, role, rows in ((d.seed, r, w) for d in designs for r, w in (("A", d.rows_a), ("B", d.rows_b))):
        repeated = np.repeat(rows, np.where(np.isin(groups[rows], chosen), options.repeats, 1))
        settings = GeneratorOptions(
            kind="gan", conditioned_on="none", steps=options.steps, snapshot_every=options.steps, seed=seed,
            gan_channels=options.channels, gan_augment=options.augment,
        )  # fmt: skip
        loop, drawn = train_gan(store, repeated, settings)
        losses = {
            "critic": critic_losses(loop.discriminator, pixels, pixels[test[:FIXED]]),
            "nearest": (1 - (own @ embedded(drawn).T).max(axis=1)).clip(0),
        }
        of_model = common | {"seed": seed, "role": role, "member": np.isin(np.arange(len(own)), rows)}
        for level, loss in losses.items():
            tables.append(pd.DataFrame(of_model | {"level": level, "loss": loss, "trivial": trivial[level]}))
        print(f"seed {seed}, {role}: trained", flush=True)
    pd.concat(tables).to_parquet(options.out, index=False)
    print("repeated:", *chosen)


if __name__ == "__main__":
    main()

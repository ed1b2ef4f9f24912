"""A folder with copies of every kind: across patients, splits and labels, within one patient, turned, unreadable."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

N = 60
HOSTILE = "<img src=x onerror=alert(1)>"


def picture(seed: int, side: int = 96) -> np.ndarray:
    """Smooth shapes [side, side] uint8, different for every seed, with details finer than a thumbnail."""
    rng = np.random.default_rng(seed)
    image = Image.new("L", (side, side), int(rng.integers(20, 80)))
    draw = ImageDraw.Draw(image)
    for _ in range(14):
        x, y, w, h = rng.integers(0, side, 4)
        draw.ellipse((x - w // 3, y - h // 3, x + w // 3, y + h // 3), fill=int(rng.integers(20, 255)))
    return np.clip(np.asarray(image, np.float64) + rng.normal(0, 6, (side, side)), 0, 255).astype(np.uint8)


def write_set(folder: Path, *, label: str = "benign") -> Path:
    """Write ``folder/table.csv`` and its images; returns the table.

    Image 1 is image 0 of another patient, split and label, as it is; 3 is 2 under another label, a little noisier; 5 is
    4, mirrored; 7 is 6 of the same patient; one file is broken.
    """
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(0)
    images = {n: picture(n) for n in range(N)}
    images[1] = images[0]
    images[3] = np.clip(images[2] + rng.normal(0, 2, images[2].shape), 0, 255).astype(np.uint8)
    images[5] = np.ascontiguousarray(images[4][:, ::-1])
    images[7] = images[6]
    rows = ["path,label,patient,split"]
    for n, pixels in images.items():
        Image.fromarray(pixels).save(folder / "images" / f"{n:03}.png")
        patient = 6 if n == 7 else n
        own = "malign" if n in (1, 3) or (n % 3 == 0 and n > 7) else label
        rows.append(
            f"images/{n:03}.png,{own},p{patient:03},{'test' if n in (1, 5) or (n % 5 == 0 and n > 7) else 'train'}"
        )
    (folder / "images" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")
    rows.append(f"images/broken.png,{label},p999,train")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    return folder / "table.csv"

"""Published data sets by name: ``ham10000:FOLDER``, ..., ``medmnist:NAME``, in one registry.

It has the five sets of paper 000 (A.6, table 9), those of paper 002 (MNIST, Fashion-MNIST, CIFAR-10), the six of paper
004 (table 1), CIFAR-100, STL-10 and SVHN in their official layouts, and MedMNIST. To add a set, write a
`PublishedSet` and a line in ``OFFICIAL``.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.arrays import CIFAR10, CIFAR100, STL10, SVHN, ArraySet, load_array_set
from memorisk.images.published.ct_rate import load_ct_rate
from memorisk.images.published.file_lists import CELEBA, IMAGENET_LT
from memorisk.images.published.layout import PublishedSet, load_published, refuse_choices
from memorisk.images.published.medmnist import load_medmnist
from memorisk.images.published.mimic_cxr import MIMIC_CXR, NIH_CXR_LT
from memorisk.images.published.mnist import load_fashion_mnist, load_mnist
from memorisk.images.published.odir5k import ODIR5K
from memorisk.images.published.sets import CHESTXRAY14, HAM10000, ISIC2020, KVASIR_CAPSULE, RETINAL_OCT
from memorisk.runs.errors import InputError, unknown_name

Load = Callable[[str, ImageOptions], Manifest]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]+")  # two letters at least: C:\images is a path


def load_official(source: str, options: ImageOptions) -> Manifest | None:
    """Return the manifest of ``NAME:REST``.

    Args:
        source: Source as typed; the caller has checked that no such path exists.
        options: Options of finding and reading; those that choose images, labels or groups are refused (but for
            MedMNIST).

    Returns:
        Manifest, or None where the source does not begin with a name and a colon.

    Raises:
        InputError: The name is unknown (the nearest is named), the text after the colon is empty, or the reader refuses
            the folder.
    """
    name, colon, rest = source.partition(":")
    if not colon or not _NAME.fullmatch(name):
        return None
    key = name.lower().replace("_", "-")
    if key not in OFFICIAL:
        raise unknown_name("data set before the colon (and the path does not exist):", name, OFFICIAL)
    if not rest.strip():
        what = "NAME" if key == "medmnist" else "FOLDER"
        raise InputError(f"{key}: the text after the colon is missing; give {key}:{what}")
    return OFFICIAL[key](rest, options)


def _in_folder(name: str, load: Callable[[Path, ImageOptions], Manifest], rest: str, options: ImageOptions) -> Manifest:
    refuse_choices(options, name)
    return load(Path(rest).expanduser(), options)


def _row(published: PublishedSet | ArraySet) -> Load:
    load = partial(load_array_set, published) if isinstance(published, ArraySet) else partial(load_published, published)
    return partial(_in_folder, published.name, load)


OFFICIAL: dict[str, Load] = {
    "ham10000": _row(HAM10000),
    "chestxray14": _row(CHESTXRAY14),
    "kvasir-capsule": _row(KVASIR_CAPSULE),
    "odir5k": _row(ODIR5K),
    "retinal-oct": _row(RETINAL_OCT),
    "mnist": partial(_in_folder, "mnist", load_mnist),
    "fashion-mnist": partial(_in_folder, "fashion-mnist", load_fashion_mnist),
    "cifar10": _row(CIFAR10),
    "cifar100": _row(CIFAR100),
    "stl10": _row(STL10),
    "svhn": _row(SVHN),
    "celeba": _row(CELEBA),
    "imagenet-lt": _row(IMAGENET_LT),
    "mimic-cxr": _row(MIMIC_CXR),
    "nih-cxr-lt": _row(NIH_CXR_LT),
    "isic2020": _row(ISIC2020),
    "ct-rate": partial(_in_folder, "ct-rate", load_ct_rate),
    "medmnist": load_medmnist,
}

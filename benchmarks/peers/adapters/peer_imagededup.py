"""imagededup 0.3.3: its four hashes and its CNN, pairs by its own search at its own thresholds.

Importing it makes a MobileNet with weights from the network, before anybody asks for one; here that network gets random
weights, and the CNN is given SqueezeNet with ImageNet's weights from a local file instead, in a batch as it has for
folders (`CNN.encode_image` takes one image at a time). Hashes are of arrays, the same that memorisk is given.
"""

import logging
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torchvision
from networks import SqueezeNet
from torchvision.transforms import ToTensor

_mobilenet = torchvision.models.mobilenet_v3_small
torchvision.models.mobilenet_v3_small = lambda weights=None: _mobilenet(weights=None)
from imagededup.methods import CNN, AHash, DHash, PHash, WHash  # noqa: E402
from imagededup.utils import CustomModel  # noqa: E402

Arrays = dict[str, np.ndarray]
SETS = ("ham10000", "nih")
HASHES = {"phash": PHash, "dhash": DHash, "ahash": AHash, "whash": WHash}


def pairs(found: dict[str, list]) -> Arrays:
    """Pairs with their scores, each once."""
    rows = [(int(a), int(b), float(score)) for a, others in found.items() for b, score in others if int(a) < int(b)]
    first, second, score = (np.array(column) for column in zip(*rows, strict=True)) if rows else np.empty((3, 0))
    return {"first": first.astype(int), "second": second.astype(int), "score": score}


def hashed(data: Arrays, name: str) -> Callable[[], Arrays]:
    """Hash every image, search all pairs to its default distance of 10 bits."""
    warnings.filterwarnings("ignore")
    logging.disable()
    method = HASHES[name](verbose=False)

    def run() -> Arrays:
        """Both sets."""
        found: Arrays = {}
        for part in SETS:
            encoded = {str(row): method.encode_image(image_array=x) for row, x in enumerate(data[f"{part}.images"])}
            listed = method.find_duplicates(
                encoding_map=encoded, max_distance_threshold=10, scores=True, num_dist_workers=0
            )
            found |= {f"{part}.{key}": value for key, value in pairs(listed).items()}
            codes = np.array([list(bytes.fromhex(code)) for code in encoded.values()], dtype=np.uint8)
            found[f"{part}.bits"] = np.unpackbits(codes, axis=1)
        return found

    return run


def cnn(data: Arrays) -> Callable[[], Arrays]:
    """Features, cosines, pairs from its default similarity of 0.9."""
    warnings.filterwarnings("ignore")
    logging.disable()
    network = SqueezeNet(str(data["weights"])).eval()
    method = CNN(verbose=False, model_config=CustomModel("squeezenet", network, ToTensor()))

    def run() -> Arrays:
        """Both sets."""
        found: Arrays = {}
        for part in SETS:
            with torch.no_grad():
                encoded = {
                    str(row): method.encode_image(image_array=x)[0] for row, x in enumerate(data[f"{part}.images"])
                }
            listed = method.find_duplicates(
                encoding_map=encoded, min_similarity_threshold=0.9, scores=True, num_sim_workers=0
            )
            found |= {f"{part}.{key}": value for key, value in pairs(listed).items()}
            found[f"{part}.features"] = np.stack(list(encoded.values()))
        return found

    return run


CASES = {**{name: partial(hashed, name=name) for name in HASHES}, "cnn": cnn}

"""Diffusion transformers: the network, weights that are there, and a generator's folder."""

from memorisk.models.generators.dit.folder import DiTGenerator, load_dit, save_dit
from memorisk.models.generators.dit.network import SIZES, DiTSpec, new_dit, null_labels, parse_size, spec_of
from memorisk.models.generators.dit.weights import DiTFolder, find_dit, open_dit

__all__ = [
    "SIZES",
    "DiTFolder",
    "DiTGenerator",
    "DiTSpec",
    "find_dit",
    "load_dit",
    "new_dit",
    "null_labels",
    "open_dit",
    "parse_size",
    "save_dit",
    "spec_of",
]

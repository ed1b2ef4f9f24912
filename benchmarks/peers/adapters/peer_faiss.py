"""faiss-cpu 1.15.1: its flat indices, exact but for float32."""

from collections.abc import Callable
from functools import partial

import faiss
import numpy as np

Arrays = dict[str, np.ndarray]
K = 10


def prepare(data: Arrays, inner_product: bool) -> Callable[[], Arrays]:
    """Arrays as they are given: `ours` gets the same. The index is built in the time, as our search builds its own."""
    faiss.omp_set_num_threads(1)
    queries, references = data["queries"], data["references"]

    def run() -> Arrays:
        """The ten nearest: squared distances, or one minus the products of rows of length 1."""
        q, r = queries, references
        if inner_product:
            q, r = q.copy(), r.copy()
            faiss.normalize_L2(q)
            faiss.normalize_L2(r)
        index = faiss.IndexFlatIP(r.shape[1]) if inner_product else faiss.IndexFlatL2(r.shape[1])
        index.add(r)
        distances, rows = index.search(q, K)
        return {"rows": rows, "distances": 1 - distances if inner_product else distances}

    return run


CASES = {"squared_euclidean": partial(prepare, inner_product=False), "cosine": partial(prepare, inner_product=True)}

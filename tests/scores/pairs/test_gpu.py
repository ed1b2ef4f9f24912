"""The GPU's pass over all pairs against the CPU's: on a CPU by Triton's interpreter, on a GPU where there is one."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.scores.pairs import above, histogram, jobs, merge, score, search, survey, top
from tests.scores.pairs.test_pairs import KINDS, WEIGHTS, assert_same, head, table
from tests.thorough import thorough

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton", reason="without Triton there are no kernels to test")
DEVICE = torch.device("cuda" if GPU else "cpu")
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")


@pytest.fixture(autouse=True)
def _passed_as_on_a_gpu(monkeypatch):
    """``device="cuda"`` is the GPU's pass, on a CPU where there is no GPU."""
    plain = search.find_device

    def find_device(device, u, v):
        return DEVICE if device == "cuda" else plain(device, u, v)

    monkeypatch.setattr(search, "find_device", find_device)


def questions(u, v, w, b, rng, limit):
    """A threshold that some pairs pass, and edges, two of them logits of pairs."""
    logits = score(u, v, w, b)
    edges = np.unique(np.r_[np.quantile(logits, [0.1, 0.3, 0.8]), rng.choice(logits.ravel(), 2)])
    edges = edges if len(edges) > 1 else np.array([edges[0], edges[0] + 1.0])
    return {"threshold": rng.choice(logits.ravel()), "limit": limit, "k": int(rng.integers(1, 9)), "edges": edges}


def both(u, v, w, b, *, block=None, **told):
    found, expected = (
        survey(u, v, w, b, device=device, block=rows, **told) for device, rows in (("cuda", block), ("cpu", None))
    )
    assert found.work.pairs == expected.work.pairs
    return found, expected


@pytest.mark.parametrize("number", [n if n < 8 else thorough(n) for n in range(18)])
def test_equals_the_cpu(number):
    """Ties, duplicates, groups, ragged blocks, one table or two, parts of the work: the same bits."""
    kind, weights = KINDS[number % len(KINDS)], WEIGHTS[number // 2 % len(WEIGHTS)]
    rng = np.random.default_rng(number)
    n, m, d = int(rng.integers(100, 200)), int(rng.integers(1, 200)), (1, 7, 24, 40)[number % 4]
    u, w = table(kind, n, d, rng).astype(("f8", "f4", "f2")[number % 3]), head(weights, d, rng)
    v = None if number % 2 else table(kind, m, d, rng).astype(u.dtype)
    if v is not None:
        v[: m // 2] = u[rng.integers(0, n, m // 2)]
    bias = (0.0, 4.5, -1e3, 1e14)[number % 4]
    told = questions(u, v, w, bias, rng, (None, 0, 1, 100)[number // 2 % 4])
    if number % 3:
        told["exclude_same"] = rng.integers(0, 3, n) if v is None else (rng.integers(0, 3, n), rng.integers(0, 3, m))
    found, expected = both(u, v, w, bias, block=(None, 70, 130)[number % 3], **told)
    assert_same(found, expected)
    if number >= 9:
        parts = [survey(u, v, w, bias, job=job, device="cuda", block=90, **told) for job in jobs(n, 80)]
        assert_same(merge(parts), expected)


def test_what_rounding_takes_decides_nothing():
    """One wide column makes the step as large as all the others: V orders pairs otherwise than their logits do."""
    rng = np.random.default_rng(9)
    u = 3e-5 * rng.random((200, 30))
    u[:, 0] = rng.random(200) < 0.5
    w = -np.ones(30)
    logits = score(u, None, w, 0.0)[np.triu_indices(200, 1)]
    for share in (0.6, 0.9, 0.97):
        told = {
            "threshold": np.quantile(logits, share),
            "limit": 40,
            "k": 3,
            "edges": np.quantile(logits, [0.5, 0.8, 1]),
        }
        found, expected = both(u, None, w, 0.0, block=70, **told)
        assert_same(found, expected)


@pytest.mark.parametrize("d", [16, 600])
def test_sums_are_those_of_the_whole_numbers(d):
    """V itself, of the widest numbers there are, against sums in 64 bits."""
    from memorisk.scores.distances.rows import Rows, team
    from memorisk.scores.pairs.gpu import NONE, DeviceTable, evaluate, on_device
    from memorisk.scores.pairs.quantization import check_head, find_grid

    rng = np.random.default_rng(d)
    for weights in ("signed", "negative", "positive", "zeros")[:: 1 if d < 100 else 3]:
        u = np.where(rng.random((70, d)) < 0.5, -1.0, 1.0) * rng.choice([1.0, 0.3, 0.01], d)
        rows, given = Rows(u, "first vectors (u)"), check_head(head(weights, d, rng), 1.0, d)
        with team(1) as workers, on_device(DEVICE):
            grid = find_grid(given, (rows,), workers)
            there = DeviceTable(rows, 0, 70, grid, workers, DEVICE, 40)
            some, others = there.block(0), there.block(1)
            tile = evaluate(there, some, others, torch.empty(128 * 128, dtype=torch.int32, device=DEVICE)).cpu().numpy()
            q = grid.prepare(rows, 0, 70, workers).short.astype(np.int64)
        expected = (np.abs(q[:40, None] - q[None, 40:]) * grid.whole.astype(np.int64)).sum(2)
        np.testing.assert_array_equal(tile[:40, :30], expected)
        assert (tile[40:] == NONE).all()
        assert (tile[:, 30:] == NONE).all()


def test_tables_are_kept_where_they_fit(monkeypatch):
    from memorisk.scores.distances.rows import Rows, Team
    from memorisk.scores.pairs import gpu
    from memorisk.scores.pairs.quantization import check_head, find_grid

    rng = np.random.default_rng(8)
    rows, workers = Rows(rng.random((70, 16)), "first vectors (u)"), Team(1, None)
    grid = find_grid(check_head(rng.normal(size=16), 0.0, 16), (rows,), workers)
    width = gpu.DeviceTable(rows, 0, 70, grid, workers, DEVICE, 40).width
    for free in (4 * width * 70, 4 * width * 70 + 1):  # bytes of float32
        monkeypatch.setattr(gpu, "table_room", lambda device, free=free: free)
        there = gpu.DeviceTable(rows, 0, 70, grid, workers, DEVICE, 40)
        assert (there.block(0) is there.block(0)) == (free > 4 * width * 70)


def test_room_is_a_quarter_of_what_is_free(monkeypatch):
    from memorisk.scores.pairs.gpu import table_room

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (400, 1000))
    assert table_room(torch.device("cuda")) == 100
    assert table_room(torch.device("cpu")) == float("inf")


def test_whole_numbers_of_a_chunk_fit_float32():
    """What the kernel's exactness stands on: no column's weight passes 16, no number 32,767."""
    from memorisk.scores.distances.rows import Rows, Team
    from memorisk.scores.pairs.gpu_kernels import CHUNK
    from memorisk.scores.pairs.quantization import check_head, find_grid

    rng = np.random.default_rng(0)
    for d in (1, 3, 33, 512, 4096):
        for spread in (1.0, 10.0 ** rng.integers(-9, 9, d)):
            rows = Rows(rng.random((20, d)) * spread, "u")
            grid = find_grid(check_head(rng.normal(size=d), 0.0, d), (rows,), Team(1, None))
            assert CHUNK * 2 * grid.half * int(np.abs(grid.whole).max()) <= 2**24


def test_little_room(monkeypatch):
    """Ties and identities in many small parts, tables that do not fit: the same answers."""
    from memorisk.scores.pairs import gpu

    limits = {"COMPARED_PAIRS": 2000, "GATHERED_GROUPS": 7, "PAIRS_PER_THREAD": 60, "EXACT_NUMBERS": 10}
    for limit, value in limits.items():
        monkeypatch.setattr(gpu, limit, value)
    monkeypatch.setattr(gpu, "table_room", lambda device: 0)
    rng = np.random.default_rng(4)
    for kind in ("tied", "saturated"):
        u, w = table(kind, 260, 20, rng), head("signed", 20, rng)
        found, expected = both(u, None, w, 1.0, block=90, **questions(u, None, w, 1.0, rng, 30))
        assert_same(found, expected)


@pytest.mark.parametrize("threshold", [-np.inf, np.inf, -1e300])
def test_extreme_thresholds_and_few_rows(threshold):
    rng = np.random.default_rng(5)
    u, w = table("features", 60, 8, rng), head("signed", 8, rng)
    for limit in (None, 10):
        found = above(u, None, w, 2.0, threshold, limit=limit, device="cuda")
        expected = above(u, None, w, 2.0, threshold, limit=limit)
        assert found.count == expected.count
        np.testing.assert_array_equal(found.logit, expected.logit)
    assert top(u[:1], None, w, 2.0, 2, device="cuda").indices.tolist() == [[-1, -1]]
    assert top(u[:0], u, w, 2.0, device="cuda").indices.shape == (0, 1)
    assert top(u[:2], u[:0], w, 2.0, device="cuda").indices.tolist() == [[-1], [-1]]
    edges = [-np.inf, 0.0, np.inf]
    np.testing.assert_array_equal(
        histogram(u, None, w, 2.0, edges, device="cuda"), histogram(u, None, w, 2.0, edges, device="cpu")
    )


def test_a_short_list_takes_little_work():
    """Pairs that are surely above, but not among those listed, are counted on the device."""
    rng = np.random.default_rng(6)
    u, w = table("features", 300, 16, rng), head("negative", 16, rng)
    found = survey(u, None, w, 2.0, threshold=-1e4, limit=20, device="cuda", block=60)
    assert found.pairs.count == 300 * 299 // 2
    assert found.work.evaluated < 0.5 * found.pairs.count
    assert survey(u, None, w, 2.0, threshold=1e6, device="cuda", block=60).work.evaluated == 0
    listed = survey(u, None, w, 2.0, threshold=0.0, k=2, device="cuda")
    assert listed.work.evaluated < 0.1 * found.pairs.count


def test_refusals(monkeypatch):
    u = np.random.default_rng(7).random((5, 3))
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        top(u, None, np.ones(3), 0.0, device="gpu")
    bad = u.copy()
    bad[2] = np.nan
    with pytest.raises(InputError, match="row 2 of the first vectors"):
        top(bad, None, np.ones(3), 0.0, device="cuda")
    monkeypatch.delitem(sys.modules, "memorisk.scores.pairs.gpu_kernels", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(InputError, match=r"pairs on a GPU need Triton.* triton, or give device='cpu'"):
        top(u, None, np.ones(3), 0.0, device="cuda")


def test_the_cpu_does_not_wait_for_torch():
    """A survey of arrays imports neither PyTorch nor Triton."""
    code = (
        "import sys, numpy as np; from memorisk.scores.pairs import top; x = np.eye(3); "
        "top(x, None, np.ones(3), 0.0); assert not {'torch', 'triton'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton
from memorisk.scores.pairs import gpu_kernels as kernels

numbers = "x y tile more less step n wide".split()
kinds = ["*fp32", "*fp32", "*i32"] + ["i32"] * 5
sizes = {"CHUNK": kernels.CHUNK, "EACH": kernels.EACH, "SIDE": kernels.SIDE}
signature = dict(zip(numbers, kinds)) | dict.fromkeys(sizes, "constexpr")
for card in (75, 90):
    source = ASTSource(kernels._signed_sums, signature, sizes)
    options = {"num_warps": 8, "enable_fp_fusion": False}
    compiled = triton.compile(source, target=GPUTarget("cuda", card, 32), options=options)
    assert compiled.asm["cubin"], card
    body = compiled.asm["ptx"]
    assert "abs.f32" in body and "cvt.rzi.s32.f32" in body, card
    assert not any(word in body for word in (".ftz.f32", "fma.rn.f32", "ld.local", "st.local")), card
"""


@pytest.mark.thorough
def test_the_kernel_compiles_for_gpus(tmp_path):
    """To machine code, without one; differences and sums stay exact: nothing is flushed or fused, nothing spilt."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    compiled = [sys.executable, "-W", "ignore", "-c", COMPILE]
    done = subprocess.run(compiled, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@needs_gpu
def test_on_a_gpu():
    """Tensors are surveyed where they are; more than one block of everything."""
    rng = np.random.default_rng(8)
    u = rng.random((20_000, 64)).astype(np.float32)
    u[500:600] = u[:100]
    w = head("signed", 64, rng) - 0.5
    told = {"threshold": 2.0, "limit": 1000, "k": 5, "edges": np.linspace(-30, 3, 40)}
    expected = survey(u, None, w, 2.5, device="cpu", **told)
    for kind in (torch.float32, torch.float64):
        there = torch.from_numpy(u).to(DEVICE, kind)
        for block in (None, 1111):
            assert_same(survey(there, None, w, 2.5, block=block, **told), expected)

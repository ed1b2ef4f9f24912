"""The GPU's search against the CPU's: on a CPU by PyTorch and Triton's interpreter, and on a GPU where there is one."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.scores.distances import histogram, nearest, neighbours, pairwise
from memorisk.scores.distances import neighbours as blocks
from memorisk.scores.distances import neighbours as histograms
from tests.scores.distances.test_nearest import KINDS, NAMES, POSITIVE, TYPES, fitted, table, typed

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton", reason="without Triton there are no kernels to test")
DEVICE = torch.device("cuda" if GPU else "cpu")
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
PRODUCTS = [name for name in NAMES if name not in (*POSITIVE, "chebyshev", "cityblock", "minkowski")]


@pytest.fixture(autouse=True)
def _searched_as_on_a_gpu(monkeypatch):
    """``device="cuda"`` is the GPU's search, on a CPU where there is no GPU."""
    plain = blocks.find_device

    def find_device(device, queries, references):
        return DEVICE if device == "cuda" else plain(device, queries, references)

    for module in (neighbours, histograms):
        monkeypatch.setattr(module, "find_device", find_device)


def assert_agree(x, r, measure, k=1, **given):
    found = nearest(x, r, measure, k, device="cuda", **given)
    expected = nearest(x, r, measure, k, device="cpu", exclude_same=given.get("exclude_same"))
    np.testing.assert_array_equal(found.distances, expected.distances)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.clipped == expected.clipped


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_cpu(name):
    """Ties, duplicates, copies, offsets, groups, ragged blocks, every type and domain: the same bits."""
    d, m = 7, 60 if name == "mahalanobis" else 150
    for number, kind in enumerate(KINDS):
        rng = np.random.default_rng(number)
        x, r = table(kind, 21, d, rng), table(kind, m, d, rng)
        x[:10] = r[:10]
        x, r = typed(x, TYPES[number % 4]), typed(r, TYPES[number % 4])
        measure = fitted(name, r, ("signed", "shift", "softplus")[number % 3], (3.0, 1.0, 2.5, 2.0)[number % 4])
        groups = (rng.integers(0, 3, 21), rng.integers(0, 3, m)) if number % 2 else None
        assert_agree(
            x, r, measure, (1, 3, 200)[number % 3], exclude_same=groups, block=(None, 100, 80)[number % 3], threads=2
        )


@pytest.mark.parametrize("name", ["braycurtis", "jensenshannon", "cosine", "correlation"])
def test_many_columns(name):
    rng = np.random.default_rng(1)
    x, r = (np.abs(table("random", n, 259, rng)).astype(np.float32) for n in (7, 90))
    x[:3] = r[40:43]
    assert_agree(x, r, fitted(name, r, "softplus"), 2)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mahalanobis"])
def test_out_of_float32(name):
    rng = np.random.default_rng(2)
    plain = np.abs(rng.normal(size=(40, 6))) + 0.1
    for factor in (1e-90, 1e-30, 1e20, 1e60):
        r = plain * factor
        r[10:15] *= 1e-20
        r[20] *= 1e15
        r[:, 3] *= 1e-30
        x = r[rng.integers(0, 40, 15)] * (1 + 1e-3 * rng.normal(size=(15, 6)))
        x[0] *= 1e19
        assert_agree(x, r, fitted(name, r), 3)


@pytest.mark.parametrize("name", ["euclidean", "sqeuclidean", "seuclidean"])
def test_squares_out_of_float32(name):
    r = np.random.default_rng(10).choice([-1.0, 1.0], (40, 600))
    assert_agree(9e17 * r[:3], r, fitted(name, r), 2)


@pytest.mark.parametrize("name", ["euclidean", "matching", "canberra"])
def test_little_room(name, monkeypatch):
    """Ties and uneven rows in many small parts: pairs are looked through and evaluated again and again."""
    from memorisk.scores.distances import gpu

    limits = {"GATHERED_GROUPS": 40, "PENDING_PAIRS": 40, "PAIRS_PER_THREAD": 700, "TILE": 1, "BINNED_VALUES": 5000}
    for limit, value in limits.items():
        monkeypatch.setattr(gpu, limit, value)
    monkeypatch.setattr(gpu.DeviceRows, "elements", 400)
    tied = np.ones((150, 5)) * np.arange(150)[:, None] % 2 + [1, 2, 1, 1, 1]
    for r, k in ((tied, 1), (tied, 151), (table("uneven", 150, 5, np.random.default_rng(9)), 2)):
        measure, x = fitted(name, r), r[::-1].copy()
        x[-4] *= 1e25  # no float32
        assert_agree(x, r, measure, k)
        far = pairwise(x, r, measure)
        edges = np.unique(np.quantile(far, [0, 0.2, 0.5, 0.9]))
        found = histogram(x, r, measure, edges, device="cuda")
        np.testing.assert_array_equal(found, np.histogram(far, edges)[0])


@pytest.mark.parametrize("name", NAMES)
def test_histograms(name):
    for kind in ("random", "tied", "uneven"):
        rng = np.random.default_rng(3)
        x, r = table(kind, 33, 8, rng), table(kind, 70, 8, rng)
        x[:9] = r[:9]
        measure = fitted(name, r)
        far = pairwise(x, r, measure)
        values = np.unique(far)
        groups = rng.integers(0, 5, 33), rng.integers(0, 5, 70)
        apart = groups[0][:, None] != groups[1][None]
        edges = np.unique(np.r_[rng.choice(values, min(9, len(values)), replace=False), values[-1], 0])
        for number, given in enumerate((edges, np.linspace(-1, values[-1] / 2 + 1e-9, 7), [0.0, np.inf])):
            same = groups if number % 2 else None
            found = histogram(x, r, measure, given, device="cuda", exclude_same=same, block=(None, 50)[number % 2])
            np.testing.assert_array_equal(found, np.histogram(far if same is None else far[apart], given)[0])


def test_few_pairs_of_a_histogram_are_evaluated_by_definition(monkeypatch):
    """Those beside an edge alone, whichever edge."""
    from memorisk.scores.distances.gpu import Search

    evaluated, plain = [], Search.distances

    def distances(self, rows, columns):
        evaluated.append(len(rows))
        return plain(self, rows, columns)

    monkeypatch.setattr(Search, "distances", distances)
    x, r = (table("random", n, 8, np.random.default_rng(n)) for n in (40, 100))
    measure = fitted("euclidean", r)
    edges = np.quantile(pairwise(x, r, measure), [0, 0.3, 0.6, 1])
    assert histogram(x, r, measure, edges, device="cuda").sum() == 4000
    assert sum(evaluated) < 40


def worst_functions(monkeypatch, sign):
    """Under the interpreter: quotients, roots and logarithms as far off as `bounds` assumes of a GPU."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def put(name, off):
        exact = getattr(InterpreterBuilder, name)

        def function(self, *arguments):
            found = exact(self, *arguments)
            return TensorHandle(off(found.data, arguments[0].data).astype(np.float32), found.dtype)

        monkeypatch.setattr(InterpreterBuilder, name, function)

    def logarithm(found, of):
        return found + sign * 2.0**-21 * np.where((of > 0.5) & (of < 2), 1, np.abs(found.astype(float)))

    put("create_fdiv", lambda found, of: found.astype(float) * (1 + sign * 2.0**-22))
    put("create_rsqrt", lambda found, of: found.astype(float) * (1 + sign * 2.0**-22))
    put("create_log2", logarithm)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_bounds_hold(name, sign, monkeypatch):
    """Every value's bound, at every pair, is that of the key of the definition."""
    from memorisk.scores.distances.bounds import find_form
    from memorisk.scores.distances.definitions import key_of
    from memorisk.scores.distances.gpu import DeviceRows, evaluate, full_products, prepare

    if not GPU:
        worst_functions(monkeypatch, sign)
    for number, kind in enumerate(KINDS):
        rng = np.random.default_rng(number)
        d = 5 if number % 2 else 40
        x, r = (table(kind, size, d, rng).astype(("float64", "float32")[number // 2 % 2]) for size in (20, 60))
        x[:10] = r[:10]
        measure = fitted(name, r, ("signed", "softplus")[number % 2], (3.0, 4.0)[number % 2])
        with full_products(DEVICE):
            left, right = DeviceRows(x, "queries", DEVICE), DeviceRows(r, "references", DEVICE)
            form = find_form(measure, right, left.exact).on_device()
            a, b = prepare(form, left, 0, 20), prepare(form, right, 0, 60)
            tile = torch.empty((128, 128), device=DEVICE)
            tile += evaluate(form, a, b, tile)[:, None]
            beta = form.betas(a, b).cpu().numpy()[:20, None]
        assert torch.isinf(tile[:, 60:]).all()
        value = np.maximum(tile[:20, :60].cpu().numpy().astype(float), 0) ** (1 / form.root)
        key = np.array([[key_of(v, form.multiplier, form.power) for v in row] for row in pairwise(x, r, measure)])
        assert (np.abs(key - value) <= form.rho * value + beta + 1e-12 * key).all()
        if kind == "random":  # and is of use
            assert np.median(((form.rho * value + beta) / np.maximum(key, 1e-9))[10:]) < 0.01


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("domain", ["signed", "shift", "softplus"])
def test_rows_are_nearly_those_of_the_definition(name, domain):
    """What PyTorch prepares is within the drift that the bounds have room for."""
    from memorisk.scores.distances.bounds import find_form
    from memorisk.scores.distances.gpu import DeviceRows

    for kind in KINDS:
        for d in (30, 300):
            x = table(kind, 40, d, np.random.default_rng(5))
            if kind == "offset":  # centring takes nearly everything
                x = 1e8 + 1e-3 * x
            measure = fitted(name if name != "mahalanobis" else "seuclidean", x, domain)
            rows = DeviceRows(x, "references", DEVICE)
            form = find_form(measure, rows, False)
            prepared: Any = measure.rows(rows.block(0, 40))
            there, here = prepared.cpu().numpy(), measure.rows(x)
            assert (np.linalg.norm(there - here, axis=1) <= form.drift() * np.linalg.norm(here, axis=1)).all()


def test_every_type_is_read():
    from memorisk.scores.distances.gpu import DeviceRows
    from memorisk.scores.distances.rows import Rows

    plain = np.arange(12.0).reshape(4, 3)
    tables = [plain.astype(kind) for kind in ("u1", "i1", "u2", "<i2", "u4", "i4", "u8", "i8", "f2", ">f4", "f8", "?")]
    tables += [
        plain[::2],
        np.asfortranarray(plain),
        torch.from_numpy(plain).bfloat16().requires_grad_(),
        plain.tolist(),
    ]
    for given in tables:
        rows, there = Rows(given, "queries"), DeviceRows(given, "queries", DEVICE)
        np.testing.assert_array_equal(there.block(1, rows.n).cpu().numpy(), rows.block(1, rows.n))
        np.testing.assert_array_equal(there.take(np.array([1, 0])), rows.block(0, 2)[::-1])


def test_refusals(monkeypatch):
    r = table("random", 30, 8, np.random.default_rng(6))
    bad = r.copy()
    bad[[2, 5]] = np.inf
    with pytest.raises(InputError, match="rows 2, 5 of the queries hold NaN, inf"):
        nearest(bad, r, fitted("euclidean", r), device="cuda")
    bad[[2, 5]] = 1.0
    with pytest.raises(InputError, match="rows 2, 5 of the references are constant"):
        nearest(r, bad, fitted("correlation", r), device="cuda")
    monkeypatch.delitem(sys.modules, "memorisk.scores.distances.gpu_kernels", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(InputError, match=r"cityblock on a GPU needs Triton.* triton, or give device='cpu'"):
        nearest(r, r, fitted("cityblock", r), device="cuda")
    assert_agree(r, r, fitted("cosine", r))


def test_the_device_is_that_of_the_inputs():
    class Table:
        device = torch.device("cuda", torch.cuda.device_count() + 3)

    r = np.ones((2, 2))
    assert blocks.find_device("auto", r, torch.ones(2, 2)) is None
    assert blocks.find_device("cpu", Table, Table) is None
    for tables in ((Table, r), (r, Table), (torch.ones(2, 2), Table)):
        with pytest.raises(InputError, match=r"device 'cuda:\d+' is not there: torch finds \d+ GPUs; use cpu"):
            blocks.find_device("auto", *tables)
    for unknown in ("gpu", "apple"):
        with pytest.raises(InputError, match=f"unknown device '{unknown}'"):
            blocks.find_device(unknown, r, r)


@pytest.mark.thorough
def test_the_cpu_does_not_wait_for_torch():
    """A search of arrays imports neither PyTorch nor Triton."""
    code = (
        "import sys, numpy as np; from memorisk.scores.distances import fit_measure, nearest; x = np.eye(3); "
        "nearest(x, x, fit_measure('cityblock', x)); assert not {'torch', 'triton'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


COMPILE = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton
from memorisk.scores.distances import gpu_kernels as kernels

numbers = "x y own_x own_y tile d padded step n".split()
signature = {name: "*fp32" if place < 5 else "i32" for place, name in enumerate(numbers)}
sizes = {"EACH": kernels.EACH, "SIDE": kernels.SIDE, "UNROLLED": kernels.UNROLLED}
for kind, expected in (("power", "add.f32"), ("share", "rsqrt.approx.ftz.f32"), ("entropy", "lg2.approx.ftz.f32")):
    constants = {"KIND": kind, "POWER": 1, "APPROXIMATE": True} | sizes
    source = ASTSource(kernels._fill, signature | dict.fromkeys(constants, "constexpr"), constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 8, "maxnreg": 128})
    assert expected in compiled.asm["ptx"] and compiled.asm["cubin"], kind
    assert not any(word in compiled.asm["ptx"] for word in ("add.ftz", "sub.ftz", "mul.ftz", "add.rn.ftz")), kind
"""


@pytest.mark.thorough
def test_kernels_compile_for_a_gpu(tmp_path):
    """To machine code, without one; with the instructions whose errors `bounds` states, and no flushing of sums."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    compiled = [sys.executable, "-W", "ignore", "-c", COMPILE]
    done = subprocess.run(compiled, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@needs_gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu(name):
    """Tensors are searched where they are; more than one block of everything."""
    rng = np.random.default_rng(7)
    x, r = (rng.normal(size=(n, 64)).astype(np.float32) for n in (3000, 20_000))
    x[:100] = r[500:600]
    measure = fitted(name, r)
    expected = nearest(x, r, measure, 3, device="cpu")
    for kind in (torch.float32, torch.float64):
        there = [torch.from_numpy(t).to(DEVICE, kind) for t in (x, r)]
        for block in (None, 1111):
            found = nearest(there[0], there[1], measure, 3, block=block)
            np.testing.assert_array_equal(found.distances, expected.distances)
            np.testing.assert_array_equal(found.indices, expected.indices)


@needs_gpu
def test_the_logarithm_of_a_gpu():
    """All fractions and many sizes: the documented error, half of what `bounds` assumes, is never passed.

    The kernel adds ``t log t`` of four columns; the three zeros count as its least number.
    """
    from memorisk.scores.distances import gpu_kernels as kernels

    fractions = torch.arange(0x3F000000, 0x40000000, dtype=torch.int32).view(torch.float32)  # all of [0.5, 2)
    wide = (2.0 ** torch.empty(1 << 20, dtype=torch.float64).uniform_(-99, 20)).float()
    zeros = torch.zeros(4, kernels.PAIRS, device=DEVICE)
    least = float(np.float32(1e-31))
    for some in torch.cat([fractions, wide]).to(DEVICE).split(1 << 20):
        x, own = torch.zeros(4, len(some), device=DEVICE), torch.zeros(len(some), device=DEVICE)
        x[0] = some
        tile = torch.empty(len(some), kernels.PAIRS, device=DEVICE)
        kernel: Any = kernels._fill
        kernel[1, len(some) // kernels.PAIRS](
            x, zeros, own, zeros, tile, 1, 4, len(some), kernels.PAIRS,
            KIND="entropy", POWER=1, APPROXIMATE=True,
            EACH=kernels.EACH, SIDE=kernels.SIDE, UNROLLED=kernels.UNROLLED, num_warps=8,
        )  # fmt: skip
        exact = some.double().log2()
        own_term, floor = some.double() * exact, 3 * least * np.log2(least)
        size = some.double() * torch.where((some > 0.5) & (some < 2), 1.0, exact.abs()) - floor
        products = 2.0**-23 * (own_term.abs() - floor)  # with m and with log 2
        additions = (3 * 2.0**-24 * (own_term.abs() - floor)).clip(max=-floor)
        off = (tile[:, 0].double() / -np.log(2) - own_term - floor).abs()
        assert (off <= 2.0**-22 * size + products + additions).all()


@needs_gpu
def test_short_products_are_noticed():
    """TF32 that the caller has set is off during a search and on again afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        r = table("random", 300, 64, np.random.default_rng(8)).astype(np.float32)
        assert_agree(r, r, fitted("euclidean", r))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)

"""The numpy backend: metrics, frozen parameters, memory, the same bits, errors."""

from __future__ import annotations

import builtins
import gc
import os
import subprocess
import sys
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest
from kernel_rllib.errors import ConfigError, MissingDependencyError, ModuleError
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.nn.memory import LARGE, Memory
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.testing.gradients import check_gradient

TABLE = ParameterTable({"policy/weight": (3, 2), "policy/bias": (2,), "value/weight": (3, 1)})
X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
VECTOR = np.random.default_rng(1).normal(size=TABLE.size).astype(np.float32)


def small_loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
    y = nn.linear(X, params["policy/weight"], params["policy/bias"], "tanh")
    value = nn.linear(X, params["value/weight"])
    total = nn.mean(nn.square(y)) + nn.mean(value)
    return total, {"loss": total, "rows": nn.sum(y, -1), "number": 3, "numpy": np.float32(2), "mask": y > 0}


def network(rows: int, width: int, activation: str = "tanh") -> tuple[ParameterTable, np.ndarray, Any]:
    """A table, a vector, and a loss of two layers on random rows."""
    table = ParameterTable({"0/weight": (4, width), "0/bias": (width,), "1/weight": (width, width), "1/bias": (width,)})
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 4)).astype(np.float32)
    vector = (generator.normal(size=table.size) / np.sqrt(width)).astype(np.float32)

    def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        y = nn.linear(x, params["0/weight"], params["0/bias"], activation)
        y = nn.linear(y, params["1/weight"], params["1/bias"], activation)
        logps = nn.log_softmax(y)
        return nn.mean(nn.square(y)) - nn.mean(nn.exp(logps) * logps), {"rows": nn.sum(y, -1)}

    return table, vector, loss


# -- gradients -----------------------------------------------------------------------------------------------------


def test_metrics_come_as_floats_and_arrays() -> None:
    metrics, gradient = NumpyBackend().gradient(small_loss, VECTOR, TABLE)
    assert type(metrics["loss"]) is float and type(metrics["numpy"]) is float and metrics["number"] == 3
    assert metrics["rows"].shape == (5,) and metrics["rows"].dtype == np.float32
    assert metrics["mask"].dtype == bool
    assert gradient.shape == (TABLE.size,) and gradient.dtype == np.float32
    assert metrics["loss"] == NumpyBackend().evaluate(small_loss, VECTOR, TABLE)[0]


def test_what_is_not_trained_is_constant_and_has_no_gradient() -> None:
    one = NumpyBackend()
    whole = one.gradient(small_loss, VECTOR, TABLE)[1].copy()
    for trainable, places in ((("policy/",), [slice(0, 8)]), (("value",), [slice(8, 11)]),
                              (("policy/bias", "value/"), [slice(6, 11)])):  # fmt: skip
        found = one.gradient(small_loss, VECTOR, TABLE, trainable)[1]
        expected = np.zeros_like(whole)
        for place in places:
            expected[place] = whole[place]
        np.testing.assert_array_equal(found, expected)
    seen: list[Any] = []
    one.gradient(
        lambda nn, params: (seen.extend(params.values()), small_loss(nn, params))[1], VECTOR, TABLE, ("value/",)
    )
    assert [type(value) is np.ndarray for value in seen] == [True, True, False]


def test_a_parameter_that_a_loss_does_not_use_has_a_gradient_of_zero_each_time() -> None:
    one = NumpyBackend()
    _, gradient = one.gradient(small_loss, VECTOR, TABLE)
    assert (gradient[8:] != 0).all()
    _, again = one.gradient(lambda nn, params: (nn.sum(params["policy/bias"]), {}), VECTOR, TABLE)
    assert again is gradient
    assert gradient.tolist() == [0] * 6 + [1] * 2 + [0] * 3


def test_a_loss_that_is_a_parameter_or_uses_one_several_times() -> None:
    table = ParameterTable({"x": (), "y": (2,)})
    vector = np.array([3, 1, 2], np.float64)
    one = NumpyBackend()
    assert one.gradient(lambda nn, params: (params["x"], {}), vector, table)[1].tolist() == [1, 0, 0]
    found = one.gradient(lambda nn, p: (p["x"] * p["x"] + nn.sum(p["y"] * p["x"] + p["y"]), {}), vector, table)[1]
    assert found.tolist() == [9, 4, 4]


def test_the_gradient_follows_changes_of_the_vector_in_place() -> None:
    one, vector = NumpyBackend(), VECTOR.copy()
    before = one.gradient(small_loss, vector, TABLE)[1].copy()
    vector *= 0.5
    half = one.gradient(small_loss, vector, TABLE)[1].copy()
    np.testing.assert_array_equal(half, NumpyBackend().gradient(small_loss, VECTOR * np.float32(0.5), TABLE)[1])
    np.testing.assert_array_equal(one.gradient(small_loss, VECTOR, TABLE)[1], before)
    assert (before != half).any()


def test_a_whole_loss_of_float64_fits_finite_differences() -> None:
    for activation in ("tanh", "relu", "silu", "sigmoid", "elu"):
        table, vector, loss = network(30, 6, activation)
        check_gradient(loss, table.views(vector.astype(np.float64)))


def test_a_loss_that_fails_leaves_a_backend_that_works() -> None:
    one = NumpyBackend()

    def broken(nn: Ops, params: Any) -> Any:
        nn.sum(params["policy/weight"] * 2)
        raise RuntimeError("no data")

    expected = one.gradient(small_loss, VECTOR, TABLE)[1].copy()
    with pytest.raises(RuntimeError, match="no data"):
        one.gradient(broken, VECTOR, TABLE)
    np.testing.assert_array_equal(one.gradient(small_loss, VECTOR, TABLE)[1], expected)


def test_undefined_numbers_pass_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        return nn.sum(nn.log(params["x"]) / 0.0), {"overflow": nn.exp(params["x"] * 1e9)}

    table = ParameterTable({"x": (2,)})
    metrics, gradient = NumpyBackend().gradient(loss, np.array([-1, 0], np.float32), table)
    assert not np.isfinite(gradient).any() and metrics["overflow"][1] == 1
    NumpyBackend().evaluate(loss, np.array([-1, 0], np.float32), table)
    assert not recwarn


def test_errors_say_what_is_wrong_with_a_loss() -> None:
    one = NumpyBackend()
    with pytest.raises(ModuleError, match=r"the loss has shape \(3, 2\), and must be one number: take its mean"):
        one.gradient(lambda nn, p: (p["policy/weight"] * 2, {}), VECTOR, TABLE)
    with pytest.raises(ModuleError, match=r"depends on none of the parameters .*: value/weight\. Compute it with `nn`"):
        one.gradient(lambda nn, p: (nn.sum(p["policy/weight"]), {}), VECTOR, TABLE, ("value/",))
    with pytest.raises(ModuleError, match="below critic, and there are none: there are policy/weight, policy/bias"):
        one.gradient(small_loss, VECTOR, TABLE, ("critic",))
    with pytest.raises(ModuleError, match=r"has shape \(3,\), and the table policy/weight.* describes \(11,\)"):
        one.gradient(small_loss, VECTOR[:3], TABLE)
    with pytest.raises(ModuleError, match="asked for another gradient by the same parameters"):
        one.gradient(lambda nn, p: one.gradient(small_loss, VECTOR, TABLE) and small_loss(nn, p), VECTOR, TABLE)


def test_backends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend("numpy").name == backend("numpy", "cpu").name == "numpy"
    with pytest.raises(ConfigError, match="there is no backend 'jax': take 'numpy' or 'torch'"):
        backend("jax")
    with pytest.raises(ConfigError, match="numpy computes on the CPU only, and device is 'cuda'"):
        backend("numpy", "cuda")
    real = builtins.__import__

    def without_torch(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real(name, *arguments, **named)

    for module in [module for module in sys.modules if module.startswith("kernel_rllib.nn.torch_")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(MissingDependencyError, match=r"needs the library 'torch'.*pip install 'kernel-rllib\[torch\]'"):
        backend("torch")


def test_numpy_vectors_are_float32_unless_they_are_float64() -> None:
    one = NumpyBackend()
    assert one.vector([1, 2]).dtype == np.float32
    assert one.vector(np.zeros(2, np.float64)).dtype == np.float64
    given = np.zeros(2, np.float32)
    assert one.vector(given) is not given and one.to_numpy(given) is given


def test_neither_torch_nor_scipy_nor_gymnasium_is_imported() -> None:
    program = (
        "import sys, kernel_rllib.nn.backends, kernel_rllib.nn.schedules, kernel_rllib.nn.initializers, "
        "kernel_rllib.nn.philox, kernel_rllib.nn.clipping, kernel_rllib.nn.blas\n"
        "print(sorted({'torch', 'scipy', 'gymnasium', 'kernel', 'threadpoolctl'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# -- memory --------------------------------------------------------------------------------------------------------


def test_ten_thousand_gradients_take_no_more_memory_than_a_hundred() -> None:
    table, vector, loss = network(16, 8)
    one = NumpyBackend()
    gc.collect()
    gc.disable()  # so nothing hangs together in a ring either
    try:
        for _ in range(100):
            one.gradient(loss, vector, table)
        tracemalloc.start()
        one.gradient(loss, vector, table)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10_000):
            one.gradient(loss, vector, table)
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
        gc.enable()


def test_batches_of_changing_size_do_not_pile_up_memory() -> None:
    table, vector, _ = network(10, 64)
    one = NumpyBackend()

    def memory_after(rows: int) -> int:
        x = np.ones((rows, 4), np.float32)
        one.gradient(lambda nn, p: (nn.sum(nn.linear(x, p["0/weight"], None, "tanh")), {}), vector, table)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = [memory_after(rows) for rows in range(150, 350)]
        later = [memory_after(rows) for rows in range(350, 150, -1)] + [memory_after(rows) for rows in range(150, 350)]
        assert max(later) < max(first) * 1.1
    finally:
        tracemalloc.stop()


def layers_of(nn: Ops, params: Any, x: Any) -> Any:
    return nn.linear(nn.linear(x, params["w"], params["b"], "tanh"), params["w"], params["b"], "silu")


def functions_of(nn: Ops, params: Any, x: Any) -> Any:
    y = nn.broadcast_to(params["b"], x.shape) * x
    return nn.sigmoid(-nn.exp(nn.square(y) - y) / 2 + y * y)


def sums_of(nn: Ops, params: Any, x: Any) -> Any:
    return nn.sum(nn.square(params["b"] * x), -1) + nn.mean(nn.square(x - params["b"]), 1)


def lstm_of(nn: Ops, params: Any, x: Any) -> Any:
    return nn.lstm(nn.reshape(nn.linear(x, params["w"]), (8, 128, 64)), params["h"], params["h"], params["v"])[0]


def gru_of(nn: Ops, params: Any, x: Any) -> Any:
    x = nn.reshape(nn.linear(x, params["w"]), (8, 128, 64))
    return nn.gru(x[:, :, :48], params["h"], params["v"][:, :48], params["b"][:48])[0]


@pytest.mark.parametrize(
    ("function", "most"), [(layers_of, 2), (functions_of, 2), (sums_of, 2), (lstm_of, 1), (gru_of, 1)]
)
def test_large_arrays_are_used_again(function: Any, most: int) -> None:
    """`most` arrays as large as the input are new in a gradient: those that numpy makes by itself."""
    table = ParameterTable({"w": (64, 64), "b": (64,), "h": (128, 16), "v": (16, 64)})
    x = np.random.default_rng(0).normal(size=(1024, 64)).astype(np.float32)
    vector = np.random.default_rng(1).normal(size=table.size).astype(np.float32) / 8
    one = NumpyBackend()

    def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        return nn.mean(function(nn, params, x)), {}

    for _ in range(3):
        one.gradient(loss, vector, table)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        one.gradient(loss, vector, table)
        assert tracemalloc.get_traced_memory()[1] - before < (most + 0.9) * x.nbytes
    finally:
        tracemalloc.stop()


def test_tables_made_all_the_time_do_not_pile_up() -> None:
    one = NumpyBackend()
    for _ in range(200):
        table = ParameterTable(TABLE.shapes())
        one.gradient(small_loss, VECTOR, table)
    assert len(one._plans) <= 64


def test_what_a_loss_hands_out_is_never_overwritten() -> None:
    table, vector, _ = network(300, 64)
    x = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    kept: list[Any] = []

    def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        y = nn.linear(x, params["0/weight"], params["0/bias"], "tanh")
        z = nn.linear(y, params["1/weight"], params["1/bias"], "relu")
        kept.append(nn.to_numpy(y))
        kept.append(nn.to_numpy(z)[::7, 1])  # a view
        kept.append(nn.stop_gradient(nn.exp(z)))
        return nn.mean(z * y + nn.exp(z)), {"y": y, "product": z * y}

    one = NumpyBackend()
    copies = []
    for _ in range(5):
        metrics, _ = one.gradient(loss, vector, table)
        kept += metrics.values()
        while len(copies) < len(kept):
            copies.append(kept[len(copies)].copy())
        vector *= np.float32(0.9)
    fresh = NumpyBackend()
    assert LARGE < 300 * 64
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    used, new = one.gradient(loss, vector, table), fresh.gradient(loss, vector, table)
    np.testing.assert_array_equal(used[1], new[1])
    np.testing.assert_array_equal(used[0]["y"], new[0]["y"])


def test_memory_hands_out_only_what_nobody_holds() -> None:
    memory = Memory(np.float32)
    one = memory.room((100, 100))
    view = one[3:]
    address = one.ctypes.data
    memory.give_back(one)  # held by the view
    del one
    assert memory.room((100, 100)).ctypes.data != address
    del view
    two = memory.room((100, 100))
    address = two.ctypes.data
    memory.give_back(two)
    del two
    three = memory.room((100, 100))
    assert three.ctypes.data == address
    memory.keep(three)  # whoever calls keep may still hold it for a while
    assert memory.room((100, 100)).ctypes.data != address


def test_memory_holds_on_to_what_every_round_asks_for() -> None:
    memory = Memory(np.float32)
    array = memory.room((100, 100))
    same = weakref.ref(array)
    for _ in range(200):
        memory.keep(array)
        del array
        memory.end_round()
        array = memory.room((100, 100))
        assert array is same()


def test_memory_keeps_no_more_than_is_asked_for_and_forgets_old_shapes() -> None:
    memory = Memory(np.float32)
    for _ in range(5):
        memory.keep(np.empty((100, 100), np.float32))  # never asked for
    assert not memory._free.get((100, 100))
    held = [memory.room((100, 100)) for _ in range(3)]
    for array in (*held, np.empty((100, 100), np.float32), np.empty((100, 100)), np.empty((100, 100)).T):
        memory.keep(array)
    memory.keep(held[0][:90])
    assert {shape: len(arrays) for shape, arrays in memory._free.items()} == {(100, 100): 3}
    for _ in range(128):
        memory.end_round()
    assert not memory._free


# -- the same bits -------------------------------------------------------------------------------------------------


def test_the_same_inputs_give_the_same_bits_wherever_they_are_in_memory() -> None:
    for rows, width in ((8, 16), (256, 64), (64, 256)):
        table, vector, loss = network(rows, width)
        expected = NumpyBackend().gradient(loss, vector, table)[1].copy()
        used = NumpyBackend()
        for offset in range(17):
            room = np.empty(table.size + 17, np.float32)
            moved = room[offset : offset + table.size]
            moved[...] = vector
            np.testing.assert_array_equal(NumpyBackend().gradient(loss, moved, table)[1], expected)
            np.testing.assert_array_equal(used.gradient(loss, moved, table)[1], expected)


ROWS = """
import numpy as np
from kernel_rllib.nn.blas import set_blas_threads
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.products import ROW_BLOCK
set_blas_threads(1)
nn = NumpyOps(row_block=ROW_BLOCK)
generator = np.random.default_rng(0)
def normal(*shape):
    return generator.normal(size=shape).astype(np.float32)
for inputs in (3, 8, 64, 256):
    for width in (1, 2, 6, 8, 18, 51, 64, 256):
        x, weight, bias = normal(264, inputs), normal(inputs, width), normal(width)
        several, heads = normal(2, inputs, width), normal(2, width)
        gates, state = normal(264, 4 * width), normal(264, width)
        recurrent, other = normal(width, 4 * width), normal(width, 3 * width)
        def outputs(part):
            y = nn.linear(x[part], weight, bias, "tanh")
            return [y, nn.log_softmax(y), nn.softmax(y), nn.logsumexp(y), nn.sum(y, -1), nn.mean(y, -1), nn.max(y, -1),
                    nn.sigmoid(y), nn.softplus(y), nn.elu(y), nn.layer_norm(y), nn.matmul(x[part], weight),
                    *nn.linear(x[part], several, heads),
                    *nn.lstm_cell(gates[part], state[part], state[part], recurrent),
                    nn.gru_cell(gates[part, width:], state[part], other, np.ones(3 * width, np.float32))]
        whole = outputs(slice(None))
        for begin, count in ((0, 8), (0, 1), (3, 1), (5, 3), (8, 8), (16, 16), (24, 40), (8, 256), (256, 8)):
            for k, (found, expected) in enumerate(zip(outputs(slice(begin, begin + count)), whole, strict=True)):
                assert np.array_equal(found, expected[begin : begin + count]), (inputs, width, begin, count, k)
print("the same")
"""


@pytest.mark.parametrize("processor", ["", "Haswell", "Sandybridge"])
def test_with_blocks_of_rows_a_row_has_the_same_bits_among_any_others(processor: str) -> None:
    environment = {**os.environ, "OPENBLAS_CORETYPE": processor} if processor else dict(os.environ)
    found = subprocess.run([sys.executable, "-c", ROWS], capture_output=True, text=True, env=environment, check=False)
    assert found.stdout == "the same\n", found.stderr


def test_another_process_computes_the_same_bits() -> None:
    program = (
        "import hashlib, numpy as np\n"
        "from kernel_rllib.nn.blas import set_blas_threads\n"
        "from kernel_rllib.nn.numpy_backend import NumpyBackend\n"
        "from kernel_rllib.nn.parameters import ParameterTable\n"
        "set_blas_threads(1)\n"
        "table = ParameterTable({'a': (8, 64), 'b': (64, 64), 'c': (64, 3)})\n"
        "generator = np.random.default_rng(0)\n"
        "vector, x = generator.normal(size=table.size).astype('f4') / 8, generator.normal(size=(256, 8)).astype('f4')\n"
        "def loss(nn, p):\n"
        "    y = nn.linear(nn.linear(nn.linear(x, p['a'], None, 'tanh'), p['b'], None, 'relu'), p['c'])\n"
        "    return nn.mean(nn.log_softmax(y)), {}\n"
        "one = NumpyBackend()\n"
        "for _ in range(20):\n"
        "    vector -= 0.1 * one.gradient(loss, vector, table)[1]\n"
        "print(hashlib.sha1(vector.tobytes()).hexdigest())\n"
    )
    found = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
             for _ in range(2)}  # fmt: skip
    assert len(found) == 1


def test_threads_of_blas_are_as_before_after_a_with() -> None:
    from threadpoolctl import ThreadpoolController

    def threads() -> list[int]:
        return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]

    with blas_threads(2):
        before = threads()
        with blas_threads(1):
            assert set(threads()) == {1}
        assert threads() == before
        with pytest.raises(RuntimeError), blas_threads(1):
            raise RuntimeError
        assert threads() == before

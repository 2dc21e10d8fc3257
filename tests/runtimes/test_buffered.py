"""Calls through buffers give what the session gives, to the bit, and nobody's array is anybody else's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphaudit.runtimes.buffered import BufferedSession
from graphaudit.runtimes.onnxruntime import RuntimeRefused, session
from tests.runtimes.test_onnxruntime import model

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHTS = numpy_helper.from_array(np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32), "w")


def linear():
    """Two results of a linear layer: its values, and the best of each row."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["best"], axis=-1, keepdims=0),
    ]
    return session(model(nodes, [("x", FLOAT, ["n", 5])], [("y", FLOAT, ["n", 3]), ("best", INT64, ["n"])], [WEIGHTS]))


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 5), dtype=np.float32)


def same(got, wanted) -> bool:
    return all(g.dtype == w.dtype and np.array_equal(g, w) for g, w in zip(got, wanted, strict=True))


@pytest.mark.parametrize("count", [1, 7, 64])
def test_the_same_bits_as_the_session(count):
    opened = linear()
    buffered = BufferedSession(opened, sized=True)
    for seed in range(4):
        x = rows(count, seed)
        assert same(buffered.run([x]), opened.run(None, {"x": x}))
    assert len(buffered._buffers) == 1, "the second call and those after it went through buffers"


def test_arrays_of_any_layout():
    opened = linear()
    x = np.asfortranarray(rows(6))[::2]
    buffered = BufferedSession(opened, sized=True)
    for _ in range(2):
        assert same(buffered.run([x]), opened.run(None, {"x": x.copy()}))


def test_results_stay_what_they_were():
    buffered = BufferedSession(linear(), sized=True)
    first = [buffered.run([rows(2, seed)]) for seed in range(3)]
    kept = [[array.copy() for array in results] for results in first]
    buffered.run([rows(2, 9)])
    assert all(same(results, copies) for results, copies in zip(first, kept))


def test_an_argument_may_be_written_to_after_the_call():
    buffered = BufferedSession(linear(), sized=True)
    x = rows(2)
    buffered.run([x])
    wanted = buffered.run([x])
    x[:] = 0
    assert same(wanted, buffered.run([rows(2)]))


def test_more_sizes_than_buffers_and_large_arrays_go_without():
    opened = linear()
    buffered = BufferedSession(opened, sized=True)
    for count in (*range(1, 12), 5000, 0, *range(1, 12), 5000, 0):
        assert same(buffered.run([rows(count)]), opened.run(None, {"x": rows(count)}))
    assert len(buffered._buffers) == 8


def test_results_whose_size_depends_on_data_go_without():
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    buffered = BufferedSession(session(model(nodes, [("x", FLOAT, [3])], [("y", INT64, [1, None])])), sized=False)
    for x in ([0, 1, 2], [0, 0, 0], [1, 1, 1]):
        (got,) = buffered.run([np.array(x, np.float32)])
        assert got.tolist() == [[i for i, value in enumerate(x) if value]]


def test_threads_do_not_see_each_other_s_numbers():
    opened = linear()
    buffered = BufferedSession(opened, sized=True)
    buffered.run([rows(4)])

    def one(seed: int) -> bool:
        x = rows(4, seed)
        wanted = opened.run(None, {"x": x})
        return all(same(buffered.run([x]), wanted) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(8)))


def test_an_error_of_the_runtime_is_said_and_the_next_call_runs():
    nodes = [helper.make_node("Gather", ["w", "i"], ["y"])]
    opened = session(model(nodes, [("i", INT64, [1])], [("y", FLOAT, [1, 3])], [WEIGHTS]))
    buffered = BufferedSession(opened, sized=True)
    for _ in range(2):
        (good,) = buffered.run([np.array([4])])
        assert np.array_equal(good, onnx.numpy_helper.to_array(WEIGHTS)[4:])
        with pytest.raises(RuntimeRefused, match="out of data bounds"):
            buffered.run([np.array([5])])

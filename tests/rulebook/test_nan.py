"""What the rulebook says of NaN in ONNX Runtime, against sessions."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from graphaudit.rulebook import load_rulebook

KEPT = load_rulebook("onnxruntime").target.keeps_nan
INPUTS = {"Clip": ("x", "zero", "three"), "Max": ("x", "zero"), "Min": ("zero", "x")}
AXES = {"ReduceMax": {"keepdims": 0}, "ReduceMin": {"keepdims": 0}, "ArgMax": {"axis": -1}, "ArgMin": {"axis": -1}}


def run(operator: str, x: np.ndarray) -> np.ndarray:
    """One node of opset 18 on one input."""
    names = (*INPUTS.get(operator, ("x",)), *(["axis"] if operator.startswith("Reduce") else []))
    constants = {"zero": x.dtype.type(0), "three": x.dtype.type(3), "axis": np.array([-1])}
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items() if n in names]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **AXES.get(operator, {}))],
        "one_node",
        [helper.make_tensor_value_info("x", dtype, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def rows(dtype: type, width: int) -> np.ndarray:
    """Each place of a row once NaN, and a row without."""
    x = np.tile(np.arange(width, dtype=dtype), (width + 1, 1))
    x[np.arange(width), np.arange(width)] = np.nan
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("operator", KEPT)
def test_what_is_kept(operator, dtype):
    for width in (1, 3, 8, 17, 64):
        x = rows(dtype, width)
        assert np.array_equal(np.isnan(run(operator, x)), np.isnan(x))


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ArgMax", "ArgMin"])
def test_what_is_lost(operator):
    assert operator not in KEPT
    x = rows(np.float32, 17)
    found = run(operator, x)
    kept = np.isnan(found) if operator.startswith("Reduce") else found.ravel() == np.r_[np.arange(17), -1]
    assert not kept[:17].all()


def test_every_name_is_an_operator():
    assert all(onnx.defs.has(name) for name in KEPT)

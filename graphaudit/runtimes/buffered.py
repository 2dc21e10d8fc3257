"""Calls of an ONNX Runtime session through buffers that stay bound to it. Imports no torch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from graphaudit.runtimes.onnxruntime import RuntimeRefused, reason, run_session

Array = NDArray[Any]

_BYTES = 2**15  # of inputs and outputs together: beyond it, copying costs more than finding the buffers
_SIZES_KEPT = 8


class BufferedSession:
    """A session that is called again and again with arrays of few sizes.

    Of the time of a small model's call, a third goes into the wrapping of arrays and the look-up of names. From the
    second call of the same sizes on, inputs are copied into buffers that are bound to the session, and outputs out of
    such buffers: results are the caller's own, as from the session itself, and equal to its bit for bit.

    `sized`: the sizes of the outputs follow from those of the inputs. Threads may call at the same time.
    """

    def __init__(self, opened: ort.InferenceSession, sized: bool) -> None:
        self._session = opened
        self._run = opened.run_with_iobinding
        self._names = [value.name for value in opened.get_inputs()]
        self._outputs = [value.name for value in opened.get_outputs()]
        self._sized = sized
        self._buffers: dict[tuple[Any, ...], _Buffers] = {}

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """All outputs from all inputs, in the model's order and dtypes. Raises RuntimeRefused."""
        key = tuple([array.shape for array in arrays])
        buffers = self._buffers.get(key)
        if buffers is not None and buffers.free.acquire(False):
            try:
                for buffer, array in zip(buffers.inputs, arrays):
                    buffer[...] = array
                self._run(buffers.binding)
                return [buffer.copy() for buffer in buffers.outputs]
            except Exception as error:  # ONNX Runtime's exceptions have no base of their own
                raise RuntimeRefused(reason(error)) from error
            finally:
                buffers.free.release()
        results = run_session(self._session, dict(zip(self._names, map(_row_major, arrays))), self._outputs)
        if buffers is None and self._sized and _are_small([*arrays, *results]) and len(self._buffers) < _SIZES_KEPT:
            self._buffers[key] = _Buffers(self._session, arrays, results)
        return results


class _Buffers:
    """Memory for a call of one size, bound to the session. `free` is held while a thread uses it."""

    def __init__(self, opened: ort.InferenceSession, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.free = threading.Lock()
        self.binding = opened.io_binding()
        self.inputs = [np.empty(array.shape, array.dtype) for array in inputs]
        self.outputs = [np.empty(array.shape, array.dtype) for array in outputs]
        for value, buffer in zip(opened.get_inputs(), self.inputs):
            self.binding.bind_ortvalue_input(value.name, ort.OrtValue.ortvalue_from_numpy(buffer))
        for value, buffer in zip(opened.get_outputs(), self.outputs):
            self.binding.bind_ortvalue_output(value.name, ort.OrtValue.ortvalue_from_numpy(buffer))


def _row_major(array: Array) -> Array:
    return array if array.flags.c_contiguous else array.copy()


def _are_small(arrays: Sequence[Array]) -> bool:
    """Whether the arrays fit into buffers: few bytes, none of them empty, numbers all."""
    return sum(a.nbytes for a in arrays) <= _BYTES and all(a.size and a.dtype.kind in "biuf" for a in arrays)

"""Recurrent layers that the target would not run as written become their cells, one step after the other.

    gru(x, h)       →  r, z = sigmoid(W x + U h + b); n = tanh(W x + b + r * (U h + b)); h = n + z * (h - n)
    lstm(x, h, c)   →  i, f, o = sigmoid(W x + U h + b); g = tanh(W x + U h + b); c = f * c + i * g; h = o * tanh(c),
                       and with a projection h = P (o * tanh(c))
    rnn(x, h)       →  h = tanh(W x + U h + b), or with relu

- The layer is rewritten where the rulebook of the target refuses the ONNX operator that it becomes, or names a hazard:
  the target runs it and may compute something else (ATC's parser of GRU never reads linear_before_reset, which torch
  needs).
- So is every layer in float64: ONNX Runtime lists float64 for GRU and LSTM, and stops when it runs them. So is every
  LSTM with a projection, which ONNX's LSTM does not have (torch writes one that does not load).
- The number of steps is known and at most 64. Several layers, both directions and batch_first are taken.
- Left alone: layers that the target takes, packed sequences, and dropout in training mode.

The results differ by rounding.

Source: the formulas of torch.nn.GRU, torch.nn.LSTM and torch.nn.RNN, https://docs.pytorch.org/docs/stable/nn.html.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import Node, Value
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, shape
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook.target import Target

_MOST_STEPS = 64  # each step is some ten nodes in every layer and direction
_ONNX = {"gru": "GRU", "lstm": "LSTM", "rnn_tanh": "RNN", "rnn_relu": "RNN"}

State = tuple[Tensor, ...]
# W x + b of one step, the state, U, its bias, P
Cell = Callable[[Tensor, State, Tensor, "Tensor | None", "Tensor | None"], State]


class DecomposeRecurrentLayers(OperatorPass):
    """gru, lstm and rnn → the steps of their cells."""

    name = "decompose_recurrent_layers"
    fixes = ("unsupported-op", "limited-op", "float64")
    target_ops = frozenset(f"aten.{name}" for name in _ONNX)
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The steps, where the target does not run the layer as it is and their number is known."""
        operator = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
        if node.target._schema.overload_name != "input":  # type: ignore[union-attr]
            return "its sequence is packed"
        source: fx.Node = argument(node, "input")
        projected = operator == "lstm" and shape(argument(node, "hx")[0])[-1] != shape(argument(node, "hx")[1])[-1]
        wide = source.meta["val"].dtype == torch.float64
        if not wide and not projected and not _is_refused(operator, source, target):
            return f"{target.name} takes {_ONNX[operator]}"
        steps = shape(source)[1 if argument(node, "batch_first") else 0]
        if not isinstance(steps, int):
            return "the number of steps varies"
        if steps > _MOST_STEPS:
            return f"it runs over {steps} steps; written out are those up to {_MOST_STEPS}"
        if argument(node, "train") and argument(node, "dropout"):
            return "its dropout is active"
        return partial(_run, _CELLS[operator])


def _is_refused(operator: str, source: fx.Node, target: Target) -> bool:
    """Whether the target does not run the ONNX operator, or may compute something else."""
    dtype = str(source.meta["val"].dtype).removeprefix("torch.")
    states = 2 if operator == "lstm" else 1
    inputs = [Value(f"input_{i}", dtype, (1, 1, 1)[: 3 if i != 3 else 2]) for i in range(4)]
    initial = [Value(f"state_{i}", dtype, (1, 1, 1)) for i in range(states)]
    outputs = [Value(f"output_{i}", dtype) for i in range(1 + states)]
    attributes = {"hidden_size": 1, "direction": "forward"} | ({"linear_before_reset": 1} if operator == "gru" else {})
    node = Node("layer", _ONNX[operator], "", (*inputs, None, *initial), tuple(outputs), attributes, None, target.opset)
    answer = load_rulebook(target.name).answer(node)
    return answer.support is Support.UNSUPPORTED or bool(answer.hazards)


def _run(
    cell: Cell,
    x: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,  # noqa: ARG001
    train: bool,  # noqa: ARG001
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """All layers and directions, with the signature of aten.gru.input; the outputs, then the last states."""
    initial = (hx,) if isinstance(hx, Tensor) else tuple(hx)
    values = x.transpose(0, 1) if batch_first else x
    given = iter(params)
    width = len(params) // (num_layers * (2 if bidirectional else 1))
    last: list[State] = []
    for _ in range(num_layers):
        outputs = []
        for backwards in (False, True) if bidirectional else (False,):
            w, u, *others = [next(given) for _ in range(width)]
            b, c = others[:2] if has_biases else (None, None)
            projection = others[-1] if len(others) % 2 else None
            state = tuple(h[len(last)] for h in initial)
            steps, state = _run_layer(cell, F.linear(values, w, b), state, (u, c, projection), backwards)
            outputs.append(steps)
            last.append(state)
        values = torch.cat(outputs, -1) if bidirectional else outputs[0]
    result = values.transpose(0, 1) if batch_first else values
    return (result, *(torch.stack(states) for states in zip(*last)))


def _run_layer(
    cell: Cell, x: Tensor, state: State, weights: tuple[Tensor, Tensor | None, Tensor | None], backwards: bool
) -> tuple[Tensor, State]:
    steps = list(x.unbind(0))
    hidden: list[Tensor] = []
    for step in reversed(steps) if backwards else steps:
        state = cell(step, state, *weights)
        hidden.append(state[0])
    return torch.stack(hidden[::-1] if backwards else hidden), state


def _gru(step: Tensor, state: State, u: Tensor, bias: Tensor | None, p: Tensor | None) -> State:  # noqa: ARG001
    (h,) = state
    xr, xz, xn = step.chunk(3, -1)
    hr, hz, hn = F.linear(h, u, bias).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)
    return (n + z * (h - n),)


def _lstm(step: Tensor, state: State, u: Tensor, bias: Tensor | None, p: Tensor | None) -> State:
    h, c = state
    i, f, g, o = (step + F.linear(h, u, bias)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (h if p is None else F.linear(h, p)), c


def _rnn(
    activation: Callable[[Tensor], Tensor],
    step: Tensor,
    state: State,
    u: Tensor,
    bias: Tensor | None,
    p: Tensor | None,  # noqa: ARG001
) -> State:
    return (activation(step + F.linear(state[0], u, bias)),)


_CELLS: dict[str, Cell] = {
    "gru": _gru,
    "lstm": _lstm,
    "rnn_tanh": partial(_rnn, torch.tanh),
    "rnn_relu": partial(_rnn, torch.relu),
}

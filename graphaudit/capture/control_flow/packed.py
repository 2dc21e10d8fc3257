"""Packed sequences stay padded: recurrent layers run over all steps, and what lies behind a row's length has no effect.

    pack_padded_sequence(x, lengths)   the padded x, zero behind each row's length, with the lengths
    lstm, gru, rnn of it               outputs zero behind the length; the last state is that of step length - 1
    backwards                          forwards over each row reversed within its length
    pad_packed_sequence                the padded tensor, cut at the longest row unless total_length says otherwise

An LSTM's cell state has no outputs for its steps. It is held behind a row's length instead: one more input feature, 1
there and 0 elsewhere, opens the forget gate and closes the input gate, so that c = 1 · c + 0 · g.

Source: torch/nn/utils/rnn.py; the formulas of torch.nn.LSTM, https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

from graphaudit.capture.control_flow.errors import raises
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused

_LAYERS = (nn.RNN, nn.LSTM, nn.GRU)
_RUN: dict[str, Callable[..., Any]] = {
    "LSTM": torch.lstm,
    "GRU": torch.gru,
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
}
_HOLD = 1e4  # sigmoid(±1e4) is 1 and 0 in float64; float16 holds the number, too


@dataclass(frozen=True, eq=False)
class Packed:
    """What stands for a PackedSequence: `padded` is (steps, rows, …), zero behind `lengths`, (rows,) int64."""

    padded: Tensor
    lengths: Tensor

    @property
    def valid(self) -> Tensor:
        """Which steps lie within their row's length: (steps, rows), bool."""
        return torch.arange(self.padded.shape[0]).unsqueeze(1) < self.lengths

    def with_values(self, padded: Tensor) -> Packed:
        """Other values in the same layout, set to zero behind each row's length."""
        return Packed(_where(self.valid, padded, 0), self.lengths)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refusal(f"{name} of a packed sequence is read")

    def __getitem__(self, key: Any) -> NoReturn:
        raise _refusal("a packed sequence is indexed")

    def __iter__(self) -> NoReturn:
        raise _refusal("a packed sequence is taken apart")


def twin_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What runs in place of a function that packs, or of one that takes what was packed."""
    if function in _FUNCTIONS:
        return _FUNCTIONS[function]
    given = [*args, *kwargs.values()]
    if not given or not isinstance(given[0], Packed):
        return None
    if function is isinstance:
        return lambda _, kinds: issubclass(rnn.PackedSequence, kinds)
    method = function if isinstance(function, MethodType) else getattr(function, "forward", None)
    layer, own = getattr(method, "__self__", None), getattr(method, "__func__", None)
    if isinstance(layer, _LAYERS) and own in [kind.forward for kind in _LAYERS]:
        return lambda *given, **named: _run(layer, *given, **named)
    return None


def _pack_padded(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Packed:
    from graphaudit.capture.control_flow.conversions import call_with_numbers, has_data

    steps = input.transpose(0, 1) if batch_first else input
    varies = has_data(lengths)
    lengths = call_with_numbers(torch.as_tensor, (lengths,), {}).to(torch.int64)
    if varies:
        wrong = torch.logical_or(lengths < 1, lengths > steps.shape[0]).any()
        if enforce_sorted and lengths.shape[0] != 1:
            wrong = torch.logical_or(wrong, (lengths[1:] > lengths[:-1]).any())
        raises(Number.of(wrong), "RuntimeError")
    return Packed(steps, lengths).with_values(steps)


def _pack(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> Packed:
    lengths = [sequence.shape[0] for sequence in sequences]
    return _pack_padded(rnn.pad_sequence(list(sequences)), lengths, False, enforce_sorted)


def _pad(
    sequence: Packed, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    values, longest = sequence.padded, sequence.lengths.max()
    steps = values.shape[0]
    if total_length is None:
        here = torch.arange(steps) < longest
        values = _where(sequence.valid, values, padding_value)[here]
    else:
        raises(Number.of(longest > total_length), "ValueError")
        step = torch.arange(total_length)
        if str(total_length) != str(steps):  # both may be sizes that vary
            values = values.index_select(0, torch.clamp(step, max=steps - 1))
        values = _where(step.unsqueeze(1) < sequence.lengths, values, padding_value)
    return values.transpose(0, 1) if batch_first else values, sequence.lengths


def _unpack(sequence: Packed) -> NoReturn:  # noqa: ARG001
    raise _refusal("a packed sequence becomes tensors of one length each")


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    rnn.pack_padded_sequence: _pack_padded,
    rnn.pack_sequence: _pack,
    rnn.pad_packed_sequence: _pad,
    rnn.unpack_sequence: _unpack,
}


def _run(layer: nn.RNNBase, input: Packed, hx: Any = None) -> tuple[Packed, Any]:
    """All layers and directions. `hx` is (layers · directions, rows, hidden), for an LSTM two of these."""
    if layer._forward_pre_hooks or layer._forward_hooks:
        raise _refusal("a layer with hooks runs over a packed sequence")
    if layer.training and layer.dropout:
        raise _refusal("a layer whose dropout is active runs over a packed sequence")
    directions = 2 if layer.bidirectional else 1
    states = _initial(layer, input) if hx is None else (hx,) if isinstance(hx, Tensor) else tuple(hx)
    last: list[tuple[Tensor, ...]] = []
    sequence = input
    for _ in range(layer.num_layers):
        outputs = []
        for backwards in (False, True)[:directions]:
            weights = [getattr(layer, name) for name in layer._all_weights[len(last)]]
            state = tuple(s[len(last) : len(last) + 1] for s in states)
            output, state = _run_one(layer, sequence, state, weights, backwards)
            outputs.append(output)
            last.append(state)
        sequence = sequence.with_values(torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0])
    final = tuple(torch.cat(parts) for parts in zip(*last, strict=True))
    return sequence, final if len(final) > 1 else final[0]


def _initial(layer: nn.RNNBase, input: Packed) -> tuple[Tensor, ...]:
    widths = (layer.proj_size or layer.hidden_size, layer.hidden_size)[: 2 if layer.mode == "LSTM" else 1]
    many = layer.num_layers * (2 if layer.bidirectional else 1)
    return tuple(input.padded.new_zeros((many, input.padded.shape[1], width)) for width in widths)


def _run_one(
    layer: nn.RNNBase, sequence: Packed, state: tuple[Tensor, ...], weights: list[Tensor], backwards: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One layer in one direction: outputs (steps, rows, hidden), last states (1, rows, hidden)."""
    values = _reversed(sequence, sequence.padded) if backwards else sequence.padded
    if layer.mode == "LSTM":
        behind = torch.logical_not(sequence.valid).unsqueeze(-1).to(values.dtype)
        values = torch.cat([values, behind], -1)
        weights = [_holding(weights[0], layer.hidden_size), *weights[1:]]
    given = state if layer.mode == "LSTM" else state[0]
    outputs, _, *cells = _RUN[layer.mode](values, given, weights, layer.bias, 1, 0.0, False, False, False)
    at_end = torch.clamp(sequence.lengths - 1, 0, values.shape[0] - 1).reshape(1, -1, 1)
    hidden = outputs.gather(0, at_end.expand(1, -1, outputs.shape[-1]))
    return _reversed(sequence, outputs) if backwards else outputs, (hidden, *cells)


def _holding(weight: Tensor, hidden: int) -> Tensor:
    """The input weights of an LSTM, its gates in the order i, f, g, o, with the column of the feature that holds c."""
    column = [weight.new_full((hidden, 1), value) for value in (-_HOLD, _HOLD, 0.0, 0.0)]
    return torch.cat([weight, torch.cat(column)], 1)


def _reversed(sequence: Packed, values: Tensor) -> Tensor:
    """Each row's steps in reverse, within its length."""
    step = torch.arange(values.shape[0]).unsqueeze(1)
    source = torch.where(sequence.valid, sequence.lengths - 1 - step, step)
    source = torch.clamp(source, 0, values.shape[0] - 1)  # lengths that torch refuses are a guard's
    return values.gather(0, source.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def _where(valid: Tensor, values: Tensor, other: float) -> Tensor:
    return torch.where(valid.reshape(*valid.shape, *(1,) * (values.dim() - 2)), values, other)


def _refusal(reason: str) -> Refused:
    return Refused(f"{reason}, whose layout depends on the values of lengths", "packed-sequence")

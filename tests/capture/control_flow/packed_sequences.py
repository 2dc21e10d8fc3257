"""Policies over packed sequences, called with x (3, 5, 4) and lengths (3,); those that are refused are marked."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils import rnn


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.gru = nn.GRU(4, 6, num_layers=2, batch_first=True)
        self.rnn = nn.RNN(4, 6)
        self.both = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.both_gru = nn.GRU(4, 5, bidirectional=True, bias=False)
        self.projected = nn.LSTM(4, 6, proj_size=3)
        self.head = nn.Linear(6, 2)
        for parameter in self.parameters():  # layers whose states differ visibly from step to step
            nn.init.normal_(parameter, std=0.8)


def last_state(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    _, (h, _) = self.lstm(packed)
    return self.head(h[-1])


def cell_state(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return self.lstm(packed)[1]


def initial_state(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    h = x[:, 0, :1].expand(1, -1, 6).contiguous()
    return self.lstm(packed, (h, h * 2))[1]


def several_layers(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths.tolist(), batch_first=True, enforce_sorted=False)
    outputs, h = self.gru(packed)
    padded, kept = rnn.pad_packed_sequence(outputs, batch_first=True, total_length=5)
    return padded, h, kept


def both_directions(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, (h, c) = self.both(packed)
    return rnn.pad_packed_sequence(outputs, batch_first=True, total_length=7, padding_value=-1.0)[0], h, c


def both_directions_with_state(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False)
    outputs, h = self.both_gru(packed, x[:, :1, :1].transpose(0, 1).expand(2, 3, 5).contiguous())
    return rnn.pad_packed_sequence(outputs, total_length=5)[0], h


def averaged_outputs(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False)
    outputs, h = self.rnn(packed)
    padded, kept = rnn.pad_packed_sequence(outputs)
    return padded.sum(0) / kept.unsqueeze(-1), h


def sorted_by_the_policy(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    ordered, order = lengths.sort(descending=True)
    packed = rnn.pack_padded_sequence(x[order], ordered, batch_first=True)
    _, (h, _) = self.lstm(packed)
    return h[-1][order.argsort()]


def projected_state(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False)
    outputs, state = self.projected(packed)
    return rnn.pad_packed_sequence(outputs, total_length=5)[0], state


def padded_again(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    assert isinstance(packed, rnn.PackedSequence)
    return rnn.pad_packed_sequence(packed, batch_first=True, padding_value=2.0, total_length=5)


def sequences_of_fixed_lengths(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    x = x.nan_to_num()
    packed = rnn.pack_sequence([x[0], x[1, :3], x[2, :2]])
    return self.rnn(packed)[1] + lengths.sum()


def longest_row(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


def values_read(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return packed.data  # refused: data of a packed sequence is read


def taken_apart(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    values, *_ = packed  # refused: taken apart
    return values


def unpacked(self: Layers, x: Tensor, lengths: Tensor) -> Any:
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return rnn.unpack_sequence(packed)[0]  # refused: one length each


FIXED = (
    last_state,
    cell_state,
    initial_state,
    several_layers,
    both_directions,
    both_directions_with_state,
    averaged_outputs,
    sorted_by_the_policy,
    projected_state,
    padded_again,
    sequences_of_fixed_lengths,
    longest_row,
)
REFUSED = (values_read, taken_apart, unpacked)

"""Masked passes against ONNX `Loop` in ONNX Runtime, one thread: from which bound on is the loop faster?

    python benchmarks/loops_vs_masks.py

Both forms of the same loop are called in turns, so that whatever else the machine does falls on both; the medians of
microseconds per call are shown. Masks always take as many passes as the bound says, a loop as many as the input wants.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import onnxruntime
import torch
from torch import nn

from graphaudit.capture import capture
from graphaudit.control_flow import ControlFlow
from graphaudit.export.translate import to_onnx
from graphaudit.policy import Policy
from graphaudit.rulebook import load_rulebook

BOUNDS = (2, 4, 8, 16, 32)
CALLS = 400


class Repeats(nn.Module):
    """A body that runs as often as the second input says."""

    def __init__(self, body: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        for _ in range(int(count)):
            x = self.body(x)
        return x


class Halving(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.norm() > 1, x * 0.5, x + 0.1)


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x, x)


BODIES: dict[str, tuple[type[nn.Module] | Callable[[], nn.Module], int]] = {
    "4 small operators": (Halving, 12),
    "GRU cell, 64 wide": (Cell, 64),
    "MLP, 256-256-256": (lambda: nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()), 256),
}


def session(module: nn.Module, width: int, bound: int, form: ControlFlow) -> onnxruntime.InferenceSession:
    """The policy in ONNX Runtime, its loop in the given form."""
    policy = Policy("loop", module, (torch.ones(1, width), torch.tensor(1)), loop_bounds=(bound,))
    program = capture(policy, look_for_frozen=False, control_flow=form).program
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = to_onnx(program, load_rulebook("onnxruntime").target)
    return onnxruntime.InferenceSession(model.proto.SerializeToString(), options, ["CPUExecutionProvider"])


def medians(sessions: list[onnxruntime.InferenceSession], width: int, count: int) -> list[float]:
    """Microseconds per call of each session, called in turns."""
    feeds = [
        dict(zip([i.name for i in s.get_inputs()], (torch.ones(1, width).numpy(), torch.tensor(count).numpy())))
        for s in sessions
    ]
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(CALLS):
        for taken, runtime, feed in zip(times, sessions, feeds):
            begun = time.perf_counter()
            runtime.run(None, feed)
            taken.append(time.perf_counter() - begun)
    return [statistics.median(taken[CALLS // 10 :]) * 1e6 for taken in times]


def main() -> None:
    """Print one row for each body and bound."""
    torch.set_num_threads(1)
    print(f"ONNX Runtime {onnxruntime.__version__}, one thread, µs per call (median of {CALLS}, in turns)")
    print(f"{'body':<20}{'bound':>6}{'masks':>9}{'loop, all passes':>18}{'half':>9}{'one':>9}{'none':>9}")
    for name, (make, width) in BODIES.items():
        torch.manual_seed(0)
        module = Repeats(make()).eval()
        for bound in BOUNDS:
            forms = [session(module, width, bound, form) for form in (ControlFlow.MASKS, ControlFlow.NATIVE)]
            pairs = [medians(forms, width, count) for count in (bound, bound // 2, 1, 0)]
            masks = statistics.median(pair[0] for pair in pairs)
            print(
                f"{name:<20}{bound:>6}{masks:>9.1f}{pairs[0][1]:>18.1f}" + "".join(f"{p[1]:>9.1f}" for p in pairs[1:])
            )


if __name__ == "__main__":
    main()

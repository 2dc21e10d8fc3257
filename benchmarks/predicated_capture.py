"""What looking for control flow costs a policy that has none: predicated capture against plain torch.export.

Both are timed in one run, in turns, in processor time; the figure is the median over policies of the ratio of medians.

    python -m benchmarks.predicated_capture
"""

from __future__ import annotations

import statistics
import time

import torch

from graphaudit.capture.calls import example_call
from graphaudit.capture.frontend import _FRONT_ENDS, _export
from graphaudit.policy import Policy
from tests.capture.control_flow.test_overhead import POLICIES

_TURNS = 9


def seconds(policy: Policy) -> tuple[float, float]:
    """The median of each way, in seconds of processor time."""
    plain, *_, masked = _FRONT_ENDS
    call = example_call(policy)
    times: dict[str, list[float]] = {plain.method: [], masked.method: []}
    for turn in range(_TURNS + 1):
        for front_end in (plain, masked):
            begun = time.process_time()
            _export(policy, call, seed=0, front_end=front_end)
            if turn:  # the first warms both up
                times[front_end.method].append(time.process_time() - begun)
    return statistics.median(times[plain.method]), statistics.median(times[masked.method])


def main() -> None:
    """Print a line for each policy, and the median."""
    torch.set_num_threads(1)
    ratios = []
    for policy in POLICIES:
        plain, masked = seconds(policy)
        ratios.append(masked / plain)
        print(f"{policy.name:12} plain {plain * 1e3:6.1f} ms, predicated {masked * 1e3:6.1f} ms, x{masked / plain:.2f}")
    print(f"median x{statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()

"""`graphaudit --help` against a Python that does nothing.

    python benchmarks/startup.py [TIMES]

Prints the median wall clock of each in fresh processes, and whether torch was imported (it must not be).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT = 0.5  # seconds
BARE = [sys.executable, "-c", "pass"]
HELP = [sys.executable, "-m", "graphaudit", "--help"]


def main() -> int:
    """The exit status: 0 if help answers within LIMIT and without torch."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    _seconds(HELP)  # compiled bytecode is written, files are cached
    bare = statistics.median(_seconds(BARE) for _ in range(times))
    help_ = statistics.median(_seconds(HELP) for _ in range(times))
    imports_torch = _imports_torch()
    print(f"python -c pass      {bare:.3f} s")
    print(f"graphaudit --help   {help_:.3f} s (at most {LIMIT}), torch {'IS' if imports_torch else 'not'} imported")
    return int(help_ > LIMIT or imports_torch)


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _imports_torch() -> bool:
    importtime = [sys.executable, "-X", "importtime", *HELP[1:]]
    done = subprocess.run(importtime, capture_output=True, text=True, check=True)
    return any(line.rpartition("|")[2].strip() == "torch" for line in done.stderr.splitlines())


if __name__ == "__main__":
    sys.exit(main())

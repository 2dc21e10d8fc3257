"""The table and the plot from what `zoo_speed.py` measured.

    python benchmarks/zoo_report.py ROWS.jsonl …

Lines for the same policy and batch are put together. Writes docs/zoo_speed.svg, and the part of
docs/zoo_speed.md between its two markers; the text around it is written by hand.
"""

from __future__ import annotations

import json
import statistics
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKERS = "<!-- measured -->", "<!-- end -->"
EAGER_GOAL, STOCK_GOAL = 1.6, 1.2
Row = dict[str, Any]


def main() -> int:
    """Write both files."""
    merged: dict[tuple[str, int], Row] = {}
    for file in sys.argv[1:]:
        for line in Path(file).read_text().splitlines():
            row = json.loads(line)
            merged.setdefault((row["policy"], row["batch"]), {}).update(row)
    rows = [merged[key] for key in sorted(merged)]
    page = DOCS / "zoo_speed.md"
    head, rest = page.read_text().split(MARKERS[0])
    tail = rest.split(MARKERS[1])[1]
    measured = f"{conditions()}\n\n{summary(rows)}\n\n{table(rows)}"
    page.write_text(f"{head}{MARKERS[0]}\n{measured}\n{MARKERS[1]}{tail}")
    plot(rows, DOCS / "zoo_speed.svg")
    return 0


def conditions() -> str:
    """When the last of the files was written, and with which versions."""
    day = max(date.fromtimestamp(Path(file).stat().st_mtime) for file in sys.argv[1:])
    return f"Measured on {day} with torch {version('torch')} and ONNX Runtime {version('onnxruntime')}."


def summary(rows: list[Row]) -> str:
    """Which lines of the goal hold."""
    measured = [r for r in rows if "ratio" in r]
    noise = sorted(abs(r["ratio"]["control"] - 1) for r in measured)[int(0.95 * len(measured))]
    eager = [r["ratio"]["eager"] for r in measured]
    right = [r for r in measured if "stock" in r["ratio"] and not r["stock_differs"]]
    stock = [r["ratio"]["stock"] for r in right]
    short = [r for r in measured if r["ratio"]["eager"] < EAGER_GOAL]
    slower = [r for r in right if r["ratio"]["stock"] < 1 - noise]
    failed = {r["policy"] for r in rows if "stock_failed" in r}
    wrong = {r["policy"] for r in measured if r.get("stock_differs")}
    lines = [f"- Noise: in 95 % of {len(measured)} measurements the control is within {noise:.1%} of 1."]
    lines.append(
        f"- At least {EAGER_GOAL} times as fast as eager: {len(eager) - len(short)} of {len(eager)}; the median is "
        f"{statistics.median(eager):.1f}, the least {min(eager):.2f}.{_listed(short, 'eager')}"
    )
    lines.append(
        f"- Never slower than stock beyond the noise: {len(right) - len(slower)} of {len(right)} with a stock model "
        f"that agrees with eager.{_listed(slower, 'stock')}"
    )
    lines.append(
        f"- At least {STOCK_GOAL} times as fast as stock in the median: the median is {statistics.median(stock):.2f}, "
        f"from {min(stock):.2f} to {max(stock):.2f}."
    )
    lines.append(
        f"- The stock exporter gives no model for {len(failed)} policies, and for {len(wrong)} one that does not give "
        "eager's results; those are no part of the comparison with stock."
    )
    lines += _calls(measured, right)
    peaks = [r["memory"] for r in rows if "stock" in r.get("memory", {})]
    if peaks:
        medians = {k: statistics.median(p[k] for p in peaks) for k in ("eager", "stock", "ours")}
        text = ", ".join(f"{name} {value:.0f} MiB" for name, value in medians.items())
        lines.append(f"- Peak memory of the process, median over {len(peaks)} policies: {text}.")
    return "\n".join(lines)


def _calls(measured: list[Row], right: list[Row]) -> list[str]:
    """The call that a user makes, `graphaudit.load(DIR)(…)`: against eager, and against stock's `run(None, feeds)`."""
    lines = []
    for kind, given in (("call", "NumPy arrays"), ("call_torch", "torch tensors")):
        ratios = [r["ratio"]["eager"] / r["ratio"][kind] for r in measured]
        slower = [r for r, ratio in zip(measured, ratios, strict=True) if ratio < 1]
        names = ", ".join(f"`{r['policy']}` at {r['batch']}" for r in slower)
        lines.append(
            f"- The call `graphaudit.load(DIR)(…)` with {given}, checks and the drawing of noise included, is "
            f"{statistics.median(ratios):.1f} times as fast as eager in the median, the least {min(ratios):.2f}; "
            f"slower than eager in {len(slower)} of {len(ratios)}{': ' + names if names else ''}."
        )
    stock = [r["ratio"]["stock"] / r["ratio"]["call"] for r in right]
    lines.append(
        f"- Against the call of the stock model, `session.run(None, feeds)` of arrays, the call with arrays is "
        f"{statistics.median(stock):.2f} times as fast in the median, from {min(stock):.2f} to {max(stock):.2f}; "
        f"slower in {sum(ratio < 1 for ratio in stock)} of {len(stock)}."
    )
    return lines


def _listed(rows: list[Row], kind: str) -> str:
    names = ", ".join(f"`{r['policy']}` at {r['batch']} ({r['ratio'][kind]:.2f})" for r in rows)
    return f" Not: {names}." if names else ""


def table(rows: list[Row]) -> str:
    """One line for each policy and batch size."""
    columns = ["policy", "batch", "bundle, µs", "call, µs", "eager / bundle", "stock / bundle", "eager / call"]
    columns += ["stock / call", "nodes: stock, bundle", "MiB: eager, stock, bundle", "note"]
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    for row in rows:
        note = row.get("skipped") or row.get("bundle_failed") or row.get("stock_differs") or ""
        if "stock_failed" in row:
            note = "no stock model"
        elif row.get("stock_differs"):
            note = f"stock: {note}"
        if "ratio" not in row:
            lines.append(f"| {row['policy']} | {row['batch']} | | | | | | | | | {note} |")
            continue
        ratio, memory = row["ratio"], row.get("memory", {})
        peaks = ", ".join(f"{memory[k]:.0f}" if k in memory else "–" for k in ("eager", "stock", "ours"))
        stock, stock_call = (f"{ratio['stock'] / ratio[k]:.2f}" if "stock" in ratio else "–" for k in ("ours", "call"))
        times = " | ".join(f"{1e6 * row['cpu'][kind]:.0f}" for kind in ("ours", "call"))
        lines.append(
            f"| {row['policy']} | {row['batch']} | {times} | {ratio['eager']:.2f} | {stock} | "
            f"{ratio['eager'] / ratio['call']:.2f} | {stock_call} | {row.get('stock_nodes', '–')}, {row['nodes']} | "
            f"{peaks if memory else ''} | {note} |"
        )
    return "\n".join(lines)


def plot(rows: list[Row], file: Path) -> None:
    """Both ratios of each policy, a dot for each batch size; hollow where the stock model is wrong."""
    matplotlib.rcParams["svg.hashsalt"] = "zoo"
    names = sorted({r["policy"] for r in rows if "ratio" in r}, reverse=True)
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 0.19 * len(names) + 1.2), sharey=True, layout="constrained")
    panels = (("eager", EAGER_GOAL, "eager / bundle"), ("stock", STOCK_GOAL, "stock / bundle"))
    for axis, (kind, goal, title) in zip(axes, panels, strict=True):
        for batch, colour in ((1, "tab:blue"), (64, "tab:orange")):
            shown = [r for r in rows if r["batch"] == batch and kind in r.get("ratio", {})]
            wrong = [kind == "stock" and bool(r["stock_differs"]) for r in shown]
            axis.scatter(
                [r["ratio"][kind] for r in shown],
                [names.index(r["policy"]) for r in shown],
                s=22,
                edgecolors=colour,
                facecolors=["none" if w else colour for w in wrong],
                label=f"batch {batch}",
            )
        axis.axvline(1, color="grey", linewidth=0.8)
        axis.axvline(goal, color="grey", linewidth=0.8, linestyle=":")
        axis.set_xscale("log" if kind == "eager" else "linear")
        axis.set_title(f"{title} (dotted: the goal, {goal})", fontsize=10)
        axis.grid(axis="y", linewidth=0.3)
    axes[0].set_yticks(range(len(names)), names, fontsize=7)
    axes[0].legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())

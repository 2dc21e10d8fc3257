"""What a command does before the engine: check what is cheap to check, import torch, load the policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphaudit.cli.options import PolicyOptions

if TYPE_CHECKING:
    from graphaudit.report.progress import Progress


def prepare(target_names: list[str], progress: Progress | None, output: Path | None = None) -> None:
    """Check what is cheap to check, then import torch."""
    from graphaudit.host import import_torch
    from graphaudit.rulebook import load_rulebook

    for name in target_names:
        load_rulebook(name)
    if progress:
        progress("importing torch")
    import_torch()
    if output is not None:
        from graphaudit.export.bundle import check_output

        check_output(output)


def load(policy: str, options: PolicyOptions, progress: Progress | None) -> Any:
    """The policy, or the ONNX model."""
    if progress:
        progress(f"loading {policy}")
    if policy.lower().endswith(".onnx"):
        from graphaudit.graphs.onnx_reader import load_onnx

        return load_onnx(policy)
    from graphaudit.policy.loading import load_policy

    return load_policy(
        policy,
        trust=options.trust,
        example_inputs=options.example_inputs,
        example_kwargs=options.example_kwargs,
        inputs=options.inputs_from,
        dynamic_shapes=options.dynamic_shapes,
        reference=options.reference,
    )

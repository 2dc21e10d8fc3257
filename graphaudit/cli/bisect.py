"""`graphaudit bisect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from graphaudit.cli import streams
from graphaudit.cli.loading import load, prepare
from graphaudit.cli.options import DeployedOptions, Output, PipelineOptions, PolicyOptions
from graphaudit.cli.passes import manager
from graphaudit.errors import PolicyError

OUTPUT = Output()
DEPLOYED_OPTIONS = DeployedOptions()
POLICY_OPTIONS = PolicyOptions()
PIPELINE_OPTIONS = PipelineOptions()


def bisect(
    policy: str,
    /,
    *,
    target: str,
    output_folder: Annotated[Path, Parameter(name="--output")] = Path("reproducers"),
    inputs: int = 32,
    seed: int = 0,
    deployed: DeployedOptions = DEPLOYED_OPTIONS,
    options: PolicyOptions = POLICY_OPTIONS,
    pipeline: PipelineOptions = PIPELINE_OPTIONS,
    output: Output = OUTPUT,
) -> int:
    """Find which passes make a policy diverge, through which of its nodes, and write a reproducer for each.

    Exit status 1 where anything diverges.

    Parameters
    ----------
    policy
        The policy, as path/to/file.py:NAME, package.module:NAME, .pt2 or .zip.
    target
        Where it shall run. `graphaudit targets` lists them.
    output_folder
        The folder that reproducers are written to; it is made when there is one.
    inputs
        Number of inputs to compare on.
    seed
        Seed for drawing them.
    """
    if inputs < 1:
        raise PolicyError(f"--inputs {inputs} leaves nothing to compare on", "Give a positive number.")
    with streams.working(debug=output.debug) as progress:
        prepare([target], progress)
        chosen = manager(pipeline)
        subject = load(policy, options, progress)
        from graphaudit.api import bisect as run_bisect

        found = run_bisect(
            subject,
            target=target,
            output=output_folder,
            count=inputs,
            seed=seed,
            loop_bounds=options.loop_bound,
            control_flow=options.control_flow,
            outputs=deployed.named,
            manager=chosen,
            progress=progress,
        )
    if output.is_json:
        streams.write_json(found)
    else:
        from graphaudit.report.bisection import print_bisection

        print_bisection(found, streams.console())
    return int(bool(found.culprits) or not found.inputs)

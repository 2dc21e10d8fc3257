"""The commands. Each returns its exit status; `run` turns errors into status 2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from graphaudit import __version__
from graphaudit.cli import rulebook, streams
from graphaudit.cli.bisect import bisect
from graphaudit.cli.custom_op import custom_op_app
from graphaudit.cli.loading import load, prepare
from graphaudit.cli.options import DeployedOptions, FailOn, Flag, Output, PipelineOptions, PolicyOptions
from graphaudit.cli.passes import manager, passes
from graphaudit.errors import PassError, PolicyError
from graphaudit.text import one_line

if TYPE_CHECKING:
    from graphaudit.results import Report

# Both are frozen; a default in a signature is made once.
OUTPUT = Output()
DEPLOYED_OPTIONS = DeployedOptions()
POLICY_OPTIONS = PolicyOptions()
PIPELINE_OPTIONS = PipelineOptions()

EPILOGUE = (
    "POLICY is path/to/file.py:NAME or package.module:NAME (a function without arguments that returns an nn.Module, "
    "or a module), a .pt2 exported program, an .onnx file (audit only) or a Stable-Baselines3 .zip (with --trust).\n\n"
    "Exit status: 0 yes, fit for the target; 1 no; 2 the tool could not do its work."
)


def build_app() -> App:
    """The application, with help as wide and as colourful as standard output allows."""
    app = App(
        name="graphaudit",
        help="Audit, rewrite and verify PyTorch policies before they leave the training cluster.",
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        version=__version__,
        help_formatter="default" if streams.is_terminal() else "plain",
        console=streams.console(prose=True),
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative=""),
    )
    for command in (audit, rewrite, verify, bisect, explain, targets, passes):
        app.command(command)
    app.command(rulebook.rulebook_app())
    app.command(custom_op_app())
    return app


def audit(
    policy: str,
    /,
    *,
    target: Annotated[list[str], Parameter(name="--target", negative="")] | None = None,
    fail_on: FailOn = FailOn.ERROR,
    verbose: Flag = False,
    options: PolicyOptions = POLICY_OPTIONS,
    output: Output = OUTPUT,
) -> int:
    """Say what keeps a policy from running on a target, line by line.

    Parameters
    ----------
    policy
        The policy, as path/to/file.py:NAME, package.module:NAME, .pt2, .onnx or .zip.
    target
        Where it shall run; may be given several times (default: onnxruntime). `graphaudit targets` lists them.
    fail_on
        Exit with status 1 for findings of this severity or above.
    verbose
        Show every note and every repaired finding in full.
    """
    names = target or ["onnxruntime"]
    with streams.working(debug=output.debug) as progress:
        prepare(names, progress)
        subject = load(policy, options, progress)
        from graphaudit.api import audit as run_audit

        report: Report = run_audit(
            subject,
            target=names,
            loop_bounds=options.loop_bound,
            control_flow=options.control_flow,
            progress=progress,
        )
    _print(report, output, verbose)
    unfit = fail_on is not FailOn.NEVER and not all(report.fit.values())
    return int(unfit or report.reaches(fail_on.severity))


def rewrite(
    policy: str,
    /,
    *,
    target: str,
    output_folder: Annotated[Path, Parameter(name="--output")],
    inputs: int = 128,
    seed: int = 0,
    verbose: Flag = False,
    deployed: DeployedOptions = DEPLOYED_OPTIONS,
    options: PolicyOptions = POLICY_OPTIONS,
    pipeline: PipelineOptions = PIPELINE_OPTIONS,
    output: Output = OUTPUT,
) -> int:
    """Rewrite a policy for a target, check every step against it, and write a bundle.

    Parameters
    ----------
    policy
        The policy, as path/to/file.py:NAME, package.module:NAME, .pt2 or .zip.
    target
        Where it shall run. `graphaudit targets` lists them.
    output_folder
        The folder to write; an older bundle there is replaced, anything else is left alone.
    inputs
        Number of inputs that each step is checked on.
    seed
        Seed for drawing them.
    verbose
        Show every pass, note and repaired finding in full.
    """
    if pipeline.bisect_limit is not None and pipeline.bisect_limit < 0:
        raise PassError(f"--bisect-limit {pipeline.bisect_limit} is no number of passes", "Give 0 or more.")
    if inputs < 1:
        raise PolicyError(f"--inputs {inputs} leaves nothing to check on", "Give a positive number.")
    if policy.lower().endswith(".onnx"):
        raise PolicyError(
            f"{one_line(policy)} is an ONNX file, which can only be audited", "Name the policy it was made of."
        )
    with streams.working(debug=output.debug) as progress:
        prepare([target], progress, output_folder)
        chosen = manager(pipeline)
        subject = load(policy, options, progress)
        from graphaudit.api import rewrite as run_rewrite

        report: Report = run_rewrite(
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
    _print(report, output, verbose)
    if pipeline.time_passes and not output.is_json:
        from graphaudit.report.passes import print_times

        print_times(report.passes, streams.console())
    return int(report.bundle is None or not all(report.fit.values()))


def verify(bundle: Path, /, *, output: Output = OUTPUT) -> int:
    """Run the golden inputs of a bundle in this environment and compare with its golden outputs.

    Parameters
    ----------
    bundle
        The folder that `graphaudit rewrite` wrote.
    """
    with streams.working(debug=output.debug) as progress:
        if progress:
            progress("running the golden inputs")
        from graphaudit.export.load import verify as run_verify

        verification = run_verify(bundle)
    if output.is_json:
        streams.write_json(verification)
    else:
        from graphaudit.report.verification import print_verification

        print_verification(verification, str(bundle), streams.console())
    return int(not verification.ok)


def explain(finding: str | None = None, /, *, output: Output = OUTPUT) -> int:
    """Say what a finding means, why it matters and what to do; without an argument, list all findings.

    Parameters
    ----------
    finding
        Its code (GA301) or name (naive-softmax), or an error code of a target's own tool (E19010).
    """
    from graphaudit.report import explanation

    if finding is None:
        known = explanation.listing()
        if output.is_json:
            streams.write_json(known)
        else:
            explanation.print_listing(known, streams.console())
        return 0
    found = explanation.explain(finding)
    if output.is_json:
        streams.write_json(found)
    else:
        explanation.print_explanation(found, streams.console(prose=True))
    return 0


def targets(*, op_table: Flag = False, output: Output = OUTPUT) -> int:
    """List what can be targeted, from which facts and of which date.

    Parameters
    ----------
    op_table
        Write which target takes which operator, of ONNX and of ATen, as tables in Markdown.
    """
    from graphaudit.rulebook import targets as all_targets

    if op_table:
        return rulebook.op_table(output)
    if output.is_json:
        streams.write_json(all_targets())
    else:
        from graphaudit.report.targets import print_targets

        print_targets(all_targets(), streams.console())
    return 0


def _print(report: Report, output: Output, verbose: bool) -> None:
    if output.is_json:
        streams.write_json(report)
        return
    from graphaudit.report.terminal import print_report

    print_report(report, streams.console(), verbose=verbose)

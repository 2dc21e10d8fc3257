"""`graphaudit custom-op`: an operator to start from, and the start of a plugin for Ascend's ATC."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from graphaudit.cli import streams
from graphaudit.cli.options import Output
from graphaudit.errors import CustomOpError
from graphaudit.text import shown_path

OUTPUT = Output()


def custom_op_app() -> App:
    """The command with its commands."""
    app = App(name="custom-op", help="Start an operator of your own, or the plugin that Ascend's ATC needs for it.")
    for command in (new, skeleton):
        app.command(command)
    return app


def new(
    name: str,
    /,
    *,
    output_folder: Annotated[Path, Parameter(name="--output")] = Path(),
    output: Output = OUTPUT,
) -> int:
    """Write a small operator with a policy that calls it, and its tests. Files that exist are left alone.

    Parameters
    ----------
    name
        The operator: symexp, or with a namespace rl::symexp.
    output_folder
        The folder to write to (default: this one).
    """
    with streams.working(debug=output.debug):
        from graphaudit.custom_ops.example import write_example

        written = write_example(name, output_folder)
    _say(written, output)
    return 0


def skeleton(
    file: Path,
    /,
    *,
    output_folder: Annotated[Path, Parameter(name="--output")] = Path(),
    output: Output = OUTPUT,
) -> int:
    """Write the start of an ATC plugin for each operator with an ONNX node that a file registers. It is not run here.

    Parameters
    ----------
    file
        The Python file that calls register_custom_op.
    output_folder
        The folder to write to (default: this one).
    """
    with streams.working(debug=output.debug) as progress:
        if progress:
            progress("registering the operators")
        from graphaudit.host import import_torch

        import_torch()
        from graphaudit.custom_ops import registered
        from graphaudit.custom_ops.ascend import write_skeleton
        from graphaudit.policy.usercode import import_file

        if not file.is_file():
            raise CustomOpError(f"there is no file {shown_path(file)}", "Name the file that calls register_custom_op.")
        before = {id(custom) for custom in registered()}
        import_file(file.resolve())
        found = [custom for custom in registered() if id(custom) not in before and custom.onnx is not None]
        if not found:
            raise CustomOpError(
                f"{shown_path(file)} registers no operator with a node", "Give register_custom_op onnx=OnnxNode(...)."
            )
        written = [path for custom in found for path in write_skeleton(custom, output_folder)]
    _say(written, output)
    return 0


def _say(written: list[Path], output: Output) -> None:
    if output.is_json:
        streams.write_json({"written": [str(path) for path in written]})
        return
    for path in written:
        print(f"wrote {shown_path(path)}")

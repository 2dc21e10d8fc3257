"""`graphaudit rulebook`: look an operator up, compare two target files, build target files from their facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from graphaudit.cli import streams
from graphaudit.cli.options import Flag, Output

OUTPUT = Output()


def rulebook_app() -> App:
    """The command with its commands."""
    app = App(name="rulebook", help="Say what a target takes, from which facts, and build its file from them.")
    for command in (show, atc, diff, build):
        app.command(command)
    return app


def show(
    op: str,
    /,
    *,
    target: Annotated[list[str], Parameter(name="--target", negative="")] | None = None,
    opset: int | None = None,
    dtype: str | None = None,
    output: Output = OUTPUT,
) -> int:
    """Say whether targets take an operator, under which conditions, and where that is known from.

    Exit status 1 where a target does not take it, or nobody knows.

    Parameters
    ----------
    op
        The operator: Softmax, com.microsoft::FusedMatMul; aten.cumsum for targets that take graphs of ATen ops.
    target
        A target; may be given several times (default: all of them).
    opset
        The opset of the model (default: the one that is exported at for the target).
    dtype
        The dtype of the data, as numpy spells it (default: float32 where the operator takes it).
    """
    from graphaudit.rulebook import Support
    from graphaudit.rulebook.query import look_up, targets_for

    answers = look_up(op, target or targets_for(op), opset, dtype)
    if output.is_json:
        streams.write_json(answers)
    else:
        from graphaudit.report.rulebook import print_answers

        print_answers(answers, streams.console())
    return int(any(a.support in (Support.UNSUPPORTED, Support.UNKNOWN) for a in answers))


def atc(model: Path, /, *, target: str, soc_version: str | None = None, output: Output = OUTPUT) -> int:
    """Write the command line of ATC, Ascend's compiler, for an ONNX model, with what to expect of it.

    Parameters
    ----------
    model
        The .onnx file.
    target
        One of the ascend targets.
    soc_version
        The robot's chip, as npu-smi shows it with Ascend in front.
    """
    from graphaudit.rulebook import load_rulebook

    rulebook = load_rulebook(target)
    from graphaudit.graphs.onnx_reader import load_onnx
    from graphaudit.graphs.onnx_view import view_model
    from graphaudit.rulebook.atc import advise

    advice = advise(view_model(load_onnx(str(model))), rulebook, str(model), soc_version)
    if output.is_json:
        streams.write_json(advice)
    else:
        from graphaudit.report.rulebook import print_advice

        print_advice(advice, streams.console())
    return 0


def diff(old: str, new: str, /, *, output: Output = OUTPUT) -> int:
    """Say which facts differ between two target files; exit status 1 if any do.

    Parameters
    ----------
    old
        A target, or the path of a target file (.json).
    new
        The same.
    """
    from graphaudit.rulebook.compare import compare

    changes = compare(old, new)
    if output.is_json:
        streams.write_json(changes)
    else:
        from graphaudit.report.rulebook import print_changes

        print_changes(changes, streams.console())
    return int(bool(changes))


def build(
    target: Annotated[list[str], Parameter(negative="")] | None = None,
    /,
    *,
    check: Flag = False,
    torch_npu_wheel: Path | None = None,
    msit_map: Path | None = None,
    folder: Annotated[Path, Parameter(name="--output")] = Path("rules/targets"),
    output: Output = OUTPUT,
) -> int:
    """Build target files from the facts in rules/facts, after bringing these up to date where a source is given.

    Parameters
    ----------
    target
        The targets to build (default: all that have facts).
    check
        Write nothing; exit with status 1 if a file is not what its facts give.
    torch_npu_wheel
        A wheel of torch_npu, or the folder it was unpacked to: its kernel lists and TorchAir's converters.
    msit_map
        msit's operator map of the ATC parser, map_conf/onnx.yaml.
    folder
        The folder of the target files.
    """
    from graphaudit.errors import OutputError
    from graphaudit.rulebook.build import build as build_target
    from graphaudit.rulebook.build import buildable, survey

    if not folder.is_dir():
        raise OutputError(f"there is no folder {folder}", "Run this in the repository, or name a folder with --output.")
    surveys = _refreshed(torch_npu_wheel, msit_map)
    files = {folder.parent / "facts" / f"{n}.csv": t.encode() for n, t in surveys.items() if t != survey(n)}
    files |= {folder / f"{name}.json": build_target(name, surveys) for name in target or buildable()}
    stale = [file for file, text in files.items() if not file.exists() or file.read_bytes() != text]
    for file in stale if not check else ():
        file.write_bytes(files[file])
    if output.is_json:
        streams.write_json({"changed": [file.stem for file in stale], "written": not check})
    else:
        verb = "would change" if check else "wrote"
        lines = [f"{verb} {file.stem if file.suffix == '.json' else file.name}" for file in stale]
        streams.console().print("\n".join(lines) or "every file is what its facts give")
    return int(check and bool(stale))


def _refreshed(wheel: Path | None, msit_map: Path | None) -> dict[str, str]:
    """The tables of facts that have a new source, by the name of their target."""
    from graphaudit.rulebook import refresh
    from graphaudit.rulebook.build import survey

    tables = {}
    if wheel is not None:
        from graphaudit.rulebook.torch_npu_wheel import Wheel

        tables["torch-npu"] = refresh.kernels(survey("torch-npu"), Wheel(wheel))
        tables["torchair"] = refresh.converters(survey("torchair"), Wheel(wheel))
    if msit_map is not None:
        tables["ascend"] = refresh.parser_map(survey("ascend"), msit_map.read_text(encoding="utf-8"))
    return tables


def op_table(output: Output) -> int:
    """Which target takes which standard operator, and which core operator of ATen."""
    from graphaudit.rulebook.query import core_aten_operators, look_up, standard_operators, targets_for

    tables = []
    for operators in (standard_operators(), core_aten_operators()):
        names = targets_for(operators[0])
        tables.append([look_up(op, names) for op in operators])
    if output.is_json:
        streams.write_json([row for table in tables for row in table])
    else:
        from graphaudit.report.rulebook import markdown_matrix

        text = "\n".join(markdown_matrix(table) for table in tables)
        streams.console().print(text, end="", soft_wrap=True)
    return 0

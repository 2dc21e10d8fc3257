"""`graphaudit passes`, and what the options of the pipeline mean to the engine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from graphaudit.cli import streams
from graphaudit.cli.options import Flag, Output, PipelineOptions

if TYPE_CHECKING:
    from graphaudit.rewrite.manager import PassManager

OUTPUT = Output()


def passes(
    *,
    target: str | None = None,
    all_passes: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    markdown: Flag = False,
    output: Output = OUTPUT,
) -> int:
    """List the passes of the default pipeline in the order in which they run.

    Parameters
    ----------
    target
        List those that have something to do for this target (default: all).
    all_passes
        List those too that only run where --passes names them.
    markdown
        Write a table in Markdown.
    """
    with streams.working(debug=output.debug) as progress:
        if progress:
            progress("loading the passes")
        from graphaudit.host import import_torch
        from graphaudit.rulebook import rewritten_for

        meant = rewritten_for(target).target if target is not None else None
        import_torch()
        from graphaudit.registry import passes as registered
        from graphaudit.rewrite.catalogue import catalogue
        from graphaudit.rewrite.selection import select

        entries = catalogue(select(",".join(registered()) if all_passes else None, target=meant))
    if output.is_json:
        streams.write_json(entries)
        return 0
    from graphaudit.report.catalogue import markdown_catalogue, print_catalogue

    if markdown:
        streams.console().print(markdown_catalogue(entries), end="", soft_wrap=True)
    else:
        print_catalogue(entries, streams.console(prose=True))
    return 0


def manager(options: PipelineOptions) -> PassManager:
    """The pass manager that the options describe. Raises PassError."""
    from graphaudit.rewrite.instruments import ALL, DumpGraphs, PrintAfter
    from graphaudit.rewrite.manager import PassManager
    from graphaudit.rewrite.selection import known_pass

    for name in options.print_after:
        if name != ALL:
            known_pass(name)
    printing = [PrintAfter(options.print_after, _print_to_stderr)] if options.print_after else []
    dumping = [DumpGraphs(options.dump_dir)] if options.dump_dir is not None else []
    return PassManager.of(
        options.passes,
        options.skipped,
        options.on_divergence.value,
        options.bisect_limit,
        [*printing, *dumping],
        options.dump_dir,
    )


def _print_to_stderr(listing: str) -> None:
    print(listing, file=sys.stderr)

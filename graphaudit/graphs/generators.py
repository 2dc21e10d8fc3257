"""The `torch.Generator` objects among the constants of an exported program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from graphaudit.graphs.held import Held, stream


def generator_specs(exported: ExportedProgram) -> list[InputSpec]:
    """The inputs that stand for generators; `target` is the name of the constant."""
    specs = [s for s in exported.graph_signature.input_specs if s.kind is InputKind.CUSTOM_OBJ]
    return [s for s in specs if isinstance(exported.constants[s.target or ""], torch.Generator)]


def name_generators(exported: ExportedProgram, names: Collection[str], name_of: Callable[[Any], str | None]) -> None:
    """Let the constants of those generators that the policy holds bear their names."""
    for spec in generator_specs(exported):
        name = name_of(exported.constants[spec.target or ""])
        if name in names:
            exported.constants[name] = exported.constants.pop(spec.target or "")
            spec.target = name


def generator_behind(
    exported: ExportedProgram, held: Mapping[str, Held], node: fx.Node
) -> Literal["torch"] | Held | torch.Generator:
    """Whose sequence the placeholder of a generator stands for: PyTorch's own, that of one which the policy holds, or
    the generator that forward made or seeded itself, as it was captured."""
    name = next(s.target or "" for s in generator_specs(exported) if s.arg.name == node.name)
    generator: torch.Generator = exported.constants[name]
    return "torch" if _is_default(generator) else held.get(name, generator)


def running(exported: ExportedProgram, held: Mapping[str, Held], spec: InputSpec) -> Any:
    """What an object among the constants is in a run: a generator goes on from where it was captured, or runs now."""
    name = spec.target or ""
    captured = exported.constants[name]
    if not isinstance(captured, torch.Generator) or _is_default(captured):
        return captured
    return stream(held[name]) if name in held else captured.clone_state()


def _is_default(generator: torch.Generator) -> bool:
    """Whether it is PyTorch's own CPU generator, behind whichever Python object."""
    return bool(generator._cdata == torch.default_generator._cdata)  # type: ignore[attr-defined]

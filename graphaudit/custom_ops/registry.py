"""What is known of each registered operator. Imports no torch at its top."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphaudit.errors import CustomOpError

if TYPE_CHECKING:
    import torch

# Domains that belong to others (https://onnx.ai/onnx/repo-docs/IR.html#operator-sets; ONNX Runtime's and torch's own).
_TAKEN = re.compile(r"(ai\.onnx|com\.microsoft|com\.ms|pkg\.)(\..*)?|pkg\..*|org\.pytorch\..*")
_DOMAIN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_OP_TYPE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class OnnxNode:
    """The node that an operator becomes: `domain::op_type` at `version` of that domain.

    Tensor arguments become its inputs, all others its attributes, by their names in the operator's schema. The model
    carries the plain version as the body of that node, which a runtime runs that has no kernel of its own for it.
    `targets` names those that keep the node; every other target takes the plain version instead.
    """

    domain: str
    op_type: str
    version: int = 1
    targets: tuple[str, ...] = ("onnx", "onnxruntime")

    def __post_init__(self) -> None:
        if not _DOMAIN.fullmatch(self.domain) or _TAKEN.fullmatch(self.domain):
            raise CustomOpError(
                f"{self.domain!r} is no domain of your own", "Use one such as 'rl' or 'com.example.rl'."
            )
        if not _OP_TYPE.fullmatch(self.op_type):
            raise CustomOpError(f"{self.op_type!r} is no operator type", "Use letters, digits and _, as in 'Symexp'.")
        if self.version < 1:
            raise CustomOpError(f"{self.version} is no version of a domain", "Use 1 or more.")

    @property
    def origin_type(self) -> str:
        """How a plugin of Ascend's ATC names the node (`npu::1::NPUGeluV2` in CANN's own, canndev's onnx_plugin)."""
        return f"{self.domain}::{self.version}::{self.op_type}"

    def __str__(self) -> str:
        return f"{self.domain}::{self.op_type} version {self.version}"


@dataclass(frozen=True)
class CustomOp:
    """`plain` computes in torch what `op` does; `examples` are argument tuples; `onnx` is the node it becomes, if any.

    `surrogate_gradient` says that its gradient is no derivative, and is not meant to be one.
    """

    op: torch._ops.OpOverload
    plain: Callable[..., Any] | None
    examples: tuple[tuple[Any, ...], ...]
    onnx: OnnxNode | None = None
    surrogate_gradient: bool = False

    @property
    def name(self) -> str:
        """`rl::symexp`."""
        return str(self.op._schema.name)

    @property
    def tensors(self) -> Sequence[str]:
        """The arguments that are tensors."""
        return [a.name for a in self.op._schema.arguments if str(a.type) == "Tensor"]

    @property
    def attributes(self) -> Sequence[str]:
        """The arguments that are not."""
        return [a.name for a in self.op._schema.arguments if str(a.type) != "Tensor"]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each argument in a call, defaults included, in the order of the schema."""
        arguments = self.op._schema.arguments
        given = {**dict(zip((a.name for a in arguments), args)), **kwargs}
        return {a.name: given.get(a.name, a.default_value) for a in arguments}

    def run_plain(self, *args: Any, **kwargs: Any) -> Any:
        """The plain version, called as the operator is; its own names of the arguments don't matter."""
        assert self.plain is not None
        return self.plain(*self.bind(args, kwargs).values())

    def node_for(self, target: str) -> OnnxNode | None:
        """The node that the operator stays on the way to `target`; None where its plain version goes there."""
        return self.onnx if self.onnx is not None and target in self.onnx.targets else None


_REGISTERED: dict[str, CustomOp] = {}


def add(custom: CustomOp) -> None:
    """Remember an operator; one of the same name is forgotten."""
    _REGISTERED[custom.name] = custom


def find(name: str) -> CustomOp | None:
    """The registered operator `rl::symexp`."""
    return _REGISTERED.get(name)


def registered() -> list[CustomOp]:
    """All registered operators, by name."""
    return [_REGISTERED[name] for name in sorted(_REGISTERED)]


def node_of(domain: str, op_type: str) -> OnnxNode | None:
    """The node `domain::op_type` of a registered operator."""
    nodes = (custom.onnx for custom in registered())
    return next((n for n in nodes if n is not None and (n.domain, n.op_type) == (domain, op_type)), None)

"""`register_custom_op`: from what the user has to an operator of PyTorch's dispatcher, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode

from graphaudit.custom_ops.autograd import Recomputed, has_autograd, register_recomputed
from graphaudit.custom_ops.check import check_custom_op, compare_with_plain
from graphaudit.custom_ops.registry import CustomOp, OnnxNode, add
from graphaudit.custom_ops.schema import infer_schema
from graphaudit.errors import CustomOpError
from graphaudit.graphs.namespaces import is_custom
from graphaudit.text import one_line

Function = Callable[..., Any]
Operator = torch._ops.OpOverload
# What can be an input or an attribute of a node (https://onnx.ai/onnx/repo-docs/IR.html#attributes).
_NODE_TYPES = ("Tensor", "bool", "int", "float", "str", "List[bool]", "List[int]", "List[float]")
_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)


def register_custom_op(
    operator: Any,
    function: Function | type[torch.autograd.Function] | None = None,
    *,
    examples: Sequence[tuple[Any, ...]],
    plain: Function | None = None,
    fake: Function | None = None,
    backward: Function | None = None,
    setup_context: Function | None = None,
    onnx: OnnxNode | None = None,
    surrogate_gradient: bool = False,
    check: bool = True,
) -> Operator:
    """Register an operator so that it trains, is captured as one node, and is translated. Returns the operator to call.

    operator            the name of a new one (`"rl::symexp"`), or one that is registered with `torch.library`
    function            what a new one computes: a Python function, or a `torch.autograd.Function`
    examples            tuples of arguments: tensors, numbers, strings, lists of numbers
    plain               the same, written in torch: the decomposition, the body of the ONNX node, and the reference
    fake                shapes and dtypes of the results (default: `plain`)
    backward, setup_context   as for `torch.library.register_autograd` (default: the gradient of the
                              `torch.autograd.Function`, or of `plain`)
    onnx                the node that it becomes, instead of what `plain` becomes
    surrogate_gradient  its gradient is meant to be no derivative, as a straight-through estimator's
    check               run `check_custom_op`; without it, operator and `plain` are only compared on the examples

    Raises CustomOpError where it cannot be registered, or its parts do not agree.
    """
    given = tuple(tuple(example) for example in examples)
    if not given:
        raise CustomOpError("there are no examples to check the operator on", "Give at least one tuple of arguments.")
    if isinstance(operator, str) and function is not None:
        op = _define(operator, function, given[0], fake or (_shapes_of(plain) if plain else None))
    elif function is None:
        op = _existing(operator)
        shapes = fake or (_shapes_of(plain) if plain is not None and not _has_fake(op) else None)
        if shapes is not None:
            torch.library.register_fake(op._schema.name, shapes)
    else:
        raise CustomOpError("an operator that exists has its function already", "Give a name, or no function.")
    gradient = _autograd_of(function) or plain
    if backward is not None:
        torch.library.register_autograd(op._schema.name, backward, setup_context=setup_context)
    elif gradient is not None and not has_autograd(op):
        register_recomputed(op, Recomputed(gradient, len(op._schema.returns)))
    custom = CustomOp(op, plain, given, _checked_node(op, plain, onnx), surrogate_gradient)
    if check:
        check_custom_op(custom)
    else:
        compare_with_plain(custom)
    add(custom)
    return op


def _define(name: str, function: Any, example: tuple[Any, ...], fake: Function | None) -> Operator:
    if not _NAME.fullmatch(name):
        raise CustomOpError(f"{one_line(name)!r} does not name an operator", "Write namespace::name, as in rl::symexp.")
    run, signature, skip = function, function, 0
    autograd = _autograd_of(function)
    if autograd is not None:
        run, signature = autograd, function.forward
        skip = int(function.setup_context is torch.autograd.function._SingleLevelFunction.setup_context)
    if fake is None:
        raise CustomOpError(
            f"nobody says what shapes {name} returns",
            "Give plain=, the same written in torch, or fake=, which makes empty tensors of the right shapes.",
        )
    if not is_custom(name.partition("::")[0]):
        raise CustomOpError(f"the namespace of {name} is not yours", "Use one of your own, as in rl::symexp.")
    with torch.no_grad():
        result = run(*example)
    schema = infer_schema(name, signature, example, result, skip)
    defined = torch.library.custom_op(name, _owned(run), mutates_args=(), schema=schema)
    defined.register_fake(fake)
    return defined._opoverload


def _existing(operator: Any) -> Operator:
    if isinstance(operator, str):
        namespace, _, name = operator.partition("::")
        operator = getattr(getattr(torch.ops, namespace, None), name.partition(".")[0], None)
        if operator is None:
            raise CustomOpError("there is no operator of that name", "Give its function as the second argument.")
    operator = getattr(operator, "_opoverload", operator)
    operator = getattr(operator, "default", operator)
    if not isinstance(operator, torch._ops.OpOverload):
        raise CustomOpError(
            f"{one_line(repr(operator))[:80]} is no operator of PyTorch's dispatcher",
            "Give a name for it first: register_custom_op('rl::name', function, ...).",
        )
    if any(a.kwarg_only for a in operator._schema.arguments):
        raise CustomOpError(
            f"{operator._schema.name} has keyword-only arguments", "Register a version that takes them in order."
        )
    if operator._schema.is_mutable:
        raise CustomOpError(
            f"{operator._schema.name} writes to its arguments", "Register a version that returns a new tensor."
        )
    return operator


def _autograd_of(function: Any) -> Function | None:
    if isinstance(function, type) and issubclass(function, torch.autograd.Function):
        return function.apply
    return None


def _has_fake(op: Operator) -> bool:
    defined = torch._library.custom_ops._maybe_get_opdef(op)
    if defined is not None:
        return defined._abstract_fn is not None
    fake = torch._library.simple_registry.singleton.find(op._schema.name).fake_impl.kernel
    return fake is not None or torch._C._dispatch_has_kernel_for_dispatch_key(op._schema.name, "Meta")


def _shapes_of(plain: Function) -> Function:
    """`plain` as a fake kernel, in which tensors that it holds itself, such as a table, may be real."""

    def fake(*args: Any) -> Any:
        mode: Any = detect_fake_mode(args)
        if mode is None:
            return plain(*args)
        allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
        try:
            return plain(*args)
        finally:
            mode.allow_non_fake_inputs = allowed

    return fake


def _owned(function: Function) -> Function:
    """`function`, with a copy of each result that shares memory with an argument, which operators must not return."""

    def kernel(*args: Any) -> Any:
        result = function(*args)
        taken = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        if isinstance(result, torch.Tensor):
            return result.clone() if result.untyped_storage().data_ptr() in taken else result
        own = [r.clone() if r.untyped_storage().data_ptr() in taken else r for r in result]
        return tuple(own) if len(own) > 1 else own[0]

    return kernel


def _checked_node(op: Operator, plain: Function | None, node: OnnxNode | None) -> OnnxNode | None:
    if node is not None and plain is None:
        raise CustomOpError(
            f"the node {node} has no body for runtimes without a kernel of their own", "Give plain= as well."
        )
    odd = [a.name for a in op._schema.arguments if str(a.type) not in _NODE_TYPES]
    if node is not None and odd:
        raise CustomOpError(
            f"{op._schema.name} takes {odd[0]}, which is neither one tensor nor an attribute of an ONNX node",
            "Leave out onnx=: then the plain version is translated.",
        )
    return node

"""From a Python function to one whose control flow, calls and look-ups are operators, by diastatic-malt's converters.

The new function has the code positions of its source, so that stack traces and findings name the user's own lines.
"""

from __future__ import annotations

import ast
import copy
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from malt.converters import (
    break_statements,
    call_trees,
    conditional_expressions,
    continue_statements,
    control_flow,
    functions,
    logical_expressions,
    return_statements,
    variables,
)
from malt.core import converter
from malt.pyct import anno, cfg, inspect_utils, naming, origin_info, qual_names, transformer
from malt.pyct.static_analysis import activity, liveness, reaching_definitions, reaching_fndefs

from graphaudit.capture.control_flow.nodes import Unsupported
from graphaudit.capture.control_flow.rewriting import finish, prepare
from graphaudit.capture.control_flow.subscripts import convert_asserts, convert_comparisons, convert_subscripts
from graphaudit.capture.control_flow.syntax import GLOBALS

_CACHE: dict[CodeType, CodeType] = {}
_OUTER, _INNER = "graphaudit_outer", "graphaudit_inner"


class NotTranspiled(Exception):
    """The source is not at hand, or holds a construct that the converters do not know (`line`; 0 for no line)."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def transpile(function: FunctionType) -> FunctionType:
    """The function with the operators of `operators()`. Raises NotTranspiled."""
    code = function.__code__
    if code not in _CACHE:
        try:
            _CACHE[code] = _factory(function)
        except NotTranspiled:
            raise
        except Unsupported as error:
            raise NotTranspiled(str(error), error.line) from error
        except Exception as error:  # the converters raise what they like on constructs they do not know
            raise NotTranspiled(f"{type(error).__name__}: {error}") from error
    return _instance(function, _CACHE[code])


def _instance(function: FunctionType, factory: CodeType) -> FunctionType:
    from graphaudit.capture.control_flow.operators import OPERATORS
    from graphaudit.capture.control_flow.scopes import transpiled

    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    closure = tuple(cells[name] for name in factory.co_freevars)
    factory_function = FunctionType(factory, function.__globals__, function.__name__, (), closure)
    made: FunctionType = factory_function(OPERATORS, function.__globals__)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    made.__module__ = function.__module__
    return transpiled(made)  # type: ignore[no-any-return]


def _factory(function: FunctionType) -> CodeType:
    """The code of a function of the operators that returns the new function."""
    code = function.__code__
    tree = prepare(copy.deepcopy(source_of(code)), code)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.arg):
            place = origin_info.Location(code.co_filename, node.lineno, node.col_offset)
            anno.setanno(node, anno.Basic.ORIGIN, origin_info.OriginInfo(place, code.co_name, "", None))
    namespace = inspect_utils.getnamespace(function)
    namer = naming.Namer(namespace)
    info = transformer.EntityInfo(code.co_name, "", code.co_filename, (), namespace)
    context = transformer.Context(info, namer, converter.ProgramContext(converter.STANDARD_OPTIONS))
    return _compiled(_converted(tree, context), code)


def _converted(node: Any, context: Any) -> Any:
    """malt's own pipeline (malt/impl/api.py), with our look-ups and asserts, and without attributes as variables."""
    graphs = cfg.build(node)
    node = activity.resolve(qual_names.resolve(node), context, None)
    node = reaching_definitions.resolve(node, context, graphs)
    anno.dup(node, {anno.Static.DEFINITIONS: anno.Static.ORIG_DEFINITIONS})
    node = functions.transform(node, context)
    node = break_statements.transform(node, context)
    node = convert_asserts(node, context)
    node = continue_statements.transform(node, context)
    node = return_statements.transform(node, context)
    node = call_trees.transform(node, context)
    node = _control_flow(node, context)
    node = _Conditionals(context).visit(node)
    node = logical_expressions.transform(node, context)
    node = convert_comparisons(convert_subscripts(node, context), context)
    return variables.transform(node, context)


class _VariablesOnly(control_flow.ControlFlowTransformer):  # type: ignore[misc]
    """Leaves attributes and entries out of a region's variables: `World` keeps those, in callees too."""

    def _get_block_composite_vars(self, *_: Any) -> frozenset[Any]:
        return frozenset()


class _Conditionals(conditional_expressions.ConditionalExpressionTransformer):  # type: ignore[misc]
    """Converts conditional expressions inside conditional expressions, too."""

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return super().visit_IfExp(self.generic_visit(node))


def _control_flow(node: Any, context: Any) -> Any:
    graphs = cfg.build(node)
    node = activity.resolve(qual_names.resolve(node), context, None)
    node = reaching_definitions.resolve(node, context, graphs)
    node = reaching_fndefs.resolve(node, context, graphs)
    node = liveness.resolve(node, context, graphs)
    return _VariablesOnly(context).visit(node)


def _compiled(node: Any, code: CodeType) -> CodeType:
    name = code.co_name
    if isinstance(node, ast.Lambda):
        name = "graphaudit_lambda"
        node = ast.Assign([ast.Name(name, ast.Store())], node)
    free = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in code.co_freevars]
    inner = _definition(_INNER, ["ag__", GLOBALS], [node, ast.Return(ast.Name(name, ast.Load()))])
    outer = _definition(_OUTER, [], [*free, inner, ast.Return(ast.Name(_INNER, ast.Load()))])
    module = finish(ast.Module([outer], []), code.co_firstlineno)
    space: dict[str, Any] = {}
    exec(compile(module, code.co_filename, "exec", dont_inherit=True), space)
    made: CodeType = space[_OUTER]().__code__
    return made


def _definition(name: str, parameters: list[str], body: list[Any]) -> ast.FunctionDef:
    arguments = ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, [])
    return ast.FunctionDef(name, arguments, body, [], None)


def source_of(code: CodeType) -> ast.FunctionDef | ast.Lambda:
    """The syntax tree of a function, shared with later calls. Raises NotTranspiled."""
    tree = _parsed(code.co_filename)
    if code.co_name == "<lambda>":
        return _lambda(tree, code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    raise NotTranspiled(f"the source of {code.co_qualname} is not in {code.co_filename}")


def _lambda(tree: ast.Module, code: CodeType) -> ast.Lambda:
    lines = [(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and p[1] == p[0]]
    found = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Lambda)
        and n.lineno == code.co_firstlineno
        and [a.arg for a in n.args.args] == list(code.co_varnames[: code.co_argcount])
        and all((n.lineno, n.col_offset) <= at <= (n.end_lineno, n.end_col_offset) for at in lines if at[1])
    ]
    if len(found) != 1:
        raise NotTranspiled("more than one lambda could be meant")
    return found[0]


@cache
def _parsed(file: str) -> ast.Module:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise NotTranspiled(f"{file} cannot be read: {error}") from error

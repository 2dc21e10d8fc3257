"""Which strings of an exported program could become Python code, told by a grammar of what torch itself writes.

torch pastes names into generated source, evaluates size expressions with sympy and executes guards. Every string must
therefore be a plain name, a size expression, a guard or an operator of the known forms; free text is allowed only
where torch keeps it as text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from graphaudit.text import one_line

_NAME = re.compile(r"[\w.\-]*")  # tensor, parameter and argument names; file names; enum values
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims)\.(_?[a-z]\w*|__(and|or|xor|lshift|rshift)__)\.\w+"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|associative_scan|map_impl|wrap_with_\w+)"
    r"|torch\.sym_\w+|math\.(trunc|ceil|floor|sqrt|pow)"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|getitem|index)"
)
_TOUCHES_FILES = re.compile(r"torch\.ops\.aten\.(from_file|save|load)\b")
_FREE_TEXT = frozenset({"metadata", "as_string", "as_strings", "torch_version"})
_PYTREE = frozenset({"in_spec", "out_spec"})
# The names of sympy, and of torch.utils._sympy.functions, that size expressions are made of.
_FUNCTIONS = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Mod|Eq|Ne|Lt|Le|Gt|Ge|And|Or|"
    r"Not|Abs|Equality|Unequality|StrictLessThan|LessThan|StrictGreaterThan|GreaterThan|FloorDiv|"
    r"ModularIndexing|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift|"
    r"PowByNatural|FloatPow|FloatTrueDiv|IntTrueDiv|TruncToFloat|TruncToInt|RoundToInt|"
    r"RoundDecimal|ToFloat|Identity|IsNonOverlappingAndDenseIndicator|NegativeOne|One|Zero"
)
_VARIABLES = re.compile(r"[a-z]{1,4}\d+|L|inf|oo|int_oo|math|args")
_NODES = (
    ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Subscript, ast.Attribute, ast.Tuple,
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_METHODS = frozenset({"size", "stride", "storage_offset", "isnan", "inf", "dim"})


def suspicious_text(content: bytes) -> str:
    """The first string in a JSON document that torch could execute, described; empty if there is none."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return "damaged JSON"
    return next(_suspicious(document, ""), "")


def _suspicious(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            # A weight may be called anything that is a name; the schema's own keys are names too.
            if not _NAME.fullmatch(name):
                yield f"the name {one_line(name, 60)!r}"
            if name == "use_pickle" and child:
                yield "a pickled tensor"
            elif name not in _FREE_TEXT:
                yield from _suspicious(child, name)
    elif isinstance(value, list):
        for child in value:
            yield from _suspicious(child, key)
    elif isinstance(value, str) and not _is_inert(value, key):
        yield f"the {key or 'text'} {one_line(value, 60)!r}"


def _is_inert(text: str, key: str) -> bool:
    if key in ("expr_str", "guards_code"):
        return _is_arithmetic(text)
    if key == "target":
        return _OPERATOR.fullmatch(text) is not None and not _TOUCHES_FILES.match(text)
    if key in _PYTREE or key == "context":
        return _is_structure(text)
    return _NAME.fullmatch(text) is not None


def _is_structure(text: str) -> bool:
    """A pytree structure: JSON in a string, with more of it in its `context` strings."""
    if _NAME.fullmatch(text):
        return True
    try:
        return next(_suspicious(json.loads(text), ""), None) is None
    except (ValueError, RecursionError):
        return False


def _is_arithmetic(text: str) -> bool:
    """An expression of sizes: names, numbers, comparisons, and calls of the known functions and tensor methods."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, _NODES) and _is_plain(node) for node in ast.walk(tree))


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or (
            isinstance(node.func, ast.Name) and _FUNCTIONS.fullmatch(node.func.id) is not None
        )
    if isinstance(node, ast.Attribute):
        return node.attr in _METHODS
    if isinstance(node, ast.Name):
        return (_FUNCTIONS.fullmatch(node.id) or _VARIABLES.fullmatch(node.id)) is not None
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return isinstance(node.value, str) and _NAME.fullmatch(node.value) is not None
    return True

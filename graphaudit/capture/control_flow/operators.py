"""The operators that transpiled code calls, under the name `ag__` that malt's converters write."""

from __future__ import annotations

import operator
from types import SimpleNamespace

from malt.operators.variables import Undefined, UndefinedReturnValue

from graphaudit.capture.control_flow.alternatives import is_, is_not
from graphaudit.capture.control_flow.branches import and_, if_exp, if_stmt, not_, or_
from graphaudit.capture.control_flow.calls import converted_call
from graphaudit.capture.control_flow.comparisons import compared, contained, not_contained
from graphaudit.capture.control_flow.entries import filtered
from graphaudit.capture.control_flow.errors import assert_stmt, attempt, raised
from graphaudit.capture.control_flow.loops import for_stmt, while_stmt
from graphaudit.capture.control_flow.scopes import FunctionScope, ld, ldu, transpiled, with_function_scope
from graphaudit.capture.control_flow.tables import aug_item, get_item, set_item
from graphaudit.capture.control_flow.texts import percent, text
from graphaudit.capture.control_flow.varying import listed

_IN_PLACE = (
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"),
    *("iand", "ior", "ixor", "ilshift", "irshift", "imatmul"),
)

OPERATORS = SimpleNamespace(
    STD=None,
    FunctionScope=FunctionScope,
    Undefined=Undefined,
    UndefinedReturnValue=UndefinedReturnValue,
    and_=and_,
    assert_stmt=assert_stmt,
    aug_item=aug_item,
    attempt=attempt,
    autograph_artifact=transpiled,
    compared=compared,
    contained=contained,
    converted_call=converted_call,
    filtered=filtered,
    for_stmt=for_stmt,
    get_item=get_item,
    if_exp=if_exp,
    if_stmt=if_stmt,
    is_=is_,
    is_not=is_not,
    ld=ld,
    ldu=ldu,
    listed=listed,
    not_=not_,
    not_contained=not_contained,
    or_=or_,
    percent=percent,
    raised=raised,
    set_item=set_item,
    slice=slice,
    text=text,
    while_stmt=while_stmt,
    with_function_scope=with_function_scope,
    **{name: getattr(operator, name) for name in _IN_PLACE},
)

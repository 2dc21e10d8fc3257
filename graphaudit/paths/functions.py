"""The policy's functions with probes in them: same globals, same variables, same defaults."""

from __future__ import annotations

import ast
from functools import cache, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from graphaudit.capture.control_flow.transpile import NotTranspiled, source_of
from graphaudit.graphs.places import code_in, is_engine
from graphaudit.paths.sites import PROBE, Sites, probed


class Functions:
    """Gives functions of the user's, and of libraries above torch, a twin with probes; each source is read once."""

    def __init__(self, probe: Any) -> None:
        self.sites = Sites()
        self.codes: set[CodeType] = set()  # of the twins and of what is defined inside of them
        self.trees: dict[str, list[Any]] = {}  # of the functions met, by file
        self._probe = CellType(probe)
        self._twins: dict[CodeType, CodeType | None] = {}

    def twin(self, function: Any) -> Any:
        """The function with probes; the function itself where it is an engine's or its source is not at hand."""
        if isinstance(function, FunctionType):
            return self._twin(function)
        if isinstance(function, MethodType):
            inner = self.twin(function.__func__)
            return function if inner is function.__func__ else MethodType(inner, function.__self__)
        if isinstance(function, partial):
            return partial(self.twin(function.func), *function.args, **function.keywords)
        if isinstance(function, type):
            return self._class(function)
        cls: Any = type(function)
        call = _call_of(cls)
        return MethodType(self._twin(call), function) if call is not None else function

    def _class(self, cls: Any) -> Any:
        """Makes an object of a class of the user's, by the twin of its `__init__`."""
        init, new = cls.__init__, getattr(cls, "__new__", None)
        plain = type(cls) is type and new == object.__new__ and isinstance(init, FunctionType)
        twin = self._twin(init) if plain else init
        return cls if twin is init else partial(_construct, cls, twin)

    def _twin(self, function: FunctionType) -> FunctionType:
        code = function.__code__
        if code in self.codes:
            return function
        if is_engine(code.co_filename):
            return self._rewired(function)
        if code not in self._twins:
            self._twins[code] = self._compiled(code)
        made = self._twins[code]
        cells = dict(zip(code.co_freevars, function.__closure__ or ())) | {PROBE: self._probe}
        if made is None or any(name not in cells for name in made.co_freevars):
            return function
        return _like(function, made, tuple(cells[name] for name in made.co_freevars))

    def _rewired(self, function: FunctionType) -> FunctionType:
        """A wrapper of torch's, `no_grad` say, around the twin of the function that it wraps."""
        changed = False
        cells = []
        for cell in function.__closure__ or ():
            held = cell.cell_contents if _is_filled(cell) else None
            twin = self._twin(held) if isinstance(held, FunctionType) and hasattr(function, "__wrapped__") else held
            changed |= twin is not held
            cells.append(CellType(twin) if twin is not held else cell)
        return _like(function, function.__code__, tuple(cells)) if changed else function

    def _compiled(self, code: CodeType) -> CodeType | None:
        try:
            tree = source_of(code)
        except NotTranspiled:
            return None
        file = code.co_filename
        self.trees.setdefault(file, []).append(tree)
        made = _compile(probed(tree, file, self.sites), code)
        if made is not None:
            self.codes.update(code_in(made))
        return made


def _compile(tree: Any, code: CodeType) -> CodeType | None:
    """The code of the function in `tree`, with the variables and the class around it that `code` had."""
    statement = ast.Assign([ast.Name("_", ast.Store())], tree) if isinstance(tree, ast.Lambda) else tree
    body: list[ast.stmt] = [statement]
    parts = code.co_qualname.split(".")
    if len(parts) > 1 and parts[-2] != "<locals>":
        body = [ast.ClassDef(parts[-2], [], [], body, [])]  # gives private names and super() their class
    names = [PROBE, *(n for n in code.co_freevars if n != "__class__" or not isinstance(body[0], ast.ClassDef))]
    body = [*(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in names), *body]
    arguments = ast.arguments([], [], None, [], [], None, [])
    module = ast.Module([ast.FunctionDef(PROBE, arguments, body, [], None)], [])
    compiled = compile(ast.fix_missing_locations(module), code.co_filename, "exec", dont_inherit=True)
    found = (c for c in code_in(compiled) if c.co_name == code.co_name and c.co_firstlineno == tree.lineno)
    return next(found, None)


def _like(function: FunctionType, code: CodeType, closure: tuple[CellType, ...]) -> FunctionType:
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def _construct(cls: Any, init: Any, *args: Any, **kwargs: Any) -> Any:
    made = object.__new__(cls)
    init(made, *args, **kwargs)
    return made


@cache
def _call_of(cls: Any) -> FunctionType | None:
    """The `__call__` of a class of the user's, where it is written in Python."""
    call = next((vars(c)["__call__"] for c in cls.__mro__ if "__call__" in vars(c)), None)
    return call if isinstance(call, FunctionType) and not is_engine(call.__code__.co_filename) else None


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True

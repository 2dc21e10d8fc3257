"""Lets a subpackage and a function share a name: `graphaudit.audit` is both. Imports nothing heavy."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that can be called like the function `_function` of `graphaudit.api`."""

    _function: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("graphaudit.api"), self._function)(*args, **kwargs)


def make_callable(name: str, function: str) -> None:
    """Let the module `name`, which is being imported, be called like `graphaudit.api.FUNCTION`.

    Importing a subpackage binds it to its name in the parent, over a function of that name; so the subpackage answers.
    """
    module = sys.modules[name]
    module.__class__ = CallableModule
    module._function = function  # type: ignore[attr-defined]

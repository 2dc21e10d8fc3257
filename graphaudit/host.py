"""What this Python installation can do. Imports nothing heavy at its top."""

from __future__ import annotations

import importlib
from types import ModuleType

from graphaudit.errors import HostError
from graphaudit.text import one_line


def import_torch() -> ModuleType:
    """torch, or a HostError that says why it does not import.

    torch loads device back ends while it is imported (entry points `torch.backends`; `_import_device_backends` in
    torch/__init__.py, 2.13), and torch_npu on a host without CANN fails there.
    """
    try:
        return importlib.import_module("torch")
    except Exception as error:  # a back end may raise whatever it likes
        cause = error.__cause__ or error  # torch's own sentence only repeats the remedy below
        reason = one_line(f"{type(cause).__name__}: {cause}")
        if "backend extension" in str(error) or "torch_npu" in str(error):
            backend = "torch_npu" if "torch_npu" in str(error) else "a device back end"
            raise HostError(
                f"import torch fails, because {backend} does: {reason}",
                "Set TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment, or run where its driver (CANN) is installed.",
            ) from error
        raise HostError(
            f"import torch fails: {reason}", "Repair the installation of torch in this environment."
        ) from error


def import_extra(module: str, extra: str) -> ModuleType:
    """An optional dependency, or a HostError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise HostError(
            f"this needs {module.partition('.')[0]}, which does not import: {one_line(str(error))}",
            f"Install it: pip install 'graphaudit[{extra}]'.",
        ) from error

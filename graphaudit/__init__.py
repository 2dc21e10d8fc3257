"""graphaudit: audit, rewrite and verify PyTorch policies before they leave the training cluster."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("graphaudit")

"""Writing new files, and only new ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphaudit.errors import OutputError
from graphaudit.text import shown_path


def write_new(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write each text under its name in `folder`, which is made where it is missing. Returns the paths.

    Raises OutputError, before anything is written, where a file of one of the names exists.
    """
    paths = [folder / name for name in texts]
    for path in paths:
        if path.exists() or path.is_symlink():
            raise OutputError(f"{shown_path(path)} exists, and is left as it is", "Choose another name or --output.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise OutputError(f"{shown_path(folder)} is no folder", "Choose another --output.") from None
    for path, text in zip(paths, texts.values()):
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    return paths

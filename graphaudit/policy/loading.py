"""From what the user names to a `Policy`: Python files and modules, exported programs, Stable-Baselines3 archives.

`.onnx` files are models, not policies: `graphaudit.graphs.onnx_reader.load_onnx` reads those.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from torch import nn

from graphaudit.errors import ModelError, PolicyError
from graphaudit.policy.companions import Names, companions_of
from graphaudit.policy.policy import Policy
from graphaudit.policy.probe import probe
from graphaudit.policy.usercode import import_dotted, import_file, user_code
from graphaudit.text import one_line, shown_path, suggestion

FORMS = "Give path/to/file.py:NAME, package.module:NAME, a .pt2 file or a Stable-Baselines3 .zip."
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def load_policy(
    spec: str,
    *,
    trust: bool = False,
    example_inputs: str | None = None,
    example_kwargs: str | None = None,
    inputs: str | None = None,
    dynamic_shapes: str | None = None,
    reference: str | None = None,
) -> Policy:
    """The policy that `spec` names, run once on its example inputs.

    spec     `path/to/file.py:name`, `package.module:name`, `file.pt2` or `file.zip` (Stable-Baselines3); `name` is a
             zero-argument callable that returns an `nn.Module`, such a class, or a module object
    trust    allow what executes code hidden in a data file: unpickling a `.zip`, the unsafe parts of a `.pt2`

    The other arguments name objects beside the policy to use instead of the default names. Raises PolicyError where
    the user's code is at fault, ModelError for a damaged or unsafe file, HostError for a missing library.
    """
    names = Names(
        example_inputs=example_inputs,
        example_kwargs=example_kwargs,
        inputs=inputs,
        dynamic_shapes=dynamic_shapes,
        reference=reference,
    )
    loader = _FILE_LOADERS.get(Path(spec).suffix.lower())
    if loader is not None:
        names.refuse_for(spec)
        policy = loader(_existing(spec), trust)
        policy.name = one_line(spec)
    else:
        policy = _load_source(spec, names)
    probe(policy)
    return policy


def _load_source(spec: str, names: Names) -> Policy:
    container, separator, name = spec.rpartition(":")
    if not separator:
        raise _unnamed(spec)
    file: Path | None
    if container.endswith(".py"):
        file = _existing(container)
        module = import_file(file)
    elif _DOTTED.fullmatch(container):
        module = import_dotted(container)
        file = Path(module.__file__).resolve() if module.__file__ else None
    else:
        raise PolicyError(f"{one_line(spec)} does not name a policy", FORMS)
    folder = file.parent if file else None
    built = _build(spec, module, name, folder)
    return companions_of(module, names, folder=folder).policy(one_line(spec), built, file)


def _build(spec: str, module: ModuleType, name: str, folder: Path | None) -> nn.Module:
    where = one_line(spec.rpartition(":")[0])
    if not hasattr(module, name):
        known = [
            n for n, v in vars(module).items() if not n.startswith("_") and (callable(v) or isinstance(v, nn.Module))
        ]
        raise PolicyError(f"{where} has no {name!r}", suggestion(name, known) or f"It has {_listing(known)}.")
    value = getattr(module, name)
    if isinstance(value, nn.Module):
        return value
    if not callable(value):
        raise _not_a_module(spec, value)
    with user_code(one_line(spec), folder=folder):
        built = value()
    if not isinstance(built, nn.Module):
        raise _not_a_module(spec, built, returned=True)
    return built


def _not_a_module(spec: str, value: object, *, returned: bool = False) -> PolicyError:
    verb = "returned" if returned else "is"
    return PolicyError(
        f"{one_line(spec)} {verb} {_a(type(value).__name__)}, not an nn.Module",
        "Name a function without arguments that returns the module to deploy, or the module itself.",
    )


def _unnamed(spec: str) -> PolicyError | ModelError:
    path = Path(spec)
    if path.suffix == ".py":
        if not path.exists():
            return PolicyError(f"there is no file {shown_path(path)}", "Check the path.")
        return PolicyError(
            f"{one_line(spec)} is a file; which policy in it?",
            f"Name it: {one_line(spec)}:build, say, for a function build().",
        )
    if path.is_file():
        return ModelError(f"{shown_path(path)} is of no kind that graphaudit reads as a policy", FORMS)
    return PolicyError(f"{one_line(spec)!r} does not name a policy", FORMS)


def _existing(spec: str) -> Path:
    path = Path(spec)
    if not path.exists():
        near = suggestion(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise PolicyError(f"there is no file {shown_path(path)}", near or "Check the path.")
    if not path.is_file():
        raise PolicyError(f"{shown_path(path)} is not a file", FORMS)
    return path.resolve()


def _listing(names: list[str], limit: int = 6) -> str:
    if not names:
        return "nothing that could be a policy"
    return ", ".join(names[-limit:]) + (" and others" if len(names) > limit else "")


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _load_pt2(path: Path, trust: bool) -> Policy:
    from graphaudit.policy.pt2 import load_pt2

    return load_pt2(path, trust=trust)


def _load_sb3(path: Path, trust: bool) -> Policy:
    from graphaudit.policy.sb3 import load_sb3

    return load_sb3(path, trust=trust)


_FILE_LOADERS: dict[str, Callable[[Path, bool], Policy]] = {".pt2": _load_pt2, ".zip": _load_sb3}

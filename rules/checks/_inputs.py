"""The arguments that the user's own `inputs(seed)` draws, next to the example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphaudit.policy import Policy

_DRAWS = 8


def drawn(policy: Policy | None) -> list[tuple[Any, ...]]:
    """Positional arguments from `inputs(seed)` for seeds 0 to 7; none where the user has no such source."""
    if policy is None or policy.inputs is None:
        return []
    return [tuple(policy.inputs(seed)) for seed in range(_DRAWS)]


def leaves(args: tuple[Any, ...]) -> dict[str, Any]:
    """Path → value of everything among positional arguments, None included: `args[0]['image']`."""
    from torch.utils import _pytree as pytree

    return {"args" + pytree.keystr(keys): leaf for keys, leaf in pytree.tree_leaves_with_path(args)}


def values_at(policy: Policy | None, path: str) -> list[Any]:
    """What the drawn inputs have at the path of an argument; an input without that path gives nothing."""
    return [found[path] for args in drawn(policy) if path in (found := leaves(args))]


def parameter_of(policy: Policy, path: str) -> str:
    """The name in forward's signature of the argument behind a path; the path where there is none."""
    import inspect

    if path.startswith("kwargs"):
        return path.removeprefix("kwargs['").partition("'")[0]
    names = [p.name for p in inspect.signature(policy.module.forward).parameters.values()]
    index = int(path.removeprefix("args[").partition("]")[0])
    return names[index] if index < len(names) else path

"""Finds the steps before and after the network that make the module answer as the reference does.

A hypothesis is a change of one input together with a change of the output. It counts only if it makes all outputs on
all inputs the reference's. The candidates for the input come from two sources: what the network inside the reference
is really given (where the reference holds the very module), and the tensors of the input's width that the reference
holds and the module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphaudit.rules.checks._fit import AffineClip, describe, fit_affine_clip, same
from graphaudit.rules.checks._modules import statistic
from graphaudit.rules.checks._reference import Missing, Runs

if TYPE_CHECKING:
    import torch
    from torch import nn

_EPSILONS = (1e-8, 1e-5, 1e-4, 1e-3, 1e-2)
_CLIPS = (None, 10.0, 5.0)
_MOST_PAIRS = 12
_LEAST_ROWS = 8

Change = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Before:
    """A change of one input. `defect` and `text` say what it is; an empty defect is no change."""

    defect: str
    text: str
    slot: int
    change: Change


def explain(runs: Runs) -> Iterator[Missing]:
    """The missing steps, in the order in which the reference takes them; unconfirmed hints where nothing fits."""
    for befores in _befores(runs):
        outputs = _outputs_after(runs, befores)
        after = None if outputs is None else _after(*outputs)
        if after is None or outputs is None:
            continue
        rows = outputs[1].shape[0]
        for before in befores:
            yield Missing(before.defect, f"reference() {before.text}", _fit_text(rows))
        for defect, text in after:
            yield Missing(defect, f"reference() {text}", _fit_text(rows))
        return
    yield from _hints(runs)


def _fit_text(rows: int) -> str:
    return f"with this step the module gives the reference's answer in all {rows} rows of outputs compared"


def _befores(runs: Runs) -> Iterator[list[Before]]:
    """Changes of the inputs to try, the likely ones first."""
    yield []
    for slot, values in enumerate(runs.samples[0].tensors):
        inner = _inner_changes(runs, slot)
        if inner:
            yield inner
        if values.dim() >= 3:
            yield from _image_changes(runs, slot)
        if values.dim() and values.is_floating_point():
            yield from _normalisations(runs, slot)


def _image_changes(runs: Runs, slot: int) -> Iterator[list[Before]]:
    name = runs.policy.interface.inputs[slot].name
    scale = Before("image-scaling-missing", f"divides {name!r} by 255", slot, lambda x: x.float() / 255)
    layouts = [
        Before("layout-transpose-missing", f"moves the last dimension of {name!r} to the front of height and width "
               "(HWC to CHW)", slot, lambda x: x.movedim(-1, -3)),
        Before("layout-transpose-missing", f"moves the channels of {name!r} behind height and width (CHW to HWC)", slot,
               lambda x: x.movedim(-3, -1)),
        Before("layout-transpose-missing", f"exchanges the last two dimensions of {name!r}", slot,
               lambda x: x.transpose(-1, -2)),
    ]  # fmt: skip
    yield [scale]
    for layout in layouts:
        yield [layout]
        yield [layout, scale]


def _normalisations(runs: Runs, slot: int) -> Iterator[list[Before]]:
    """(x − mean) / spread with every pair of fitting tensors that only the reference holds, clipped or not."""
    name = runs.policy.interface.inputs[slot].name
    for (mean_name, mean), (spread_name, spread) in _statistics(runs, slot)[:_MOST_PAIRS]:
        for divisor in [spread, *((spread + e).sqrt() for e in _EPSILONS), *(spread + e for e in _EPSILONS)]:
            for clip in _CLIPS:
                clipped = f" and clips to ±{clip:g}" if clip else ""
                text = f"normalises {name!r} with its {mean_name} and {spread_name}{clipped}"
                yield [Before("normalisation-missing", text, slot, _normalise(mean, divisor, clip))]


def _normalise(mean: torch.Tensor, divisor: torch.Tensor, clip: float | None) -> Change:
    def change(x: torch.Tensor) -> torch.Tensor:
        normal = (x - mean.to(x.dtype)) / divisor.to(x.dtype)
        return normal if clip is None else normal.clamp(-clip, clip)

    return change


def _statistics(runs: Runs, slot: int) -> list[tuple[tuple[str, Any], tuple[str, Any]]]:
    """Pairs (mean, variance or deviation) of tensors of the input's width; those named like statistics first."""
    import torch

    width = runs.samples[0].tensors[slot].shape[-1]
    known = [*runs.policy.module.state_dict().values()]
    found: list[tuple[str, Any]] = []
    assert runs.policy.reference is not None
    for path, module in runs.policy.reference.named_modules():
        for key, value in {**module.__dict__, **dict(module.named_buffers(recurse=False))}.items():
            tensor = value if isinstance(value, torch.Tensor) else _from_numpy(value)
            if tensor is None or tensor.numel() not in (1, width) or not tensor.is_floating_point():
                continue
            if not any(tensor.shape == k.shape and torch.equal(tensor, k.to(tensor.dtype)) for k in known):
                found.append((f"{path}.{key}".lstrip("."), tensor.detach().flatten()))

    def likelihood(pair: tuple[tuple[str, Any], tuple[str, Any]]) -> int:
        kinds = [(statistic(name.rpartition(".")[2]) or ("", ""))[1] for name, _ in pair]
        return -(kinds[0] == "mean") - (kinds[1] == "spread")

    pairs = [(m, s) for m in found for s in found if m is not s and bool((s[1] > 0).all())]
    return sorted(pairs, key=likelihood)


def _from_numpy(value: Any) -> torch.Tensor | None:
    import numpy as np
    import torch

    return torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else None


def _inner_changes(runs: Runs, slot: int) -> list[Before]:
    """What the reference does to an input before it hands it to the module that it holds, read off at that module."""
    given = _given_to_inner(runs, slot)
    if given is None:
        return []
    own = [s.tensors[slot] for s in runs.samples]
    name = runs.policy.interface.inputs[slot].name
    fit = fit_affine_clip(own, given)
    if fit is None or fit.is_identity:
        return []
    if fit.is_scaling_by(1 / 255):
        return [Before("image-scaling-missing", f"divides {name!r} by 255", slot, fit.apply)]
    return [Before("normalisation-missing", f"normalises {name!r}: {_normaliser_text(fit)}", slot, fit.apply)]


def _normaliser_text(fit: AffineClip) -> str:
    deviation = 1 / fit.gain
    text = f"(x − {describe(-fit.offset * deviation)}) / {describe(deviation)}"
    return text if fit.low is None else f"{text}, clipped to between {describe(fit.low)} and {describe(fit.high)}"


def _given_to_inner(runs: Runs, slot: int) -> list[torch.Tensor] | None:
    """The tensor that the copy of the module inside the reference gets as its input `slot`, for each sample."""
    import torch
    from torch.utils import _pytree as pytree

    from graphaudit.policy.isolation import Working, private_copy

    assert runs.policy.reference is not None
    copied = private_copy(runs.policy.reference)
    inner = _inner_module(runs.policy.module, copied.module) if copied.is_copy else None
    if inner is None:
        return None
    seen: list[Any] = []
    inner.register_forward_pre_hook(lambda _, args, kwargs: seen.append((args, kwargs)), with_kwargs=True)
    working = Working(copied.module, is_copy=True)
    for sample in runs.samples:
        working(*sample.args, **sample.kwargs)
    given = [[leaf for leaf in pytree.tree_leaves(s) if isinstance(leaf, torch.Tensor)] for s in seen]
    if len(given) != len(runs.samples) or any(slot >= len(g) for g in given):
        return None
    return [g[slot].detach() for g in given]


def _inner_module(module: nn.Module, reference: nn.Module) -> nn.Module | None:
    """The part of the reference that is the module: same type, same parameters and buffers."""
    import torch

    wanted = module.state_dict()
    part: nn.Module
    for path, part in reference.named_modules():
        state = part.state_dict()
        is_alike = path and type(part) is type(module) and state.keys() == wanted.keys()
        if is_alike and all(state[k].shape == v.shape and torch.equal(state[k], v) for k, v in wanted.items()):
            return part
    return None


def _outputs_after(runs: Runs, befores: list[Before]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """(module's, reference's) first differing output under a change of inputs, (rows, columns); None if it fails."""
    import torch
    from torch.utils import _pytree as pytree

    results = runs.module_results
    if befores:
        results = []
        for number, sample in enumerate(runs.samples):
            leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
            places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            try:
                for before in befores:
                    leaves[places[before.slot]] = before.change(leaves[places[before.slot]])
                args, kwargs = pytree.tree_unflatten(leaves, spec)
                results.append(runs.run_module(args, kwargs, number))
            except Exception:  # the user's forward does not take such an input: not what is missing
                return None
    pairs = [(m, r) for m, r in zip(results, runs.reference_results) if len(m) == len(r)]
    if len(pairs) < len(runs.samples):
        return None
    chosen: tuple[torch.Tensor, torch.Tensor] | None = None
    for slot in range(len(pairs[0][0])):
        if any(m[slot].shape != r[slot].shape for m, r in pairs):
            return None
        width = pairs[0][0][slot].shape[-1] if pairs[0][0][slot].dim() > 1 else 1
        mine, theirs = (torch.cat([p[i][slot].double().reshape(-1, width) for p in pairs]) for i in (0, 1))
        if not same(mine, theirs):
            if chosen is not None:
                return None  # two outputs differ: one change of the output does not explain both
            chosen = mine, theirs
        elif chosen is None and slot == len(pairs[0][0]) - 1:
            chosen = mine, theirs
    return chosen


def _after(mine: torch.Tensor, theirs: torch.Tensor) -> list[tuple[str, str]] | None:
    """The changes of the output, (defect, text), that turn `mine` into `theirs`; None if none is found."""
    import torch

    if same(mine, theirs):
        return []
    if mine.shape[0] < _LEAST_ROWS:
        return None
    squashes: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
        ("tanh", torch.tanh),
        ("sigmoid", torch.sigmoid),
    ]
    plain = fit_affine_clip([mine], [theirs])
    if plain is not None:
        return _affine_steps(plain)
    for name, function in squashes:
        fit = fit_affine_clip([function(mine)], [theirs])
        if fit is not None:
            return [("action-squash-missing", f"squashes the output with {name}"), *_affine_steps(fit)]
    return None


def _affine_steps(fit: AffineClip) -> list[tuple[str, str]]:
    steps = []
    if not fit.is_identity_without_clip:
        text = f"rescales the output by {describe(fit.gain)} and adds {describe(fit.offset)}"
        steps.append(("action-rescale-missing", text))
    if fit.low is not None:
        text = f"clips the output to between {describe(fit.low)} and {describe(fit.high)}"
        steps.append(("action-clip-missing", text))
    return steps


def _hints(runs: Runs) -> Iterator[Missing]:
    """Where nothing fits: statistics of an input's width that the reference holds and the module does not."""
    for slot, values in enumerate(runs.samples[0].tensors):
        if not values.dim() or not values.is_floating_point():
            continue
        for (mean, _), (spread, _) in _statistics(runs, slot):
            if all(statistic(n.rpartition(".")[2]) for n in (mean, spread)):
                name = runs.policy.interface.inputs[slot].name
                text = f"reference() holds {mean} and {spread}, of the width of {name!r}; the module has neither"
                yield Missing("normalisation-missing", text, "the tensors alone; no step that was tried fits", False)
                return

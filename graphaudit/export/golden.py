"""Golden inputs and outputs: some samples with eager's answers, so that a bundle can be checked where it runs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from graphaudit.equivalence.eager import seeded
from graphaudit.graphs.noise import run_with_noise
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.interface import Interface

if TYPE_CHECKING:
    from graphaudit.equivalence.reference import Reference
    from graphaudit.runtimes import Runner

Array = NDArray[Any]

COUNT = 8
LIMIT = 1 << 24  # elements; past that, the samples chosen so far have to do


@dataclass(frozen=True)
class Golden:
    """One sample in the order of the interface: inputs, eager's outputs, and how far from those an output may be.

    `noise` is what eager drew for the sample, in the order of the model's noise inputs. `bounds` are float64, of the
    outputs' shapes or broadcastable to them; 0 for integers.
    """

    inputs: Sequence[torch.Tensor]
    noise: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]
    bounds: Sequence[torch.Tensor]


def choose_golden(reference: Reference, model: OnnxModel, run: Runner, count: int = COUNT) -> list[Golden]:
    """The example, and samples of each family in turn: the user's own inputs, and inputs drawn by the tool.

    Of a policy with state, the steps of its first episode. `run` gives all outputs of the model.
    """
    chosen: list[Golden] = []
    elements = 0
    for number in sorted(_in_turn(reference)[:count]):
        inputs, outputs, bounds = reference.answers(number)
        with seeded(number):  # the seed under which the reference ran eager
            noise = _noise_of(model, inputs, run)
        golden = Golden(inputs, noise, outputs, bounds)
        if number in reference.beyond_bounds:
            continue
        elements += sum(t.numel() for t in (*inputs, *noise, *outputs))
        if chosen and elements > LIMIT:
            break
        chosen.append(golden)
    return chosen


def _noise_of(model: OnnxModel, inputs: Sequence[torch.Tensor], run: Runner) -> list[torch.Tensor]:
    def complete(noise: list[torch.Tensor]) -> list[torch.Tensor]:
        return run([*inputs, *noise])

    return run_with_noise(model.noise, inputs, model.arguments, model.drawn, complete)[0]


def _in_turn(reference: Reference) -> list[int]:
    if reference.policy.interface.state:
        return [n for n, sample in enumerate(reference.samples) if not sample.is_far]
    families: dict[str, list[int]] = {}
    for number, sample in enumerate(reference.samples):
        families.setdefault(sample.family, []).append(number)
    return [n for turn in zip_longest(*families.values()) for n in turn if n is not None]


def golden_arrays(
    interface: Interface, model: OnnxModel, samples: Sequence[Golden], answers: Sequence[Sequence[torch.Tensor]]
) -> bytes:
    """The bytes of golden.npz: `0/in/obs`, `0/out/action`, `0/tolerance/action`, and so on for each sample.

    `answers` are the bundle's own outputs, which its certificate accepts. Where an answer is accepted although it is
    not within the bound (a tie that eager itself may break otherwise), the tolerance is its distance; where eager is
    not finite and the answer is not the same, the tolerance is infinite. The same samples give the same bytes.
    """
    arrays: dict[str, torch.Tensor] = {}
    for number, (sample, given) in enumerate(zip(samples, answers, strict=True)):
        names = [s.name for s in interface.inputs] + [n.name for n in model.noise]
        for name, tensor in zip(names, (*sample.inputs, *sample.noise), strict=True):
            arrays[f"{number}/in/{name}"] = tensor
        for output, eager, answer, bound in zip(interface.outputs, sample.outputs, given, sample.bounds):
            arrays[f"{number}/out/{output.name}"] = eager
            arrays[f"{number}/tolerance/{output.name}"] = _tolerance(eager, answer, bound)
    return archive(arrays)


def archive(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The bytes of an .npz file; the same tensors give the same bytes."""
    stream = io.BytesIO()
    # numpy dates every member 1980-01-01 (zipfile's default for names), so the bytes depend on the arrays alone.
    np.savez(stream, **{name: _array(t) for name, t in tensors.items()})  # type: ignore[arg-type]  # names, no options
    return stream.getvalue()


def _tolerance(eager: torch.Tensor, answer: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    wanted, given = eager.double(), answer.double()
    distance = (given - wanted).abs()
    same = (given == wanted) | (given.isnan() & wanted.isnan())
    distance = torch.where(same, 0.0, torch.where(distance.isfinite(), distance, torch.inf))
    return torch.maximum(distance, bound.double().broadcast_to(distance.shape))


def _array(tensor: torch.Tensor) -> Array:
    tensor = tensor.float() if tensor.dtype is torch.bfloat16 else tensor  # which NumPy has not
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().numpy()

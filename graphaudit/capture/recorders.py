"""The recorders behind `observe`: each turns one kind of run-time signal into events at the user's lines."""

from __future__ import annotations

import cProfile
import datetime
import inspect
import random
import re
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from graphaudit.capture.events import Event, EventKind
from graphaudit.capture.source import Context, is_literal_call, locate, span_of
from graphaudit.findings import Place
from graphaudit.graphs.namespaces import is_custom
from graphaudit.graphs.places import is_engine, is_library, place_of
from graphaudit.policy.held import HeldGenerators

_TORCH = str(next(iter(torch.__path__))) + "/"
# What nn.TransformerEncoderLayer and nn.MultiheadAttention call in eval mode without gradients.
_FUSED = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
_MACHINERY = ("/overrides.py", "/_python_dispatch.py", "/_ops.py", "/_dynamo/eval_frame.py", "/_compile.py")
_RANDOM_MODULE = random.__file__
_IN_PLACE = re.compile(r"[a-z]\w*_|__setitem__|__i(?!nvert|nt|ndex)\w+__")
_CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}


class Recording:
    """Collects events; knows the user's frame and the statement being executed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.passes: dict[Place, int] = {}  # of loops, by the place of what decides them: see Observation
        self._running: dict[Place, int] = {}
        self.function = ""  # the torch function or method that the innermost Python code called

    def add(self, kind: EventKind, detail: str = "", frame: FrameType | None = None) -> None:
        """Record an event where the user's code stands right now."""
        frames = self._frames(frame or sys._getframe(1))
        place, context = self._locate(frames)
        if place is not None:
            self.events.append(Event(kind, place, detail, context.statement, context.inside))

    def count(self, kind: EventKind, value: Any) -> None:
        """Count a pass, if the event that was just recorded decided a loop with `value`."""
        event = self.events[-1] if self.events else None
        if event is None or event.kind is not kind or event.place is None:
            return
        if kind is EventKind.ITEM and isinstance(value, int):
            most = value
        elif kind is EventKind.BOOL:
            ended = event.statement == "while" and not value
            most = self._running.get(event.place, 0) + (not ended)
            self._running[event.place] = 0 if ended else most
        else:
            return
        self.passes[event.place] = max(self.passes.get(event.place, 0), most)

    def add_own(self, kind: EventKind, detail: str, frame: FrameType) -> None:
        """As `add`, but only where the user's own code, not a library it calls, does it."""
        files = [f.f_code.co_filename for f in self._frames(frame) if not is_engine(f.f_code.co_filename)]
        if files and not is_library(files[-1]):
            self.add(kind, detail, frame)

    @staticmethod
    def innermost(frame: FrameType) -> str:
        """The file whose code made the call, past graphaudit's own frames and torch's dispatch machinery."""
        here: FrameType | None = frame
        while here is not None:
            file = here.f_code.co_filename
            machinery = file.startswith(_TORCH) and file.endswith(_MACHINERY)
            if not machinery and here.f_globals.get("__name__", "").split(".", 1)[0] != "graphaudit":
                return file
            here = here.f_back
        return ""

    @staticmethod
    def _frames(frame: FrameType) -> list[FrameType]:
        """The frames of the policy, outermost first: what called graphaudit is no part of it."""
        frames = []
        here: FrameType | None = frame
        while here is not None and here.f_globals.get("__name__") != "graphaudit.capture.observe":
            frames.append(here)
            here = here.f_back
        return frames[::-1]

    @staticmethod
    def _locate(frames: Sequence[FrameType]) -> tuple[Place | None, Context]:
        place = place_of([(f.f_code.co_filename, f.f_lineno) for f in frames])
        if place is None:
            return None, Context()
        candidates = [f for f in frames if not is_engine(f.f_code.co_filename)]
        own = [f for f in candidates if not is_library(f.f_code.co_filename)] or candidates
        span, context = locate(span_of(own[-1]))
        if own[-1] is not candidates[-1]:
            context = locate(span_of(candidates[-1]))[1]
        end = span.end_column if span.end_line == span.line else None
        return Place(place.file, span.line, span.column, end, place.via), context


class Conversions(TorchFunctionMode):
    """Tensors that become Python or NumPy values, tensors made of such values, tensors that are given other data."""

    def __init__(self, recording: Recording, storages: Storages) -> None:
        super().__init__()
        self._recording = recording
        self._storages = storages
        tensor = torch.Tensor
        self._kinds: dict[Any, EventKind] = {
            tensor.__bool__: EventKind.BOOL,
            tensor.__int__: EventKind.ITEM,
            tensor.__float__: EventKind.ITEM,
            tensor.__index__: EventKind.ITEM,
            tensor.item: EventKind.ITEM,
            tensor.tolist: EventKind.TOLIST,
            tensor.numpy: EventKind.NUMPY,
            tensor.__array__: EventKind.NUMPY,
            torch.tensor: EventKind.REBUILT,
            torch.as_tensor: EventKind.REBUILT,
            torch.from_numpy: EventKind.REBUILT,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._recording.function = getattr(func, "__name__", "")
        kind = self._kinds.get(func)
        if kind is not None:
            self._note(kind, func, args)
        elif func == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            owner = self._storages.owner(args[0])
            if owner is not None:
                self._recording.add(*owner, sys._getframe(1))
        result = func(*args, **(kwargs or {}))
        if kind is not None:
            self._recording.count(kind, result)
        return result

    def _note(self, kind: EventKind, func: Any, args: Any) -> None:
        frame = sys._getframe(2)
        caller = Recording.innermost(frame)
        if kind is EventKind.REBUILT:
            if not (isinstance(args[0], torch.Tensor) or caller.startswith(_TORCH) or is_literal_call(span_of(frame))):
                self._recording.add_own(kind, func.__name__, frame)
            return
        if kind is EventKind.BOOL and "/torch/distributions/" in caller:
            kind = EventKind.VALIDATION
        self._recording.add(kind, func.__name__, frame)


class Dispatches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws, data-dependent shapes, and writes to tensors, seen at the ATen level."""

    supports_higher_order_operators = True

    def __init__(self, recording: Recording, storages: Storages) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recording = recording
        self._storages = storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*args, **kwargs)
        frame = sys._getframe(1)
        name = func.name()
        if is_custom(func.namespace):
            self._recording.add(EventKind.CUSTOM_OP, name, frame)
        if torch.Tag.nondeterministic_seeded in func.tags and not _zero_probability(name, args):
            kind = EventKind.GENERATOR if kwargs.get("generator") is not None else EventKind.RANDOM
            self._recording.add(kind, name, frame)
        if torch.Tag.dynamic_output_shape in func.tags and _data_shaped(name, args):
            self._recording.add(EventKind.DATA_SHAPE, _shape_detail(name), frame)
        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._write(name, args[position] if position < len(args) else kwargs.get(argument.name), frame)
        return func(*args, **kwargs)

    def _write(self, op: str, target: Any, frame: FrameType) -> None:
        for tensor in pytree.tree_leaves(target):
            if not isinstance(tensor, torch.Tensor):
                continue
            owner = self._storages.owner(tensor)
            if owner is not None:
                self._recording.add(*owner, frame)
            elif _IN_PLACE.fullmatch(self._recording.function) and not Recording.innermost(frame).startswith(_TORCH):
                self._recording.add(EventKind.IN_PLACE, op, frame)


class Storages:
    """Whose memory a tensor is: an argument's, a buffer's, a parameter's, an attribute's."""

    def __init__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._owners: dict[int, tuple[EventKind, str]] = {}
        for keys, leaf in pytree.tree_leaves_with_path((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                root = "args" if keys[0] == pytree.SequenceKey(0) else "kwargs"
                self._put(leaf, EventKind.WRITE_INPUT, root + pytree.keystr(tuple(keys[1:])))
        for prefix, part in module.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, torch.Tensor):
                    self._put(value, EventKind.WRITE_ATTRIBUTE, f"{prefix}.{name}" if prefix else name)
        for name, parameter in module.named_parameters():
            self._put(parameter, EventKind.WRITE_PARAMETER, name)
        for name, buffer in module.named_buffers():
            self._put(buffer, EventKind.WRITE_BUFFER, name)

    def owner(self, tensor: torch.Tensor) -> tuple[EventKind, str] | None:
        """The kind of write and the name of what is written to; None for a tensor made inside forward."""
        return self._owners.get(_storage(tensor))

    def _put(self, tensor: torch.Tensor, kind: EventKind, name: str) -> None:
        if tensor.numel():
            self._owners[_storage(tensor)] = (kind, name)


class CallRecorder:
    """Calls of Python's and NumPy's generators, of clocks, and of the torch functions that change what capture sees."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._previous: Any = None
        self._python = _watched_functions()

    def __enter__(self) -> None:
        self._previous = sys.getprofile()
        sys.setprofile(self._profile)

    def __exit__(self, *_: object) -> None:
        if isinstance(self._previous, cProfile.Profile):  # is no function; it puts itself in place
            self._previous.enable()
        else:
            sys.setprofile(self._previous)

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            kind = self._python.get(frame.f_code)
            if kind is not None:
                self._call(kind, frame)
        elif event == "c_call":
            kind = _foreign_kind(arg)
            torchs_own = kind is not EventKind.FAST_PATH and _caller(frame).startswith(_TORCH)
            if kind is not None and not torchs_own and not _imports(frame):
                self._recording.add(kind, arg.__name__, frame)

    def _call(self, kind: EventKind, frame: FrameType) -> None:
        me = frame.f_locals.get("self")
        detail = frame.f_code.co_name
        if kind is EventKind.ITERATE:
            if Recording.innermost(frame.f_back or frame).startswith(_TORCH):
                return
            detail = str(len(me)) if isinstance(me, torch.Tensor) and me.dim() else "0"
        elif kind is EventKind.DISTRIBUTION:
            detail = type(me).__name__
        self._recording.add(kind, detail, frame)


class NumpyRandomWatch:
    """Draws from NumPy's generators: the global one, and those that the module holds.

    NumPy's methods raise no profiler events, so the state is compared at every line of the user's code.
    """

    def __init__(self, recording: Recording, module: nn.Module) -> None:
        self._recording = recording
        self._bits = [np.random.mtrand._rand._bit_generator]
        self._bits += [bits for source in HeldGenerators(module).sources.values() if (bits := _bit_generator(source))]
        self._seen = self._states()
        self._previous: Any = None

    def changed(self) -> bool:
        """Whether any generator moved since this watch was made."""
        return self._states() != self._seen

    def __enter__(self) -> None:
        self._seen = self._states()
        self._previous = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._previous)

    def _trace(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        if is_engine(frame.f_code.co_filename):
            return None
        line = frame.f_lineno

        def each_line(frame: FrameType, _event: str, _arg: Any) -> Any:
            nonlocal line
            states = self._states()
            if states != self._seen:
                self._seen = states
                outer = [(f.f_code.co_filename, f.f_lineno) for f in Recording._frames(frame)[:-1]]
                place = place_of([*outer, (frame.f_code.co_filename, line)])
                self._recording.events.append(Event(EventKind.NUMPY_RANDOM, place, "numpy.random"))
            line = frame.f_lineno
            return each_line

        return each_line

    def _states(self) -> list[str]:
        return [repr(b.state) for b in self._bits]


def _bit_generator(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return value.bit_generator
    return value._bit_generator if isinstance(value, np.random.RandomState) else None


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _zero_probability(name: str, args: Sequence[Any]) -> bool:
    """Dropout and attention ops carry the tag although nothing is drawn at probability 0."""
    return "dropout" not in name and "attention" in name and not any(isinstance(a, float) and a > 0 for a in args)


def _data_shaped(name: str, args: Sequence[Any]) -> bool:
    """`aten.index` carries the tag although only boolean indices make its shape depend on data."""
    if name.split("::")[-1].split(".")[0] not in ("index", "_index", "_unsafe_index"):
        return True
    return any(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])


def _shape_detail(name: str) -> str:
    return "bool-mask-index" if name.startswith("aten::index") else name


def _watched_functions() -> dict[Any, EventKind]:
    from torch._higher_order_ops.while_loop import while_loop
    from torch.distributions import Distribution
    from torch.nn.utils import rnn

    functions: list[tuple[Callable[..., Any], EventKind]] = [
        (Distribution.__init__, EventKind.DISTRIBUTION),
        (torch.Tensor.__iter__, EventKind.ITERATE),
        (torch.autograd.grad, EventKind.GRADIENT),
        (torch.autograd.backward, EventKind.GRADIENT),
        (torch._functorch.eager_transforms.jvp, EventKind.GRADIENT),
        (torch.cond, EventKind.CONTROL_FLOW_OP),
        (while_loop, EventKind.CONTROL_FLOW_OP),
        (rnn.pack_padded_sequence, EventKind.PACKED),
        (rnn.pack_sequence, EventKind.PACKED),
    ]
    return {inspect.unwrap(f).__code__: kind for f, kind in functions}


def _foreign_kind(function: Any) -> EventKind | None:
    if getattr(function, "__name__", None) in _FUSED:
        return EventKind.FAST_PATH
    owner = getattr(function, "__self__", None)
    if isinstance(owner, random.Random):
        return EventKind.PYTHON_RANDOM
    if getattr(function, "__module__", None) == "time" and function.__name__ in _CLOCKS:
        return EventKind.CLOCK
    if (owner is datetime.datetime or owner is datetime.date) and function.__name__ in ("now", "utcnow", "today"):
        return EventKind.CLOCK
    return None


def _imports(frame: FrameType) -> bool:
    """Whether the call happens while a module is imported: libraries seed generators of their own then."""
    here: FrameType | None = frame
    while here is not None:
        if here.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        here = here.f_back
    return False


def _caller(frame: FrameType) -> str:
    """The file that called, past the standard library's own random module."""
    here: FrameType | None = frame
    while here is not None and here.f_code.co_filename == _RANDOM_MODULE:
        here = here.f_back
    return here.f_code.co_filename if here is not None else ""

"""The format of manifest.json: what is in a bundle, and how calls of the policy map to the model. Imports no torch.

`inputs` and `outputs` stand in the order of the model's. A path is written as Python would: `args[0]['image']`,
`kwargs['x']`; a result's path starts at the result (`['action']`; empty where the result is one tensor).
`call` holds what is needed to offer the policy's own signature: its parameters, and the structure of arguments and
result as trees whose leaves name inputs and outputs.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from graphaudit.errors import BundleError

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
MODEL = "model.onnx"
GOLDEN = "golden.npz"
CERTIFICATE = "certificate.json"
REPORT = "report.json"
STATE = "state.npz"

Dimension = int | str
Scalar = bool | int | float | str | None


class HashedFile(msgspec.Struct, frozen=True):
    """A file of the bundle; `file` is a plain name, never a path."""

    file: str
    sha256: str


class ModelFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ONNX model, and the file with its weights where they are larger than one protobuf message (2 GB)."""

    file: str
    sha256: str
    external_data: list[HashedFile] = []


class TargetRecord(msgspec.Struct, frozen=True):
    """The target, the opset of the model, and the sources of the rules with the day they were read (ISO 8601)."""

    name: str
    opset: int
    facts: str
    date: str


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One input of the model. An argument has `path`; noise `distribution`, `parameters` and `draw`; state `initial`.

    `shape` holds sizes, or names for the dimensions that may vary. `draw` is the place in the order in which the
    policy draws, `generator` whose draw it is if not PyTorch's: Python's or NumPy's global one (`python`,
    `numpy-legacy`), or one of the manifest's `generators`. Noise of a branch has `when`, the name of an output that
    says whether the policy makes that draw: where it is false, the generator goes back to before it, and the draws
    after it come from there, which may need another run. `initial` is a key of state.npz, whose array repeats
    along dimensions that may vary; the `path` of state is its place in the module (`rnn.h`), `rows` the axis on which
    it has one entry for each row of the batch.
    """

    name: str
    role: Literal["argument", "noise", "state"]
    dtype: str
    shape: list[Dimension]
    path: str | None = None
    distribution: Literal["uniform", "normal", "exponential", "randint", "permutation", "subset"] | None = None
    parameters: dict[str, float] | None = None
    draw: int | None = None
    generator: str | None = None
    when: str | None = None
    initial: str | None = None
    rows: int | None = None


class HeldGenerator(msgspec.Struct, frozen=True, kw_only=True):
    """A generator that the policy holds (`self.rng`) and draws from: its kind, and its state when the policy was
    audited. `torch` is a torch.Generator, `python` a random.Random, `numpy-legacy` a RandomState, `numpy` a Generator.
    """

    name: str
    kind: Literal["torch", "python", "numpy-legacy", "numpy"]
    state: Any


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One output of the model. A result has `path`; state has `feeds`, the name of the input it returns to. `drawn`
    says whether the policy makes the noise that names it.

    A guard has `condition`: what is the case where it is true.

    A dimension of `shape` that is neither a size nor named is None: it depends on data.
    """

    name: str
    role: Literal["result", "state", "guard", "drawn"]
    dtype: str
    shape: list[Dimension | None]
    path: str | None = None
    feeds: str | None = None
    condition: str | None = None


class Leaf(msgspec.Struct, frozen=True, tag="tensor", tag_field="kind", omit_defaults=True):
    """A tensor: the input or output of that name. `number` is the dtype that a Python number takes in its place; zeros
    stand for None where it is `optional`."""

    name: str
    number: Literal["bool", "int64", "float64"] | None = None
    optional: bool = False


class Number(msgspec.Struct, frozen=True, tag="number", tag_field="kind"):
    """A Python number among the results: the output of that name, which has one element."""

    name: str


class Fixed(msgspec.Struct, frozen=True, tag="fixed", tag_field="kind", omit_defaults=True):
    """A Python value that the graph has taken as a constant. `repr` stands for what JSON cannot hold."""

    value: Scalar = None
    repr: str | None = None

    @classmethod
    def of(cls, value: Any) -> Fixed:
        """The record of `value`."""
        scalar = value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))
        return cls(value=value) if scalar and not _overflows(value) else cls(repr=repr(value))

    def matches(self, value: Any) -> bool:
        """Whether `value` is of the same type and equal (of the same `repr`, where that is all that is known)."""
        if self.repr is not None:
            return repr(value) == self.repr
        return type(value) is type(self.value) and bool(value == self.value)

    def __str__(self) -> str:
        return self.repr if self.repr is not None else repr(self.value)


class Branch(msgspec.Struct, frozen=True, kw_only=True, tag="branch", tag_field="kind", omit_defaults=True):
    """A container. `keys` are the keys of a dict or the fields of a named tuple or object; `type` names their class."""

    container: Literal["tuple", "list", "dict", "namedtuple", "object"]
    items: list[Tree]
    keys: list[Scalar] = []
    type: str = ""


Tree = Leaf | Number | Fixed | Branch


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One parameter of the policy's forward; `kind` is the name of `inspect.Parameter`'s kind. `default` None: none."""

    name: str
    kind: Literal["POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY", "VAR_KEYWORD"]
    default: Fixed | None = None


class Call(msgspec.Struct, frozen=True):
    """The policy's signature, the example's positional and keyword arguments, and its result."""

    parameters: list[Parameter]
    args: list[Tree]
    kwargs: dict[str, Tree]
    result: Tree


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The document itself. `files` are the other files of the bundle; `replay` is for policies that sample:
    what `torch.manual_seed` alone replays, and the states of `generators`, which the policy holds. Noise of a global
    generator of Python's or NumPy's replays from that generator's own seed.
    """

    schema_version: int = SCHEMA_VERSION
    graphaudit_version: str
    policy: str
    target: TargetRecord
    model: ModelFile
    files: list[HashedFile]
    versions: dict[str, str]
    seed: int
    replay: Literal["exact", "distribution"] | None = None
    generators: list[HeldGenerator] = []
    inputs: list[Input]
    outputs: list[Output]
    call: Call

    @property
    def hashed(self) -> list[HashedFile]:
        """Every file of the bundle but the manifest itself."""
        return [HashedFile(self.model.file, self.model.sha256), *self.model.external_data, *self.files]


def to_json(document: Any) -> bytes:
    """A document as readable JSON; the same document gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=1) + b"\n"


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a bundle. Raises BundleError where there is none that this release understands."""
    path = directory / MANIFEST
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise BundleError(
            f"{directory} is not a bundle: it has no {MANIFEST}", "Make one with `graphaudit rewrite`."
        ) from None
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from error
    try:
        version = msgspec.json.decode(raw, type=_Version).schema_version
        if version == SCHEMA_VERSION:
            return msgspec.json.decode(raw, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(f"{path} is damaged: {error}", "Make the bundle again.") from error
    raise BundleError(
        f"{path} has schema version {version}; this release of graphaudit reads version {SCHEMA_VERSION}",
        "Make the bundle again, or use the release that made it.",
    )


class _Version(msgspec.Struct):
    schema_version: int


def _overflows(value: Any) -> bool:
    return type(value) is int and not -(2**63) <= value < 2**63

"""Runs a bundle: a callable with the policy's own signature, and the check of its golden inputs. Imports no torch."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from graphaudit.errors import BundleError, GuardError
from graphaudit.export.call import Array, Signature, result_builder
from graphaudit.export.manifest import GOLDEN, STATE, Manifest, read_manifest
from graphaudit.export.noise import NoiseInputs
from graphaudit.export.state import CarriedState
from graphaudit.runtimes.buffered import BufferedSession
from graphaudit.runtimes.onnxruntime import RuntimeRefused, run_session, session


class DeployedPolicy:
    """A bundle as a callable with the policy's own signature.

    Takes NumPy arrays or torch tensors; returns the policy's own structure, in torch tensors if any argument was one,
    else in NumPy arrays. Raises GuardError for calls outside of what the bundle was made for.

    A policy that samples draws from a stream of its own, which `seed` starts as `torch.manual_seed` starts PyTorch's;
    at first it stands where `manifest.seed` starts it. `noise={name: array}` in a call gives the noise instead, unless
    the policy itself has a parameter called `noise`. A policy that keeps state between calls has it carried from call
    to call; `reset` starts an episode. `state` saves and restores both.
    """

    def __init__(self, directory: Path, manifest: Manifest, threads: int = 1) -> None:
        self._noise = NoiseInputs(manifest)
        self._carried = CarriedState(manifest.inputs, manifest.outputs, _first_state(directory, manifest))
        self.manifest = manifest
        self._call = Signature(manifest.call, manifest.inputs)
        self.__signature__ = self._call.signature
        try:
            self._session = session(directory / manifest.model.file, threads)
        except RuntimeRefused as error:
            raise BundleError(f"ONNX Runtime does not load {directory}: {error.reason}") from error
        names = [i.name for i in self._session.get_inputs()], [o.name for o in self._session.get_outputs()]
        if names != ([i.name for i in manifest.inputs], [o.name for o in manifest.outputs]):
            raise BundleError(f"the model in {directory} has other inputs or outputs than its manifest says")
        try:
            self._build = result_builder(manifest.call.result, names[1])
        except ValueError as error:
            raise BundleError(f"the manifest of {directory} is damaged: {error}", "Make the bundle again.") from error
        sized = all(size is not None for output in manifest.outputs for size in output.shape)
        self._buffered = BufferedSession(self._session, sized)
        self._guards = [(i, o) for i, o in enumerate(manifest.outputs) if o.role == "guard"]
        self._arguments = [i for i in manifest.inputs if i.role == "argument"]
        self._has_more = bool(self._noise) or bool(self._carried)
        self._takes_noise = bool(self._noise) and "noise" not in self.__signature__.parameters

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The policy's forward."""
        given = kwargs.pop("noise", None) if kwargs and self._takes_noise else None
        arrays, as_tensors = self._call.arrays(args, kwargs)
        if not self._has_more:
            results = self._run_buffered(arrays)
        elif given is None:
            results = self._noise.through(self._feeds(arrays), self._run_ordered)
        else:
            feeds = self._feeds(arrays)
            results = self._run_ordered(feeds | self._noise.check(given, feeds))
        for index, guard in self._guards:
            if results[index].any():
                raise GuardError(
                    f"{guard.name} is true: {guard.condition or 'the model is not the policy here'}",
                    "Handle this input before the policy; the bound of a loop may be raised with --loop-bound.",
                )
        if self._has_more:
            self._carried.carry({o.name: r for o, r in zip(self.manifest.outputs, results)})
        return self._build(results, as_tensors)

    def feeds(self, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """What a call with these arguments gives to `run`: all inputs by name, noise and state too; draws the noise."""
        given: dict[str, Array] = {}

        def run(feeds: dict[str, Array]) -> Sequence[Array]:
            given.update(feeds)
            return self._run_ordered(feeds)

        self._noise.through(self._feeds(self._call.arrays(args, kwargs)[0]), run)
        return {i.name: given[i.name] for i in self.manifest.inputs}

    def _feeds(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Arguments and state by name."""
        feeds = {i.name: array for i, array in zip(self._arguments, arrays)}
        return feeds | self._carried.feeds(feeds)

    def _run_ordered(self, feeds: dict[str, Array]) -> Sequence[Array]:
        return self._run_buffered([feeds[i.name] for i in self.manifest.inputs])

    def _run_buffered(self, arrays: list[Array]) -> Sequence[Array]:
        try:
            return self._buffered.run(arrays)
        except RuntimeRefused as error:
            raise _not_run(error) from error

    def seed(self, seed: int, generator: str | None = None) -> None:
        """Start the stream of draws over, as `torch.manual_seed(seed)` does for the PyTorch policy.

        Draws of Python's or NumPy's generator start as `random.seed(seed)` and `numpy.random.seed(seed)` start them. A
        generator that the policy holds goes back to where it stood when the policy was handed over, because no global
        seed reaches it; `generator="self.rng"` starts that one alone, as its own library does with that seed. Raises
        GuardError for another name.
        """
        self._noise.seed(seed, generator)

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Start an episode: the state that the policy keeps between calls is what it was before the first call.

        With `rows` only in those rows of the batch. The stream of draws goes on. Raises GuardError.
        """
        self._carried.reset(rows)

    @property
    def state(self) -> dict[str, Any]:
        """Where the stream of draws stands, as values that JSON holds; assign it to go on from there.

        Of a policy that keeps state between calls, also that: {"values": {name: nested lists}, "generator": stream}.
        """
        stream = self._noise.get_state()
        return {"values": self._carried.get(), "generator": stream} if self._carried else stream

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if self._carried:
            self._carried.set(state["values"])
            state = state["generator"]
        self._noise.set_state(state)

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """All outputs by name, from all inputs by name, unchecked. Raises BundleError where ONNX Runtime fails."""
        try:
            results = run_session(self._session, feeds)
        except RuntimeRefused as error:
            raise _not_run(error) from error
        return {o.name: r for o, r in zip(self.manifest.outputs, results)}

    def __repr__(self) -> str:
        target = self.manifest.target
        return f"<{self.manifest.policy}{self._call.signature} for {target.name}, opset {target.opset}>"


def _not_run(error: RuntimeRefused) -> BundleError:
    return BundleError(f"ONNX Runtime fails on the model: {error.reason}")


class OutputCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One output over all golden inputs, at its worst element: the largest |Δ| of those out of order, or of all.

    `worst_abs` is |Δ| to the eager module (infinite where only one of the two is finite), `tolerance` the bound that
    applies there. NaN where eager has NaN is no difference.
    """

    name: str
    ok: bool
    worst_abs: float
    tolerance: float


class VersionChange(msgspec.Struct, frozen=True):
    """A package that is another than when the bundle was made; `here` is None where it is not installed."""

    package: str
    bundle: str
    here: str | None


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found. `samples` is the number of golden inputs."""

    policy: str
    target: str
    ok: bool
    samples: int
    outputs: list[OutputCheck]
    versions: list[VersionChange]


def load(directory: str | Path, threads: int = 1) -> DeployedPolicy:
    """The policy of a bundle. Raises BundleError where a file is missing, damaged or not what the manifest says."""
    folder = Path(directory)
    manifest = read_manifest(folder)
    for file in manifest.hashed:
        _check_file(folder, file.file, file.sha256)
    return DeployedPolicy(folder, manifest, threads)


def verify(directory: str | Path) -> Verification:
    """Run the golden inputs of a bundle here and compare with what the eager module gave then. Raises BundleError."""
    policy = load(directory)
    manifest = policy.manifest
    golden = _read_arrays(Path(directory) / GOLDEN)
    worst = {o.name: _Compared(True, 0.0, 0.0) for o in manifest.outputs if o.role in ("result", "state")}
    samples = sorted({key.partition("/")[0] for key in golden}, key=int)
    for sample in samples:
        try:
            got = policy.run({i.name: golden[f"{sample}/in/{i.name}"] for i in manifest.inputs})
            for name, before in worst.items():
                eager, tolerance = golden[f"{sample}/out/{name}"], golden[f"{sample}/tolerance/{name}"]
                worst[name] = max(before, _compare(got[name], eager, tolerance), key=lambda c: (not c.ok, c.delta))
        except KeyError as error:
            raise BundleError(f"{directory}/{GOLDEN} has no {error.args[0]}", "Make the bundle again.") from error
    return Verification(
        policy=manifest.policy,
        target=manifest.target.name,
        ok=bool(samples) and all(c.ok for c in worst.values()),
        samples=len(samples),
        outputs=[OutputCheck(name=n, ok=c.ok, worst_abs=c.delta, tolerance=c.tolerance) for n, c in worst.items()],
        versions=_changed_versions(manifest.versions),
    )


class _Compared(NamedTuple):
    ok: bool
    delta: float
    tolerance: float


def _compare(got: Array, eager: Array, tolerance: Array) -> _Compared:
    """The element that is worst: of those out of order, or of all, the one with the largest |Δ|."""
    if got.shape != eager.shape or got.dtype.kind != eager.dtype.kind or tolerance.shape != eager.shape:
        return _Compared(False, float("inf"), 0.0)
    if not eager.size:
        return _Compared(True, 0.0, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        delta = np.abs(got.astype(np.float64) - eager.astype(np.float64))
    same = (got == eager) | ((got != got) & (eager != eager))  # NaN is what differs from itself
    # `<=` is false for NaN; an infinite tolerance marks elements on which eager itself is not finite.
    in_order = same | (delta <= tolerance) | np.isposinf(tolerance)
    ok = bool(in_order.all())
    distance = np.where(np.isfinite(delta), delta, np.where(in_order, 0.0, np.inf))
    at = int(np.where(in_order, -1.0 if not ok else distance, distance).argmax())
    return _Compared(ok, float(distance.flat[at]), float(tolerance.flat[at]))


def _check_file(folder: Path, name: str, sha256: str) -> None:
    if Path(name).name != name or name in ("", ".", "..") or "\\" in name:
        raise BundleError(f"the manifest of {folder} names the file {name!r}, which is not a plain file name")
    path = folder / name
    if path.is_symlink():
        raise BundleError(f"{path} is a link; the files of a bundle are files")
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}", "Copy or make the bundle again.") from error
    if found != sha256:
        raise BundleError(f"{path} is not the file that the manifest was made for", "Copy or make the bundle again.")


def _first_state(directory: Path, manifest: Manifest) -> dict[str, Array]:
    if not any(i.role == "state" for i in manifest.inputs):
        return {}
    if STATE not in {file.file for file in manifest.files}:
        raise BundleError(f"{directory} has state, and its manifest does not list {STATE}", "Make the bundle again.")
    return _read_arrays(directory / STATE)


def _read_arrays(path: Path) -> dict[str, Array]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error}") from error
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise BundleError(f"{path} is damaged: {error}", "Make the bundle again.") from error


def _changed_versions(recorded: dict[str, str]) -> list[VersionChange]:
    here = {package: installed_version(package) for package in recorded}
    return [VersionChange(p, then, here[p]) for p, then in recorded.items() if here[p] != then]


def installed_version(package: str) -> str | None:
    """The version of an installed package, without importing it; of `python`, the interpreter's."""
    if package == "python":
        import platform

        return platform.python_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return None

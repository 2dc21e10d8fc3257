"""Writes a bundle: beside its place first, then renamed into it, so that nothing half done is ever seen."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from graphaudit import __version__
from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Certificate
from graphaudit.errors import BundleError, OutputError
from graphaudit.export import manifest as m
from graphaudit.export.describe import describe_call, describe_generators, describe_inputs, describe_outputs
from graphaudit.export.golden import archive, choose_golden, golden_arrays
from graphaudit.export.load import installed_version
from graphaudit.graphs import foreign
from graphaudit.graphs.onnx_files import WEIGHTS_LIMIT, write_model
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.interface import Interface
from graphaudit.policy import Policy
from graphaudit.results import Report
from graphaudit.rulebook.target import Target
from graphaudit.runtimes.onnxruntime import complete_runner

_PACKAGES = ("python", "torch", "onnx", "onnxruntime", "onnxscript", "onnxsim", "numpy")
_FILES = {m.MANIFEST, m.MODEL, f"{m.MODEL}.data", m.GOLDEN, m.CERTIFICATE, m.REPORT, m.STATE}
_UNSTABLE = {"seconds", "bundle"}  # what differs between two runs on the same input, and says nothing of the bundle


def check_output(directory: str | Path) -> None:
    """Raise OutputError unless a bundle can be written to `directory`: nothing there, an empty folder, or a bundle.

    Cheap; meant to be called before any work is done.
    """
    place = _resolve(directory)
    parent = next(p for p in place.parents if p.exists())
    if not parent.is_dir():
        raise OutputError(f"{parent} is a file, so {place} cannot be made in it", "Give another --output.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"no permission to write to {parent}", "Give another --output.")
    if not place.exists():
        return
    if not place.is_dir():
        raise OutputError(f"{place} exists and is a file", "Give another --output, or move the file away.")
    names = {p.name for p in place.iterdir()}
    if not names:
        return
    advice = "Give another --output, or move the folder away."
    try:
        m.read_manifest(place)
    except BundleError:
        raise OutputError(f"{place} exists and is not a bundle, so it is not overwritten", advice) from None
    strangers = sorted(names - _FILES)
    if strangers:
        raise OutputError(f"{place} is a bundle, but {strangers[0]} in it is not graphaudit's", advice)


def write_bundle(
    directory: str | Path,
    *,
    model: OnnxModel,
    policy: Policy,
    interface: Interface,
    reference: Reference,
    certificate: Certificate,
    report: Report,
    target: Target,
    seed: int,
    weights_limit: int = WEIGHTS_LIMIT,
) -> Path:
    """Write the bundle and return its folder; a bundle that stands there is replaced.

    The same arguments give the same bytes. Raises OutputError where the folder is something else or the files cannot
    be written; then, and on an interrupt, what stood there before still stands and nothing else is left.
    """
    check_output(directory)
    place = _resolve(directory)
    run = complete_runner(model)
    golden = choose_golden(reference, model, run)
    answers = [run([*sample.inputs, *sample.noise]) for sample in golden]
    if not reference.replays:  # eager's own outputs are those of other draws
        golden = [replace(s, outputs=given[: len(s.outputs)]) for s, given in zip(golden, answers)]
    documents = {
        m.CERTIFICATE: m.to_json(_stable(certificate)),
        m.REPORT: m.to_json(_stable(report)),
        m.GOLDEN: golden_arrays(interface, model, golden, answers),
    }
    if interface.state:
        documents[m.STATE] = archive({s.input.name: s.initial for s in interface.state})
    with _os_errors(place), _replacing(place) as folder:
        files = write_model(model.proto, folder / m.MODEL, weights_limit)
        for name, content in documents.items():
            (folder / name).write_bytes(content)
        hashes = {path.name: _sha256(path) for path in (*files, *(folder / name for name in documents))}
        manifest = m.Manifest(
            graphaudit_version=__version__,
            policy=policy.name,
            target=m.TargetRecord(target.name, model.opset, target.facts, target.date),
            model=m.ModelFile(m.MODEL, hashes[m.MODEL], [m.HashedFile(f.name, hashes[f.name]) for f in files[1:]]),
            files=[m.HashedFile(name, hashes[name]) for name in sorted(documents)],
            versions={p: v for p in _PACKAGES if (v := installed_version(p)) is not None},
            seed=seed,
            replay=_replay(reference, model),
            generators=describe_generators(model),
            inputs=describe_inputs(interface, model),
            outputs=describe_outputs(interface, model),
            call=describe_call(policy, interface),
        )
        (folder / m.MANIFEST).write_bytes(m.to_json(manifest))
    return place


def _replay(reference: Reference, model: OnnxModel) -> Literal["exact", "distribution"] | None:
    """What PyTorch's seed and the generators that the policy holds replay; draws of Python's and NumPy's global ones
    follow the seeds of those."""
    if not model.noise:
        return None
    exact = reference.replays and all(n.generator not in foreign.GLOBAL for n in model.noise)
    return "exact" if exact else "distribution"


def _resolve(directory: str | Path) -> Path:
    return Path(os.path.realpath(directory))


def _stable(document: Any) -> Any:
    """The document without what differs from run to run."""
    if isinstance(document, msgspec.Struct):
        document = msgspec.to_builtins(document)
    if isinstance(document, dict):
        return {key: _stable(value) for key, value in document.items() if key not in _UNSTABLE}
    return [_stable(item) for item in document] if isinstance(document, list) else document


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _os_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "Free some space and try again." if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else ""
        raise OutputError(f"cannot write {place}: {error.strerror or error}", remedy) from error


@contextmanager
def _replacing(place: Path) -> Iterator[Path]:
    """A new folder beside `place` that takes its place if the block succeeds, and is gone if it does not."""
    made = _make_parents(place.parent)
    _recover(place)
    fresh, stale = (place.with_name(f".{place.name}.{secrets.token_hex(4)}.{end}") for end in ("partial", "replaced"))
    lock = -1
    try:
        fresh.mkdir()
        lock = os.open(fresh, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield fresh
        for path in fresh.iterdir():
            _sync(path)
        _sync(fresh)
        _swap(fresh, place, stale)
        _sync(place.parent)
    except BaseException:  # an interrupt too: nothing half done stays
        shutil.rmtree(fresh, ignore_errors=True)
        for folder in made:
            with suppress(OSError):  # not empty: someone else has put something there
                folder.rmdir()
        raise
    finally:
        if lock >= 0:
            os.close(lock)
        if place.exists():
            shutil.rmtree(stale, ignore_errors=True)


def _recover(place: Path) -> None:
    """Clear up after a run that was killed: put back the bundle that had stepped aside, remove what was half written.

    A run that is still alive holds a lock on its folder.
    """
    for left in place.parent.glob(f".{glob.escape(place.name)}.????????.*"):
        if left.suffix == ".replaced":
            shutil.rmtree(left, ignore_errors=True) if place.exists() else left.rename(place)
        elif left.suffix == ".partial" and left.is_dir():
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            except BlockingIOError:
                pass
            finally:
                os.close(descriptor)


def _swap(fresh: Path, place: Path, stale: Path) -> None:
    """Rename `fresh` to `place`. A folder can only be renamed onto an empty one, so an old bundle steps aside first."""
    try:
        fresh.rename(place)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    try:
        place.rename(stale)
        fresh.rename(place)
    except BaseException:
        if stale.exists() and not place.exists():
            stale.rename(place)
        raise


def _make_parents(folder: Path) -> list[Path]:
    """Make `folder` and what is missing above it; return what was made, innermost first."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _sync(path: Path) -> None:
    """Have the operating system put a file or folder on the disk before it is renamed into place."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

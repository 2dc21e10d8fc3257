"""Targets for tests, so that they do not depend on the facts of a real one."""

from graphaudit.rulebook.target import Target

ONNXRUNTIME = Target(name="onnxruntime", summary="ONNX Runtime", opset=18, max_opset=23)


def at_opset(opset: int) -> Target:
    """The same target at another opset."""
    return Target(name="onnxruntime", summary="ONNX Runtime", opset=opset, max_opset=23)

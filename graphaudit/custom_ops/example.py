"""A small operator to start from: one file with the operator and a policy that calls it, and one with its tests."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
from pathlib import Path
from string import Template

from graphaudit.custom_ops.files import write_new
from graphaudit.custom_ops.registry import OnnxNode
from graphaudit.errors import CustomOpError
from graphaudit.graphs.namespaces import is_custom
from graphaudit.text import one_line

_NAME = re.compile(r"(?:([a-z][a-z0-9_]{0,39})::)?([a-z][a-z0-9_]{0,39})", re.ASCII)
_NAMESPACE = "rl"

MODULE = '''\
"""The operator $namespace::$name, and a policy that calls it.

    graphaudit rewrite $name.py:build --target onnxruntime --output $name-bundle
"""

import numpy as np
import torch
from torch import nn

from graphaudit import OnnxNode, register_custom_op


def kernel(x, scale: float):
    """What training runs. It may be anything; here NumPy, which no export follows."""
    values = x.numpy()
    return torch.from_numpy(np.sign(values) * np.expm1(scale * np.abs(values)))


def plain(x, scale: float):
    """The same in torch: every target runs this, and the gradient is made of it."""
    return torch.sign(x) * torch.expm1(scale * torch.abs(x))


# Registration compares the two on these, and the gradient with finite differences. No zeros: there is a kink.
EXAMPLES = [(torch.tensor([[-2.0, -0.3, 0.1, 1.5]]), 0.7), (torch.tensor([0.5, -1.0]), 0.1)]

# ONNX models have one node, with `plain` as its body. Without `onnx`, they have the nodes of `plain` instead, which is
# what targets such as ascend-310p take in any case.
$name = register_custom_op(
    "$namespace::$name", kernel, plain=plain, examples=EXAMPLES, onnx=OnnxNode("$namespace", "$op_type")
)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, obs):
        return $name(self.head(obs), 0.7)


def build():
    torch.manual_seed(0)
    return Policy().eval()


def example_inputs():
    return (torch.zeros(1, 4),)


def inputs(seed):
    return (torch.randn(1, 4, generator=torch.Generator().manual_seed(seed)),)
'''

TEST = '''\
"""$namespace::$name: importing it has checked it against `plain`; here it trains, and leaves for a target."""

import numpy as np
import pytest
import torch
from $name import EXAMPLES, $name, build, example_inputs, inputs, plain

import graphaudit


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_is_its_plain_version(example):
    torch.testing.assert_close($name(*example), plain(*example))


def test_it_trains():
    policy = build()
    policy(inputs(1)[0]).sum().backward()
    assert policy.head.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("target", ["onnxruntime", "ascend-310p"])
def test_the_bundle_does_what_the_policy_does(target, tmp_path):
    policy = build()
    report = graphaudit.rewrite(policy, example_inputs(), target=target, output=tmp_path / "bundle")
    assert report.fit[target], report.statement
    act = graphaudit.load(tmp_path / "bundle")
    for seed in range(5):
        (obs,) = inputs(seed)
        np.testing.assert_allclose(act(obs.numpy()), policy(obs).detach().numpy(), rtol=1e-5, atol=1e-6)
'''


def write_example(name: str, folder: Path) -> list[Path]:
    """Write `NAME.py` and `test_NAME.py` of an operator (`symexp`, or `rl::symexp`); existing files stay.

    Raises CustomOpError for a name that cannot be used, OutputError where a file exists.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise CustomOpError(
            f"{one_line(name, 80)!r} is no name for an operator",
            "Use lower-case letters, digits and _: symexp, rl::symexp.",
        )
    namespace, short = match.group(1) or _NAMESPACE, match.group(2)
    if not is_custom(namespace):
        raise CustomOpError(f"the namespace {namespace} is not yours", "Use one of your own, as in rl::symexp.")
    if short in _taken():
        raise CustomOpError(f"{short} means something else already in Python or in the example", "Use another name.")
    op_type = "".join(part.capitalize() for part in short.split("_"))
    OnnxNode(namespace, op_type)
    values = {"namespace": namespace, "name": short, "op_type": op_type}
    texts = {f"{short}.py": Template(MODULE), f"test_{short}.py": Template(TEST)}
    return write_new(folder, {file: text.substitute(values) for file, text in texts.items()})


def _taken() -> set[str]:
    """Names that the files use themselves, and modules that a file of that name would hide."""
    used: set[str] = set()
    for template in (MODULE, TEST):
        tree = ast.parse(Template(template).substitute(namespace="rl", name="the_operator", op_type="TheOperator"))
        for node in ast.walk(tree):
            for field in ("id", "arg", "name", "asname", "module"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    used.add(value)
    used.discard("the_operator")
    return used | set(keyword.kwlist) | set(sys.stdlib_module_names) | set(dir(builtins))

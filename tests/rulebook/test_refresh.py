"""Facts from outside sources: a torch_npu wheel, and the operator map of msit. The texts are made like theirs."""

from __future__ import annotations

import zipfile

import pytest

from graphaudit.errors import RuleError
from graphaudit.rulebook import refresh
from graphaudit.rulebook.torch_npu_wheel import Converter, Wheel, read_converters

KERNELS = """backend: NPU
cpp_namespace: at_npu::native

supported:
  - as_strided
  - func: copy_
    op_api: True
custom:
- device_check: NoCheck
  func: npu_format_cast.Tensor(Tensor self, Tensor dst) -> Tensor
autograd:
- func: npu_fusion_attention_v3(Tensor query) -> Tensor
- func: l1_loss(Tensor self, Tensor target) -> Tensor
"""
CONVERTERS = '''
@register_fx_node_ge_converter(torch.ops.aten.cumsum.default)
def works(self, dim):
    """NB: aten::cumsum"""
    return ge.Cumsum(self, dim)


@register_fx_node_ge_converter(getattr(torch.ops.aten.cumsum, "dimname", None))
def raises(self, dim):
    """NB: aten::cumsum.dimname"""
    raise NotImplementedError("no")


@declare_supported([Support(F32(2, 2))])
@register_fx_node_ge_converter(torch.ops.aten.expand.default)
def sometimes(self, size):
    if not size:
        raise RuntimeError("no")
    return ge.Expand(self, size)
'''


@pytest.fixture
def unpacked(tmp_path):
    root = tmp_path / "wheel"
    lists = root / "torch_npu" / "csrc" / "aten"
    lists.mkdir(parents=True)
    (lists / "npu_native_functions.yaml").write_text(KERNELS)
    (lists / "npu_native_functions_by_codegen.yaml").write_text("supported:\n- func: abs(Tensor self) -> Tensor\n")
    converters = root / "torch_npu" / "dynamo" / "torchair" / "_ge_concrete_graph" / "ge_converter" / "aten"
    converters.mkdir(parents=True)
    (converters / "some.py").write_text(CONVERTERS)
    (root / "torch_npu-2.14.0.dist-info").mkdir()
    return root


def test_a_wheel_is_read_without_being_imported(unpacked):
    wheel = Wheel(unpacked)
    assert (wheel.version, wheel.torch) == ("2.14.0", "2.14")
    own = {"npu.npu_format_cast.Tensor", "npu.npu_fusion_attention_v3.default"}
    aten = {f"aten.{name}.default" for name in ("as_strided", "copy_", "l1_loss", "abs")}
    assert wheel.kernels() == own | aten
    assert wheel.converters() == {
        "aten.cumsum.default": Converter.IMPLEMENTED,
        "aten.cumsum.dimname": Converter.STUB,
        "aten.expand.default": Converter.PARTIAL,
    }


def test_a_packed_wheel_says_the_same(unpacked, tmp_path):
    packed = tmp_path / "torch_npu-2.14.0.whl"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in unpacked.rglob("*"):
            archive.write(file, file.relative_to(unpacked))
    assert Wheel(packed).kernels() == Wheel(unpacked).kernels()
    assert Wheel(packed).converters() == Wheel(unpacked).converters()


def test_a_folder_that_is_no_wheel_is_refused(tmp_path):
    with pytest.raises(RuleError, match="holds no torch_npu"):
        Wheel(tmp_path)
    with pytest.raises(RuleError, match="there is no"):
        Wheel(tmp_path / "none.whl")


def test_the_table_of_kernels_changes_for_the_wheels_torch_only(unpacked):
    table = "op,torch,NPU,notes,sources\naten.abs.default,2.1-2.13,float32,,op-plugin\n"
    table += "aten.old.default,2.1-2.14,,,op-plugin\n"
    new = refresh.kernels(table, Wheel(unpacked))
    assert "aten.abs.default,2.1-2.14,float32,,op-plugin wheel\n" in new
    assert "aten.old.default,2.1-2.13,,,op-plugin\n" in new
    assert "aten.l1_loss.default,2.14,,,wheel\n" in new
    assert refresh.kernels(new, Wheel(unpacked)) == new


def test_the_table_of_converters_is_the_wheels(unpacked):
    table = "op,opsets,notes,sources\naten.gone.default,any,,wheel\n"
    new = refresh.converters(table, Wheel(unpacked))
    assert new.splitlines()[1:] == [
        "aten.cumsum.default,any,,wheel",
        "aten.cumsum.dimname,,,wheel",
        "aten.expand.default,any,partial,wheel",
    ]
    assert refresh.converters(new, Wheel(unpacked)) == new


def test_the_parser_map_decides_where_no_source_code_does():
    table = "op,opsets,becomes,sources\nAbs,8-18,Abs,map\nReduceL2,8-17,LpNormV2,ops-math:reduce.cpp\nGone,8-9,,map\n"
    mapped = "# a comment\nai.onnx::8::Abs: Abs\nai.onnx::10::Abs: Abs\nai.onnx::11::Abs: Abs\n"
    mapped += "ai.onnx::18::ReduceL2: LpNormV2\n"
    new = refresh.parser_map(table, mapped + "npu::1::NPUFoo: Foo\n")
    assert new.splitlines()[1:] == [
        "Abs,8 10-11,Abs,map",
        "ReduceL2,8-17,LpNormV2,ops-math:reduce.cpp",
        "npu::NPUFoo,1,,map",
    ]


def test_a_converter_in_a_class_or_with_another_decorator_is_none():
    assert list(read_converters("@other(torch.ops.aten.add.Tensor)\ndef f(): ...\n")) == []

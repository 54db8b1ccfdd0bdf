"""install() and uninstall(): what they replace in FastVideo, when, and which FastVideo they refuse."""

import ast
import dataclasses
import importlib.util
import sys
import threading
import types

import pytest
import torch

from fastvideo_layers import NEWEST, VERSIONS, call, fastvideo_wheel, loaded
from test_recipes import recipe
from vsa_torch.compat import fastvideo as compat

CPU = torch.device("cpu")
METHODS = ("preprocess_qkv", "forward", "postprocess_output")


@pytest.fixture
def fastvideo(request):
    yield loaded(getattr(request, "param", NEWEST))
    fastvideo_wheel.unload()


every_version = pytest.mark.parametrize("fastvideo", VERSIONS, indirect=True)


def methods(fastvideo):
    """The functions that install() replaces."""
    impl, layer = fastvideo.backend.VideoSparseAttentionImpl, fastvideo.layer.DistributedAttention_VSA
    return [*(vars(impl)[name] for name in METHODS), vars(layer)["forward"]]


@every_version
def test_uninstall_restores_fastvideos_methods(fastvideo):
    before = methods(fastvideo)
    compat.uninstall()
    assert methods(fastvideo) == before
    for _ in range(2):
        compat.install()
        assert not set(methods(fastvideo)) & set(before)
        compat.uninstall()
        assert methods(fastvideo) == before


def test_installing_twice_is_installing_once(fastvideo):
    before = methods(fastvideo)
    compat.install()
    once = methods(fastvideo)
    compat.install()
    assert methods(fastvideo) == once
    compat.uninstall()
    assert methods(fastvideo) == before


def test_threads_that_install_at_once(fastvideo):
    before = methods(fastvideo)
    threads = [threading.Thread(target=compat.install) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    compat.uninstall()
    assert methods(fastvideo) == before


def test_before_fastvideos_modules_are_imported(fastvideo, make):
    for name in [name for name in sys.modules if name.startswith("fastvideo.attention")]:
        del sys.modules[name]
    compat.install()
    assert fastvideo.layer is not sys.modules["fastvideo.attention.layer"]
    fastvideo.layer = sys.modules["fastvideo.attention.layer"]
    fastvideo.backend = sys.modules[fastvideo_wheel.BACKEND]  # which the stand-in for a platform names, too
    assert all(hasattr(method, "vsa_original") for method in methods(fastvideo))
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)  # its backend is chosen by FastVideo's own selector
    assert type(attn.attn_impl) is fastvideo.backend.VideoSparseAttentionImpl
    q = make(1, 210, 2, 16)
    assert call(fastvideo, attn, fastvideo_wheel.metadata(fastvideo, (5, 6, 7), 0.5, CPU), q, q, q, q).shape == q.shape


@every_version
def test_metadata_stay_fastvideos(fastvideo):
    def fields():
        metadata = fastvideo_wheel.metadata(fastvideo, (5, 6, 7), 0.5, CPU)
        return {field.name: getattr(metadata, field.name) for field in dataclasses.fields(metadata)}

    before = fields()
    compat.install()
    after = fields()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]) if isinstance(value, torch.Tensor) else value == after[name]


def test_layers_of_other_implementations_stay_fastvideos(fastvideo, make):
    """MiniMax-H3's backend shares the layer, not the implementation."""
    ran = []

    class Another:
        def preprocess_qkv(self, qkv, metadata):
            ran.append("preprocess")
            return qkv

        def forward(self, q, k, v, gate, metadata):
            return q + k + v + gate

        def postprocess_output(self, out, metadata):
            ran.append("postprocess")
            return out

    compat.install()
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    attn.attn_impl = Another()
    q = make(1, 210, 2, 16)
    out = call(fastvideo, attn, fastvideo_wheel.metadata(fastvideo, (5, 6, 7), 0.5, CPU), q, q, q, q)
    assert torch.equal(out, 4 * q) and ran == ["preprocess", "postprocess"]


def test_replicated_tokens_are_refused_as_by_fastvideo(fastvideo, make):
    compat.install()
    q = make(1, 210, 2, 16)
    metadata = fastvideo_wheel.metadata(fastvideo, (5, 6, 7), 0.5, CPU)
    with fastvideo.context.set_forward_context(0, metadata), pytest.raises(AssertionError, match="Replicated QKV"):
        fastvideo_wheel.attention(fastvideo, 2, 16)(q, q, q, 210, q, q, q, gate_compress=q)


@every_version
@pytest.mark.parametrize("value, kept_out", [(None, False), ("0", False), ("off", False), ("1", True), ("true", True)])
def test_attention_is_kept_out_of_graphs_where_the_user_says_so(fastvideo, monkeypatch, value, kept_out):
    monkeypatch.delenv("FASTVIDEO_DISABLE_ATTENTION_COMPILE", raising=False)
    if value is not None:
        monkeypatch.setenv("FASTVIDEO_DISABLE_ATTENTION_COMPILE", value)
    compat.install()
    assert getattr(methods(fastvideo)[-1], "_torchdynamo_disable", False) == kept_out


# --- what is refused -----------------------------------------------------------------------------


def refused(fastvideo, error, message):
    """install() refuses, and changes nothing."""
    before = methods(fastvideo)
    with pytest.raises(error, match=message):
        compat.install()
    assert methods(fastvideo) == before


def test_no_fastvideo_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastvideo", None)
    for function in (compat.install, compat.uninstall):
        with pytest.raises(ImportError, match="fastvideo: expected FastVideo, found no package of this name"):
            function()


def test_what_fastvideo_lacks_is_not_taken_for_fastvideo(fastvideo, monkeypatch):
    del sys.modules["fastvideo.attention.layer"]
    monkeypatch.setitem(sys.modules, "fastvideo.forward_context", None)
    with pytest.raises(ImportError, match="fastvideo.forward_context"):
        compat.install()


@pytest.mark.parametrize("version", ["0.1.3", "0.3.0", "0.2.1.dev5"])
def test_another_version_is_refused_by_name(fastvideo, monkeypatch, version):
    monkeypatch.setattr(sys.modules["fastvideo.version"], "__version__", version)
    refused(fastvideo, NotImplementedError,
            rf"fastvideo: expected version 0\.1\.4, .* or 0\.2\.1, got {version}; of another version replace the kernels")


@pytest.mark.parametrize("name", METHODS)
def test_a_changed_implementation_is_refused_by_name(fastvideo, monkeypatch, name):
    impl = fastvideo.backend.VideoSparseAttentionImpl
    monkeypatch.setattr(impl, name, lambda self, tokens, more: tokens)
    refused(fastvideo, NotImplementedError, rf"VideoSparseAttentionImpl\.{name}: expected \(.*attn_metadata\), as in "
            r"FastVideo 0\.1\.4 to 0\.2\.1, got \(tokens, more\): this FastVideo was changed")
    monkeypatch.undo()
    monkeypatch.delattr(impl, name)
    with pytest.raises(NotImplementedError, match=rf"VideoSparseAttentionImpl\.{name}: .* got no such method"):
        compat.install()


def test_a_changed_layer_is_refused_by_name(fastvideo, monkeypatch):
    monkeypatch.setattr(fastvideo.layer.DistributedAttention_VSA, "forward", lambda self, q, k, v, gate: q)
    refused(fastvideo, NotImplementedError,
            r"DistributedAttention_VSA\.forward: expected \(q, k, v, original_seq_len, .*got \(q, k, v, gate\)")


def test_changed_metadata_are_refused_by_name(fastvideo, monkeypatch):
    @dataclasses.dataclass
    class Metadata:
        grid: tuple

    monkeypatch.setattr(fastvideo.backend, "VideoSparseAttentionMetadata", Metadata)
    refused(fastvideo, NotImplementedError,
            "VideoSparseAttentionMetadata: expected the fields VSA_sparsity, dit_seq_shape, .*, got grid")


def test_anothers_method_in_the_place_of_ours_is_said(fastvideo, monkeypatch):
    compat.install()
    monkeypatch.setattr(fastvideo.layer.DistributedAttention_VSA, "forward", lambda *_: None)
    for function in (compat.install, compat.uninstall):
        with pytest.raises(RuntimeError, match=r"DistributedAttention_VSA\.forward: expected what install\(\) put there"):
            function()


# --- the kernels alone ---------------------------------------------------------------------------


@pytest.mark.parametrize("fastvideo", ["0.1.7", "0.2.0", "0.2.1"], indirect=True)
def test_fastvideo_finds_the_drop_in_where_it_looks_for_kernels(fastvideo, monkeypatch):
    """FastVideo's own questions, out of its source: the module that has them imports much besides."""
    for name in ("fastvideo_kernel", "fastvideo_kernel.ops"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # undone after the test
    recipe("fastvideo_kernel")
    source = sys.modules["fastvideo"].__spec__.loader.get_data(f"{sys.modules['fastvideo'].__path__[0]}/utils.py")
    asked = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name in ("is_vsa_available", "is_vmoba_available"):
            node.decorator_list = []
            exec(compile(ast.Module([node], []), "utils.py", "exec"), {"importlib": importlib}, asked)
    assert asked["is_vsa_available"]() and not asked["is_vmoba_available"]()
    exec("from fastvideo_kernel import video_sparse_attn as found", asked)
    assert asked["found"] is compat.video_sparse_attn

"""FileTyper, file_bytes and load_typer: against onnxruntime and float64, Magika's rule for bytes, and bad input."""

import onnxruntime
import pytest
import torch
from torch import nn

from fromscratch import FileTyper, LayerNorm, RMSNorm, file_bytes, load_typer
from lessonkit import data

SPACE = b" \t\n\r\x0b\x0c"  # what bytes.strip() leaves out


@pytest.fixture(scope="module")
def corpus():
    """Return (tokens (B, 2048), what onnxruntime makes of them, (B, 214))."""
    tokens = torch.stack([file_bytes(content) for content in data.file_corpus().values()])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnxruntime.InferenceSession(data.magika_model(), options, providers=["CPUExecutionProvider"])
    return tokens, torch.from_numpy(model.run(None, {"bytes": tokens.int().numpy()})[0])


@torch.no_grad()
def scores(typer, tokens):
    return typer(tokens).softmax(-1)


@pytest.mark.parametrize("norm", [LayerNorm, nn.LayerNorm])
def test_labels_and_scores_are_onnxruntimes(norm, corpus):
    tokens, theirs = corpus
    ours = scores(load_typer(norm), tokens)
    assert torch.equal(ours.argmax(1), theirs.argmax(1))
    assert (ours - theirs).abs().max() < 5e-3  # 4e-4 here; 1e-3 if onnxruntime gets the files one by one


def test_float32_is_near_float64(corpus):
    tokens = corpus[0][::3]
    exact = scores(load_typer().double(), tokens)
    assert exact.dtype == torch.float64
    assert (scores(load_typer(), tokens) - exact).abs().max() < 1e-5  # 1e-6 here, whatever the processor's instructions


def test_the_norm_and_its_eps_count(corpus):
    tokens, theirs = corpus
    made = []

    class Watched(nn.LayerNorm):
        def __init__(self, size, eps):
            made.append((size, eps))
            super().__init__(size, eps=0.1)

    typer = load_typer(Watched)
    assert set(made) == {(512, 1e-6)} and not typer.training
    assert (scores(typer, tokens).argmax(1) == theirs.argmax(1)).sum() <= 2


def test_shapes_parameters_and_gradients():
    typer = load_typer()
    assert sum(p.numel() for p in typer.parameters()) == 784_214 - 64  # the first bias is in the table
    assert typer(torch.zeros(0, 2048, dtype=torch.int64)).shape == (0, 214)
    typer(torch.full((1, 2048), 256)).sum().backward()
    assert all(p.grad is not None for p in typer.parameters())
    again = FileTyper(nn.LayerNorm)
    again.load_state_dict(typer.state_dict())


def test_constant_files_look_alike():
    contents = [bytes(5000), b"a" * 5000, b"abcd" * 1250]
    logits = load_typer().double()(torch.stack([file_bytes(content) for content in contents]))
    assert (logits - logits[0]).abs().max() < 1e-6 and data.magika_labels()[logits[0].argmax()] == "iso"


@pytest.mark.parametrize(
    "content, first, last",
    [
        (b"", b"", b""),
        (b"a", b"a", b"a"),
        (SPACE * 50, b"", b""),
        (b" \n a b \t", b"a b \t", b" \n a b"),  # each half is stripped at its own end only
        (b"\x00 a", b"\x00 a", b"\x00 a"),
        (b"x" * 1024, b"x" * 1024, b"x" * 1024),
        (b"x" * 1023 + b"yz", b"x" * 1023 + b"y", b"x" * 1022 + b"yz"),
        (b" " * 4096 + b"x" * 4096, b"", b"x" * 1024),  # only the first 4,096 bytes are looked at
        (b" " * 4095 + b"x" * 4097, b"x", b"x" * 1024),
        (b"x" * 4096 + b" " * 4096, b"x" * 1024, b""),
        (b"a" * 3000 + b" " * 2000 + b"b" * 1000, b"a" * 1024, b" " * 24 + b"b" * 1000),
        (bytes(range(256)) * 20, bytes(range(256)) * 4, bytes(range(256)) * 4),  # not white space: 0x1c to 0x1f, 0x85
    ],
)
def test_file_bytes(content, first, last):
    tokens = file_bytes(content)
    assert tokens.dtype == torch.int64 and tokens.shape == (2048,)
    padding = [[256] * (1024 - len(half)) for half in (first, last)]
    assert tokens.tolist() == [*first, *padding[0], *padding[1], *last]
    assert torch.equal(tokens, file_bytes(bytearray(content)))


@pytest.mark.parametrize("wrong", ["text", None, [1, 2], torch.zeros(3), memoryview(b"abc")])
def test_file_bytes_wants_bytes(wrong):
    with pytest.raises(TypeError, match=f"of type {type(wrong).__name__}, expected bytes.*read_bytes"):
        file_bytes(wrong)


@pytest.mark.parametrize(
    "tokens, error, words",
    [
        (torch.zeros(1, 2048), TypeError, "torch.float32, expected an int64"),
        (torch.zeros(1, 2048, dtype=torch.int32), TypeError, "torch.int32, expected an int64"),
        ([[0] * 2048], TypeError, "list, expected an int64"),
        (torch.zeros(2048, dtype=torch.int64), ValueError, r"\(2048,\), expected \(B, 2048\)"),
        (torch.zeros(1, 2047, dtype=torch.int64), ValueError, r"\(1, 2047\), expected \(B, 2048\)"),
        (torch.zeros(1, 1, 2048, dtype=torch.int64), ValueError, r"\(1, 1, 2048\), expected \(B, 2048\)"),
        (torch.full((1, 2048), 257), ValueError, "from 257 to 257, expected 0 to 255"),
        (torch.full((1, 2048), -1), ValueError, "from -1 to -1, expected 0 to 255"),
    ],
)
def test_tokens_that_do_not_fit(tokens, error, words):
    with pytest.raises(error, match=f"(?s){words}.*file_bytes"):
        FileTyper()(tokens)


@pytest.mark.parametrize(
    "norm, words",
    [
        (nn.BatchNorm1d, "running_mean"),
        (lambda size, eps: nn.LayerNorm(256), r"weight \(256,\), bias \(256,\)"),
        (lambda size, eps: nn.LayerNorm(512, eps, elementwise_affine=False), "holds nothing"),
        (lambda size, eps: nn.LayerNorm(512, eps, bias=False), r"holds weight \(512,\)\. "),
        (RMSNorm, r"holds weight \(512,\)\. "),
        (nn.Linear, "cannot be called: .*eps"),
        (lambda size, eps: abs, "holds nothing"),
        (None, "cannot be called"),
    ],
)
def test_a_norm_that_does_not_fit(norm, words):
    with pytest.raises(ValueError, match=f"({words}).*Give a class like nn.LayerNorm"):
        load_typer(norm)


def test_a_damaged_model_is_named(monkeypatch):
    monkeypatch.setattr(data, "FOLDER", data.FOLDER / "none")
    with pytest.raises(data.DataFileError, match="model.onnx is missing"):
        load_typer()

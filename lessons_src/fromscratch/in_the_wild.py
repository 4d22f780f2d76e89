"""What lesson 15 builds: FileTyper, file_bytes, load_typer, magika_norm, magika_scores.

Made by coursebuild from lessons_src/lessons/15_in_the_wild/lesson.py: edit the lesson, not this file.
"""

from fromscratch import LayerNorm
from lessonkit import data
from onnx import TensorProto
from onnx import helper
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F
import numpy as np
import onnx.parser
import onnxruntime
import torch


# Reads a file's bytes.
def file_bytes(data):
    """What Magika's net sees of a file: its first and its last 1,024 bytes, as numbers.

    data: the content of a file, bytes of any length. Both halves come from the first and the
    last 4,096 bytes; white space before the first half and after the last one is left out.
    Returns int64 (2048,): 0 to 255, and 256 where a half is shorter than 1,024: after the
    first half, before the last. Below 8 bytes, Magika itself does not ask its net.
    Source: Google, magika 1.0.3, Magika._extract_features_from_seekable (Apache-2.0).
    Raises TypeError for what is not bytes.
    """
    if not isinstance(data, (bytes, bytearray)):
        raise TypeError(
            f"data is of type {type(data).__name__}, expected bytes: the content of a file. "
            "Read it with Path(name).read_bytes(), or encode a text: text.encode()."
        )
    first, last = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
    blank = [[256] * (1024 - len(half)) for half in (first, last)]
    return torch.tensor([*first, *blank[0], *blank[1], *last])  # (2048,)


# Runs Magika's file: whole, or one norm of it.
def _session(model):
    """Return what runs an ONNX model, in one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3  # 3: errors only
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def magika_scores(tokens):
    """The scores that Magika's own graph gives: int64 (B, 2048) -> float32 (B, 214)."""
    session = _session(onnx.load_from_string(data.magika_model()))
    run = lambda some: session.run(None, {"bytes": some.int().numpy()})[0]
    return torch.cat([torch.from_numpy(run(some)) for some in tokens.split(4)])  # 4: memory


def magika_norm(number):
    """Cut norm 1 or norm 2 out of Magika's graph.

    Returns a function that runs it by onnxruntime, float32 in, the same shape out:
    (B, 512, 256) for norm 1, (B, 512) for norm 2.
    """
    model, shape = onnx.load_from_string(data.magika_model()), [(512, 256), (512,)][number - 1]
    nodes = [node for node in model.graph.node if f"/LayerNorm_{number - 1}/" in node.name]
    x = next(node.input[0] for node in nodes if node.op_type == "ReduceSum")
    batch, y = "jax2tf_get_logits_/strided_slice:0", nodes[-1].output[0]  # batch: B, for shapes
    ends = [
        helper.make_tensor_value_info(name, kind, size)
        for name, kind, size in (
            (x, TensorProto.FLOAT, (None, *shape)),
            (batch, TensorProto.INT32, (1,)),
            (y, TensorProto.FLOAT, (None, *shape)),
        )
    ]
    graph = helper.make_graph(nodes, "norm", ends[:2], ends[2:], model.graph.initializer)
    session = _session(
        helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    )

    def run(tensor):
        numbers = tensor.detach().float().contiguous().numpy()
        fed = {x: numbers, batch: np.array([len(tensor)], dtype=np.int32)}
        return torch.from_numpy(session.run([y], fed)[0])

    return run


# Reads the weights out of Magika's file.
def _shipped_weights():
    """Return Magika's constants under FileTyper's names: {name: float32 tensor}."""
    constants = {
        c.name.split("get_logits_/")[-1]: torch.tensor(numpy_helper.to_array(c))  # copies
        for c in onnx.load_from_string(data.magika_model()).graph.initializer
    }
    norms = {
        f"norm{i + 1}.{kind}": constants[f"MagikaV2/LayerNorm_{i}/Reshape_{n}:0"].flatten()
        for i in (0, 1)
        for n, kind in ((2, "weight"), (3, "bias"))
    }
    return norms | {
        # the bias of the first linear layer, added to each row of its table: the same sum
        "embed.weight": constants["Const:0"] + constants["MagikaV2/Dense_0/Reshape:0"][0],
        "conv.weight": constants["MagikaV2/Conv_0/transpose_3:0"][..., 0],
        "conv.bias": constants["const_fold_opt__209"].flatten(),
        "head.weight": constants["Const_24:0"].T,
        "head.bias": constants["MagikaV2/Dense_1/Reshape:0"][0],
    }


# Refuses what is no row of bytes.
def _check_tokens(tokens):
    """Raise an error for what is not int64 (B, 2048) with numbers from 0 to 256."""
    if not isinstance(tokens, torch.Tensor) or tokens.dtype != torch.int64:
        kind = getattr(tokens, "dtype", type(tokens).__name__)
        raise TypeError(
            f"tokens are {kind}, expected an int64 tensor of shape (B, 2048). Make a row of "
            "each file with file_bytes, and stack the rows: torch.stack(rows)."
        )
    if tokens.dim() != 2 or tokens.shape[1] != 2048:
        raise ValueError(
            f"tokens have shape {tuple(tokens.shape)}, expected (B, 2048). One file alone is "
            "file_bytes(data)[None]."
        )
    if tokens.numel() and not 0 <= tokens.min() <= tokens.max() <= 256:
        raise ValueError(
            f"tokens go from {tokens.min()} to {tokens.max()}, expected 0 to 255 for bytes and "
            "256 for padding. Make them with file_bytes."
        )


class FileTyper(nn.Module):
    """Magika's net: from the numbers that file_bytes makes of a file to its type.

    Example: FileTyper()(file_bytes(b"x = 1")[None]) has shape (1, 214).
    norm: a class like nn.LayerNorm, called as norm(512, eps=1e-6).
    Calling it: tokens, int64 (B, 2048), 0 to 256; B may be 0. Returns logits (B, 214).
    To write: the rest of forward, with self.norm1, self.conv, self.norm2, self.head.
    Raises TypeError or ValueError (given) for other tokens.
    """

    def __init__(self, norm=LayerNorm):
        super().__init__()
        self.embed = nn.Embedding(257, 64)  # a row for each byte, and one for the padding
        self.norm1 = norm(512, eps=1e-6)
        self.conv = nn.Conv1d(256, 512, kernel_size=5)  # (B, 256, P) -> (B, 512, P - 4)
        self.norm2 = norm(512, eps=1e-6)
        self.head = nn.Linear(512, 214)

    def forward(self, tokens):
        _check_tokens(tokens)
        x = F.gelu(self.embed(tokens), approximate="tanh")  # (B, 2048, 64)
        x = x.reshape(len(tokens), 512, 256)  # (B, P, C)
        x = self.norm1(x.mT)  # (B, C, P): the positions are the last axis, and conv wants that
        x = F.gelu(self.conv(x), approximate="tanh").amax(-1)  # (B, 512)
        return self.head(self.norm2(x))  # (B, 214)


# Puts the shipped weights into a FileTyper.
def load_typer(norm=LayerNorm):
    """Return a FileTyper with the weights that Magika ships, and with that norm.

    norm: a class like nn.LayerNorm, called as norm(512, eps=1e-6), whose layers have just the
        parameters weight and bias of shape (512,).
    Source: Google, magika 1.0.3, models/standard_v3_3/model.onnx (Apache-2.0).
    Raises ValueError for a norm that does not fit, and lessonkit's DataFileError if the file
    of the model is missing or damaged.
    """
    wanted = "Give a class like nn.LayerNorm, with weight and bias of shape (512,)."
    try:
        layer = norm(512, eps=1e-6)
    except TypeError as error:
        raise ValueError(f"norm(512, eps=1e-6) cannot be called: {error}. {wanted}") from None
    state = layer.state_dict() if isinstance(layer, nn.Module) else {}
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if shapes != {"weight": (512,), "bias": (512,)}:
        holds = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        raise ValueError(f"norm(512, eps=1e-6) is a layer that holds {holds}. {wanted}")
    typer = FileTyper(norm)
    typer.load_state_dict(_shipped_weights())
    return typer.eval()

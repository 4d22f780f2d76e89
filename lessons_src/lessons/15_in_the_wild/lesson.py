# %% [markdown]
# # 15 · In the wild
#
# Google's [Magika](https://github.com/google/magika) tells the type of a file from its bytes; Gmail and Drive run it. Its net is small and open. Here someone has rebuilt it in PyTorch and loaded every weight, with LayerNorm as in all lessons: over the last axis, the features. (Run the folded cells: they read the original, its weights, and 48 files.)

# %% tags=["hide-input"]
# Imports.
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, plot, show  # sets torch to one thread (LESSON_THREADS)
from lessonkit.mine import LayerNorm  # lesson 4


# %% tags=["export", "hide-input"]
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


# %% tags=["export", "hide-input"]
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


# %% tags=["export", "hide-input"]
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


# %% tags=["hide-input"]
# 48 files, their types, the rebuilt net.
labels, files = data.magika_labels(), data.file_corpus()
tokens = torch.stack([file_bytes(content) for content in files.values()])  # (B, 2048)
shipped = magika_scores(tokens)  # (B, 214)
wanted = shipped.argmax(1)  # (B,) the original's types


def rebuilt(tokens, norm1):
    """The net with a norm1(x, weight, bias) of one's choice: (B, 2048) -> (B, 214)."""
    w = _shipped_weights()
    x = F.gelu(F.embedding(tokens, w["embed.weight"]), approximate="tanh")  # (B, 2048, 64)
    x = norm1(x.reshape(-1, 512, 256), w["norm1.weight"], w["norm1.bias"])  # (B, P, C)
    x = F.conv1d(x.mT, w["conv.weight"], w["conv.bias"])  # (B, 512, 508)
    x = F.gelu(x, approximate="tanh").amax(-1)  # (B, 512)
    x = F.layer_norm(x, (512,), w["norm2.weight"], w["norm2.bias"], eps=1e-6)
    return F.linear(x, w["head.weight"], w["head.bias"])  # (B, 214)


# %%
def over_the_features(x, weight, bias):
    """LayerNorm over the last axis: (B, P, C) = (B, 512, 256) -> the same."""
    # weight and bias are the file's
    return F.layer_norm(x, (256,), eps=1e-6) * weight[:, None] + bias[:, None]


some_files = tokens.split(4)  # four at a time need little memory
typed = torch.cat([rebuilt(some, over_the_features).argmax(1) for some in some_files])  # (B,)
for name in ("layer_norm.py", "page.html", "waves.png"):
    at = list(files).index(name)
    print(f"{name:13}  original: {labels[wanted[at]]:6}  rebuilt: {labels[typed[at]]}")
print("same type as the original:", (typed == wanted).sum().item(), "of", len(files), "files")

# %% [markdown]
# There is no error, every shape fits, and all weights are the original's, as is $\epsilon$. Still two files in three get a different type, because of one line.
#
# *About 58 min, in two sittings of 30 and 28.* **You'll be able to**
# - read a norm out of the file of a trained model;
# - ask a norm over which axis it takes its mean;
# - rebuild a net that others trained, and say how far the copy agrees;
# - say which of a norm's conventions change a result.
#
# **You need** [lesson 3](03_epsilon.ipynb) ($\epsilon$ and the variance in one pass), [lesson 4](04_affine_and_module.ipynb) (the module), [lesson 14](14_clinic.ipynb) (probing a layer).
#
# ## 15.1 A model is a list of operations
#
# Before you open the original, ask it something, for example four letters again and again. (`file_bytes` makes numbers of a file, and `magika_scores` runs the original on them.)

# %%
piece = "abcd"  # yours to change
content = (5000 * piece)[:5000].encode()
score, at = magika_scores(file_bytes(content)[None])[0].max(0)
print(f"{piece!r}, repeated to 5,000 bytes: {labels[at]}, score {score.item():.3f}")

# %% [markdown]
# **Find out:** the net is sure that this is a disk image (`iso`). Try other letters, then pieces of one to five. For which lengths does the answer stay, whatever the letters (a to z) are?
#
# <details><summary>What there is to find</summary>
#
# For pieces of one, two or four letters it is always `iso`, with the score above. For three or five different letters it need not be. (So it is where the file's length is a multiple of four, from 1,024 on: make it 5,001, and `abcd` becomes something else.) [Section 15.3](#15.3-Rebuild-it-with-your-LayerNorm) says why.
#
# </details>
#
# Now open it. The file is in the form [ONNX](https://onnx.ai): a list of operations, each with the names of what goes in and out, and constants.

# %%
graph = onnx.load_from_string(data.magika_model()).graph
counts = Counter(node.op_type for node in graph.node)
print(len(graph.node), "operations:")
print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))

# %% [markdown]
# No operation is called `LayerNormalization`: the norms are written out. But **a LayerNorm divides by a root**, and there are two `Sqrt`. Here is what lies around the first one, for a row of four numbers:

# %% tags=["hide-input"]
# Draws norm 1 as a graph, values in its boxes.
INK = "#2B2F33"
BOXES = {  # name: (x, y, what stands in the box)
    "x": (0, 1, "x"),
    "mean": (1.9, 2, "sum · ¼"),
    "square": (1.9, 0, "x · x"),
    "of_mean": (4.2, 1, "mean · mean"),
    "of_squares": (4.2, 0, "sum · ¼"),
    "sub": (6.1, 0, "Sub"),
    "max": (7.95, 0, "Max with 0"),
    "add": (9.75, 0, "Add ε"),
    "root": (11.1, 0, "Sqrt"),
    "inverse": (12.4, 0, "1 / ·"),
    "gain": (12.4, 1, "Mul gain"),
    "centered": (6.9, 2, "Sub"),
    "scaled": (10.3, 2, "Mul"),
    "y": (12.6, 2, "Add bias"),
}
ARROWS = (
    "x mean, x square, mean of_mean, square of_squares, of_mean sub, of_squares sub, sub max, "
    "max add, add root, root inverse, inverse gain, gain scaled, mean centered, "
    "centered scaled, scaled y"
)


def norm_graph(values, **words):
    def draw(ax):
        font = {"ha": "center", "va": "center", "fontsize": 12.5}
        patches = {}
        for name, (at, high, text) in BOXES.items():
            blank = values[name] == "?"
            style = {"boxstyle": "round", "fc": "white", "ec": INK, "lw": 2.2 if blank else 1.2}
            body = f"{text}\n{values[name]}"
            weight = "bold" if blank else "normal"
            label = ax.text(
                at, high, body, bbox=style, zorder=3, color=INK, weight=weight, **font
            )
            patches[name] = label.get_bbox_patch()
        for pair in ARROWS.split(", "):
            start, end = pair.split()
            look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": INK, "lw": 1.3}
            look |= {"patchA": patches[start], "patchB": patches[end]}
            ax.annotate("", BOXES[end][:2], BOXES[start][:2], arrowprops=look, zorder=1)
        # x enters the subtraction as well, above all other boxes
        look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": INK, "lw": 1.3}
        ax.plot([0, 0, 6.9], [1, 2.75, 2.75], color=INK, lw=1.3, zorder=1)
        ax.annotate("", (6.9, 2.27), (6.9, 2.77), arrowprops=look, zorder=1)
        ax.set(xlim=(-0.6, 13.5), ylim=(-0.5, 2.9))
        ax.set_axis_off()

    plot.figure(draw, size=(8.9, 3.7), **words)


row, gain, bias, eps = (0.0, 1.0, 2.0, 5.0), (2.0, 4.0, 2.0, 2.0), (0.0, 0.0, 0.0, 1.0), 0.5


def written(*numbers):
    texts = [f"{number:g}".replace("-", "−") for number in numbers]
    return " ".join(texts)


def through_the_graph():
    """What stands in each box for the row, computed in the order of the graph."""
    x, g, b = map(torch.tensor, (row, gain, bias))
    mean, of_squares = x.sum() / 4, (x * x).sum() / 4
    var = of_squares - mean * mean
    inverse = 1 / (var + eps).sqrt()
    values = dict(
        x=x, mean=mean, square=x * x, of_mean=mean * mean, of_squares=of_squares, sub=var,
        max=var.clamp(min=0), add=var + eps, root=(var + eps).sqrt(), inverse=inverse,
        gain=inverse * g, centered=x - mean, scaled=(x - mean) * (inverse * g),
        y=(x - mean) * (inverse * g) + b,
    )  # fmt: skip
    return {name: written(*value.reshape(-1).tolist()) for name, value in values.items()}


full = through_the_graph()
norm_graph(
    {name: "?" for name in BOXES} | {"x": full["x"], "square": full["square"]},
    title="A norm of 14 boxes, and the row 0 1 2 5",
    caption="Norm 1 as the file writes it, without what only changes shapes. In 'sum · ¼' a "
    "sum is multiplied by ¼. Here ε is ½, the gain 2 4 2 2, the bias 0 0 0 1.",
    alt="Boxes with arrows. x 0 1 2 5 leads to its mean and to x times x, 0 1 4 25. Mean times "
    "mean and the mean of the squares meet in a subtraction; then come Max with 0, Add eps, "
    "Sqrt, one over, Mul gain. On top x minus mean is multiplied by that, and the bias added. "
    "All other values are question marks.",
)

# %% [markdown]
# Take a pencil, and fill in the boxes from the left.
#
# **Predict 15.1:** what comes out of the lower `Sub`?
# - [ ] 14/3, the unbiased variance :: For that the squared distances 4, 1, 0, 9 would be divided by 3. Both sums here are multiplied by ¼.
# - [x] 3.5, the biased variance :: 30/4 − 2 · 2. It is the mean of the squared distances as well: (4 + 1 + 0 + 9)/4.
# - [ ] 5.5, the mean of squares minus the mean :: The mean is multiplied by itself first.

# %% tags=["hide-input"]
norm_graph(
    full,
    title="The lower row makes one over the root, from two sums",
    caption="The graph as before, with its values.",
    alt="The same graph: mean 2, mean of squares 7.5, mean times mean 4, Sub 3.5, Max 3.5, Add "
    "eps 4, Sqrt 2, one over 0.5, Mul gain 1 2 1 1; on top Sub −2 −1 0 3, Mul −2 −2 0 3, Add "
    "bias −2 −2 0 4.",
)

# %% [markdown]
# `Max` is for a variance that rounding has made negative. So the file takes the biased variance in one pass ([section 3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset)), as `LayerNorm` of Flax does [unless told otherwise](https://flax.readthedocs.io/en/latest/api_reference/flax.linen/layers.html). The value of $\epsilon$ is the constant in the `Add` before each root:

# %%
constants = {c.name: numpy_helper.to_array(c) for c in graph.initializer}  # name: array
maker = {name: node for node in graph.node for name in node.output}  # name: what makes it
for root in (node for node in graph.node if node.op_type == "Sqrt"):
    (eps_name,) = [name for name in maker[root.input[0]].input if name in constants]
    print("Sqrt after an Add of", f"{constants[eps_name].item():.0e}")

# %% [markdown]
# ## 15.2 Over which axis
#
# Which numbers share a mean? Each byte has become 64 numbers, and four neighboring bytes are one *position* of 256 features. So `x` has shape (B, P, C) = (B, 512, 256).
#
# The file calls this norm `LayerNorm_0`, but a name is a comment. Ask the norm itself: `magika_norm(1)` is norm 1, cut out of the file, as a function of a tensor.


# %% tags=["exercise"] id="ex-15-1"
# Exercise 15.1 · ●●○○○ · 2 min
def ask(layer, shape):
    """Ask a norm, by feeding it: over which axes does it take its mean and its variance?

    Example: ask(nn.LayerNorm(7), (3, 5, 7)) is (2,): the 7 features of axis 2 share a mean.
    layer: a function of a float32 tensor of that shape that returns the same shape:
        (x - mean) / sqrt(var + eps) * gain + bias, where no gain is 0. It has no gradient:
        change x, and look.
    shape: (B, P, C), three different sizes of at least 3.
    Returns the axes that share a mean, as in (2,) or (1, 2).
    """
    x = torch.randn(shape, generator=torch.Generator().manual_seed(150))  # (B, P, C)
    ### BEGIN SOLUTION
    moved = x.clone()
    moved[0, 0, 0] += 1
    places = (layer(moved) != layer(x)).nonzero()  # (n, 3) where the output has changed
    return tuple(axis for axis in range(3) if places[:, axis].any())
    ### END SOLUTION


# %% tags=["check"]
check.ask(ask)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Change one number of `x`: which outputs change? `(a != b).nonzero()` lists the places, a row each.
#
# </details>

# %%
norm1 = magika_norm(1)
print("norm 1 shares a mean over axes", ask(norm1, (3, 512, 256)))

# %% [markdown]
# So `over_the_features` was the line to blame: each of the 256 features is normalized along the file.
#
# **The axis is asked for, not assumed: change one number, and see which outputs move.**
#
# ## 15.3 Rebuild it with your LayerNorm
#
# How can your LayerNorm, which normalizes last axes, take its mean over the positions? The net:
#
# | step | shape of the result |
# |---|---|
# | each byte has a row of 64 numbers | (B, 2048, 64) |
# | GELU (a smooth ReLU), in its `tanh` form | |
# | four neighboring rows, one after the other, become one position | (B, 512, 256) |
# | norm 1: over the positions, a gain and a bias for each | |
# | convolution along the positions, 256 features to 512, kernel 5 | (B, 512, 508) |
# | GELU, in its `tanh` form | |
# | the largest value over the positions | (B, 512) |
# | norm 2: over the features | |
# | linear layer: one number for each of 214 types, the *logits* | (B, 214) |


# %% tags=["export", "hide-input"]
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


# %% tags=["exercise", "export"] id="ex-15-2"
# Exercise 15.2 · ●●●○○ · 4 min
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
        ### BEGIN SOLUTION
        x = x.reshape(len(tokens), 512, 256)  # (B, P, C)
        x = self.norm1(x.mT)  # (B, C, P): the positions are the last axis, and conv wants that
        x = F.gelu(self.conv(x), approximate="tanh").amax(-1)  # (B, 512)
        return self.head(self.norm2(x))  # (B, 214)
        ### END SOLUTION


# %% tags=["check"]
check.file_typer(FileTyper)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `x.mT` exchanges the last two axes. After it, the positions are where LayerNorm looks for them; and `Conv1d` reads (B, features, positions), so that nothing has to be turned back.
#
# </details>
#
# The folded `load_typer` makes a `FileTyper` with the original's constants.


# %% tags=["export", "hide-input"]
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


# %% tags=["hide-input"]
# Prints the three best types of a file.
def type_of(path):
    if not Path(path).is_file():
        place = f"From {Path.cwd()} no file '{path}' is seen." if path else "No file yet."
        print(place, "Put the path of a file between the quotes.")
        return
    tokens = file_bytes(Path(path).read_bytes())[None]  # (1, 2048)
    with torch.no_grad():
        best = load_typer()(tokens).softmax(-1)[0].topk(3)
    for score, at in zip(*best, strict=True):
        print(f"{labels[at]:15} {score.item():.3f}")


# %% tags=["nbval-ignore-output"]
typer = load_typer()
with torch.no_grad():
    ours = torch.cat([typer(some).softmax(-1) for some in some_files])  # (B, 214)
same = (ours.argmax(1) == wanted).sum().item()
print("same type as the original:", same, "of", len(files), "files")
print(f"largest difference of a score: {(ours - shipped).abs().max().item():.0e}")

# %% [markdown]
# All 48, with your LayerNorm, and the axis as the only change. Now try a file of your own.

# %% tags=["no-slide"]
type_of("")  # a path as seen from this folder, for instance "15_in_the_wild.ipynb"

# %% [markdown]
# And the puzzle of 15.1? Where a piece of four letters is repeated, all positions are alike, so each feature is constant along the file: x − mean is 0, and norm 1 gives its bias and nothing of the file.
#
# **Predict 15.2:** now repeat *eight* letters, `abcdefghabcdefgh…`. Each feature has one value at every other position, a, and a different one, b, between them. What does norm 1 make of them, before gain and bias?
# - [ ] 0 and 0, as before :: Before, all positions were alike. Now a and b lie on two sides of their mean.
# - [ ] half of their distance, once with a minus sign :: That is x − mean. It is divided by σ, which is half of their distance, too.
# - [x] about 1 and −1, or −1 and 1, whatever a and b are :: Both are half of their distance away from the mean, and so is σ. Only ε makes it a little less.

# %%
for piece in ("abcd", "abcdefgh", "stuvwxyz"):
    row = file_bytes(625 * piece.encode() * (8 // len(piece)))[None]  # (1, 2048)
    with torch.no_grad():
        x = F.gelu(typer.embed(row), approximate="tanh").reshape(1, 512, 256)  # (B, P, C)
        best = typer(row).softmax(-1).max(1)
    size = F.layer_norm(x.mT, (512,), eps=1e-6).abs()  # (B, C, P)
    share = (size > 0.9).double().mean().item()
    print(f"{piece:8}  {share:3.0%} within 0.1 of 1 or −1   {labels[best.indices]}", end=" ")
    print(f"{best.values.item():.2f}")

# %% [markdown]
# Of four letters the rest of the net sees nothing but a bias; of eight, it hardly sees more than which of two values is the larger, one answer a feature.
#
# **The axis of a norm decides what a net cannot see.**
#
# ## What you have now
#
# - **A LayerNorm divides by a root.** $\epsilon$ is in the `Add` before it, the gain in a `Mul` after it.
# - **The axis is asked for, not assumed: change one number, and see which outputs move.**
# - **The axis of a norm decides what a net cannot see.**
#
# **You can stop here:** close the notebook. Draw the graph of a norm in one pass from memory, and put 1, 2, 3, 6 through it, with $\epsilon = \frac12$. Its root is the same as before: why?
#
# <details><summary>Is it right?</summary>
#
# Mean 3, mean of squares 50/4 = 12.5, and 12.5 − 3 · 3 = 3.5 again: the row is 0, 1, 2, 5 plus 1, and a norm takes away what all entries share. So the root is 2, and x − mean is −2, −1, 0, 3.
#
# </details>
#
# *Sitting two:* what of a norm may a copy get wrong, and what does each of these two norms need? Your copy and the original differ in the fourth digit: who is right? And in the end an exam: a norm that nobody has named.
#
# ## 15.4 What each convention is worth

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
from collections import Counter

import onnx
import onnx.parser
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.in_the_wild import _session, file_bytes, load_typer, magika_norm, magika_scores
from lessonkit import check, data, plot, show
from lessonkit.mine import LayerNorm

labels, files = data.magika_labels(), data.file_corpus()
tokens = torch.stack([file_bytes(content) for content in files.values()])  # (B, 2048)
shipped = magika_scores(tokens)  # (B, 214)
wanted = shipped.argmax(1)  # (B,)
norm1 = magika_norm(1)


@torch.no_grad()
def scores(typer):
    """The shares that a net gives to the types of the 48 files: (B, 214)."""
    return torch.cat([typer(some).softmax(-1) for some in tokens.clone().split(4)])  # 4: memory


ours = scores(load_typer(LayerNorm))

# %% [markdown]
# **Recall 15.1:** a row has $\sigma = 0.001$, and $\epsilon = 10^{-6}$. What does LayerNorm divide by?
# - [x] about 0.0014 :: The root of 10⁻⁶ + 10⁻⁶.
# - [ ] about 0.001 :: Under the root ε stands beside σ², which is 10⁻⁶ as well. Added to σ, it would be nothing.
# - [ ] 0.000002 :: That is σ² + ε. Its root is taken.
#
# Which conventions must a copy get right? Before you change one, look at the variances that $\epsilon = 10^{-6}$ is added to:

# %% tags=["hide-input"]
# Keeps what enters both norms: met.
typer, pieces = load_typer(LayerNorm), {"norm 1": [], "norm 2": []}
hooks = [
    layer.register_forward_pre_hook(lambda _, x, n=name: pieces[n].append(x[0].clone()))
    for name, layer in (("norm 1", typer.norm1), ("norm 2", typer.norm2))
]
scores(typer)
[hook.remove() for hook in hooks]
met = {name: torch.cat(pieces.pop(name)) for name in list(pieces)}
for name, x in met.items():  # (B, C, P), (B, C)
    v = x.var(-1, correction=0).flatten().sort().values
    tenth, half = (float(f"{v[len(v) // part].item():.1g}") for part in (10, 2))
    print(f"{name}: a tenth of the variances is below about {tenth:g}, half below {half:g}")


# %% tags=["hide-input"]
# Types the files with another rule as norm.
def with_rule(rule):
    """Return a class like LayerNorm whose rows are normalized by rule(x)."""

    class Changed(nn.Module):
        def __init__(self, size, eps):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))
            self.bias = nn.Parameter(torch.zeros(size))
            self.rule = rule

        def forward(self, x):
            return self.rule(x) * self.weight + self.bias

    return Changed


def ln(x, eps=1e-6):
    """LayerNorm over the last axis, before gain and bias."""
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def weigh(name, norm1=ln, norm2=ln):
    """Type the files with two rules as norms, and print what they change."""
    typer = load_typer(with_rule(norm1))
    typer.norm2.rule = norm2
    shares = scores(typer)  # (B, 214)
    kept, moved = (shares.argmax(1) == wanted).sum().item(), (shares - ours).abs().max()
    label, times = Counter(labels[at] for at in shares.argmax(1)).most_common(1)[0]
    often = f"most often {label} ({times})"
    print(f"{name:18} labels kept: {kept:2}, {often}, scores moved by up to {moved:.3f}")


# %% [markdown]
# To the variances of norm 2, a thousandth is nothing. To half of norm 1's it is a third and more. Now one convention at a time: `weigh` types the 48 files with a rule for each norm, and says how many labels stay, and which label is the most frequent one.

# %%
weigh("as shipped")
for name, eps in {"eps 1e-5 (PyTorch)": 1e-5, "eps 1e-3 (Keras)": 1e-3, "eps 0.1": 0.1}.items():
    rule = lambda x, eps=eps: ln(x, eps)
    weigh(name, rule, rule)
weigh("over the features", norm1=lambda x: ln(x.mT).mT)

# %% [markdown]
# At $\epsilon = 10^{-3}$ all labels stay, and one score moves by 0.2; these 48 files are clear cases, where a label can hardly flip. At 0.1, far above the variances of norm 1, norm 1 gives little but its bias, and nearly all is `iso`.
#
# A norm does two things: it takes the mean away, and it divides. Which of the two does norm 1 need, and which norm 2? RMSNorm leaves out the first, `centered` the second.
#
# **Find out:** write down a guess for each norm. Then put `rms` or `centered` into one norm at a time, and the numbers beside your guess. Where labels go, look for a rule of your own that brings them back: a fixed factor in place of the division, the median in place of the mean.

# %%
centered = lambda x: x - x.mean(-1, keepdim=True)  # no division
rms = lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6)  # no mean
weigh("yours", norm1=ln, norm2=ln)  # yours to change: ln, centered, rms, a rule of your own

# %% [markdown]
# If you guessed the same for both, you were in good company. Without its mean, norm 2 makes nearly all files alike, and norm 1 loses about half of the labels. Without its division, norm 2 loses hardly a label, and norm 1 nearly all. It looks as if norm 1 had to divide; but `lambda x: 30 * centered(x)`, which divides by nothing that it measures, brings the labels back. So norm 1 needs its size, norm 2 needs its mean, and no table of one of them would have told you of the other.
#
# **Change one thing in one norm at a time. $\epsilon$ counts where the variances are not far above it, so it travels with the weights.**
#
# <details><summary>When this holds</summary>
#
# For this net, with weights trained at $\epsilon = 10^{-6}$. What else a copy must carry: the axes of gain and bias, the form of GELU, the layout of the weights, and what is done to the data before the net sees it.
#
# Each of the runs draws 26 small files of 26 formats: a third is whole, a third cut short, and a third has lost its beginning. In the median file of a run the best score was {harder_files[as shipped].margin:range} above the second, and in {harder_files[as shipped].narrow:mean} of the files by less than a half. In the table, the share of the original's labels that stayed, and the most that a score moved.
#
# | rule | labels kept | moved by |
# |---|---|---|
# | unbiased variance | {harder_files[unbiased].kept:range} | {harder_files[unbiased].moved:max .3f} |
# | $\epsilon = 10^{-5}$ | {harder_files[eps 1e-5].kept:range} | {harder_files[eps 1e-5].moved:max} |
# | $\epsilon = 10^{-3}$ | {harder_files[eps 1e-3].kept:range} | {harder_files[eps 1e-3].moved:max} |
# | $\epsilon = 0.1$ | {harder_files[eps 0.1].kept:range} | {harder_files[eps 0.1].moved:max} |
# | norm 1 over the features | {harder_files[features].kept:range} | {harder_files[features].moved:max} |
# | norm 1 without its mean (RMSNorm) | {harder_files[rms 1].kept:range} | {harder_files[rms 1].moved:max} |
# | norm 2 without its mean (RMSNorm) | {harder_files[rms 2].kept:range} | {harder_files[rms 2].moved:max} |
# | norm 1 without its division | {harder_files[centered 1].kept:range} | {harder_files[centered 1].moved:max} |
# | norm 1 without it, times 30 | {harder_files[times 30].kept:range} | {harder_files[times 30].moved:max} |
# | norm 2 without its division | {harder_files[centered 2].kept:range} | {harder_files[centered 2].moved:max} |
#
# {harder_files:again}
#
# </details>
#
# ## 15.5 Which of the two is nearer to the truth
#
# Some scores of your copy and the original differ in the fourth digit. Which of the two is right? Float32 keeps about seven digits of each result. Take a pencil, and a machine that keeps **three**: of $101 \cdot 101 = 10201$ it keeps 10200.

# %% tags=["exercise"] id="ex-15-3"
# Exercise 15.3 · ●●○○○ · 2 min
# The row of section 15.1 plus 100: 100, 101, 102, 105. Its mean is 102.
# Example: the square of 105 is 11025, and 11000 is kept. Sums and means keep three digits, too.
# Copy this line and replace the dots by two numbers:
# three_digits = dict(one_pass=..., two_passes=...)
# one_pass    the variance: the mean of the four squares minus the square of the mean
# two_passes  the variance: the mean of (x - 102) squared
### BEGIN SOLUTION
three_digits = dict(one_pass=0, two_passes=3.5)
### END SOLUTION

# %% tags=["check"]
check.three_digits(three_digits)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Of 408, 10,201 and 41,600 the first three digits are kept, and zeros put in the place of the others. In two passes, subtract 102 first: the squares of what is left are small.
#
# </details>
#
# In letters: float32 keeps $\operatorname{E}[x^2]$ up to some $10^{-7}$ of itself. Where $\mu$ is large, that is $10^{-7} \mu^2$, and what is left for $\sigma^2$?
#
# **One pass loses the variance where the mean is far larger than σ.**
#
# The original takes one pass. But it also adds its numbers in another way than PyTorch. So the control is your own copy with the variance in one pass. Float64, with its 16 digits, can judge: first the whole nets, then norm 1 of all three, fed with the same numbers.


# %% tags=["nbval-ignore-output"]
def one_pass(x):
    mean = x.mean(-1, keepdim=True)
    var = (x.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)
    return (x - mean) / torch.sqrt(var + 1e-6)


exact = scores(load_typer(LayerNorm).double())  # (B, 214)
passed = scores(load_typer(with_rule(one_pass)))  # (B, 214)
for name, shares in {"original": shipped, "yours, one pass": passed, "yours": ours}.items():
    print(f"{name:15}: scores off by at most {(shares - exact).abs().max().item():.0e}")

# %% tags=["hide-input"]
# Draws the error of norm 1, a point a file.
gain, shift = typer.norm1.weight.detach().double(), typer.norm1.bias.detach().double()
names = "one pass (original)", "one pass (PyTorch's sums)", "two passes (yours)"
errors, ratio = {name: [] for name in names}, []
for entered in met["norm 1"].split(4):  # (4, C, P)
    exactly = entered.double()
    truth = F.layer_norm(exactly, (512,), gain, shift, 1e-6)
    passing = one_pass(entered) * typer.norm1.weight.detach() + typer.norm1.bias.detach()
    outputs = norm1(entered.mT).mT, passing, typer.norm1(entered).detach()
    for kept, y in zip(errors.values(), outputs, strict=True):
        kept.append((y - truth).abs().flatten(1).amax(1))
    ratio.append((exactly.mean(-1) ** 2 / exactly.var(-1, correction=0)).amax(1))
errors, ratio = (
    {name: torch.cat(kept) for name, kept in errors.items()},
    torch.cat(ratio),
)  # (B,)
order = ratio.argsort()[:-1]  # the last is zeros.bin, whose variances are 0
one, sums, two = (error[order] for error in errors.values())
# the alt text says less
assert one[-1] > 200 * one[0] and sums[-1] > 100 * sums[0] and two.max() < 2e-5
assert (one > sums).all() and (sums > two).all()
plot.lines(
    ratio[order],
    {name: error[order] for name, error in errors.items()},
    dots=list(errors),
    xlog=True,
    ylog=True,
    colors={"one pass (original)": plot.DANGER, "two passes (yours)": "LayerNorm"},
    title="One pass loses digits as the mean outgrows σ",
    x="μ²/σ² at norm 1: the largest of a file's 256",
    y="largest error of norm 1's output",
    caption=f"{len(order)} files, float32 against float64; one more is all zeros. At the right "
    "are three short files, mostly padding.",
    alt="Three clouds of points on logarithmic axes. Over ratios from 50 to 80,000 both with "
    "one pass rise a hundredfold, the original above the one with PyTorch's sums; two passes "
    "stay below 1e-5.",
)

# %% [markdown]
# Both with one pass get worse as the mean outgrows σ, and two passes hardly do. But the original is worse than one pass has to be, for every file: how the numbers are added counts as well.
#
# **Compare a copy part by part, each part fed with the same input, and let float64 judge.**
#
# ## 15.6 Exam: one more norm
#
# Here is a norm that nobody has named. It is written for this exam, as a line for each operation: `result = operation(inputs)`. (The two reductions keep their axis, with size 1.)


# %%
def stranger(x, gain, bias):
    """The norm of the exam, as onnxruntime runs it: x (B, 6, C), gain (C,), bias (C,)."""
    sheet = """<ir_version: 8, opset_import: ["": 15]>
    stranger (float[B, 6, C] x, float[C] gain, float[C] bias) => (float[B, 6, C] y)
    <float a = {0.2}, float b = {0.01}, float c = {1}, int64[1] axes = {1}> {
        m = ReduceMean <axes = [1]> (x)
        d = Sub (x, m)
        q = Mul (d, d)
        s = ReduceSum (q, axes)
        v = Mul (s, a)
        r = Sqrt (v)
        e = Add (r, b)
        n = Div (d, e)
        g = Add (gain, c)
        p = Mul (n, g)
        y = Add (p, bias)
    }"""
    fed = {"x": x.numpy(), "gain": gain.numpy(), "bias": bias.numpy()}
    return torch.from_numpy(_session(onnx.parser.parse_model(sheet)).run(None, fed)[0])


# %% tags=["exercise"] id="ex-15-4"
# Exercise 15.4 · ●●●○○ · 3 min
def port(x, gain, bias):
    """The stranger in PyTorch.

    Example: a column 0, 1, 2, 3, 4, 5 of x, with gain 0 and bias 0, becomes
    -1.33, -0.80, -0.27, 0.27, 0.80, 1.33.
    x: (B, 6, C). gain, bias: (C,). Returns (B, 6, C), in x's dtype, float32 or float64.
    Gradients go to all three. The arguments stay as they are.
    """
    ### BEGIN SOLUTION
    mean = x.mean(1, keepdim=True)  # (B, 1, C)
    deviation = x.std(1, keepdim=True)  # (B, 1, C): 0.2 is 1 / (6 - 1)
    return (x - mean) / (deviation + 0.01) * (1 + gain) + bias  # (B, 6, C)
    ### END SOLUTION


# %% tags=["check"]
check.port(port)

# %%
g = torch.Generator().manual_seed(157)
x, weight, shift = (torch.randn(size, generator=g) for size in ((2, 6, 4), 4, 4))
gap = (port(x, weight, shift) - stranger(x, weight, shift)).abs().max().item()
print("your port agrees with the stranger:", gap < 1e-5)  # float32

# %% [markdown]
# **Predict 15.3:** the sheet, written in PyTorch line for line, goes to the [clinic](14_clinic.ipynb#14.3-Ten-tests,-in-the-order-to-run-them) as a layer. Its axis, its divisor and its gain are taken as they are. Which of these tests does it still fail?
# - [ ] `again`: what does a call leave behind? :: Nothing is kept and nothing overwritten: each line makes a new tensor.
# - [ ] `offset`: are digits lost far from 0? :: m is subtracted before anything is multiplied by itself. Those are two passes.
# - [x] `constant`: is the gradient finite where all numbers are the same? :: The slope of a root is infinite at 0, and 0.01 is added after the root. What that slope is multiplied by is 0 here, and 0 · ∞ is nan.

# %%
x = torch.ones(1, 6, 1, requires_grad=True)  # (B, 6, C), a constant column
dy, d = torch.randn(1, 6, 1, generator=g), x - x.mean(1, keepdim=True)  # (B, 6, C)
roots = {"Sqrt": (0.2 * (d * d).sum(1, keepdim=True)).sqrt(), "x.std": x.std(1, keepdim=True)}
for name, r in roots.items():
    (dx,) = torch.autograd.grad(d / (r + 0.01), x, dy, retain_graph=True)
    print(f"{name:5}  is its gradient finite?", dx.isfinite().all().item())

# %% [markdown]
# `std` is finite because PyTorch takes its slope at 0 to be 0. Which of the two does your port have?
#
# **A port does what the original does, its faults included: where it does not, say so.**
#
# ## Take-away
#
# - How a norm is found in a file, and its axis: the lines of [What you have now](#What-you-have-now).
# - Your copy gives all 48 files the original's label. **Compare a copy part by part**, and let float64 judge: **one pass loses the variance where the mean is far larger than σ.**
# - **Change one thing in one norm at a time. $\epsilon$ travels with the weights.** Here norm 1 needed its axis and its size, norm 2 its mean.
#
# **This is the end of the course.** It began with a signal that died in fifty layers ([lesson 1](01_why_normalize.ipynb)). Now the layer that you built has done the work of one that others trained and ship. Keep the habits: predict before you run, ask a layer with an input that can tell, compare with float64, give a comparison its control.
#
# ## Deeper (optional, 14 min)
#
# ### A closing project: what remains of norm 2
#
# Norm 2 is followed by a linear layer, $W(\gamma \odot \hat x + \beta) + b$. How much of the norm can be put into $W$ and $b$? Gain and bias can ([section 4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do)). So can the subtraction of the mean, because it is linear: it is still done, by the weights. In lesson 4 it went into the layer *before*, and here it goes into the one after.


# %% tags=["exercise", "optional"] id="ex-15-5"
# Exercise 15.5 · ●●●○○ · 5 min
def fold(gain, bias, weight, shift):
    """Fold all of a LayerNorm but its division into the linear layer after it.

    Example: gain [1, 1], bias [0, 0], weight [[3, 1]], shift [5] give [[1, -1]] and [5].
    gain, bias: (D,), of the norm. weight: (K, D), shift: (K,), of the linear layer.
    Returns (new_weight, new_shift), (K, D) and (K,), with which the raw rows x (N, D) give
    x @ new_weight.T / sqrt(var + eps) + new_shift = linear(norm(x)). The arguments stay as
    they are.
    """
    ### BEGIN SOLUTION
    scaled = weight * gain  # (K, D)
    return scaled - scaled.mean(1, keepdim=True), shift + weight @ bias  # (K, D), (K,)
    ### END SOLUTION


# %% tags=["check", "optional"]
check.fold(fold)

# %% [markdown]
# <details><summary>Hint</summary>
#
# With $V = W$ times $\gamma$ (column by column): $V(x - \mu \mathbf 1) = Vx - \mu V \mathbf 1$, and $\mu = \frac1D \mathbf 1^T x$. What has to be subtracted from each row of $V$?
#
# </details>

# %% tags=["optional"]
linear, pooled = load_typer(LayerNorm).double(), met["norm 2"].double()  # pooled: (B, D)
parts = linear.norm2.weight, linear.norm2.bias, linear.head.weight, linear.head.bias
new_weight, new_shift = fold(*parts)
size = (pooled.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()  # (B, 1) all that is left
with torch.no_grad():
    folded = pooled @ new_weight.T / size + new_shift  # (B, 214)
    gap = (folded - linear.head(linear.norm2(pooled))).abs().max()
    same = (pooled @ new_weight.T / size.median() + new_shift).argmax(1)  # (B,)
show("largest difference", gap, digits=6)
print("one division for all files, the median: labels kept", (same == wanted).sum().item())

# %% [markdown]
# What remains of norm 2 is one division a file: a **temperature**, as in the softmax of [section 5.3](05_softmax.ipynb#5.3-What-each-of-them-cannot-see), for the part of the logits that depends on the file. And if every file is divided by the same number, nearly all labels stay. But labels say little about a temperature. On the harder files of [section 15.4](#15.4-What-each-convention-is-worth), with σ frozen at the median of the 48, {harder_files[norm 2 frozen].kept:range} of the labels stayed, but in {harder_files[norm 2 frozen].moved:count > 0.5} of {harder_files[norm 2 frozen]:n} runs a score moved by more than a half; and a divisor ten times too small kept {harder_files[10 times colder].kept:range}, one ten times too large {harder_files[10 times hotter].kept:range}. So the scores, and not the labels, say what this division does.
#
# If norm 1 gives up its σ first (one frozen number a feature) and then norm 2, measured again behind it, {harder_files[both frozen].kept:range} of the labels stay. That is how norms have been taken out of trained language models, one after the other, each time with some training in between: [Heimersheim](https://arxiv.org/abs/2409.13710) (2024), [Baroni et al.](https://arxiv.org/abs/2507.02559) (2025). {harder_files:again}
#
# Norm 1 does not fold so far. Its gain belongs to positions, and a convolution has the same weights at all positions, so that even the gain has no place to go.
#
# ### One operator, and what it cannot say
#
# Since version 17 of its operations ONNX has [`LayerNormalization`](https://onnx.ai/onnx/operators/onnx__LayerNormalization.html)`(x, gain, bias, axis, epsilon)`. It normalizes all axes from `axis` to the last, as PyTorch does. So norm 1 needs a transpose before it, and none after it, because `Conv` wants the positions last. And $\epsilon$ is 1e-5 if nobody says otherwise.
#
# ## On your own
#
# 1. The exam with a shipped model, the text recognizer of RapidOCR (Apache-2.0): after `pip install --no-deps rapidocr-onnxruntime==1.4.4` it is `models/ch_PP-OCRv4_rec_infer.onnx` in the folder of that package. Find its norms by their roots, and port one of them into a file of your own in `work/mine`.
# 2. What has moved since form A? Take [form B](inventory_b.ipynb) of the LayerNorm inventory.
#
# Your layer can now name a file, in a net that others trained and ship; it still cannot read the text in a picture, and that is the first task above.
#
# ## Further reading
#
# - Fratantonio et al. (2024), [*Magika: AI-Powered Content-Type Detection*](https://arxiv.org/abs/2409.13768).
# - Flax, [*Normalization*](https://flax.readthedocs.io/en/latest/api_reference/flax.linen/layers.html): `LayerNorm` with `reduction_axes`, `feature_axes` and `use_fast_variance`.

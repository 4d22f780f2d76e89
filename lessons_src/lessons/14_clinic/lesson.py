# %% [markdown]
# # 14 · The clinic
#
# A net for images normalizes the three channels of every pixel. To see what channel 1 contributes, its author switches it off with gain 0 and bias 0, while the other two have gain 1 and bias 3, which keeps their numbers away from 0. So channel 1 should come out as zeros, and nothing else should.

# %% tags=["hide-input"]
# Imports, and the first patient.
import inspect

import torch
from torch import nn
from torch.nn import functional as F

# Not found? Open this notebook in the course's folder (make lab), or pip install the course.
from lessonkit import check, data, plot, show  # one thread (LESSON_THREADS)
from lessonkit.mine import LayerNorm  # lesson 4


def patient_pixels(x, weight, bias):
    """LayerNorm over the channels of each pixel: (B, C, H, W) -> (B, C, H, W)."""
    B, C, H, W = x.shape
    pixels = x.reshape(B, H * W, C)  # (B, H * W, C)
    pixels = F.layer_norm(pixels, (C,), weight, bias)
    return pixels.reshape(B, C, H, W)


# %%
digit = data.digits_split(0).x_train[3]  # (H, W) = (8, 8)
x = torch.stack([digit, digit.T, digit.flip(0)])[None]  # (B, C, H, W) = (1, 3, 8, 8)
gain, shift = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([3.0, 0.0, 3.0])  # (C,) each
out = patient_pixels(x, gain, shift)  # (B, C, H, W)
show("share of zeros in channels 0, 1, 2", (out[0] == 0).flatten(1).double().mean(1), digits=2)

# %% tags=["hide-input"]
# Draws the channels before and after.
shown = torch.cat([x[0] - x.min(), out[0]])  # (2C, H, W)
names = ["in, 0", "in, 1", "in, 2", "out, 0", "out, 1", "out, 2"]


def draw(axes):
    for ax, picture, name in zip(axes, shown, names, strict=True):
        ax.imshow(picture, cmap="gray_r", vmin=0, vmax=shown.max())
        ax.text(0.5, -0.06, name, transform=ax.transAxes, ha="center", va="top")
        ax.set_axis_off()


plot.figure(
    draw,
    ncols=6,
    size=(7, 1.5),
    numbers={"image": names, "mean": shown.mean((1, 2)), "highest": shown.amax((1, 2))},
    title="Channel 1 is switched off, and every channel has stripes",
    caption="Three channels of 8 × 8 pixels (a digit, mirrored in two ways) before and after "
    "the layer; large is dark, 0 is white. Channels 0 and 2 have gain 1 and bias 3.",
    alt="Six small images. The three inputs are digits. In each of the three outputs every "
    "third pixel is white, along diagonals.",
)

# %% [markdown]
# Every channel has lost a third of its pixels, and no error says why. In this clinic the symptom comes first, then a probe, and only then the code.
#
# *About 58 min, in two sittings of 31 and 27.* **You'll be able to**
# - go from a symptom to its cause with a probe, before you read the code;
# - examine a LayerNorm that a stranger wrote, with ten tests;
# - build a norm from a page of equations, and examine a result before you report it.
#
# **You need** [lesson 4](04_affine_and_module.ipynb) (the module) and [lesson 7](07_backward.ipynb) (gradients); for the second sitting [lesson 11](11_transformer.ipynb).
#
# ## 14.1 Every size fits
#
# No shape finds this fault. What is left to ask is *on which inputs one output depends*, and autograd knows that.


# %%
def footprint(layer, shape, output):
    """Return the places of the input on which one output of a layer depends."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(142)).requires_grad_()
    layer(x)[output].backward()
    return [tuple(place) for place in x.grad.nonzero().tolist()]


random = torch.randn(2, 3, generator=torch.Generator().manual_seed(143))  # a gain and a bias
ill = lambda x: patient_pixels(x, *random)
print("depends on", footprint(ill, (1, 3, 4, 5), (0, 1, 2, 3)))

# %% [markdown]
# The image had 3 channels, 4 rows and 5 columns, and the output was channel 1, row 2, column 3. A right layer would have named the three channels of that pixel: [0, 0, 2, 3], [0, 1, 2, 3] and [0, 2, 2, 3].
#
# **Find out:** ask the patient for other outputs. How do you get, from the place of an output, the three places that it depends on?
#
# <details><summary>When a footprint tells the truth</summary>
#
# As far as gradients show it: a gain of 0, a ReLU that is off or a `detach()` hides a dependence. That is why gain, bias and input are random here.
#
# </details>
#
# **Predict 14.1:** your diagnosis, from the footprint alone: what has the layer done?
# - [ ] It normalized each row of pixels. :: Then five inputs would be named, those of row 2. There are three, and one of them is in row 3.
# - [x] It cut all numbers of the image into pieces of three, in the order in which they are stored. :: Column 3, column 4, then column 0 of the next row: the last index runs fastest.
# - [ ] It normalized over the channels, with the wrong gain. :: A gain changes how much an output depends on its inputs, and not on which. All three inputs here are in channel 1.
#
# Compare your diagnosis with the code:

# %%
print(inspect.getsource(patient_pixels))

# %% [markdown]
# The first `reshape` was to bring the channels to the end.
#
# <details><summary>What there was to find</summary>
#
# Number the places in the order in which they are stored: 20 · channel + 5 · row + column. The output [0, 1, 2, 3] has the number 33, and its piece of three is 33, 34, 35.
#
# </details>
#
# **`reshape` keeps the order of the numbers, so it cannot move an axis.**
#
# <details><summary>When this holds</summary>
#
# For every tensor: `reshape` reads the numbers with the last index running fastest, and cuts that one row into other pieces. `view` does the same without a copy. Only an axis of size 1 may come to stand elsewhere. `movedim`, `permute` and `transpose` move an axis.
#
# </details>


# %% tags=["exercise"] id="ex-14-1"
# Exercise 14.1 · ●●○○○ · 2 min
def repaired_pixels(x, weight, bias):
    """LayerNorm over the channels of each pixel, eps = 1e-5.

    Example: a pixel with the channels 1, 2, 3 comes out as -1.22, 0, 1.22 (gain 1, bias 0).
    x: (B, C, H, W). weight, bias: (C,). Returns (B, C, H, W).
    """
    ### BEGIN SOLUTION
    pixels = x.movedim(1, -1)  # (B, H, W, C)
    pixels = F.layer_norm(pixels, (x.shape[1],), weight, bias)
    return pixels.movedim(-1, 1)  # (B, C, H, W)
    ### END SOLUTION


# %% tags=["check"]
check.repaired_pixels(repaired_pixels)

# %% [markdown]
# <details><summary>Hint</summary>
#
# What was moved to the end has to be moved back.
# (Or leave the axes alone and write the formula over axis 1, with the gain as `weight.view(-1, 1, 1)`.)
#
# </details>

# %% tags=["hide-input"]
# Counts the zeros again.
out = repaired_pixels(x, gain, shift)  # (B, C, H, W)
show("share of zeros in channels 0, 1, 2", (out[0] == 0).flatten(1).double().mean(1), digits=2)

# %% [markdown]
# ## 14.2 Clean until it has learned
#
# An encoder turns a sentence into the average of its tokens after a norm. Short sentences of a batch are padded with zeros. In the new model padding changes nothing, as a test shows. The model is trained, and now the vector of a sentence depends on how long the *other* sentences are.


# %% tags=["hide-input"]
# The second patient, and how far padding moves it.
def patient_average(x, mask, norm):
    """Average the real tokens after a norm.

    x: (B, T, C). mask: (B, T), True for real tokens. Returns (B, C).
    """
    x = x * mask.unsqueeze(-1)  # (B, T, C) padding becomes 0
    return norm(x).sum(1) / mask.sum(1, keepdim=True)  # (B, C)


sentence = torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(143))  # (B, T, C)
mask = torch.arange(8).unsqueeze(0) < 3  # (B, T) three real tokens and five of padding


def padding_shows(average, norm):
    """Return how far the padding moves the vector of the sentence: (C,)."""
    alone = average(sentence[:, :3], mask[:, :3], norm)  # (B, C)
    return (average(sentence, mask, norm) - alone)[0].detach()


# %% [markdown]
# Training has changed the gain and the bias of the norm, for instance. So give one new norm a different gain, and a second one a different bias. The sentence has three tokens, and five of padding follow.

# %%
for name in ("weight", "bias"):
    norm = nn.LayerNorm(4)
    getattr(norm, name).data = torch.tensor([3.0, -6.0, 0.0, 9.0])  # (C,)
    moved = padding_shows(patient_average, norm)  # (C,)
    print(f"{name:6} 3, -6, 0, 9: moved?", bool(moved.abs().max() > 1e-5))

# %% [markdown]
# **Predict 14.2:** use a pencil. Each token of padding is a row of zeros. What does the norm make of it, and by how much do five such rows move a sum that is divided by three?
# - [ ] 3, −6, 0, 9 :: One token of padding for each real one would do that. Here are five for three.
# - [x] 5, −10, 0, 15 :: LN(0) = γ · 0 + β = β. Five times β is added, and the sum is divided by three.
# - [ ] 15, −30, 0, 45 :: Five times β is what is added to the sum. The average divides it by three.
# - [ ] 1.875, −3.75, 0, 5.625 :: You have divided by all eight tokens. The sum is divided by the three real ones.

# %%
show("moved by", moved, digits=1)
print(inspect.getsource(patient_average))

# %% [markdown]
# The padding is set to 0 *before* the norm, and the norm turns it into the bias. Nobody saw it in the new model, whose bias was 0.
#
# **Test with random gains and biases: those of a new layer, 1 and 0, hide mistakes.**
#
# The cure sets the padding to 0 *after* the norm, so that nothing comes between the mask and the sum, and real tokens keep their bias.
#
# ## 14.3 Ten tests, in the order to run them
#
# A stranger hands you a LayerNorm. What do you feed it? A test takes a *class*, builds layers from it as from `nn.LayerNorm`, and returns `True` if they are right. Given are:
#
# - `draw(*shape, seed=147)` returns the same random float64 numbers every time, and others for another seed;
# - `build(cls)` makes a float64 layer for 5 features, with a random gain and bias;
# - `trial(cls, x)` builds one for `x`, and returns the list `[x, gain, bias]`, the layer's output, and the right one, computed in float64 from the same three (gain and bias ask for gradients; `x` does if yours did);
# - `close(cls, x, tolerance)` says whether the output has the right shape, type and values.


# %% tags=["hide-input"]
# The four helpers.
def draw(*shape, seed=147, dtype=torch.float64):
    """Return the same random numbers of a shape and seed every time."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=g).to(dtype)


def build(cls, size=5, dtype=torch.float64, **options):
    """Make a layer with random gain and bias."""
    layer, g = cls(size, **options).to(dtype), torch.Generator().manual_seed(148)
    for _, p in sorted(layer.named_parameters())[::-1]:  # weight, then bias
        nn.init.normal_(p, generator=g)
    return layer


def trial(cls, x, size=None, eps=1e-5):
    """Build a layer for x (size: x's last axis unless given).

    Return ([x, gain, bias], what it makes of x, what F.layer_norm makes of x in float64)."""
    size = size or x.shape[-1:]
    layer = build(cls, size if len(size) > 1 else size[0], x.dtype, eps=eps)
    leaves = [p for _, p in sorted(layer.named_parameters())[::-1]]
    right = F.layer_norm(x.double(), size, *[p.double() for p in leaves], eps=eps)
    return [x, *leaves], layer(x), right


def close(cls, x, tolerance, **options):
    """Whether a layer has the right shape and type on x, and the right values."""
    _, y, right = trial(cls, x, **options)
    good = y.shape == x.shape and y.dtype == x.dtype
    return good and bool((y - right).abs().max() <= tolerance)


# %%
def rows(cls):
    return close(cls, draw(4, 5) * torch.tensor([[1.0], [0.1], [0.01], [0.001]]), 1e-9)


def axes(cls):
    return close(cls, draw(2, 3, 40), 1e-9)


# %% [markdown]
# Each is an *input*, made for certain faults. Six more are folded below.
#
# | | test | input | made for |
# |---|---|---|---|
# | 1 | `names` | none: it lists parameters, buffers and their first values | what a checkpoint and an optimizer see |
# | 2 | `rows` | small rows of 5 features | slips in the formula, as a division by D − 1 |
# | 3 | `axes` | three axes of different size, the last one wide | statistics over anything else |
# | 4 | `again` | *yours* | what a call leaves behind |
# | 5 | `gradient` | *yours* | what no output shows |
# | 6 | `offset` | float32 rows around 10,000 | digits that are lost |
# | 7 | `half` | float16 and bfloat16: large, far from 0, zeros with eps = 1e-8 | computing in half precision |
# | 8 | `constant` | a constant row: is its gradient finite? | a root at 0 |
# | 9 | `options` | two axes and eps = 0.1; small rows, no gain and bias, and eps left out | unused arguments, another default of eps |
# | 10 | `layout` | a transposed tensor | `view` |


# %% tags=["hide-input"]
# The other six tests.
def names(cls):
    """What a checkpoint and an optimizer see of a new layer: names, values, what is trained."""
    seen = [
        (
            {name: kept.tolist() for name, kept in layer.state_dict().items()},
            {name for name, p in layer.named_parameters() if p.requires_grad},
        )
        for layer in (cls(5), nn.LayerNorm(5))
    ]
    return seen[0] == seen[1]


def offset(cls):
    return close(cls, draw(4, 5, dtype=torch.float32) + 10_000, 0.02)


def half(cls):
    """Squares of 600 and an eps of 1e-8 do not fit into float16; around 60 bfloat16 has steps
    of a quarter."""
    large, zeros = draw(4, 5, dtype=torch.float16) * 600, torch.zeros(2, 5, dtype=torch.float16)
    far = (draw(4, 5) + 60).to(torch.bfloat16)
    return (
        close(cls, large, 0.02) and close(cls, zeros, 0.02, eps=1e-8) and close(cls, far, 0.02)
    )


def constant(cls):
    """The slope of a root is infinite at 0: the gradient breaks where the value does not."""
    x = torch.full((2, 5), 4.0, dtype=torch.float64, requires_grad=True)  # (B, D)
    _, y, _ = trial(cls, x.clone())
    return bool(torch.autograd.grad(y, x, draw(2, 5))[0].isfinite().all())


def options(cls):
    bare, x = cls(5, elementwise_affine=False), draw(4, 5) / 1000  # their variances: below 1e-5
    by_default = bare(x) - F.layer_norm(x, (5,))
    given = close(cls, draw(2, 3, 5), 1e-9, size=(3, 5), eps=0.1)
    return given and not list(bare.parameters()) and bool(by_default.abs().max() < 1e-9)


def layout(cls):
    return close(cls, draw(5, 3, 2).transpose(0, 2), 1e-9)


def passes(test, cls):
    """Whether a layer passes a test; one that raises an error does not."""
    try:
        return bool(test(cls))
    except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError):
        return False


def first_fault(cls, tests):
    """Return the name of the first of the tests that a layer fails, or None."""
    return next((test.__name__ for test in tests if not passes(test, cls)), None)


eight = [names, rows, axes, offset, half, constant, options, layout]

# %% [markdown]
# Are eight enough? Here are twenty-nine faulty layers, each a right one with one part replaced.


# %% tags=["hide-input"]
# A right layer in parts, and twenty-nine faults.
class Sound(nn.Module):
    """A right LayerNorm in parts, so that one part can be replaced."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__()
        single = isinstance(normalized_shape, int)
        self.sizes = (normalized_shape,) if single else tuple(normalized_shape)
        self.eps, self.axes = eps, tuple(range(-len(self.sizes), 0))
        self.weight = nn.Parameter(torch.ones(self.sizes)) if elementwise_affine else None
        self.bias = nn.Parameter(torch.zeros(self.sizes)) if elementwise_affine else None
        self.prepare()

    def prepare(self):
        """For faults that change what has been made."""

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.affine(self.normalize(wide)).to(x.dtype)

    def normalize(self, x):
        return (x - self.mean(x)) / torch.sqrt(self.var(x) + self.eps)

    def mean(self, x):
        return x.mean(self.axes, keepdim=True)

    def var(self, x):
        return x.var(self.axes, correction=0, keepdim=True)

    def affine(self, y):
        return y if self.weight is None else y * self.weight + self.bias


def over(axes, pick=lambda s, x: x):
    """Statistics over other axes of what pick takes; axes: a function of x's number of axes."""
    return dict(
        mean=lambda s, x: pick(s, x).mean(axes(x.dim()), keepdim=True),
        var=lambda s, x: pick(s, x).var(axes(x.dim()), correction=0, keepdim=True),
    )


def affine(change):
    """A gain and bias used in another way; without them, nothing."""
    return dict(affine=lambda s, y: y if s.weight is None else change(s, y))


def only_in_training(s, x):
    """In eval() gain and bias are left out."""
    return Sound.forward(s, x) if s.training else s.normalize(x)


def renamed(s):
    s.gain, s.shift, s.weight, s.bias = s.weight, s.bias, None, None


def unregistered(s):
    s.gain, s.weight = torch.ones(s.sizes), None


def small_gains(s):
    [nn.init.normal_(p, std=0.02) for p in s.parameters()]


def running_variance(s, x):
    """In train() the variance of the rows, of which it keeps an average; in eval() that."""
    own = Sound.var(s, x)
    if s.training:
        s.kept = 0.9 * getattr(s, "kept", 1.0) + 0.1 * own.mean().item()
    return own if s.training else torch.full_like(own, getattr(s, "kept", 1.0))


def in_place(s, x):
    """For float32 and float64 x.to(...) is x itself, and -= overwrites it."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    wide -= s.mean(wide)
    return s.affine(wide / torch.sqrt(s.var(wide) + s.eps)).to(x.dtype)


def into_a_buffer(s, x):
    """Every answer of one shape is written into the same memory."""
    y = Sound.forward(s, x)
    if getattr(s, "memory", y[..., :0]).shape != y.shape:
        s.memory = torch.empty_like(y)
    return s.memory.detach().copy_(y)


parts = {
    "other names": dict(
        prepare=renamed, affine=lambda s, y: y if s.gain is None else y * s.gain + s.shift
    ),
    "gain not registered": dict(
        prepare=unregistered, affine=lambda s, y: y if s.bias is None else y * s.gain + s.bias
    ),
    "one more buffer": dict(prepare=lambda s: s.register_buffer("calls", torch.zeros(()))),
    "gains drawn at 0.02": dict(prepare=small_gains),
    "gains start at 0": dict(prepare=lambda s: [nn.init.zeros_(p) for p in s.parameters()]),
    "divides by D − 1": dict(var=lambda s, x: x.var(s.axes, keepdim=True)),
    "eps added to σ": dict(normalize=lambda s, x: (x - s.mean(x)) / (s.var(x).sqrt() + s.eps)),
    "eps left out": dict(normalize=lambda s, x: (x - s.mean(x)) / s.var(x).sqrt()),
    "mean left out": dict(mean=lambda s, x: 0.0),
    "bias before gain": affine(lambda s, y: (y + s.bias) * s.weight),
    "float32 whatever comes": dict(forward=lambda s, x: s.affine(s.normalize(x.float()))),
    "over the batch": over(lambda n: 0),
    "over axis 1": over(lambda n: 1),
    "over time and features": over(lambda n: tuple(range(1, n))),
    "over the first 8 features": over(lambda n: -1, lambda s, x: x[..., :8]),
    "last axis only": over(lambda n: -1),
    "one-pass variance": dict(
        var=lambda s, x: x.square().mean(s.axes, keepdim=True) - s.mean(x).square()
    ),
    "overwrites its input": dict(forward=in_place),
    "running variance": dict(var=running_variance),
    "output buffer reused": dict(forward=into_a_buffer),
    "no gain and bias in eval": dict(forward=only_in_training),
    "variance detached": dict(var=lambda s, x: Sound.var(s, x).detach()),
    "gain detached": affine(lambda s, y: y * s.weight.detach() + s.bias),
    "computed in half": dict(forward=lambda s, x: s.affine(s.normalize(x))),
    "bfloat16 as it comes": dict(
        forward=lambda s, x: (
            s.affine(s.normalize(x)) if x.dtype == torch.bfloat16 else Sound.forward(s, x)
        )
    ),
    "root, then squared": dict(
        normalize=lambda s, x: (x - s.mean(x)) / torch.sqrt(s.var(x).sqrt() ** 2 + s.eps)
    ),
    "eps not passed on": dict(
        normalize=lambda s, x: (x - s.mean(x)) / torch.sqrt(s.var(x) + 1e-5)
    ),
    "eps 1e-12 by default": dict(
        __init__=lambda s, shape, eps=1e-12, **others: Sound.__init__(s, shape, eps, **others)
    ),
    "needs one piece": dict(
        forward=lambda s, x: Sound.forward(s, x.view(-1, *s.sizes)).view(x.shape)
    ),
}
faulty = {name: type("Faulty", (Sound,), replaced) for name, replaced in parts.items()}


# %%
missed = [name for name, cls in faulty.items() if not first_fault(cls, eight)]
print("eight tests miss:", ", ".join(missed))


# %% tags=["exercise"] id="ex-14-2"
# Exercise 14.2 · ●●●○○ · 2 min
def again(cls):
    """True if a call of a layer leaves no trace: not in its input, and not in another answer.

    Example: y = layer(x), then layer(-10 * x). After both, x and y are what they were, and a
    new layer(x) gives y again, before layer.eval() and after it.
    """
    layer, x = build(cls), draw(4, 5)  # both float64
    ### BEGIN SOLUTION
    first, used = layer(x.clone()), x.clone()
    kept = first.clone()
    layer(used), layer(-10 * x)
    left_alone = torch.equal(used, x) and torch.equal(first, kept)
    later = [layer(x.clone()), layer.eval()(x.clone())]
    return left_alone and all(torch.equal(y, kept) for y in later)
    ### END SOLUTION


# %% tags=["check"]
check.again(again)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Keep the first answer *and* a clone of it, and the same of the input. Call the layer on other rows, and compare both pairs before you ask for `x` again; then once more after `layer.eval()`.
#
# </details>


# %% tags=["exercise"] id="ex-14-3"
# Exercise 14.3 · ●●●○○ · 3 min
def gradient(cls):
    """True if the gradients of x, gain and bias agree with F.layer_norm's to 0.1 % at least.

    Example: a layer that uses weight.detach() has no gradient there, and does not pass.
    In float64, for a random gain (trial does that) and a random gradient dy from above, with
    other numbers than x.
    Catch nothing: torch.autograd.grad raises an error where there is no gradient, and who runs
    the tests counts an error as False.
    """
    ### BEGIN SOLUTION
    inputs, y, right = trial(cls, draw(4, 5).requires_grad_())
    dy = draw(4, 5, seed=149)  # other numbers than x
    both = zip(*(torch.autograd.grad(out, inputs, dy) for out in (y, right)), strict=True)
    return all(torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in both)
    ### END SOLUTION


# %% tags=["check"]
check.gradient(gradient)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `trial` returns two outputs of the same inputs. Take `torch.autograd.grad(output, inputs, dy)` of each, and compare the three pairs.
#
# </details>
#
# All ten in order, each with the faults that it is the first to find:

# %% tags=["hide-input"]
# Prints what each of the ten is the first to find.
ten = [names, rows, axes, again, gradient, offset, half, constant, options, layout]
firsts = {name: first_fault(cls, ten) for name, cls in faulty.items()}
for test in ten:
    here = [name for name, fault in firsts.items() if fault == test.__name__]
    print(f"{test.__name__:9}", *here, sep=" · ")
print("found by none:", [name for name, fault in firsts.items() if not fault])
sound = {"nn.LayerNorm": nn.LayerNorm, "lesson 4's": LayerNorm}
print("pass all ten:", [name for name, cls in sound.items() if not first_fault(cls, ten)])

# %% [markdown]
# To break a layer on purpose, and see whether a test notices, is called *mutation testing*.
#
# **Plain questions first: then the first failure says where to look.**
#
# <details><summary>When this holds</summary>
#
# With one fault a layer, as here: of two, the first failure hides one. `layout`, run first, would fail for a dozen of these faults, and so say little. Ten tests prove no layer right: they look at no GPU, no empty batch, no second derivative, and a fault of one size alone (statistics of the first 64 features) gets past them.
#
# </details>
#
# ## What you have now
#
# - A **footprint** says what depends on what.
# - **Test with random gains and biases.**
# - **Plain questions first: then the first failure says where to look.**
#
# **You can stop here:** close the notebook. Write down from memory as many of the ten tests as you can, with an input for each.
#
# *In sitting two* you build a norm from one page of equations, and put it into a net that writes.

# %% [markdown]
# ## 14.4 A norm from one page

# %% tags=["way-back"]
# Back in a new kernel? Run this cell alone, then go on.
import inspect

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode  # lesson 11
from lessonkit import check, data, show, train
from lessonkit.mine import mean_and_var  # lesson 2

# %% [markdown]
# **Recall 14.1:** all weights of a linear layer without bias are multiplied by 10. LayerNorm with $\epsilon = 0$ follows. What changes?
# - [x] the gradient of these weights, and no output of the norm :: The norm takes the factor out, and the gradient becomes a tenth.
# - [ ] nothing at all :: No output of the norm changes, but the gradient of the weights becomes a tenth.
# - [ ] every output of the norm, by a factor of 10 :: The norm divides by a standard deviation that is 10 times as large.
#
# You get one page, as from a paper, without code. (The norm is made up for this lesson.)
#
# > **TrailNorm: a norm with memory.** A token is normalized with the statistics of its trail: its own numbers and those of the tokens before it, the older the less.
# >
# > **Input.** $x \in \mathbb{R}^{T \times D}$, $T$ tokens of $D$ features, with any number of axes in front (the sentences of a batch, say), each of which is normalized by itself. **Constants.** $\lambda \in [0, 1]$ (decay), $\epsilon > 0$. **Parameters.** $\gamma, \beta \in \mathbb{R}^D$, `weight` and `bias`, 1 and 0 at the start.
# >
# > $$w_{ts} = \frac{\lambda^{t-s}}{\sum_{r \le t} \lambda^{t-r}} \ \text{ for } s \le t, \quad 0 \text{ otherwise} \qquad (0^0 = 1)$$
# >
# > $$\mu_t = \sum_{s} w_{ts}\, \frac1D \sum_{d} x_{sd} \qquad v_t = \sum_{s} w_{ts}\, \frac1D \sum_{d} (x_{sd} - \mu_t)^2 \qquad y_{td} = \gamma_d\, \frac{x_{td} - \mu_t}{\sqrt{v_t + \epsilon}} + \beta_d$$
#
# Numbers first: two tokens, $\lambda = 1$, so that both count alike for the second one.
#
# | token | numbers | own mean $m_s$ | own variance $u_s$ |
# |---|---|---|---|
# | 1 | 0, 3, 6 | 3 | 6 |
# | 2 | 8, 11, 14 | 11 | 6 |
#
# **Predict 14.3:** use a pencil. $\mu_2 = 7$. What is $v_2$, the mean squared distance of all six numbers from 7?
# - [ ] 6 :: That is the mean of the two variances, each around the token's own mean.
# - [ ] 16 :: That is the squared distance of the two means from 7. The numbers also vary around their own means.
# - [x] 22 :: 49, 16, 1, 1, 16 and 49 are 132, and a sixth of it is 22 = 6 + 16.
# - [ ] 38 :: 6 + 2 · 16: the distances of both means, added. They are averaged, as the variances are.
#
# The 22 is the mean of the variances plus the mean squared distance of the means. In letters, for each token,
#
# $$\frac1D \sum_d (x_{sd} - \mu_t)^2 = u_s + (m_s - \mu_t)^2,$$
#
# so no sum over all numbers is needed for every pair $(t, s)$. The weights are given:


# %%
def trail_weights(T, decay, dtype):
    """w of the page, a row for each t, a column for each s: (T, T)."""
    t = torch.arange(T)  # (T,)
    w = decay ** (t[:, None] - t).clamp(min=0).to(dtype)  # (T, T)
    return w.tril() / w.tril().sum(-1, keepdim=True)  # (T, T)


show("decay 1/2, three tokens", trail_weights(3, 0.5, torch.float64), digits=2)


# %% tags=["exercise"] id="ex-14-4"
# Exercise 14.4 · ●●●●○ · 6 min
class TrailNorm(nn.Module):
    """The norm of the page. features: D. decay: lambda. Calls know nothing of one another.

    Example: decay=1, tokens 0, 3, 6 and 8, 11, 14: the second comes out as 0.21, 0.85, 1.49.
    """

    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.weight = nn.Parameter(torch.ones(features))  # (D,)
        self.bias = nn.Parameter(torch.zeros(features))  # (D,)

    def forward(self, x):
        """x and y: (..., T, D), both float32 or both float64. A large mean costs no digits."""
        ### BEGIN SOLUTION
        mean, var = mean_and_var(x)  # (..., T, 1) each
        w = trail_weights(x.shape[-2], self.decay, x.dtype)  # (T, T)
        mu = w @ mean  # (..., T, 1)
        v = w @ var + (w * (mean.mT - mu) ** 2).sum(-1, keepdim=True)  # (..., T, 1)
        return (x - mu) / torch.sqrt(v + self.eps) * self.weight + self.bias
        ### END SOLUTION


# %% tags=["check"]
check.trail_norm(TrailNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `mean_and_var` of lesson 2 gives $m$ and $u$ of every token, (..., T, 1) each. A weighted sum over $s$ for every $t$ is one matrix product with `trail_weights(...)`. `mean.mT - mu` is the (T, T) table of $m_s - \mu_t$.
#
# </details>
#
# ## 14.5 Is the new norm better?
#
# The character GPT of [lesson 11](11_transformer.ipynb) writes words, letter by letter. Here it has two blocks and trains for 150 steps of 16 words, in pairs of runs: the same words in the same order, the same initial weights. Nothing was tuned for any norm. A colleague who read the page in a hurry sends a class, too:

# %% tags=["hide-input"]
# Words, losses, colleague's norm, settings.
words = data.words()[::8]  # every eighth of 63,240 words
# (words, T) each: 0 and the letters; the letters and 0, then -100, which the loss leaves out
tokens, targets = encode(words)
order = torch.randperm(len(words), generator=torch.Generator().manual_seed(149))
held, rest = order[:256], order[256:]  # 256 words are kept for validation


def batch(g):
    """Draw 16 words."""
    chosen = rest[torch.randint(len(rest), (16,), generator=g)]
    return tokens[chosen], targets[chosen]


def cross_entropy(logits, wanted):
    """Mean over the letters, in nats (natural logarithms)."""
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten())


def whole(net):
    """Validation loss, the whole word given."""
    return cross_entropy(net(tokens[held]), targets[held]).item()


def prefix(net):
    """Validation loss, each letter from what comes before it."""
    last = [net(tokens[held, : t + 1])[:, -1] for t in range(16)]  # 16 times (256, 27)
    return cross_entropy(torch.stack(last, 1), targets[held]).item()


class HurriedNorm(nn.LayerNorm):
    """The colleague's version."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-2:], eps=self.eps) * self.weight + self.bias


recipe = dict(
    seeds=range(2),
    loss=cross_entropy,
    optimizer=lambda p: torch.optim.Adam(p, lr=3e-3, fused=True),
    batches=batch,
    steps=150,
    evaluate={"whole word": whole, "prefix": prefix},
)


class Seeing(nn.LayerNorm):
    """Token t has the statistics of the tokens s that sees(t, s) names, which count alike."""

    def __init__(self, features, sees):
        super().__init__(features)
        t = torch.arange(16)
        self.w = torch.broadcast_to(torch.as_tensor(sees(t[:, None], t)), (16, 16)).double()

    def forward(self, x):
        w = self.w[: x.shape[-2], : x.shape[-2]].to(x.dtype)  # (T, T)
        w = w / w.sum(-1, keepdim=True).clamp(min=1)
        mean, var = mean_and_var(x)  # (..., T, 1) each
        mu = w @ mean
        v = w @ var + (w * (mean.mT - mu) ** 2).sum(-1, keepdim=True)
        return (x - mu) / torch.sqrt(v + self.eps) * self.weight + self.bias


def race(sees):
    """Train one net with norms that see these tokens, and print both losses."""
    make = lambda: CharGPT(layers=2, norm=lambda features: Seeing(features, sees))
    losses = train.compare({"yours": make}, **recipe | {"seeds": [0]})["yours"]
    for name in ("whole word", "prefix"):
        print(f"{name:10} {losses[name].item():.2f}")


# %% tags=["nbval-ignore-output"]
plain = train.compare({"LayerNorm": lambda: CharGPT(layers=2, norm=nn.LayerNorm)}, **recipe)
hurried = train.compare({"HurriedNorm": lambda: CharGPT(layers=2, norm=HurriedNorm)}, **recipe)
train.table(plain | hurried, "whole word", digits=2)
print(inspect.getsource(HurriedNorm.forward))

# %% [markdown]
# That is the loss a letter with the whole word given, on 256 words that were not trained on. HurriedNorm, the colleague's, has the lower one. Two things are different in it: tokens share their statistics, and later tokens are among them. Which of the two brings the gain?
#
# `race(sees)` trains one net whose norms take the statistics of token t from the tokens s that `sees(t, s)` names. It prints the loss with the *whole word* given, as above, and the loss if each letter has to be told from its *prefix*, the letters before it, as in writing.
#
# **Find out:** write down your guess, and what the first loss becomes if each token sees itself and *one* later token. Then let it see itself alone (`s == t`), all so far (`s <= t`, your TrailNorm with $\lambda = 1$), itself and the next one (`(s == t) | (s == t + 1)`), and what you like. How low can you get the first loss, and what does the second one do?

# %% tags=["nbval-ignore-output"]
race(lambda t, s: s >= 0)  # yours to change: here every token t sees all tokens s

# %% [markdown]
# All tokens so far gain nothing, so sharing is not what helps. One later token is enough, and it gains far more than all of them, perhaps because it is half of the mean and not a sixteenth. In training, too, the net had the whole word, and each letter was told something of the next one. Where it has only the letters so far, of these nets the one with the lowest first loss writes worst. (Under `s == t + 1` the last letter sees nobody, nothing keeps its numbers in size, and the second loss explodes.) That is a **leak**.
#
# **The probe** finds it without any training: put a different token into the last of four places. Which outputs move?

# %%
x = torch.randn(4, 6, generator=torch.Generator().manual_seed(150))  # (T, D)
later = x[[0, 1, 2, 0]]  # (T, D) the last token is a different one
for cls in (nn.LayerNorm, HurriedNorm):
    moved = (cls(6)(later) - cls(6)(x)).abs().amax(-1) > 0  # (T,)
    print(f"{cls.__name__:11} outputs that move:", moved.nonzero().flatten().tolist())

# %% [markdown]
# **When a result is too good, ask what the output may depend on.**
#
# <details><summary>How sure is that?</summary>
#
# Each difference is to LayerNorm, in nats, over {hurried_pairs:n} pairs. Given the whole word, HurriedNorm had the lower loss in {hurried_pairs.whole:count < 0} of them ({hurried_pairs.whole:range}), and statistics over all tokens so far differed by {hurried_pairs.so_far:range}; over the token and the next one, by {hurried_pairs.next:range}. Given the prefix, HurriedNorm had the higher loss in {hurried_pairs.prefix:count > 0} ({hurried_pairs.prefix:range}), the token and the next one in {hurried_pairs.next_prefix:count > 0} ({hurried_pairs.next_prefix:range}), and TrailNorm differed by {hurried_pairs.trail:range}. A split is a different set of validation words. {hurried_pairs:again}
#
# </details>
#
# There was no error, no `nan`, and a better loss. Does your own norm do better?

# %% tags=["nbval-ignore-output"]
own = train.compare({"TrailNorm": lambda: CharGPT(layers=2, norm=TrailNorm)}, **recipe)  # yours
train.table(own, "whole word", digits=2)
train.table(plain | hurried | own, "prefix", digits=2)

# %% [markdown]
# Both losses of your norm are one number, because no output depends on later letters. Here it does not differ from LayerNorm's by much. That is a result, and its sentence needs all of its parts: *which data, which net, how many steps, how many seeds, paired or not, what was tuned for whom.*
#
# ## Take-away
#
# - From a symptom to a cause, before the code: a **footprint** (what does this output depend on?), a **random gain and bias** (a new layer hides what a trained one shows), a **changed later token** (does the future leak?).
# - Ten tests, each an input made for a fault, plain questions first: then the first failure says where to look.
# - A page of equations is tried with small whole numbers before it becomes code, and a result that is too good with a probe before it is reported.
#
# Terms, faults and misconceptions of the whole course are in the [reference](16_reference.ipynb).
#
# ## Deeper (optional, 13 min)
#
# ### A net that whispers
#
# All layers of a net are right, and it learns little. GPT-2 draws most weights with standard deviation 0.02, so the author of a small Pre-LN net draws its parameters in one loop. **The probe: what comes out of each layer** before training.


# %% tags=["optional", "hide-input", "nbval-ignore-output"]
# The net, its author's loop, and the probe.
class Branch(nn.Module):
    """x + MLP(LN(x)) on rows of D features."""

    def __init__(self, D):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def digit_net(init):
    """Return a net for 8 x 8 images with four branches, initialized by init(net)."""
    branches = [Branch(64) for _ in range(4)]
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), *branches, nn.LayerNorm(64), nn.Linear(64, 10)
    )
    init(net)
    return net


def patient_init(model):
    """Draw the parameters of a model with standard deviation 0.02."""
    for p in model.parameters():
        nn.init.normal_(p, std=0.02)


torch.manual_seed(145)
net, split = digit_net(patient_init), data.digits_split(0)
h = split.x_train[:64]  # (B, H, W)
for layer in net:
    h = layer(h)
    show(f"rms after {type(layer).__name__:9}", h.detach().square().mean().sqrt(), digits=2)
print(inspect.getsource(patient_init))

# %% [markdown]
# The final norm returns an rms of about 0.03, where 1 is usual: the loop has drawn its gain and its bias, 0.02 each. It has also drawn those of the four branches, and all weights and biases. Which of them silences the net?


# %% tags=["exercise", "optional"] id="ex-14-5"
# Exercise 14.5 · ●●●○○ · 3 min
def repaired_init(model):
    """Initialize a model in place: weights of Linear and Embedding layers, classes made from
    them included, N(0, 0.02²), biases of Linear layers 0.

    Example: in nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)) six weights are drawn, three
    biases become 0, and the norm keeps its gains of 1.
    All else stays as it was made, convolutions and norms of any name, shape and class too: the
    parameters are the old objects, the mode and the random seed are not set. Returns nothing.
    """
    ### BEGIN SOLUTION
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    ### END SOLUTION


# %% tags=["check", "optional"]
check.repaired_init(repaired_init)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `model.modules()` walks through all layers, those inside others too. Ask each what it is, and touch only the two kinds that you know. A Linear may have been made with `bias=False`.
#
# </details>

# %% tags=["optional", "hide-input", "nbval-ignore-output"]
# Trains four pairs with the same batches.
accuracy = lambda net: (net(split.x_test).argmax(1) == split.y_test).float().mean().item() * 100
settings = dict(
    seeds=range(4),
    loss=F.cross_entropy,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    data=(split.x_train, split.y_train),
    epochs=3,
    evaluate={"accuracy": accuracy},
)
inits = {"all drawn": patient_init, "norms left alone": repaired_init}
nets = {name: lambda init=init: digit_net(init) for name, init in inits.items()}
train.table(train.compare(nets, **settings), "accuracy", digits=0)

# %% [markdown]
# **Under plain SGD it was the gain of the final norm.** It makes what goes forward and the gradients that come back 50 times smaller. Adam divides each gradient by its own size: put `torch.optim.Adam(parameters, lr=0.001)` into the folded cell, and the same drawn gains cost a few points. Ask of which *layer* a parameter is before you draw it, all the same.
#
# <details><summary>How sure is that?</summary>
#
# What is not drawn is as PyTorch makes it, with Linear biases of 0. After three epochs of SGD at a rate of 0.1, all drawn, the net reads {whispering[all, *].read:range}, and with no part drawn {whispering[none, *].read:range}.
#
# | part | only this one is drawn | all but this one | the weights and this one |
# |---|---|---|---|
# | final gain | {whispering[only final gain, *].read:range} | {whispering[all but final gain, *].read:range} | {whispering[weights and final gain, *].read:range} |
# | block gains | {whispering[only block gains, *].read:range} | {whispering[all but block gains, *].read:range} | {whispering[weights and block gains, *].read:range} |
# | biases | {whispering[only biases, *].read:range} | {whispering[all but biases, *].read:range} | {whispering[weights and biases, *].read:range} |
# | weights | {whispering[only weights, *].read:range} | {whispering[all but weights, *].read:range} | |
#
# With the final gain drawn alone, the norm returns an rms of {whispering[only final gain, *].rms:mean} for {whispering[none, *].rms:mean}, and the gradient of the first weights is {whispering[only final gain, *].gradient:mean} for {whispering[none, *].gradient:mean}: both directions pass that gain. {whispering:again}
#
# Three epochs of Adam: all drawn, {whispering_under_adam[all, 0.001, *].read:range} at a rate of 0.001 and {whispering_under_adam[all, 0.003, *].read:range} at 0.003; with no part drawn, {whispering_under_adam[none, 0.001, *].read:range} and {whispering_under_adam[none, 0.003, *].read:range}; with the final gain alone, {whispering_under_adam[only final gain, 0.001, *].read:range} and {whispering_under_adam[only final gain, 0.003, *].read:range}. {whispering_under_adam:again}
#
# </details>
#
# ### Pre-LN by name
#
# In a Pre-LN net the *residual stream*, which runs from block to block, grows with depth. In this net, which is called Pre-LN, it does not. **The probe: silent branches.** Set all Linear layers of a block to 0. What remains is its *skeleton*, and a Pre-LN block would return what came in.


# %% tags=["optional", "hide-input"]
# The block, its skeleton, and its code.
class PatientBlock(nn.Module):
    """A Pre-LN block with two branches, where mix takes the place of attention."""

    def __init__(self, D):
        super().__init__()
        up, down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = nn.LayerNorm(D), nn.Sequential(up, nn.ReLU(), down)

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.mix(x)
        x = self.norm2(x)
        x = x + self.mlp(x)
        return x


def skeleton(block, x):
    """Return what remains of a block when its Linear layers are 0."""
    for module in block.modules():
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight), nn.init.zeros_(module.bias)
    return block(x).detach()


two_rows = torch.tensor([[0.0, 1.0, 2.0, 9.0], [10.0, 20.0, 20.0, 30.0]])  # (B, D)
show("skeleton", skeleton(PatientBlock(4), two_rows), digits=2)
print(inspect.getsource(PatientBlock.forward))


# %% tags=["exercise", "optional"] id="ex-14-6"
# Exercise 14.6 · ●●○○○ · 2 min
class RepairedBlock(PatientBlock):
    """The patient as Pre-LN: each branch reads the stream through its norm and is added to
    the stream itself.

    Example: with silent branches the row 10, 20, 20, 30 comes out as it went in.
    """

    def forward(self, x):
        """x: (..., D). Returns (..., D)."""
        ### BEGIN SOLUTION
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))
        ### END SOLUTION


# %% tags=["check", "optional"]
check.repaired_block(RepairedBlock)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Give what the norm returns no name, or a name of its own. `x` stays what came in until something is *added* to it.
#
# </details>

# %% tags=["optional"]
show("skeleton", skeleton(RepairedBlock(4), two_rows), digits=2)

# %% [markdown]
# The name `x` was overwritten by its normalized self, and the branch was added to *that*. A stack of such blocks is Post-LN, with one norm more at the start and none at the end.
#
# ## On your own
#
# 1. For your package: save the ten tests as a file of your own in `work/mine`, and add an eleventh, for the second derivative ([lesson 7](07_backward.ipynb)). Which of the twenty-nine layers does it find? Does any layer fail it alone?
# 2. Break a layer of your own in a way that passes all ten tests (a fault that shows at one size alone does). Then write the test.
# 3. Train TrailNorm with $\lambda = 0.9$ and with $\lambda = 0$, in eight pairs. What do you report?
#
# Your layer can now pass the ten tests that twenty-nine faulty ones fail; it still cannot name a file in a net that others trained: [lesson 15](15_in_the_wild.ipynb).
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3; Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*, figure 1.
# - Luo & Mesgarani (2019), *Conv-TasNet*: cumulative layer normalization, the case $\lambda = 1$ of TrailNorm.
# - A. Karpathy (2019), [*A Recipe for Training Neural Networks*](https://karpathy.github.io/2019/04/25/recipe/).

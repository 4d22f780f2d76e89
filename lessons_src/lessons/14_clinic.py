# %% [markdown]
# # 14 · The clinic
#
# **What you'll do:** find, explain and mend four broken layers that the course has not shown yet; put ten tests into the order in which to run them, and write the three that are missing. *(about 50 min, and an optional project of 30 min: a norm that you know from one page of formulas, in a GPT)*
#
# **You'll be able to**
# - go from a symptom to a cause with four tools: a footprint, a random bias, a table of parameters, a silent branch;
# - examine a LayerNorm that you have not written, and say which fault each test is there for;
# - implement a norm from its formula alone, and report its result with seeds;
# - recognize a result that is too good.
#
# **You need:** [lesson 4](04_affine_and_module.ipynb) (the module) and [lesson 7](07_backward.ipynb) (gradients); for the project [lesson 11](11_transformer.ipynb). At the end stand a [glossary](#14.8-Glossary) and an [index of misconceptions](#14.9-The-Clinic's-index-of-misconceptions).
#
# *In a classroom (minutes):* 14.1: 3 · 14.2: 7 · 14.3: 7 · 14.4: 8 · 14.5: 7 · 14.6: 18. Short of time? Leave out 14.4.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import (
    CharGPT,
    LayerNorm,
    encode,
    mean_and_var,
)  # of lessons 11, 4, 11, 2: the course's own solutions
from lessonkit import (
    check,
    data,
    plot,
    show,
    train,
)  # sets torch to one thread (LESSON_THREADS)

# %% [markdown]
# ## 14.1 The cases so far
#
# Lessons 3 to 13 each end with a *clinic*: broken code, most of it seen in public, to find, explain and mend. These are the faults that were treated there, and the input or the question that shows each.
#
# | the fault | clinic | what shows it |
# |---|---|---|
# | eps that is 0 in float16 | [3.7](03_epsilon.ipynb#3.7-Clinic:-it-was-fine-in-float32) | a row of zeros in half precision |
# | names that no checkpoint knows; parameters that should not be there | [4.5](04_affine_and_module.ipynb#4.5-The-module), [4.7](04_affine_and_module.ipynb#4.7-Clinic:-every-key-matched,-and-the-net-cannot-read) | `load_state_dict`; count the parameters |
# | a softmax over a row that is masked throughout | [5.7](05_softmax.ipynb#5.7-Clinic:-the-empty-sentence) | an empty sample in the batch, and the gradients |
# | BatchNorm told the wrong number of channels | [6.8](06_batchnorm.ipynb#6.8-Clinic:-the-error-that-went-away) | the length of `running_mean` |
# | gain outside the means, in a hand-written backward pass | [7.8](07_backward.ipynb#7.8-Clinic:-right-at-the-start-and-wrong-after-training) | random gains |
# | a norm over one feature | [8.8](08_geometry.ipynb#8.8-Clinic:-features-that-never-arrive) | two inputs, one output |
# | a sigmoid before the cross-entropy | [9.11](09_cnn.ipynb#9.11-Clinic:-ten-mistakes-in-thirty-lines) | a loss that stops at 1.46 |
# | `normalized_shape` with the time in it | [10.7](10_rnn.ipynb#10.7-Clinic:-the-net-that-foresaw-coin-tosses) | change a later step, look at an earlier one |
# | two norms in a row | [11.12](11_transformer.ipynb#11.12-Clinic:-two-norms-in-a-row) | is the input of a norm normalized already? |
# | `normalized_shape` with everything in it; a layer made anew at each call | [12.10](12_family.ipynb#12.10-Clinic:-a-norm-for-the-whole-tensor) | change one sample, look at another; list the parameters |
# | padding counted in the statistics | [13.9](13_speed.ipynb#13.9-Clinic:-right-at-768,-wrong-at-700) | a width that is no power of two, rows away from 0 |
#
# Other classics needed no patient: a section took them apart on the way.
#
# | the fault | section | what shows it |
# |---|---|---|
# | a softmax over an axis with one entry | [5.1, along which axis](05_softmax.ipynb#Along-which-axis) | do the weights sum to 1 along the axis you mean? |
# | variance divided by D − 1 | [2.3](02_statistics.ipynb#2.3-Biased-or-not) | few features |
# | eps outside the root | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) | a row of spread 0.001 |
# | one-pass variance | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) | a row far from 0, in float32 |
# | wrong axis on a square input | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows), [4.6](04_affine_and_module.ipynb#4.6-Images:-three-layers,-one-name) | sizes that are all different |
# | gain that is not registered | [4.5](04_affine_and_module.ipynb#4.5-The-module) | list the parameters |
# | statistics cut off from the gradient | [7.5](07_backward.ipynb#7.5-Cut-one-path) | compare with autograd, random gradient from above |
# | `eval()` forgotten | [9.10](09_cnn.ipynb#9.10-Three-sick-runs) | one image, alone and in company |
# | the norm outside the recurrence | [10.1](10_rnn.ipynb#10.1-A-norm-after-the-loop), [10.3](10_rnn.ipynb#10.3-The-gradient-through-time) | the gradient through time |
# | Post-LN without warm-up, with 12 layers at a rate of 0.003 | [11.4](11_transformer.ipynb#11.4-Four-curves) | the first hundred steps |
# | the final norm is missing | [11.7](11_transformer.ipynb#11.7-The-growing-stream,-and-why-a-final-norm) | the size of the stream before the output layer |
#
# One fault deserves a second look, because it comes in several spellings. `nn.LayerNorm(x.shape)` (9.2) and, for sequences of shape (T, B, C), `nn.LayerNorm(x.shape[1:])` have been proposed in public. Both put the batch axis into `normalized_shape`.
#
# **Predict:** sample 0 gets 10 added in one feature. What happens to sample 1?

# %%
g = torch.Generator().manual_seed(141)
x = torch.randn(4, 3, 5, generator=g)  # (T, B, C)
moved = x.clone()
moved[:, 0, 0] += 10  # one feature of sample 0
for size in ((5,), (3, 5)):
    layer = nn.LayerNorm(size)
    change = (layer(moved) - layer(x))[:, 1:].abs().max()  # the other samples
    assert (change == 0) == (size == (5,)) and (
        size == (5,) or change > 0.3
    )  # one formula for B · C numbers
    print(
        f"LayerNorm({size}): other samples changed: {bool(change > 0)}, "
        f"parameters: {sum(p.numel() for p in layer.parameters())}"
    )

# %% [markdown]
# With the batch in it, the layer mixes samples, has a gain for each place in the batch, and refuses every other batch size. The batch axis never belongs into `normalized_shape`.
#
# ## 14.2 Case one: every size fits
#
# **The symptom.** A network for images normalizes the C channels of each pixel. To see what channel 1 contributes, someone sets its gain and its bias to 0. Channel 1 should come out as zeros. Instead *all* channels come out with diagonal stripes of zeros.


# %%
def patient_pixels(x, weight, bias):
    """LayerNorm over the channels of each pixel: (B, C, H, W) -> (B, C, H, W)."""
    B, C, H, W = x.shape
    pixels = x.reshape(B, H * W, C)  # (B, H * W, C)
    pixels = F.layer_norm(pixels, (C,), weight, bias)
    return pixels.reshape(B, C, H, W)


digit = torch.as_tensor(data.digits_split(0).x_train[3]).float()  # (H, W) = (8, 8)
x = torch.stack([digit, digit.T, digit.flip(0)]).unsqueeze(0)  # (B, C, H, W) = (1, 3, 8, 8)
gain, shift = (
    torch.tensor([1.0, 0.0, 1.0]),
    torch.tensor([3.0, 0.0, 3.0]),
)  # (C,) each: channel 1 is off
out = patient_pixels(x, gain, shift)  # (B, C, H, W)
assert (out.flatten()[1::3] == 0).all() and (out[0, 1] != 0).any()

# %%
plot.images(
    [*(x[0] - x.min()), *out[0]],
    ["in, 0", "in, 1", "in, 2", "out, 0", "out, 1", "out, 2"],
    ncols=6,
    title="Channel 1 was switched off, and every channel has stripes",
    caption="Three channels of 8 × 8 pixels (a digit, mirrored in two ways), before and after "
    "the patient; large is dark, 0 is white. The other two channels have bias 3. With 8 "
    "columns and 3 channels every third pixel is white, one place further in each row.",
    alt="Six small images. The three inputs are digits. In each of the three outputs every "
    "third pixel is white, along diagonals.",
)

# %% [markdown]
# All shapes are right. No size raises: the patient takes 3 × 8 × 8 as well as 5 × 4 × 7. So "give every axis another size", the test that found the wrong axes so far, finds nothing here.
#
# **The tool: a footprint.** Take one output and ask autograd which inputs it depends on.
#
# **Predict:** which inputs should output [0, 1, 2, 3] depend on, channel 1 of the pixel in row 2, column 3? Which will the patient name?


# %%
def footprint(layer, shape, output):
    """Return the places in x of one sample that one output depends on."""
    g = torch.Generator().manual_seed(142)
    x = torch.randn(shape, generator=g).requires_grad_()  # (B, C, H, W)
    weight, bias = torch.randn(2, shape[1], generator=g)  # (C,) each
    layer(x, weight, bias)[output].backward()
    return [tuple(place) for place in x.grad.nonzero().tolist()]


print("depends on", footprint(patient_pixels, (1, 3, 4, 5), (0, 1, 2, 3)))

# %% [markdown]
# **Find and explain.** Three neighbors in *one* channel, the last of them already in the next row. The three channels of a pixel would be (0, 0, 2, 3), (0, 1, 2, 3), (0, 2, 2, 3).
# `reshape` moves no number. It cuts the one long row in memory into other pieces: here C neighbors of a row of pixels, which are then taken for the channels of a pixel. That always works, because the number of numbers is the same.
#
# **Mend it.**


# %% tags=["exercise"] id="ex-14-1"
# Exercise 14.1 · ●●○○○ · 4 min
def repaired_pixels(x, weight, bias):
    """LayerNorm over the channels of each pixel, eps = 1e-5.

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
# `movedim`, `permute` and `transpose` move an axis; `view` and `reshape` never do. What was moved there has to be moved back.
# (Or leave the axes alone and write the formula over axis 1, with the gain as `weight.view(-1, 1, 1)`.)
#
# </details>

# %%
print("depends on", footprint(repaired_pixels, (1, 3, 4, 5), (0, 1, 2, 3)))

# %% [markdown]
# A footprint needs no reference, only an idea of what should depend on what. It also finds leaks from the future (2.4) and from other samples (14.1).
#
# ## 14.3 Case two: clean until it has learned
#
# **The symptom.** An encoder turns a sentence into one vector: the average of its tokens, each normalized. Sentences in a batch are padded to one length. A test makes sure that padding changes nothing. The test is green, the model is trained, and afterwards the vector of a sentence depends on how long the *other* sentences in its batch are.


# %%
def patient_average(x, mask, norm):
    """Average of the real tokens behind a norm.

    x: (B, T, C); mask: (B, T), True for real tokens. Returns (B, C).
    """
    x = x * mask.unsqueeze(-1)  # (B, T, C) padding becomes 0
    return norm(x).sum(1) / mask.sum(1, keepdim=True)  # (B, C)


def padding_shows(average, norm):
    """Largest change of a sentence's vector when five tokens of padding follow its three."""
    g = torch.Generator().manual_seed(143)
    x, mask = (
        torch.randn(1, 8, 4, generator=g),
        torch.arange(8).unsqueeze(0) < 3,
    )  # (B, T, C), (B, T)
    return (average(x, mask, norm) - average(x[:, :3], mask[:, :3], norm)).abs().max().item()


# %% [markdown]
# **The tool: random parameters.** A new layer has bias 0 and gain 1; a trained one has not. Here is the test on both.
#
# **Predict:** the patient sets padding to 0 *before* the norm. What does LayerNorm make of a row of zeros?

# %%
new, trained = nn.LayerNorm(4), nn.LayerNorm(4)
g = torch.Generator().manual_seed(144)
(
    nn.init.normal_(trained.weight, generator=g),
    nn.init.normal_(trained.bias, generator=g),
)  # as training may leave them
print(
    "padding shows, new layer:    ", padding_shows(patient_average, new) > 1e-6
)  # float32 rounding is 1e-7
print("padding shows, trained layer:", padding_shows(patient_average, trained) > 1e-6)
extra = 5 / 3 * trained.bias  # (C,)
assert (
    abs(padding_shows(patient_average, trained) - extra.abs().max().item()) < 1e-5
)  # float32, numbers of order 1

# %% [markdown]
# **Find and explain.** $\operatorname{LN}(0) = \gamma \odot 0 + \beta = \beta$. While $\beta = 0$ the padding stays 0 by luck. Once $\beta$ has been learned, each of the $T - n$ tokens of padding adds $\beta$ to the sum:
# the vector is off by $\frac{T-n}{n}\,\beta$, here exactly $\frac53\beta$.
# It is true that padding cannot change what LayerNorm does to a real token. What LayerNorm does to the padding is another matter.
#
# **Mend it.** A repair must not move the fault elsewhere: real tokens keep their bias, every sentence is divided by *its* number of tokens, and whatever numbers stand in the padding count for nothing.


# %% tags=["exercise"] id="ex-14-2"
# Exercise 14.2 · ●●○○○ · 4 min
def repaired_average(x, mask, norm):
    """Average of the normalized real tokens of each sentence.

    x: (B, T, C). mask: (B, T) bool, True for a real token; each sentence has at least one.
    Whatever stands in the padding, nan and inf too, changes nothing in the average.
    norm: a layer that acts on each token by itself. Returns (B, C).
    """
    ### BEGIN SOLUTION
    y = norm(x).masked_fill(~mask.unsqueeze(-1), 0)  # (B, T, C) the last step before the sum
    return y.sum(1) / mask.sum(1, keepdim=True)  # (B, C)
    ### END SOLUTION


# %% tags=["check"]
check.repaired_average(repaired_average)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Which line has to come last before the sum, for the padding to count for nothing whatever the layers before it do? (And 0 times nan is nan: set the padding to 0, do not multiply it.)
#
# </details>
#
# Why the test was green: it looked at a layer as it is created. **Test with random gains and biases.** The same rule found the backward pass of lesson 7.
#
# ## 14.4 Case three: a net that whispers
#
# **The symptom.** A small Pre-LN net on the digits of lesson 9. Its author has read that GPT-2 draws its weights with deviation 0.02, and does that. After three epochs (SGD, learning rate 0.1) it reads a third of the digits (a fifth to a half, by the seed); the net on the next desk, with the same architecture and the same data, reads nine in ten.


# %%
class Branch(nn.Module):
    """x + MLP(LN(x)) on rows of D features."""

    def __init__(self, D):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(D),
            nn.Linear(D, 2 * D),
            nn.Linear(2 * D, D),
        )

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


# %%
def digit_net(init):
    """A net for 8 x 8 images, initialized by init(net)."""
    net = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 64),
        *[Branch(64) for _ in range(4)],
        nn.LayerNorm(64),
        nn.Linear(64, 10),
    )
    init(net)
    return net


def patient_init(model):
    """Draw the parameters of a model with deviation 0.02."""
    for p in model.parameters():
        nn.init.normal_(p, std=0.02)


# %% [markdown]
# **The tool: a table of parameters.** Print what each parameter is before training: name, mean, deviation. And send a batch through, and look at the size of what comes out of every layer.

# %% tags=["nbval-ignore-output"]
torch.manual_seed(145)
net, split = digit_net(patient_init), data.digits_split(0)
for name, p in net[-2].named_parameters():
    show(f"final norm, {name}: mean and deviation", [p.mean().item(), p.std().item()], digits=3)
h = split.x_train[:64]  # (B, H, W)
for layer in net:
    h = layer(h)
    show(f"rms behind {type(layer).__name__}", h.detach().square().mean().sqrt(), digits=3)

# %% [markdown]
# **Find and explain.** The loop takes *every* parameter, and the gains are parameters. A gain of $1$ has become a random number of size 0.02, of either sign. Every norm now hands on about a fiftieth of what it should, its features flipped at random. The last one does it to what the logits are made of.
# The gradients of the weights behind a gain, and of those in front of it, shrink by about the same factor. (Adam, which rescales each gradient, hides much of it: 89 % against 97 % at rate 0.001, eight seeds each, measured when this lesson was written.)
#
# **Predict:** the author's rule of thumb for a mend is "only parameters with more than one axis". For which norm of this course does it fail?


# %% tags=["exercise"] id="ex-14-3"
# Exercise 14.3 · ●●●○○ · 6 min
def repaired_init(model):
    """Initialize a model in place: weights of Linear and Embedding layers N(0, 0.02²),
    biases of Linear layers 0.

    All else stays as it was made: the model holds norms of several kinds and any names,
    PyTorch's and other people's classes, over one axis and over two. Returns nothing.
    """
    ### BEGIN SOLUTION
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    ### END SOLUTION


# %% tags=["check"]
check.repaired_init(repaired_init)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `model.modules()` walks through all layers, those inside others too. Ask each what it is, and touch only the two kinds that you know. A Linear may have been made with `bias=False`.
#
# </details>
#
# (The prediction: LayerNorm over two axes or more, whose gain is a matrix, [lesson 4](04_affine_and_module.ipynb).)
# Now both, four seeds each. Held equal: the architecture, the data and their order, the learning rate, the steps. Nothing was tuned.

# %% tags=["nbval-ignore-output"]
settings = dict(
    seeds=range(4),
    loss=F.cross_entropy,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    data=(split.x_train, split.y_train),
    epochs=3,
    evaluate={
        "accuracy": lambda net: (
            (net(split.x_test).argmax(1) == split.y_test).float().mean().item() * 100
        )
    },
)
whisper = train.compare({"all parameters drawn": lambda: digit_net(patient_init)}, **settings)

# %% tags=["nbval-ignore-output"]
mended = train.compare({"norms left alone": lambda: digit_net(repaired_init)}, **settings)

# %% tags=["nbval-ignore-output"]
train.table(whisper | mended, "accuracy")

# %%
worst, best = (
    mended["norms left alone"]["accuracy"][:, -1].min(),
    whisper["all parameters drawn"]["accuracy"][:, -1].max(),
)
assert worst - best > 15  # points; 20 other seeds: 21 to 54 % against 80 to 98 %

# %% [markdown]
# ## 14.5 Case four: Pre-LN by name
#
# **The symptom.** In a Pre-LN net the *residual stream*, what runs from block to block and only gets added to, grows with depth ([lesson 11](11_transformer.ipynb)). In this one it does not grow. And a trick that its author wants to use, to start each block as the identity by setting the last layer of each branch to 0, does not give the identity.


# %%
class PatientBlock(nn.Module):
    """A Pre-LN block with two branches. mix stands where attention stands in a Transformer."""

    def __init__(self, D):
        super().__init__()
        self.norm1, self.mix = nn.LayerNorm(D), nn.Linear(D, D)
        self.norm2, self.mlp = (
            nn.LayerNorm(D),
            nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D)),
        )

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.mix(x)
        x = self.norm2(x)
        x = x + self.mlp(x)
        return x


# %% [markdown]
# **The tool: a silent branch.** Set all Linear layers to 0. Whatever the branches are, they now add nothing, and what is left of the block is its skeleton.
#
# **Predict:** what does a Pre-LN block with silent branches do to $x$? What does this one do?


# %%
def skeleton(block, x):
    """What is left of a block when its Linear layers are 0."""
    for module in block.modules():
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight), nn.init.zeros_(module.bias)
    return block(x).detach()


x = torch.tensor([[0.0, 1.0, 2.0, 9.0], [10.0, 20.0, 20.0, 30.0]])  # (B, D)
show("skeleton", skeleton(PatientBlock(4), x))

# %% [markdown]
# **Find and explain.** The name `x` is overwritten by its normalized self, and it is *that* to which the branch is added. Level and scale of the stream are gone after the first line of the first block.
#
# What has been built is not a strange Pre-LN. It is another architecture, exactly. Write $z$ for what stands behind a norm: the next norm sees $z + f(z)$, so
#
# $$z \leftarrow \operatorname{LN}\bigl(z + f(z)\bigr)$$
#
# from norm to norm. **That is Post-LN**, with one norm more at the beginning and, in a net without a final norm, none at the end. So what lesson 11 says of Post-LN (warm-up, the gradients at the first step) is what to expect here, though the code says "norm first". In float64, four blocks read both ways:

# %%
torch.manual_seed(146)
blocks = nn.Sequential(*[PatientBlock(6) for _ in range(4)]).double()
branches = [
    (norm, f)
    for block in blocks
    for norm, f in ((block.norm1, block.mix), (block.norm2, block.mlp))
]
x = 5 * torch.randn(3, 6, dtype=torch.float64)  # (B, D)
z = branches[0][0](x)  # the norm at the beginning
for (_, f), (norm, _) in zip(branches[:-1], branches[1:], strict=True):
    z = norm(z + f(z))  # Post-LN
z = z + branches[-1][1](z)  # no norm at the end
assert (z - blocks(x)).abs().max() < 1e-12  # the same sums in the same order
print("four blocks of the patient are Post-LN")


# %% tags=["exercise"] id="ex-14-4"
# Exercise 14.4 · ●●○○○ · 4 min
class RepairedBlock(PatientBlock):
    """The patient as Pre-LN: each branch reads the stream through its norm and is added to
    the stream itself."""

    def forward(self, x):
        """x: (..., D). Returns (..., D)."""
        ### BEGIN SOLUTION
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))
        ### END SOLUTION


# %% tags=["check"]
check.repaired_block(RepairedBlock)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Give what the norm returns no name, or a name of its own. `x` stays what came in until something is *added* to it.
#
# </details>

# %%
x = torch.tensor([[0.0, 1.0, 2.0, 9.0], [10.0, 20.0, 20.0, 30.0]])  # (B, D)
show("skeleton", skeleton(RepairedBlock(4), x))

# %% [markdown]
# ## 14.6 Ten tests, in the order to run them
#
# Your LayerNorm is wrong, and you do not know why. Or it is someone else's, and you do not know whether. What do you feed it, and in which order?
#
# A test is a function that takes a *class*, builds layers from it as from `nn.LayerNorm`, and returns `True` if they pass. Two helpers first. `trial` gives a layer **random gains and biases** (cases 14.3 and 7.8), and computes the right answer **in float64**, on the same numbers.


# %% id="trial"
def draw(*shape, dtype=torch.float64):
    """The same random numbers of a shape every time."""
    g = torch.Generator().manual_seed(147)
    return torch.randn(*shape, dtype=torch.float64, generator=g).to(dtype)


def trial(cls, x, size=None, eps=1e-5):
    """Return (what a layer with random gain and bias makes of x,
    what F.layer_norm makes of it in float64)."""
    size = size or x.shape[-1:]
    layer = cls(size if len(size) > 1 else size[0], eps=eps).to(x.dtype)
    g = torch.Generator().manual_seed(148)
    known = [
        nn.init.normal_(p, generator=g).double() for p in layer.parameters()
    ]  # gain, then bias, whatever their names
    right = F.layer_norm(x.double(), size, *known, eps=eps)
    return layer(x), right


# %% id="close"
def close(cls, x, tolerance, **options):
    """Whether a layer has the right shape and type on x, and the right values."""
    y, right = trial(cls, x, **options)
    return (
        y.shape == x.shape and y.dtype == x.dtype and bool((y - right).abs().max() <= tolerance)
    )


def parameters(layer):
    """What a checkpoint and an optimizer see of a layer."""
    return {name: (p.shape, p.requires_grad) for name, p in layer.named_parameters()}


# %% [markdown]
# Seven of the tests are given. Each is an *input*, and the input is what matters: read which fault it is made for.


# %% id="seven"
def names(cls):
    """Registered, trainable, PyTorch's names and shapes: no number is computed, and what
    follows may rely on it."""
    return parameters(cls(5)) == parameters(nn.LayerNorm(5))


def rows(cls):
    """The formula: few features (D or D - 1), spreads down to 0.001 (eps), float64, so that
    nothing hides in rounding."""
    return close(cls, draw(4, 5) * torch.tensor([[1.0], [0.1], [0.01], [0.001]]), 1e-9)


def axes(cls):
    """The axes: three of them, all of different size."""
    return close(cls, draw(2, 3, 5), 1e-9)


# %% id="seven-more"
def half(cls):
    """Half precision: squares of 600 do not fit into float16, and an eps of 1e-8 is 0 there."""
    large, zeros = draw(4, 5, dtype=torch.float16) * 600, torch.zeros(2, 5, dtype=torch.float16)
    return close(cls, large, 0.02) and close(cls, zeros, 0.02, eps=1e-8)


def constant(cls):
    """A constant row: the slope of a root is infinite at 0, so the gradient breaks before the
    value does."""
    x = torch.full((2, 5), 4.0, dtype=torch.float64, requires_grad=True)  # (B, D)
    y, _ = trial(cls, x.clone())
    return bool(torch.autograd.grad(y, x, draw(2, 5))[0].isfinite().all())


def options(cls):
    """The arguments: two normalized axes, another eps, no gain and bias."""
    bare = cls(5, elementwise_affine=False)
    return close(cls, draw(2, 3, 5), 1e-9, size=(3, 5), eps=0.1) and not list(bare.parameters())


def layout(cls):
    """The memory: the same numbers, transposed, do not lie in one piece."""
    return close(cls, draw(5, 3, 2).transpose(0, 2), 1e-9)


# %% [markdown]
# Are they enough? Here are twenty faulty layers, made from one right layer in parts, each with one or two parts replaced. (Skim the next seven cells; the names say what is wrong.)


# %%
class Sound(nn.Module):
    """A right LayerNorm in parts, so that one part can be replaced."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__()
        self.sizes = (
            (normalized_shape,)
            if isinstance(normalized_shape, int)
            else tuple(normalized_shape)
        )
        self.eps, self.axes = eps, tuple(range(-len(self.sizes), 0))
        self.register_parameter(
            "weight", nn.Parameter(torch.ones(self.sizes)) if elementwise_affine else None
        )
        self.register_parameter(
            "bias", nn.Parameter(torch.zeros(self.sizes)) if elementwise_affine else None
        )

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


# %%
def over(axes):
    """Statistics over other axes: axes is a function of the number of axes of x."""
    return dict(
        mean=lambda s, x: x.mean(axes(x.dim()), keepdim=True),
        var=lambda s, x: x.var(axes(x.dim()), correction=0, keepdim=True),
    )


# %%
formula = {
    "divides by D − 1": dict(var=lambda s, x: x.var(s.axes, keepdim=True)),
    "eps added to σ": dict(normalize=lambda s, x: (x - s.mean(x)) / (s.var(x).sqrt() + s.eps)),
    "eps left out": dict(normalize=lambda s, x: (x - s.mean(x)) / s.var(x).sqrt()),
    "mean left out": dict(mean=lambda s, x: 0.0),
    "bias before gain": dict(
        affine=lambda s, y: y if s.weight is None else (y + s.bias) * s.weight
    ),
    "float32 whatever comes": dict(forward=lambda s, x: s.affine(s.normalize(x.float()))),
}

# %%
hidden = {
    "over the batch": over(lambda n: 0),
    "over axis 1": over(lambda n: 1),
    "over time and features": over(lambda n: tuple(range(1, n))),
    "last axis only": over(lambda n: -1),
    "one-pass variance": dict(
        var=lambda s, x: x.square().mean(s.axes, keepdim=True) - s.mean(x).square()
    ),
    "variance detached": dict(var=lambda s, x: Sound.var(s, x).detach()),
    "computed in half": dict(forward=lambda s, x: s.affine(s.normalize(x))),
    "root, then squared": dict(
        normalize=lambda s, x: (x - s.mean(x)) / torch.sqrt(s.var(x).sqrt() ** 2 + s.eps)
    ),
    "eps not passed on": dict(
        normalize=lambda s, x: (x - s.mean(x)) / torch.sqrt(s.var(x) + 1e-5)
    ),
    "needs one piece": dict(
        forward=lambda s, x: Sound.forward(s, x.view(-1, *s.sizes)).view(x.shape)
    ),
}


# %%
def renamed(s, *args, **kwargs):
    """The right parameters, under other names."""
    Sound.__init__(s, *args, **kwargs)
    s.gain, s.shift, s.weight, s.bias = s.weight, s.bias, None, None


def unregistered(s, *args, **kwargs):
    """A gain that is a plain tensor."""
    Sound.__init__(s, *args, **kwargs)
    s.gain, s.weight = torch.ones(s.sizes), None


def running(s, *args, **kwargs):
    """A variance kept for eval()."""
    Sound.__init__(s, *args, **kwargs)
    s.register_buffer("kept", torch.ones(()))


# %%
def running_variance(s, x):
    """In train() the variance of the rows, of which it keeps an average; in eval() that."""
    if s.training:
        s.kept = 0.9 * s.kept + 0.1 * Sound.var(s, x).mean().detach()
    return Sound.var(s, x) if s.training else s.kept


def in_place(s, x):
    """For float32 and float64 x.to(...) is x itself, and -= overwrites it."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    wide -= s.mean(wide)
    return s.affine(wide / torch.sqrt(s.var(wide) + s.eps)).to(x.dtype)


# %%
life = {
    "other names": dict(
        __init__=renamed, affine=lambda s, y: y if s.gain is None else y * s.gain + s.shift
    ),
    "gain not registered": dict(
        __init__=unregistered, affine=lambda s, y: y if s.bias is None else y * s.gain + s.bias
    ),
    "running variance": dict(__init__=running, var=running_variance),
    "overwrites its input": dict(forward=in_place),
}
faulty = {
    name: type("Faulty", (Sound,), parts) for name, parts in (life | formula | hidden).items()
}
print(len(faulty), "faulty layers")


# %% id="passes"
def passes(test, cls):
    """Whether a layer passes a test; one that raises an error does not."""
    try:
        return bool(test(cls))
    except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError):
        return False


# %%
def chart(tests):
    """For each faulty layer a row: 1 where a test finds it, else nan."""
    found = [
        [float("nan") if passes(test, cls) else 1.0 for test in tests]
        for cls in faulty.values()
    ]
    return torch.tensor(found)  # (faults, tests)


assert all(
    passes(test, cls)
    for test in (names, rows, axes, half, constant, options, layout)
    for cls in (Sound, nn.LayerNorm)
)
seven = chart([names, rows, axes, half, constant, options, layout])  # (20, 7)
unseen = [name for name, row in zip(faulty, seven, strict=True) if row.isnan().all()]
print("seen by none:", ", ".join(unseen))
assert len(unseen) == 4

# %%
plot.heat(
    seven,
    list(faulty),
    ["names", "rows", "axes", "half", "constant", "options", "layout"],
    texts=[[""] * 7] * len(faulty),
    title="Seven tests leave four faults unseen",
    x="test",
    y="fault",
    limits=(0, 2),
    size=(8.4, 8),
    caption="Dark: the test finds the fault. Twenty layers, each with one fault. Running "
    "variance, overwritten input, one-pass variance and a detached variance pass all seven "
    "tests.",
    alt="A grid of twenty faults and seven tests. Eleven faults are found by options, eight by "
    "rows; four rows of the grid are empty.",
)

# %% [markdown]
# Four layers pass all seven tests. Write the three tests that find them. For each, ask what the seven inputs have in common that hides the fault. A test may not cry wolf either: PyTorch's own layer has to pass, and it is not exact where the numbers are large (lesson 4: off by about 0.002 at offset 10,000).


# %% tags=["exercise"] id="ex-14-5"
# Exercise 14.5 · ●●●●○ · 10 min
def offset(cls):
    """Rows far from 0 in float32. True if a layer is about as right on them as PyTorch's."""
    ### BEGIN SOLUTION
    return close(cls, draw(4, 5, dtype=torch.float32) + 10_000, 0.02)
    ### END SOLUTION


def gradient(cls):
    """True if the gradient of x agrees with F.layer_norm's, in float64, for a random gain
    (trial) and a random dy."""
    ### BEGIN SOLUTION
    x = draw(4, 5).requires_grad_()
    y, right = trial(cls, x)
    dx, dx_right = (torch.autograd.grad(out, x, draw(2, 4, 5)[1])[0] for out in (y, right))
    return torch.allclose(dx, dx_right, rtol=1e-9, atol=1e-9)
    ### END SOLUTION


def again(cls):
    """True if a layer leaves its input alone and answers it alike before and after other
    rows, and in eval()."""
    ### BEGIN SOLUTION
    layer, x = cls(5).double(), draw(4, 5)
    first = layer(x.clone()).clone()
    used = x.clone()
    layer(used), layer(10 * x)
    return (
        torch.equal(used, x)
        and torch.equal(layer(x.clone()), first)
        and torch.equal(layer.eval()(x), first)
    )
    ### END SOLUTION


# %% [markdown]
# <details><summary>Hint</summary>
#
# `offset` is one line with `close`: which rows, which type, which tolerance? `gradient`: `trial` returns two outputs; take `torch.autograd.grad(output, x, dy)` of each, with `dy` drawn at random (another draw than `x`'s), and compare.
# `again`: keep a clone of `x` and of the first answer, call the layer on other rows, then ask again, and once more after `layer.eval()`.
#
# </details>
#
# The checklist itself is the order, and a loop.

# %% id="first-fault"
ten = [names, rows, axes, again, gradient, offset, half, constant, options, layout]


def first_fault(cls):
    """Return the name of the first of the ten tests that a layer fails, or None."""
    for test in ten:
        if not passes(test, cls):
            return test.__name__
    return None


# %% tags=["check"]
check.first_fault(first_fault)

# %% [markdown]
# The check has run your function on layers that you have not seen.

# %%
print("nn.LayerNorm: ", first_fault(nn.LayerNorm))
print("yours, or the course's, of lesson 4:", first_fault(LayerNorm))
print("one-pass variance: ", first_fault(faulty["one-pass variance"]))

# %%
full = chart(ten)  # (20, 10)
first = full.isnan().int().argmin(1)  # (20,) where each fault is found first
marked = torch.where(torch.arange(10) == first[:, None], 2.0, full)
assert set(first.tolist()) == set(range(10)) and not full.isnan().all(1).any()
for column, test in enumerate(ten):
    print(
        f"{test.__name__:9} finds {int((full[:, column] == 1).sum()):2} of 20, "
        f"first to find {int((first == column).sum())}"
    )

# %%
plot.heat(
    marked,
    list(faulty),
    [test.__name__ for test in ten],
    texts=[["1st" if m == 2 else "" for m in row] for row in marked],
    title="Each of the ten finds a fault that none before it finds",
    x="test, in the order to run them",
    y="fault",
    limits=(0, 3),
    size=(9.8, 8),
    caption="Dark: the test finds the fault, 1st: no earlier test does. Twenty layers, each "
    "with one fault.",
    alt="A grid of twenty faults and ten tests. Every column has at least one cell marked 1st; "
    "names and rows have the most.",
)

# %% [markdown]
# Why this order? Each test takes a moment, so time does not decide. Three other things do.
#
# **A test may rely only on what has been tested before it.** `names` comes first: it computes nothing, and `trial` needs parameters that are there. `again` comes before `gradient`, for a layer that overwrites its input spoils whatever is compared afterwards.
#
# **One change at a time.** `rows` asks the plain question, and each test after it changes one thing: more axes, a second call, the way back, an offset, the type, a constant row, the arguments, the memory. After `rows` has passed, a failure points to that one change.
#
# **The first failure should leave few suspects.** `options` and `layout` find eleven of the twenty each, more than any other test. That is why they come last: what fails them may be wrong in eleven ways. What fails `options` *after passing the eight tests before it* is wrong in its arguments.
# That can be measured. For each fault, count the faults (itself among them) that fail first at the same test.
#
# **Predict:** in this order it is 3.5 on average. And backwards?


# %%
def suspects(order):
    """How many faults fail first at the same test, on average over the faults, if the tests
    run in this order."""
    first = full[:, list(order)].isnan().int().argmin(1)  # (20,)
    return (first == first[:, None]).sum(1).double().mean().item()


g = torch.Generator().manual_seed(147)
shuffled = [suspects(torch.randperm(10, generator=g).tolist()) for _ in range(500)]
show("suspects, in this order", suspects(range(10)), digits=1)
show("suspects, backwards", suspects(range(9, -1, -1)), digits=1)
show("suspects, 500 random orders, mean", sum(shuffled) / 500, digits=1)

# %% [markdown]
# Backwards, nearly everything is stopped by `layout`, and its name says nothing. (An order fitted to these twenty layers can do better than ours: with `constant` and `offset` in front of `rows` it is 2.7. But then a missing eps is reported as "constant". We keep the order whose answers can be read.)
#
# | | test | the input that exposes it | if this is the first to fail |
# |---|---|---|---|
# | 1 | names | none: list the parameters | not registered, frozen, other names or shapes |
# | 2 | rows | 5 features, spreads 1 to 0.001, random gain and bias, float64 | the formula: D − 1, eps, mean, bias before gain, type |
# | 3 | axes | three axes of different size | axis 1, time and features |
# | 4 | again | the same rows twice, others in between, `eval()` | it writes into its input, or keeps something |
# | 5 | gradient | random gain, random gradient from above | a path that is cut; a wrong backward pass |
# | 6 | offset | float32 rows around 10,000 | one-pass variance |
# | 7 | half | float16: entries of 600; zeros with eps = 1e-8 | computed in half precision |
# | 8 | constant | a constant row, and its gradient | a root at 0 |
# | 9 | options | two axes, eps = 0.1, no gain and bias | arguments that are not used |
# | 10 | layout | a transposed tensor | `view` |
#
# Ten tests do not prove a layer right. They tell it from twenty wrong ones, and from those that the check held back. What they do not see, for instance: a GPU, an empty batch, a second derivative, speed.
# And they examine a *layer*. Where it stands in the net (cases 14.3 and 14.5), what is fed to it (14.2) and how it is drawn (14.4) needs the other tools of this lesson.
#
# ## 14.7 Final project: a norm from one page (optional, 30 min)
#
# You get one page, as from a paper: no code, no name that you could look up. (We made it up. For $\lambda = 1$ it is known: as *cumulative layer normalization*, from a network for speech.)
#
# > **TrailNorm: a norm with memory.** A token is normalized with the statistics of the tokens behind it on its trail: its own and those of the tokens before it, the older the less.
# >
# > **Input.** $x \in \mathbb{R}^{T \times D}$, $T$ tokens $x_1, \dots, x_T$ of $D$ features, with any number of axes in front; what stands at different places of those has nothing to do with one another. **Constants.** $\lambda \in [0, 1]$ (decay), $\epsilon > 0$. **Parameters.** $\gamma, \beta \in \mathbb{R}^D$, called `weight` and `bias`, 1 and 0 at the start.
# >
# > $$w_{ts} = \frac{\lambda^{t-s}}{\sum_{r \le t} \lambda^{t-r}} \ \text{ for } s \le t, \quad 0 \text{ otherwise} \qquad (0^0 = 1)$$
# >
# > $$\mu_t = \sum_{s} w_{ts}\, \frac1D \sum_{d} x_{sd} \qquad v_t = \sum_{s} w_{ts}\, \frac1D \sum_{d} (x_{sd} - \mu_t)^2 \qquad y_{td} = \gamma_d\, \frac{x_{td} - \mu_t}{\sqrt{v_t + \epsilon}} + \beta_d$$
# >
# > **Types.** float32 and float64 are computed in their own type, float16 and bfloat16 in float32; the result has the type of $x$.
# >
# > **Worked example.** $\lambda = 1$, $x = \begin{pmatrix} 0 & 1 & 2 \\ 4 & 5 & 6 \end{pmatrix}$: $\mu_2 = 3$, $v_2 = \frac{14}{3}$, second row of $y$: 0.4629, 0.9258, 1.3887.
#
# **Predict,** from the page alone: which norm is it for $\lambda = 0$? May a net that writes text use it?
#
# A double sum for every pair $(t, s)$ is not needed. For one token with mean $m_s$ and variance $v_s$ of its own,
#
# $$\frac1D \sum_d (x_{sd} - \mu_t)^2 = v_s + (m_s - \mu_t)^2$$
#
# (write $x_{sd} - \mu_t$ as $(x_{sd} - m_s) + (m_s - \mu_t)$; the mixed term sums to 0). Lesson 6 needed the same sum for [several devices](06_batchnorm.ipynb).


# %% tags=["exercise", "optional"] id="ex-14-6"
# Exercise 14.6 · ●●●●● · 20 min
class TrailNorm(nn.Module):
    """The norm of the page. features: D. decay: lambda. Calls know nothing of one another.

    forward: x (..., T, D) -> the same shape and dtype.
    """

    def __init__(self, features, decay=0.5, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(features))  # (D,)
        self.bias = nn.Parameter(torch.zeros(features))  # (D,)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # (..., T, D)
        mean, var = mean_and_var(wide)  # (..., T, 1) each
        t = torch.arange(x.shape[-2], device=x.device)  # (T,)
        w = (
            self.decay ** (t[:, None] - t).clamp(min=0).to(wide.dtype)
        ).tril()  # (T, T) column s, row t
        w = w / w.sum(-1, keepdim=True)  # (T, T)
        mu = w @ mean  # (..., T, 1)
        v = w @ var + (w * (mean.mT - mu) ** 2).sum(-1, keepdim=True)  # (..., T, 1)
        return ((wide - mu) / torch.sqrt(v + self.eps) * self.weight + self.bias).to(x.dtype)
        ### END SOLUTION


# %% tags=["check", "optional"]
check.trail_norm(TrailNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `mean_and_var` (lesson 2) gives $m$ and $v$ of every token, (..., T, 1) each. The weights are a (T, T) matrix, a row for each $t$: `t[:, None] - t` is $t-s$, `tril()` leaves $s \le t$, and each row is divided by its sum. Then $\mu$ is one matrix product.
# `mean.mT - mu` is the (T, T) table of $m_s - \mu_t$.
#
# </details>
#
# (The predictions. For $\lambda = 0$ only $w_{tt} = 1$ is left: LayerNorm. And no weight reaches beyond $t$, so a net that may not see the future stays one.)
#
# ### Put it into the GPT
#
# The GPT of [lesson 11](11_transformer.ipynb) (`fromscratch.CharGPT`, the course's own solution) writes words, letter by letter. Held equal: data, their order, the initial weights (norms draw no random numbers), Adam with rate 0.003, batch 16, 150 steps. Two blocks instead of twelve, so that it runs here in seconds. Nothing was tuned for either norm. The LayerNorm that trains is PyTorch's; to train with yours, paste it here and write `norm=YourLayerNorm` where `plain` is made.

# %% tags=["optional"]
words = data.words()[::8]  # every eighth of 63,240 words
tokens, targets = encode(
    words
)  # (words, T) each: 0 and the letters; the letters and 0, then -100, which the loss leaves out
order = torch.randperm(len(words), generator=torch.Generator().manual_seed(149))
held, rest = order[:256], order[256:]  # 256 words are kept for validation


def batch(g):
    """Draw 16 words."""
    chosen = rest[torch.randint(len(rest), (16,), generator=g)]
    return tokens[chosen], targets[chosen]


# %% [markdown]
# Two losses on words that the net has not seen. One gives the net the whole word at once, as training does. The other gives it, for each letter, only what comes before, as when it *writes*. For a causal net the two are the same number.


# %% tags=["optional"]
def cross_entropy(logits, wanted):
    """Mean over the letters, in nats."""
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten())


def whole(net):
    """Validation loss, the whole word given."""
    return cross_entropy(net(tokens[held]), targets[held]).item()


def prefix(net):
    """Validation loss, each letter from what stands before it."""
    last = [net(tokens[held, : t + 1])[:, -1] for t in range(16)]  # 16 times (256, 27)
    return cross_entropy(torch.stack(last, 1), targets[held]).item()


# %% [markdown]
# Your norm gets two opponents. One is LayerNorm. The other is the version of a colleague who has read the page in a hurry, and takes mean and variance over *all* tokens of the word.


# %% tags=["optional", "nbval-ignore-output"]
class HurriedNorm(nn.LayerNorm):
    """One mean and one variance for all T x D numbers of a sample."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-2:], eps=self.eps) * self.weight + self.bias


# fused=True is the same Adam with all parameters in one kernel: it saves a sixth of the time.
recipe = dict(
    seeds=range(4),
    loss=cross_entropy,
    optimizer=lambda p: torch.optim.Adam(p, lr=3e-3, fused=True),
    batches=batch,
    steps=150,
    every=150,
    evaluate={"whole word": whole, "prefix": prefix},
)
plain = train.compare({"LayerNorm": lambda: CharGPT(layers=2, norm=nn.LayerNorm)}, **recipe)

# %% tags=["optional", "nbval-ignore-output"]
hurried = train.compare({"HurriedNorm": lambda: CharGPT(layers=2, norm=HurriedNorm)}, **recipe)

# %% [markdown]
# **Predict:** which of the two has the lower loss on the whole word? Which on the prefix?

# %% tags=["optional", "nbval-ignore-output"]
train.table(plain | hurried, "whole word", digits=3)
train.table(plain | hurried, "prefix", digits=3)

# %% tags=["optional"]
end = {
    name: {key: history[key][:, -1] for key in ("whole word", "prefix")}
    for name, history in (plain | hurried).items()
}
assert (
    end["LayerNorm"]["prefix"] - end["LayerNorm"]["whole word"]
).abs().max() < 1e-4  # causal: one number, float32 rounding
assert (
    end["HurriedNorm"]["prefix"] - end["HurriedNorm"]["whole word"]
).min() > 0.05  # 20 other seeds: 0.15 to 0.90
assert (
    end["LayerNorm"]["whole word"] - end["HurriedNorm"]["whole word"]
).min() > 0.03  # 20 other seeds: 0.06 to 0.22
assert (
    end["HurriedNorm"]["prefix"] - end["LayerNorm"]["prefix"]
).mean() > 0.03  # 20 other seeds: 0.01 to 0.71, 0.2 in the mean

# %% tags=["optional", "nbval-ignore-output"]
plot.bars(
    {
        f"{name}, {key}": columns[key]
        for name, columns in end.items()
        for key in ("whole word", "prefix")
    },
    title="The norm that wins with the whole word in sight loses when it has to write",
    x="validation loss (nats a letter)",
    xlim=(2.0, 3.0),
    colors={
        f"{name}, {key}": color
        for name, color in (("LayerNorm", "LayerNorm"), ("HurriedNorm", "none"))
        for key in ("whole word", "prefix")
    },
    caption="Two blocks, 150 steps, batch 16, four paired seeds, 256 words that were not "
    "trained on. For the causal net the two losses are one number.",
    alt="Four points with whiskers. LayerNorm is at 2.42 with the whole word and with the "
    "prefix; HurriedNorm at 2.24 with the whole word and near 2.66 with the prefix.",
)

# %% [markdown]
# **The better number is a bug.** With the whole word in sight the hurried norm wins clearly. Its mean and variance hold the letters to come, and how much padding follows, which is the length of the word: it has been told part of the answer. Left alone with the prefix, as when it writes, it is the worse of the two.
# No error, no `nan`, a falling curve, a better loss. When a result is too good, ask for the footprint: may this output depend on that input?
#
# Now yours.

# %% tags=["optional", "nbval-ignore-output"]
own = train.compare({"TrailNorm": lambda: CharGPT(layers=2, norm=TrailNorm)}, **recipe)  # yours

# %% tags=["optional", "nbval-ignore-output"]
train.table(plain | own, "prefix", digits=3)

# %% tags=["optional"]
trail = own["TrailNorm"]
assert (trail["prefix"] - trail["whole word"])[:, -1].abs().max() < 1e-4  # causal as well
difference = (
    trail["prefix"][:, -1] - end["LayerNorm"]["prefix"]
)  # (4,) paired: same words, same initial weights
assert difference.abs().max() < 0.05  # 20 other seeds: -0.009 to 0.007
print("TrailNorm and LayerNorm: within 0.05 nats of each other in each of the four pairs")

# %% [markdown]
# With two blocks and 150 steps, TrailNorm differed from LayerNorm by less than 0.01 nats with each of 20 seeds when this lesson was written, where the leak made 0.06 to 0.22. Nobody should choose a norm for that. It is a result all the same, and a sentence for it needs all of its parts: *which data, which net, how many steps, how many seeds, paired or not, what was tuned for whom.*
#
# ## 14.8 Glossary
#
# Each term with one sentence, and the section that introduces it. A link opens the notebook; JupyterLab jumps to the section at the second click.
#
# | term | what it is | section |
# |---|---|---|
# | AdaLN | a norm whose gain and bias are functions of a condition | [12.8](12_family.ipynb) |
# | attention | an average of the values of the tokens that one may see (itself among them), weighted by a softmax of q · k | [11.1](11_transformer.ipynb#11.1-Attention-in-twelve-lines) |
# | autocast | PyTorch's choice of a dtype for each operation | [3, Deeper](03_epsilon.ipynb#Autocast) |
# | autograd.Function | a class with a forward and a backward pass written by hand | [7.7](07_backward.ipynb#7.7-A-function-of-your-own-and-its-second-derivative) |
# | BatchNorm | a norm with one mean and variance for each feature, taken over the batch | [6.1](06_batchnorm.ipynb#6.1-The-other-axis) |
# | bfloat16 | a number in 16 bits with the range of float32 and two digits | [3.5](03_epsilon.ipynb#3.5-Half-precision) |
# | bias | the learned number β added to each normalized feature | [4.1](04_affine_and_module.ipynb#4.1-One-gain-and-one-bias-for-each-feature) |
# | biased variance | the variance divided by D, which LayerNorm uses; the unbiased one is divided by D − 1 | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | brightness | the number that is added to every standardized pixel of an image | [9.7](09_cnn.ipynb#9.7-A-dim-picture,-and-a-bright-one) |
# | buffers | tensors of a layer that are saved and moved with it, and not trained | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | cache | small, fast memory close to the processor, for what was used last | [13.1](13_speed.ipynb#13.1-What-has-to-be-moved) |
# | cache line | the piece of memory, 64 bytes on most processors, that is fetched and written back as one | [13.5](13_speed.ipynb#13.5-The-backward-pass:-two-loops-over-a-row) |
# | causal | seeing no later tokens: an output depends on its own token and on those before it | [11.1](11_transformer.ipynb#11.1-Attention-in-twelve-lines) |
# | cell | in an LSTM: the second state, which only gates touch | [10.5](10_rnn.ipynb#10.5-An-LSTM-cell) |
# | channels | the features of a pixel or of a step of a sequence | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | checkpoint | what is saved of a model: its `state_dict`, names and tensors | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | contrast | the factor by which the standardized pixels of an image are multiplied | [9.7](09_cnn.ipynb#9.7-A-dim-picture,-and-a-bright-one) |
# | convex combination | an average with shares as weights | [5.6](05_softmax.ipynb#5.6-One-in-the-other's-place) |
# | correction | PyTorch's argument for what is taken off D: 0 for the biased variance | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | DeepNorm | Post-LN with a factor α on the stream, and smaller weights in the branches at the start | [12.7](12_family.ipynb) |
# | dilation | the distance between the taps of a convolution's kernel, in pixels | [9.1](09_cnn.ipynb#9.1-How-large-is-what-comes-out?) |
# | dy | the gradient that arrives at a layer's output, from above | [7.1](07_backward.ipynb#7.1-What-arrives-and-what-it-meets-first) |
# | DyT | a tanh with one learned factor, then gain and bias: in the place of a norm, and without statistics | [12.6](12_family.ipynb#12.6-No-statistics-at-all:-DyT) |
# | effective learning rate | the rate at which the direction of weights before a norm turns: η/‖W‖² for plain SGD | [8.7](08_geometry.ipynb#8.7-Weights-before-a-norm) |
# | eigenvalues | the factors by which a symmetric matrix stretches directions at right angles to one another | [8.4](08_geometry.ipynb#8.4-What-gets-through:-the-spectrum-of-the-Jacobian) |
# | entropy | a number for how many keys an attention is spread over: ln n if all n count alike, 0 for a single one | [12.5](12_family.ipynb#12.5-Norms-inside-attention:-QK-norm) |
# | epsilon, eps | the small number added to the variance under the root | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | float16, half precision | a number in 16 bits with three digits and a range from 6·10⁻⁸ to 65,504 | [3.5](03_epsilon.ipynb#3.5-Half-precision) |
# | fold | to put a layer's factors into the weights of another, so that both compute the same | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | footprint | the places of the input on which one output depends | [14.2](#14.2-Case-one:-every-size-fits) |
# | fused | several operations in one run over memory | [13.1](13_speed.ipynb#13.1-What-has-to-be-moved) |
# | gain | the learned factor γ of each normalized feature, `weight` in PyTorch | [4.1](04_affine_and_module.ipynb#4.1-One-gain-and-one-bias-for-each-feature) |
# | gloo | PyTorch's library for processes that talk to each other on CPUs | [13.8](13_speed.ipynb) |
# | gradcheck | PyTorch's comparison of a gradient with small differences of the output | [7.7](07_backward.ipynb#7.7-A-function-of-your-own-and-its-second-derivative) |
# | gradgradcheck | the same as gradcheck, for the gradient of the gradient | [lesson 4, Deeper](04_affine_and_module.ipynb#Second-derivative-and-vmap) |
# | gradient | the derivatives of the loss, carried backwards from layer to layer | [1.4](01_why_normalize.ipynb#1.4-The-gradient-takes-the-same-road-back) |
# | GroupNorm | a norm with statistics for each group of channels of a sample | [6.6](06_batchnorm.ipynb#6.6-Four-norms,-four-layouts,-one-table) |
# | heads | attentions side by side, each with its own share of the features | [11.1](11_transformer.ipynb#11.1-Attention-in-twelve-lines) |
# | hook | a function that PyTorch runs each time a layer is called | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | idempotent | doing nothing the second time | [8.3](08_geometry.ipynb#8.3-A-second-time) |
# | InstanceNorm | a norm with statistics for each channel of each sample | [6.6](06_batchnorm.ipynb#6.6-Four-norms,-four-layouts,-one-table) |
# | internal covariate shift | the moving distribution of a layer's inputs during training; named as BatchNorm's reason, and not what explains it | [1.8](01_why_normalize.ipynb#1.8-The-story-that-everybody-tells) |
# | Jacobian | the matrix of all derivatives of a layer's outputs with respect to its inputs | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | Kaiming initialization | weights with standard deviation √(2/D), which keep the size of a signal through ReLU layers | [1.3](01_why_normalize.ipynb#1.3-Why-1.4?) |
# | LayerNorm, Layer Normalization | a norm with a mean and a variance for each row, then gain and bias; the same in training and evaluation | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | logits | what goes into a softmax: scores of any sign | [9.10](09_cnn.ipynb#9.10-Three-sick-runs) |
# | mean | the sum of a row's numbers, divided by their number | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | momentum | in BatchNorm: the weight of the newest batch in the running statistics | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | nan | not a number: the result of 0/0 and of its like, which spreads to all that touches it | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | non-temporal store | a store that goes past the caches, so that nothing is fetched before | [13.5](13_speed.ipynb#13.5-The-backward-pass:-two-loops-over-a-row) |
# | normalize | subtract the mean, divide by the root of the variance (plus eps) | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | normalized_shape | the sizes of the trailing axes that are normalized together | [4.3](04_affine_and_module.ipynb#4.3-Eight-lines,-for-any-trailing-shape) |
# | null direction | a direction in which a small step changes no output | [5.5](05_softmax.ipynb#5.5-The-same-numbers-in-the-derivatives) |
# | Numba | a compiler for Python loops over numbers | [13.3](13_speed.ipynb#13.3-Loops-that-a-compiler-reads) |
# | one pass | the variance as E[x²] − E[x]², which loses its digits far from 0; two passes subtract the mean first | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | orthogonal projection | a matrix with PP = P and Pᵀ = P: it drops vectors straight down onto a flat set | [8.1](08_geometry.ipynb#8.1-First-move:-a-projection) |
# | packed | a batch of sequences without its padding | [lesson 10, Deeper](10_rnn.ipynb#Sequences-of-different-lengths) |
# | page fault | a stop in which the system finds and clears fresh memory | [13.7](13_speed.ipynb#13.7-How-fast-is-it?) |
# | patches | the squares into which an image is cut, one token each | [11.10](11_transformer.ipynb#11.10-Patches-are-tokens) |
# | Peri-LN | norms before and behind each branch | [12.7](12_family.ipynb) |
# | Post-LN | the norm behind the sum, on the stream itself: LN(x + f(x)) | [11.2](11_transformer.ipynb#11.2-A-block,-and-two-places-for-its-norms) |
# | Pre-LN | the norm inside the branch, before its function: x + f(LN(x)) | [11.2](11_transformer.ipynb#11.2-A-block,-and-two-places-for-its-norms) |
# | QK-norm | a norm on queries and keys, inside attention | [12.5](12_family.ipynb#12.5-Norms-inside-attention:-QK-norm) |
# | rank | the number of singular values that are not 0 | [5.5](05_softmax.ipynb#5.5-The-same-numbers-in-the-derivatives) |
# | re-centering | adding one vector to all rows of a weight matrix (or one number to data) | [8.6](08_geometry.ipynb#8.6-The-invariance-table) |
# | reduce | to take the mean, sum or variance over an axis, which then has size 1 or is gone | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows) |
# | residual connection | a way around a layer: its input is added to its output | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | residual stream | what runs from block to block and only gets added to | [11.2](11_transformer.ipynb#11.2-A-block,-and-two-places-for-its-norms) |
# | rms | root mean square: the root of the mean of the squares | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | RMSNorm | a norm that divides by the rms and subtracts no mean | [8.5](08_geometry.ipynb#8.5-RMSNorm:-the-sphere-without-the-projection) |
# | row | the D numbers of one sample or token, which are normalized together | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | rstd | one over the root of variance plus eps | [7.1](07_backward.ipynb#7.1-What-arrives-and-what-it-meets-first) |
# | running statistics | averages of BatchNorm's means and variances over the batches, used in evaluation | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | ScaleNorm | RMSNorm with one gain for all features | [12.2](12_family.ipynb#12.2-Without-the-mean:-RMSNorm-and-ScaleNorm) |
# | seed | the number that a random generator starts from; results are reported over several | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | shares | numbers from 0 to 1 that sum to 1 | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | signal | the numbers that a network hands from layer to layer for one input | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | singular values | the factors by which a matrix stretches directions at right angles to one another | [5.5](05_softmax.ipynb#5.5-The-same-numbers-in-the-derivatives) |
# | skeleton | what is left of a block when its branches are silent | [14.5](#14.5-Case-four:-Pre-LN-by-name) |
# | skewness | the mean of the normalized values cubed: 0 for symmetric shapes | [2.5](02_statistics.ipynb#2.5-The-shape-of-a-row) |
# | skip | the way around a function: x + f(x) | [11.2](11_transformer.ipynb#11.2-A-block,-and-two-places-for-its-norms) |
# | softmax | exponentials of a row divided by their sum: shares between 0 and 1 | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | spectral norm | the largest factor by which a matrix stretches a vector | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | spectrum | all eigenvalues of a matrix, with how often each occurs | [8.4](08_geometry.ipynb#8.4-What-gets-through:-the-spectrum-of-the-Jacobian) |
# | sphere | the points at one distance from the origin; √D for a normalized row at eps = 0 | [8.2](08_geometry.ipynb#8.2-Second-move:-onto-a-sphere) |
# | standardize | subtract the mean and divide by the deviation | [1.5](01_why_normalize.ipynb#1.5-Standardize) |
# | state | what a recurrent net hands from one step to the next | [10.1](10_rnn.ipynb#10.1-A-norm-after-the-loop) |
# | state_dict | the dictionary from names to tensors that a module saves and loads | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | stride | the step by which a convolution's kernel moves on | [9.1](09_cnn.ipynb#9.1-How-large-is-what-comes-out?) |
# | summed input | what a recurrent unit adds up from input and state, before its nonlinearity | [10.1](10_rnn.ipynb#10.1-A-norm-after-the-loop) |
# | SyncBatchNorm | BatchNorm that exchanges its statistics between devices | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | tape | autograd's record of the forward pass | [7.2](07_backward.ipynb#7.2-Six-lines-backwards) |
# | temperature | what the scores are divided by before a softmax | [5.3](05_softmax.ipynb#5.3-What-each-of-them-cannot-see) |
# | token | one position of a sequence: a word, a letter, or a patch of an image | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | variance | the mean squared distance from the mean; its root is the (standard) deviation | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | warm-up | a learning rate that rises from 0 over the first steps | [11.4](11_transformer.ipynb#11.4-Four-curves) |
# | weight decay | pulling parameters towards 0 at every step | [lesson 4, Deeper](04_affine_and_module.ipynb#Weight-decay-and-the-gain) |
# | weight scale | the factor on the standard deviation 1/√D of freshly drawn weights | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | WeightNorm | dividing each weight vector by its length, without a look at the data; a learned factor may set a new one | [8.6](08_geometry.ipynb#8.6-The-invariance-table) |
# | Welford | a way to update mean and variance number by number, which never gives a negative variance | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | word | one number, as the unit in which memory traffic is counted | [13.1](13_speed.ipynb#13.1-What-has-to-be-moved) |
# | x_hat | the normalized row, before gain and bias | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
#
# ## 14.9 The Clinic's index of misconceptions
#
# What is often said, what holds, and the section that settles it. All of it is seen in public: in tutorials, in threads, in code.
#
# | often said | what holds | section |
# |---|---|---|
# | LayerNorm averages across the batch | Statistics across the batch are BatchNorm's | [6.1](06_batchnorm.ipynb#6.1-The-other-axis) |
# | the normalized axis is axis 1, in every layout | Axis 1 is not the normalized axis, and a square input hides it | [4.6](04_affine_and_module.ipynb#4.6-Images:-three-layers,-one-name) |
# | nn.LayerNorm(C) works on images (B, C, H, W) | nn.LayerNorm(C) does not fit NCHW images | [4.6](04_affine_and_module.ipynb#4.6-Images:-three-layers,-one-name) |
# | per-pixel LayerNorm, LayerNorm([C, H, W]) and GroupNorm(1, C) are one thing | Per pixel, [C, H, W] and GroupNorm(1, C) are three different things | [4.6](04_affine_and_module.ipynb#4.6-Images:-three-layers,-one-name) |
# | GroupNorm(1, C) is LayerNorm | GroupNorm(1, C) is LayerNorm's twin only on (N, C) | [4.6](04_affine_and_module.ipynb#4.6-Images:-three-layers,-one-name) |
# | x.shape[2:] is everything but the batch | x.shape[2:] gives Instance Normalization | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | in a sequence all time steps are normalized together | Normalizing over time and features lets the future leak into the past | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | the statistics are taken per training example | Statistics are per position, not per training example | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | normalized_shape is the shape of x | normalized_shape must not hold the batch axis | [9.2](09_cnn.ipynb#9.2-A-place-for-the-norm) |
# | the argument is the number of an axis, as in softmax | normalized_shape is a size, not an axis number | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | LayerNorm([C, H, W]) drops into any convolutional net | LayerNorm([C, H, W]) ties a net to one image size | [4.6](04_affine_and_module.ipynb#4.6-Images:-three-layers,-one-name) |
# | the output size of a convolution is a plain quotient | Plain division or rounding gives wrong convolution sizes | [9.1](09_cnn.ipynb#9.1-How-large-is-what-comes-out?) |
# | equal sizes make a good example | Equal sizes in an example hide a wrong axis | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows) |
# | an assert that compares normalized_shape with a slice of x.shape is enough | normalized_shape must be made a tuple before it is compared, and a mismatch must raise | [4.4](04_affine_and_module.ipynb#4.4-What-the-eight-lines-lack) |
# | BatchNorm cannot be used on sequences | BatchNorm1d wants (B, C, T): on (B, T, C) it fails, or is silently wrong if T = C | [6.8](06_batchnorm.ipynb#6.8-Clinic:-the-error-that-went-away) |
# | any variance will do | torch.var divides by D - 1 unless told otherwise | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | divide by σ + ε | eps added to the deviation changes small rows | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) |
# | ε is a detail | eps must travel with the weights | [3.4](03_epsilon.ipynb#3.4-Which-epsilon-travels-with-which-weights) |
# | the output has variance 1 | The output variance is v/(v+eps), below 1 | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | a smaller ε makes the values larger | Values are bounded by the root of D - 1 whatever eps is | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | no ε is needed | Without eps a constant row gives nan | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | a norm over one or two features normalizes them | One feature gives zero, two features a sign | [8.2](08_geometry.ipynb#8.2-Second-move:-onto-a-sphere) |
# | LayerNorm makes activations Gaussian, or puts them between −1 and 1 | Normalizing makes nothing Gaussian and confines nothing to [-1, 1] | [2.5](02_statistics.ipynb#2.5-The-shape-of-a-row) |
# | after LayerNorm every row sums to 0 | Row sums are 0 only before gain and bias | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | E[x²] − E[x]² is the same formula | E[x^2] - E[x]^2 is not the same formula in floating point | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | an ε of 1e-8 is safe in half precision | An eps of 1e-8 is zero in float16 | [3.7](03_epsilon.ipynb#3.7-Clinic:-it-was-fine-in-float32) |
# | equal printed digits show that two layers agree | Equal printed digits do not decide whether two layers agree | [5, Deeper](05_softmax.ipynb#The-digit-that-depends-on-rounding) |
# | a right shape on zeros is a test | A shape test on zeros passes every wrong layer | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) |
# | gain and bias have shape (C,) | Gains have the normalized shape, not always (C,) | [4.3](04_affine_and_module.ipynb#4.3-Eight-lines,-for-any-trailing-shape) |
# | the constructor takes the initial gain and bias | The constructor takes no initial values | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | without gain and bias one only skips the multiplication | elementwise_affine=False registers no parameters | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | the names of the parameters do not matter | Parameter names decide whether a checkpoint loads | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | weight decay on the gain is harmless | Weight decay pulls gains to 0: leaving them out is a convention | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | bias=False makes it an RMSNorm | bias=False is not RMSNorm | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | gain and bias are essential for the capacity | Gain and bias before a Linear add no capacity | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | a bias in front of LayerNorm is redundant | A bias before LayerNorm is not redundant, before BatchNorm it is | [6.7](06_batchnorm.ipynb#6.7-What-the-layer-before-it-feels) |
# | LayerNorm folds into the layer before it, as BatchNorm does | LayerNorm cannot be folded into the layer before it | [6.7](06_batchnorm.ipynb#6.7-What-the-layer-before-it-feels) |
# | LayerNorm changes in eval() | LayerNorm has no running statistics | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | BatchNorm fails when there are few batches | The size of the batch matters to BatchNorm, not the number of batches | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | with several devices BatchNorm sees the whole batch | Averaging variances of devices is not the variance of the whole | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | in the backward pass mean and deviation are constants | Mean and deviation are not constants in the backward pass | [7.5](07_backward.ipynb#7.5-Cut-one-path) |
# | LayerNorm kills the gradient | A sum of outputs has no gradient: test with random weights | [7.6](07_backward.ipynb#7.6-Losses-that-are-blind) |
# | a LayerNorm after an RNN normalizes the recurrence | LayerNorm outside the recurrence does not change the gradient through time | [10.3](10_rnn.ipynb#10.3-The-gradient-through-time) |
# | norm_first needs nothing else | A Pre-LN stack ends in the bare stream: the final norm is yours to add | [11.7](11_transformer.ipynb#11.7-The-growing-stream,-and-why-a-final-norm) |
# | overriding __call__, or calling forward, is the same as calling the module | Define forward and call the module: hooks hang on the call | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | a sigmoid suits a ten-class cross-entropy | Sigmoid before cross-entropy keeps the loss above a floor | [9.10](09_cnn.ipynb#9.10-Three-sick-runs) |
# | types of input and parameters mix freely | Which input and parameter dtypes may be mixed | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | with LayerNorm the rest of the batch does not matter, bit for bit | The norm is batch-invariant bit for bit; the matrix product beside it need not be | [6.2](06_batchnorm.ipynb#6.2-Your-neighbors-decide) |
# | a band in a figure speaks for itself | A band needs its estimator, its n, and what varies | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | one seed at the top makes every later cell repeatable | One seed at the top does not fix later draws | [2.6](02_statistics.ipynb#2.6-A-test-that-finds-a-wrong-layer) |
# | activations shoot up because of sharp minima | Activations shoot up with the weight scale, already before training | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | PyTorch's LayerNorm is out of reach, deep in generated code | PyTorch ships a readable reference of its LayerNorm | [lesson 4, Deeper](04_affine_and_module.ipynb#The-source-on-your-disk) |
#
# ## Take-away
#
# - From a symptom to a cause: a **footprint** (what may this output depend on?), **random gains and biases** (a new layer hides what a trained one shows), a **table of parameters**, a **silent branch** (what is the skeleton?).
# - A fault that fits every size is found by none of the tests that rely on sizes. A repair is right when its check cannot tell it from the definition, not when the symptom has gone.
# - Ten tests, each an input made for a fault, in an order in which each relies only on those before it; the first failure then names the fault. They include PyTorch's layer among those that must pass.
# - A norm from a page of formulas: which numbers are averaged, with which weights, divided by what, eps where, in which type. The check is written from the same page.
# - A result comes with seeds, with what was held equal, and with the question whether it is too good.
#
# ## On your own
#
# 1. Add an eleventh test for an empty batch, and one for the second derivative (lesson 7). Which of the twenty layers do they find? Does any layer fail them alone?
# 2. Break a layer of your own in a way that passes all ten tests. Then write the test.
# 3. Case 14.4 with Adam: how many epochs until the patient has caught up? Look at the gains while it trains.
# 4. Plot TrailNorm's loss over the decay, with eight seeds each. Decide before you look which difference you would believe.
# 5. Write the one page for a norm of your own, formulas only, and give it to somebody.
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*; Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*: Post-LN and Pre-LN, figure 1.
# - Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*: GPT-2, with a norm moved to the input of each sub-block and one after the last block.
# - Luo & Mesgarani (2019), *Conv-TasNet*: cumulative layer normalization, the case $\lambda = 1$ of the project.
# - A. Karpathy (2019), *A Recipe for Training Neural Networks*: look at the data, overfit one batch, and other tests to run before a long training.

# %% [markdown]
# # 14 · The clinic
#
# A network for images normalizes the three channels of every pixel. To see what channel 1 contributes, its author switches it off with gain 0 and bias 0, while the other two have gain 1 and bias 3. So channel 1 should come out as zeros, and nothing else should.

# %% tags=["hide-input"]
import torch
from torch import nn
from torch.nn import functional as F

from fromscratch import CharGPT, encode  # lesson 11
from lessonkit import check, data, plot, show, train  # one thread (LESSON_THREADS)
from lessonkit.mine import LayerNorm, mean_and_var  # lessons 4 and 2


# %%
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
assert (out.flatten()[1::3] == 0).all() and (
    out == 0
).sum() == 64  # every third number, no more

# %% tags=["hide-input"]
plot.images(
    [*(x[0] - x.min()), *out[0]],
    ["in, 0", "in, 1", "in, 2", "out, 0", "out, 1", "out, 2"],
    ncols=6,
    title="Channel 1 is switched off, and every channel has stripes",
    caption="Three channels of 8 × 8 pixels (a digit, mirrored in two ways) before and after "
    "the layer; large is dark, 0 is white. Channels 0 and 2 have gain 1 and bias 3.",
    alt="Six small images. The three inputs are digits. In each of the three outputs every "
    "third pixel is white, along diagonals.",
)

# %% [markdown]
# Every channel has lost a third of its pixels, without an error. Here you meet four such patients, and for each you say what you think is wrong *before* you repair it. Then you examine layers that strangers wrote, with ten tests.
#
# *About 82 min.* **You'll be able to**
# - go from a symptom to a cause with four tools;
# - examine a LayerNorm that you have not written, with ten tests in an order that names the fault;
# - in an optional project: write a norm from one page, and report honestly what it does.
#
# **You need** [lesson 4](04_affine_and_module.ipynb) (the module) and [lesson 7](07_backward.ipynb) (gradients), and for the project [lesson 11](11_transformer.ipynb).
#
# The lesson ends with tables to look things up in: [faults and what shows them](#Faults-and-what-shows-them), a [glossary](#Glossary), and an [index of misconceptions](#Index-of-misconceptions).
#
# **Recall 14.1:** on a tensor that fits into no cache, a LayerNorm of six PyTorch calls is slower than one fused loop. Why?
# - [ ] the fused loop computes less :: It needs about the same additions and multiplications.
# - [ ] Python is slow :: It costs some microseconds a call, which such a tensor hides.
# - [x] each call reads and writes the whole tensor :: Moving the numbers takes the time, and the fused loop moves them fewer times.
#
# **Recall 14.2:** which is a Pre-LN block?
# - [ ] $\operatorname{LN}(x + f(x))$ :: That is Post-LN, with the norm on the stream itself.
# - [x] $x + f(\operatorname{LN}(x))$ :: The branch reads the stream through its norm and is added to the stream.
# - [ ] $x + \operatorname{LN}(f(x))$ :: Here the branch reads the raw stream, and the norm comes after the function.
#
# **Recall 14.3:** all weights of a linear layer without bias are multiplied by 10. LayerNorm with $\epsilon = 0$ follows. What changes?
# - [x] the gradient of these weights, and no output of the norm :: The norm takes the factor out, and the gradient becomes a tenth.
# - [ ] nothing at all :: No output of the norm changes, but the gradient of the weights becomes a tenth.
# - [ ] every output of the norm, by a factor of 10 :: The norm divides by a standard deviation that is 10 times as large.

# %% [markdown]
# ## 14.1 Every size fits
#
# Where do the stripes come from? Images of 5 × 4 × 7 pass as well as those of 3 × 8 × 8, so axes of different sizes, which found the wrong axis in [lesson 2](02_statistics.ipynb#2.2-A-batch-of-rows), find nothing here.
#
# **Predict 14.1:** your diagnosis: which line is wrong?
# - [ ] `F.layer_norm`: gain and bias meet the wrong axis :: They meet the last axis of `pixels`, which has size C as it should. What is in that axis?
# - [x] the first `reshape`: it does not bring the channels to the end :: It cuts the numbers into pieces in their order, in which the last index runs fastest, so neighbors of one channel follow one another.
# - [ ] none: LayerNorm mixes the channels of a pixel, so a missing one shows in the others :: The statistics do mix them, but a gain and a bias of 0 give zeros in channel 1 and nowhere else.
#
# **The tool: a footprint.** Take one output, and ask autograd on which inputs it depends.


# %%
def footprint(layer, shape, output):
    """Return the places in x on which one output depends."""
    g = torch.Generator().manual_seed(142)
    x = torch.randn(shape, generator=g).requires_grad_()  # (B, C, H, W)
    weight, bias = torch.randn(2, shape[1], generator=g)  # (C,) each
    layer(x, weight, bias)[output].backward()
    return [tuple(place) for place in x.grad.nonzero().tolist()]


# %% [markdown]
# **Predict 14.2:** one image of 3 channels, 4 rows and 5 columns. On which inputs does the patient's output [0, 1, 2, 3] depend (channel 1, row 2, column 3)?
# - [ ] [0, 0, 2, 3], [0, 1, 2, 3], [0, 2, 2, 3] :: These are the three channels of that pixel, which a right layer would name.
# - [ ] on all 60 :: Each piece that is normalized has only C = 3 numbers.
# - [x] [0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 3, 0] :: Three neighbors in that order. They are in one channel, and the last is already in the next row.

# %%
print("depends on", footprint(patient_pixels, (1, 3, 4, 5), (0, 1, 2, 3)))

# %% [markdown]
# Now the cure.


# %% tags=["exercise"] id="ex-14-1"
# Exercise 14.1 · ●●○○○ · 3 min
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
out = repaired_pixels(x, gain, shift)  # (B, C, H, W)
show("share of zeros in channels 0, 1, 2", (out[0] == 0).flatten(1).double().mean(1), digits=2)

# %% [markdown]
# `reshape` keeps the order of the numbers, last index fastest, and cuts that one row into different pieces, which works for every size. So a fault that fits every size is found by asking *what depends on what*, and a footprint needs no right layer for that.

# %% [markdown]
# ## 14.2 Clean until it has learned
#
# What can a test of a new layer miss? An encoder turns a sentence into the average of its tokens after a norm. The sentences of a batch are padded to one length, and a test shows that padding changes nothing. The model is trained, and now the vector of a sentence depends on how long the *other* sentences in its batch are.


# %%
def patient_average(x, mask, norm):
    """Average the real tokens after a norm.

    x: (B, T, C). mask: (B, T), True for real tokens. Returns (B, C).
    """
    x = x * mask.unsqueeze(-1)  # (B, T, C) padding becomes 0
    return norm(x).sum(1) / mask.sum(1, keepdim=True)  # (B, C)


# %% [markdown]
# **Predict 14.3:** your diagnosis: how does the padding get in?
# - [x] through the norm: it does not return 0 for a row of zeros :: $\operatorname{LN}(0) = \gamma \odot 0 + \beta = \beta$. A new layer has $\beta = 0$, and a trained one has not.
# - [ ] through the statistics: it counts in mean and variance :: LayerNorm takes the statistics of every token by itself, so the padding cannot reach a real token.
# - [ ] through the division: it counts as tokens :: `mask.sum` counts the real tokens only.
#
# **Predict 14.4:** a sentence of three tokens is followed by five of padding, which add $p$ each. How far is its vector off?
# - [ ] by $p$ :: One token of padding for each real one would do that.
# - [x] by $\frac53p$ :: Each of the five adds $p$, which is $\beta$ here, to the sum, and that is divided by three.
# - [ ] by $\frac58p$ :: That would be so if the sum were divided by all eight.
#
# **The tool: random gains and biases.** They make a new layer like a trained one.


# %% tags=["hide-input"]
g = torch.Generator().manual_seed(143)
sentence = torch.randn(1, 8, 4, generator=g)  # (B, T, C), three tokens and five of padding
mask = torch.arange(8).unsqueeze(0) < 3  # (B, T)


def padding_shows(average, norm):
    """Return how far the padding moves the vector of the sentence: (C,)."""
    alone = average(sentence[:, :3], mask[:, :3], norm)  # (B, C)
    return (average(sentence, mask, norm) - alone)[0].detach()


# %%
new, trained = nn.LayerNorm(4), nn.LayerNorm(4)
g = torch.Generator().manual_seed(144)
for p in trained.parameters():
    nn.init.normal_(p, generator=g)
show("moved by padding, new layer    ", padding_shows(patient_average, new), digits=3)
show("moved by padding, trained layer", padding_shows(patient_average, trained), digits=3)
show("its bias, times 5/3            ", 5 / 3 * trained.bias, digits=3)

# %% tags=["hide-input"]
# float32, numbers of order 1: sums of eight are off by less than 1e-6
assert padding_shows(patient_average, new).abs().max() < 1e-6
assert (padding_shows(patient_average, trained) - 5 / 3 * trained.bias).abs().max() < 1e-5

# %% [markdown]
# A cure must not move the fault elsewhere: real tokens keep their bias, and no number in the padding counts.


# %% tags=["exercise"] id="ex-14-2"
# Exercise 14.2 · ●●○○○ · 4 min
def repaired_average(x, mask, norm):
    """Average of the normalized real tokens of each sentence.

    x: (B, T, C). mask: (B, T) bool, True for a real token; each sentence has at least one.
    No number in the padding, nan and inf included, changes the average; a real nan does.
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
# Which step has to come last before the sum, so that the padding counts for nothing whatever the layers before it do? (And 0 times nan is nan: set the padding to 0, do not multiply it.)
#
# </details>

# %%
show("moved by padding, trained layer", padding_shows(repaired_average, trained), digits=3)

# %% [markdown]
# LayerNorm turns padding of zeros into $\beta$, and with $T-n$ tokens of it the average of $n$ is off by $\frac{T-n}{n}\beta$. The test passed because a new layer has $\beta = 0$. So **test with random gains and biases**, as in [section 7.7](07_backward.ipynb#7.7-A-test-that-cannot-fail).

# %% [markdown]
# ## 14.3 A net that whispers
#
# Why does a net learn so little although all its layers are right? A small Pre-LN net is to read the digits. GPT-2 draws most weights with standard deviation 0.02, so the author does that in one loop. After three epochs of SGD at a rate of 0.1 the net reads about two digits in five. A colleague's reads nine in ten: the same net, the same batches, weights of the same standard deviation.


# %% tags=["hide-input"]
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


# %%
def patient_init(model):
    """Draw the parameters of a model with standard deviation 0.02."""
    for p in model.parameters():
        nn.init.normal_(p, std=0.02)


# %% [markdown]
# **Predict 14.5:** your diagnosis: what does the loop do wrong?
# - [ ] 0.02 is so small that the signal dies in four branches :: Each branch is added to the stream, which passes on at its own size. And the colleague's weights are as small.
# - [x] it draws the gains as well :: A gain of 1 becomes a random number of size 0.02, of either sign, in every norm.
# - [ ] it draws the biases as well :: It does, but 0.02 is little next to normalized numbers of size 1.
#
# **The tool: a table of parameters**, with what comes out of each layer before training.

# %% tags=["nbval-ignore-output"]
torch.manual_seed(145)
net, split = digit_net(patient_init), data.digits_split(0)
for name, p in net[-2].named_parameters():
    show(f"final norm, {name}: mean and standard deviation", [p.mean(), p.std()], digits=2)
h = split.x_train[:64]  # (B, H, W)
for layer in net:
    h = layer(h)
    show(f"rms after {type(layer).__name__:9}", h.detach().square().mean().sqrt(), digits=2)

# %% tags=["hide-input"]
with torch.no_grad():
    logits = net(split.x_train[:64])  # (B, 10)
assert (
    net[-2].weight.abs().max() < 0.1 and logits.square().mean().sqrt() < 0.05
)  # about 0.02 each

# %% [markdown]
# The final norm returns an rms of 0.03 where 1 is usual. The author's cure: draw "only parameters with more than one axis".
#
# **Predict 14.6:** for which of these layers does that rule fail?
# - [ ] RMSNorm over 64 features :: Its gain has one axis, so the rule leaves it alone.
# - [x] LayerNorm over two axes :: Its gain has the normalized shape and is a matrix.
# - [ ] BatchNorm for images :: It has one gain for each channel, so one axis.


# %% tags=["exercise"] id="ex-14-3"
# Exercise 14.3 · ●●●○○ · 4 min
def repaired_init(model):
    """Initialize a model in place: weights of Linear and Embedding layers, classes made from
    them included, N(0, 0.02²), biases of Linear layers 0.

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


# %% tags=["check"]
check.repaired_init(repaired_init)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `model.modules()` walks through all layers, those inside others too. Ask each what it is, and touch only the two kinds that you know. A Linear may have been made with `bias=False`.
#
# </details>
#
# Four runs each, in pairs with the same batches:

# %% tags=["hide-input"]
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

# %% tags=["nbval-ignore-output"]
whisper = train.compare({"all parameters drawn": lambda: digit_net(patient_init)}, **settings)
train.table(whisper, "accuracy", digits=0)

# %% tags=["nbval-ignore-output"]
repaired = train.compare({"norms left alone": lambda: digit_net(repaired_init)}, **settings)
train.table(repaired, "accuracy", digits=0)

# %% tags=["hide-input"]
low, high = (h["accuracy"][:, -1] for h in (*whisper.values(), *repaired.values()))  # (4,) each
# 32 pairs on each of two splits: 23 to 72 % against 51 to 97 %. Means of four pairs differ by
# 38 to 61 points, and each pair by 18 at least.
assert (high - low).mean() > 20

# %% [markdown]
# In 32 pairs on each of two splits, the patient read 23 to 72 % (39 and 47 on average), the repaired net 51 to 97 % (90 and 92), and in every pair the repaired net was at least 18 points better. Two controls, 16 runs on each split: if *only* the gains are drawn, the net reads 24 to 73 %; if everything *but* the gains is, 74 to 97 %.
#
# So it is the gains. A norm with gains of size 0.02 hands on a fiftieth of what it should, with random signs. If only the gains are drawn, the first and the last layer start with a gradient about 50 times smaller than the repaired net's, and the branches, with two norms on the way, about 2,400 times (means of 16 draws). The steps of plain SGD are then too small. (With Adam, in 8 pairs on each split, it was 87 to 94 % against 93 to 98 %.) So ask of which *layer* a parameter is before you draw it.

# %% [markdown]
# ## 14.4 Pre-LN by name
#
# Which architecture is this, whatever its comments say? In a Pre-LN net the *residual stream*, which runs from block to block and only gets added to, grows with depth. In this net it does not. And a Pre-LN block is the identity while the last layer of each branch is 0, but this one is not.


# %%
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


# %% [markdown]
# **The tool: a silent branch.** Set all Linear layers to 0. Then the branches add nothing, and what remains of the block is its *skeleton*.
#
# **Predict 14.7:** the row 10, 20, 20, 30 goes into the patient with silent branches. What comes out?
# - [x] about −1.41, 0, 0, 1.41 :: The row is normalized by `norm1`, and `norm2` then changes next to nothing.
# - [ ] 10, 20, 20, 30 :: That is what a Pre-LN block would return. Look at what `x` is when the first sum is taken.
# - [ ] zeros :: The branches are 0, but each sum still has its first term.


# %% tags=["hide-input"]
def skeleton(block, x):
    """Return what remains of a block when its Linear layers are 0."""
    for module in block.modules():
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight), nn.init.zeros_(module.bias)
    return block(x).detach()


# %%
two_rows = torch.tensor([[0.0, 1.0, 2.0, 9.0], [10.0, 20.0, 20.0, 30.0]])  # (B, D)
show("skeleton", skeleton(PatientBlock(4), two_rows), digits=2)

# %% [markdown]
# **Predict 14.8:** your diagnosis: which architecture do many such blocks make?
# - [ ] Pre-LN with an additional norm on each branch :: Then the stream itself would go around both norms, and the skeleton would return its input.
# - [ ] a new one, for which nothing is known :: Write $z$ for what a norm returns, and follow it to the next norm.
# - [x] Post-LN with one norm more at the start and none at the end :: A norm returns $z$, the sum is $z + f(z)$, and the next norm takes that: $\operatorname{LN}(z + f(z))$.


# %% tags=["exercise"] id="ex-14-4"
# Exercise 14.4 · ●●○○○ · 3 min
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
show("skeleton", skeleton(RepairedBlock(4), two_rows), digits=2)

# %% tags=["hide-input"]
with torch.random.fork_rng():  # four blocks of the patient, read as Post-LN, in float64
    torch.manual_seed(146)
    blocks = nn.Sequential(*[PatientBlock(6) for _ in range(4)]).double()
branches = [pair for b in blocks for pair in ((b.norm1, b.mix), (b.norm2, b.mlp))]
stream = 5 * torch.randn(
    3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(146)
)  # (B, D)
z = branches[0][0](stream)  # the norm at the start
for (_, f), (norm, _) in zip(branches[:-1], branches[1:], strict=True):
    z = norm(z + f(z))  # Post-LN
z = z + branches[-1][1](z)  # no norm at the end
assert (z - blocks(stream)).abs().max() < 1e-12  # the same sums in the same order
again_normalized = PatientBlock(4).norm2(PatientBlock(4).norm1(two_rows))
assert (
    again_normalized - F.layer_norm(two_rows, (4,))
).abs().max() < 1e-4  # the second changes little

# %% [markdown]
# The name `x` was overwritten by its normalized self, and the branch was added to *that*. From norm to norm the patient computes
#
# $$z \leftarrow \operatorname{LN}\bigl(z + f(z)\bigr),$$
#
# which is Post-LN. So expect of it what [lesson 11](11_transformer.ipynb) says of Post-LN. The skeleton tells the two apart: without its branches a Pre-LN block returns what came in.

# %% [markdown]
# ## 14.5 Ten tests, in the order to run them
#
# A stranger hands you a LayerNorm. What do you feed it, and in which order? A test is a function that takes a *class*, builds layers from it as from `nn.LayerNorm`, and returns `True` if they pass. Its helpers are folded below:
#
# - `draw(*shape, dtype=torch.float64)` returns the same random numbers every time;
# - `trial(cls, x)` gives a layer **random gains and biases**, and returns what it makes of `x` and what is right, computed **in float64**;
# - `close(cls, x, tolerance)` says whether a layer has the right shape, type and values on `x`.


# %% tags=["hide-input"]
def trial(cls, x, size=None, eps=1e-5):
    """Build a layer with random gain and bias (size: x's last axis unless given).

    Return (what it makes of x, what F.layer_norm makes of x in float64)."""
    size = size or x.shape[-1:]
    layer = cls(size if len(size) > 1 else size[0], eps=eps).to(x.dtype)
    g = torch.Generator().manual_seed(148)
    known = [nn.init.normal_(p, generator=g).double() for p in layer.parameters()]
    right = F.layer_norm(x.double(), size, *known, eps=eps)
    return layer(x), right


def close(cls, x, tolerance, **options):
    """Whether a layer has the right shape and type on x, and the right values."""
    y, right = trial(cls, x, **options)
    good = y.shape == x.shape and y.dtype == x.dtype
    return good and bool((y - right).abs().max() <= tolerance)


def draw(*shape, dtype=torch.float64):
    """Return the same random numbers of a shape every time."""
    g = torch.Generator().manual_seed(147)
    return torch.randn(*shape, dtype=torch.float64, generator=g).to(dtype)


# %% [markdown]
# Seven tests are given. Each is an *input*, made for certain faults:
#
# | test | input | made for |
# |---|---|---|
# | `names` | none: it lists the parameters | not registered, other names |
# | `rows` | 5 features, standard deviations 1 to 0.001 | the formula: D − 1, eps, mean, bias |
# | `axes` | three axes of different size | statistics over a wrong axis |
# | `half` | float16: entries of size 600; zeros with eps = 1e-8 | computing in half precision |
# | `constant` | a constant row, and its gradient | a root at 0 |
# | `options` | two axes, eps = 0.1, no gain and bias | unused arguments |
# | `layout` | a transposed tensor | `view` |


# %% tags=["hide-input"]
def parameters(layer):
    """What a checkpoint and an optimizer see of a layer."""
    return {name: (p.shape, p.requires_grad) for name, p in layer.named_parameters()}


def names(cls):
    """No number is computed, and what follows may rely on the parameters."""
    return parameters(cls(5)) == parameters(nn.LayerNorm(5))


def rows(cls):
    """Few features (D or D - 1), small rows (eps), and float64, in which no rounding hides."""
    return close(cls, draw(4, 5) * torch.tensor([[1.0], [0.1], [0.01], [0.001]]), 1e-9)


def axes(cls):
    return close(cls, draw(2, 3, 5), 1e-9)


def half(cls):
    """Squares of 600 do not fit into float16, and an eps of 1e-8 is 0 there."""
    large, zeros = draw(4, 5, dtype=torch.float16) * 600, torch.zeros(2, 5, dtype=torch.float16)
    return close(cls, large, 0.02) and close(cls, zeros, 0.02, eps=1e-8)


def constant(cls):
    """The slope of a root is infinite at 0: the gradient breaks where the value does not."""
    x = torch.full((2, 5), 4.0, dtype=torch.float64, requires_grad=True)  # (B, D)
    y, _ = trial(cls, x.clone())
    return bool(torch.autograd.grad(y, x, draw(2, 5))[0].isfinite().all())


def options(cls):
    bare = cls(5, elementwise_affine=False)
    return close(cls, draw(2, 3, 5), 1e-9, size=(3, 5), eps=0.1) and not list(bare.parameters())


def layout(cls):
    return close(cls, draw(5, 3, 2).transpose(0, 2), 1e-9)


def passes(test, cls):
    """Whether a layer passes a test; one that raises an error does not."""
    try:
        return bool(test(cls))
    except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError):
        return False


seven = [names, rows, axes, half, constant, options, layout]

# %% [markdown]
# Are seven enough? Twenty faulty layers will tell, made from a right layer by replacing a part.


# %% tags=["hide-input"]
class Sound(nn.Module):
    """A right LayerNorm in parts, so that one part can be replaced."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__()
        one = isinstance(normalized_shape, int)
        self.sizes = (normalized_shape,) if one else tuple(normalized_shape)
        self.eps, self.axes = eps, tuple(range(-len(self.sizes), 0))
        gain, bias = torch.ones(self.sizes), torch.zeros(self.sizes)
        self.weight = nn.Parameter(gain) if elementwise_affine else None
        self.bias = nn.Parameter(bias) if elementwise_affine else None

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


def over(axes):
    """Statistics over other axes: axes is a function of the number of axes of x."""
    return dict(
        mean=lambda s, x: x.mean(axes(x.dim()), keepdim=True),
        var=lambda s, x: x.var(axes(x.dim()), correction=0, keepdim=True),
    )


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


parts = {
    "other names": dict(
        __init__=renamed, affine=lambda s, y: y if s.gain is None else y * s.gain + s.shift
    ),
    "gain not registered": dict(
        __init__=unregistered, affine=lambda s, y: y if s.bias is None else y * s.gain + s.bias
    ),
    "running variance": dict(__init__=running, var=running_variance),
    "overwrites its input": dict(forward=in_place),
    "divides by D − 1": dict(var=lambda s, x: x.var(s.axes, keepdim=True)),
    "eps added to σ": dict(normalize=lambda s, x: (x - s.mean(x)) / (s.var(x).sqrt() + s.eps)),
    "eps left out": dict(normalize=lambda s, x: (x - s.mean(x)) / s.var(x).sqrt()),
    "mean left out": dict(mean=lambda s, x: 0.0),
    "bias before gain": dict(
        affine=lambda s, y: y if s.weight is None else (y + s.bias) * s.weight
    ),
    "float32 whatever comes": dict(forward=lambda s, x: s.affine(s.normalize(x.float()))),
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
faulty = {name: type("Faulty", (Sound,), replaced) for name, replaced in parts.items()}


def chart(tests):
    """For each faulty layer a row: 1 where a test finds it, else nan: (faults, tests)."""
    found = [
        [float("nan") if passes(test, cls) else 1.0 for test in tests]
        for cls in faulty.values()
    ]
    return torch.tensor(found)


for test in seven:
    assert passes(test, Sound) and passes(test, nn.LayerNorm)

# %% [markdown]
# **Predict 14.9:** which of these faults do the seven tests miss?
# - [x] a variance in one pass, $\operatorname{E}[x^2] - \operatorname{E}[x]^2$ :: It loses its digits in rows far from 0. The only such row here is the constant one, and there 16 − 16 is exactly 0.
# - [ ] statistics over the batch :: `rows` has four rows of different size, so their common statistics are wrong for each.
# - [ ] a root that is squared again :: The values are right, but `constant` looks at the gradient, where it gives nan.

# %%
found = chart(seven)  # (20, 7)
missed = [name for name, row in zip(faulty, found, strict=True) if row.isnan().all()]
print("seven tests miss:", ", ".join(missed))

# %% tags=["hide-input"]
assert missed == [
    "running variance",
    "overwrites its input",
    "one-pass variance",
    "variance detached",
]

# %% [markdown]
# Write three tests that find these four. What do the seven inputs have in common that hides them? PyTorch's own layer has to pass, and in float32 it is off by about 0.002 around 10,000 ([lesson 4](04_affine_and_module.ipynb)). Each test has a check of its own, so write them one by one.


# %% tags=["exercise"] id="ex-14-5"
# Exercise 14.5 · ●●●●○ · 9 min
def offset(cls):
    """True if a layer is about as right as PyTorch's on float32 rows far from 0: 1,000 to
    10,000 away, at standard deviation 1."""
    ### BEGIN SOLUTION
    return close(cls, draw(4, 5, dtype=torch.float32) + 10_000, 0.02)
    ### END SOLUTION


def gradient(cls):
    """True if the gradient of x agrees with F.layer_norm's to 0.1 % at least, in float64, for
    a random gain (trial) and a random gradient dy from above."""
    ### BEGIN SOLUTION
    x = draw(4, 5).requires_grad_()
    y, right = trial(cls, x)
    dx, dx_right = (torch.autograd.grad(out, x, draw(2, 4, 5)[1])[0] for out in (y, right))
    return torch.allclose(dx, dx_right, rtol=1e-9, atol=1e-9)
    ### END SOLUTION


def again(cls):
    """True if a layer leaves its input alone, and gives the same answer to the same rows
    before and after other rows, and in eval()."""
    ### BEGIN SOLUTION
    layer, x = cls(5).double(), draw(4, 5)
    first, used = layer(x.clone()).clone(), x.clone()
    layer(used), layer(10 * x)
    same = torch.equal(layer(x.clone()), first) and torch.equal(layer.eval()(x.clone()), first)
    return same and torch.equal(used, x)
    ### END SOLUTION


# %% tags=["check"]
check.offset(offset)

# %% tags=["check"]
check.gradient(gradient)

# %% tags=["check"]
check.again(again)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `offset` is one line with `close`: which rows, which type, which tolerance? `gradient`: `trial` returns two outputs; take `torch.autograd.grad(output, x, dy)` of each, with `dy` drawn at random (a different draw than `x`, for instance `draw(2, 4, 5)[1]`), and compare.
# `again`: keep a clone of `x` and of the first answer, call the layer on other rows, then ask again, and once more after `layer.eval()`.
#
# </details>
#
# All ten, in order, and lesson 4's `LayerNorm` (yours, if it passed):

# %%
ten = [names, rows, axes, again, gradient, offset, half, constant, options, layout]


def first_fault(cls):
    """Return the name of the first of the ten tests that a layer fails, or None."""
    return next((test.__name__ for test in ten if not passes(test, cls)), None)


for name in ("one-pass variance", "over axis 1", "eps not passed on"):
    print(f"{name:18} fails first at:", first_fault(faulty[name]))
print("nn.LayerNorm:", first_fault(nn.LayerNorm), "· lesson 4:", first_fault(LayerNorm))

# %% tags=["hide-input"]
full = chart(ten)  # (20, 10)
first = full.isnan().int().argmin(1)  # (20,) where each fault is found first
marked = torch.where(torch.arange(10) == first[:, None], 2.0, full)
assert set(first.tolist()) == set(range(10)) and not full.isnan().all(1).any()
assert [int((full[:, ten.index(t)] == 1).sum()) for t in (options, layout)] == [11, 11]

# %% tags=["hide-input"]
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
    caption="Colored: the test finds the fault; 1st: no earlier test does. Twenty layers, each "
    "with one fault.",
    alt="A grid of twenty faults and ten tests. Every column has at least one cell marked 1st; "
    "rows has the most. Options and layout have the most colored cells, eleven each.",
)

# %% [markdown]
# **Predict 14.10:** `options` and `layout` find eleven of the twenty each, more than any other test. Why do they come last?
# - [ ] because they take longest :: Each of the ten takes about a millisecond.
# - [x] because a failure there says the least :: A layer that fails `layout` may be wrong in eleven ways. After nine other tests have passed, it fails for its memory layout.
# - [ ] because their faults are the rarest :: They find the most, so a layer that fails is likely to fail there.
#
# For each fault, count those that fail first at the same test: the suspects.


# %% tags=["hide-input"]
def suspects(order):
    """Return how many suspects the first failure leaves, on average over the twenty faults."""
    first = full[:, list(order)].isnan().int().argmin(1)  # (20,)
    return (first == first[:, None]).sum(1).double().mean().item()


# %%
show("suspects on average, in this order", suspects(range(10)), digits=1)
show("suspects on average, backwards", suspects(range(9, -1, -1)), digits=1)

# %% tags=["hide-input"]
g = torch.Generator().manual_seed(147)
shuffled = [suspects(torch.randperm(10, generator=g).tolist()) for _ in range(500)]
assert 4.5 < sum(shuffled) / 500 < 5.5 and suspects([0, 7, 5, 1, 2, 3, 4, 6, 8, 9]) < 3

# %% [markdown]
# In a random order it is about 5, and in some below 3. Two rules make this order:
#
# - **A test relies only on those before it.** `names` comes first, because `trial` needs parameters. `again` comes before `gradient`, because a layer that overwrites its input spoils every later comparison.
# - **Few changes at a time.** `rows` asks the plain question, and each later test changes one thing or a few, to which its failure points.
#
# Ten tests do not prove a layer right: they look at no GPU, no empty batch, no second derivative.

# %% [markdown]
# ## 14.6 Clinic: a norm from one page (optional, 45 min)
#
# Can you build a norm from formulas alone, and tell whether it is better? You get one page, as from a paper, without code. (The norm is made up for this lesson. At $\lambda = 1$ it is known as *cumulative layer normalization*, from Conv-TasNet, a network for speech.)
#
# > **TrailNorm: a norm with memory.** A token is normalized with the statistics of its trail: its own numbers and those of the tokens before it, the older the less.
# >
# > **Input.** $x \in \mathbb{R}^{T \times D}$, $T$ tokens $x_1, \dots, x_T$ of $D$ features, with any number of axes in front; different places of those axes have nothing to do with one another. **Constants.** $\lambda \in [0, 1]$ (decay), $\epsilon > 0$. **Parameters.** $\gamma, \beta \in \mathbb{R}^D$, called `weight` and `bias`, 1 and 0 at the start.
# >
# > $$w_{ts} = \frac{\lambda^{t-s}}{\sum_{r \le t} \lambda^{t-r}} \ \text{ for } s \le t, \quad 0 \text{ otherwise} \qquad (0^0 = 1)$$
# >
# > $$\mu_t = \sum_{s} w_{ts}\, \frac1D \sum_{d} x_{sd} \qquad v_t = \sum_{s} w_{ts}\, \frac1D \sum_{d} (x_{sd} - \mu_t)^2 \qquad y_{td} = \gamma_d\, \frac{x_{td} - \mu_t}{\sqrt{v_t + \epsilon}} + \beta_d$$
# >
# > **Types.** float32 and float64 are computed in their own type, float16 and bfloat16 in float32; the result has the type of $x$.
# >
# > **Worked example.** $\lambda = 1$, $x = \begin{pmatrix} 0 & 1 & 2 \\ 4 & 5 & 6 \end{pmatrix}$: $\mu_2 = 3$, $v_2 = \frac{14}{3}$, second row of $y$: 0.4629, 0.9258, 1.3887.
#
# **Predict 14.11:** which norm is it for $\lambda = 0$, and may a net that writes text use TrailNorm?
# - [ ] LayerNorm; no, because tokens are mixed :: They are, but only with tokens before them, which a net that writes may see.
# - [x] LayerNorm; yes :: Only $w_{tt} = 1$ remains, and for every $\lambda$ no weight reaches beyond $t$.
# - [ ] InstanceNorm; yes :: InstanceNorm takes its statistics over the tokens, for each feature.
#
# A double sum for every pair $(t, s)$ is not needed. For one token with mean $m_s$ and variance $v_s$ of its own,
#
# $$\frac1D \sum_d (x_{sd} - \mu_t)^2 = v_s + (m_s - \mu_t)^2$$
#
# (write $x_{sd} - \mu_t$ as $(x_{sd} - m_s) + (m_s - \mu_t)$; the mixed term sums to 0). [Several devices](06_batchnorm.ipynb#Several-devices) need the same sum.


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
        t = torch.arange(x.shape[-2])  # (T,)
        w = self.decay ** (t[:, None] - t).clamp(min=0).to(wide.dtype)  # (T, T) row t, column s
        w = w.tril() / w.tril().sum(-1, keepdim=True)  # (T, T)
        mu = w @ mean  # (..., T, 1)
        v = w @ var + (w * (mean.mT - mu) ** 2).sum(-1, keepdim=True)  # (..., T, 1)
        return ((wide - mu) / torch.sqrt(v + self.eps) * self.weight + self.bias).to(x.dtype)
        ### END SOLUTION


# %% tags=["check", "optional"]
check.trail_norm(TrailNorm)

# %% [markdown]
# <details><summary>Hint</summary>
#
# `mean_and_var` (lesson 2: yours, if it passed) gives $m$ and $v$ of every token, (..., T, 1) each. The weights are a (T, T) matrix, a row for each $t$: `t[:, None] - t` is $t-s$, `tril()` leaves $s \le t$, and each row is divided by its sum. Then $\mu$ is one matrix product.
# `mean.mT - mu` is the (T, T) table of $m_s - \mu_t$.
#
# </details>
#
# ### Put it into the GPT
#
# The character GPT of [lesson 11](11_transformer.ipynb) writes words, letter by letter. Here it has two blocks instead of twelve, and trains for 150 steps of 16 words with Adam at a rate of 0.003. Each run is one of a pair: the same words in the same order, and the same initial weights, because norms draw no random numbers. Nothing was tuned for any norm.
#
# Your norm meets LayerNorm, and the version of a colleague who has read the page in a hurry.

# %% tags=["optional", "hide-input"]
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
    """Mean over the letters, in nats."""
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten())


def whole(net):
    """Validation loss, the whole word given."""
    return cross_entropy(net(tokens[held]), targets[held]).item()


def prefix(net):
    """Validation loss, each letter from what comes before it."""
    last = [net(tokens[held, : t + 1])[:, -1] for t in range(16)]  # 16 times (256, 27)
    return cross_entropy(torch.stack(last, 1), targets[held]).item()


# fused=True is the same Adam with all parameters in one kernel: it saves a sixth of the time.
recipe = dict(
    seeds=range(2),
    loss=cross_entropy,
    optimizer=lambda p: torch.optim.Adam(p, lr=3e-3, fused=True),
    batches=batch,
    steps=150,
    every=150,
    evaluate={"whole word": whole, "prefix": prefix},
)


# %% tags=["optional"]
class HurriedNorm(nn.LayerNorm):
    """The colleague's version."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-2:], eps=self.eps) * self.weight + self.bias


# %% tags=["optional", "nbval-ignore-output"]
plain = train.compare({"LayerNorm": lambda: CharGPT(layers=2, norm=nn.LayerNorm)}, **recipe)
train.table(plain, "whole word", digits=2)

# %% tags=["optional", "nbval-ignore-output"]
hurried = train.compare({"HurriedNorm": lambda: CharGPT(layers=2, norm=HurriedNorm)}, **recipe)
train.table(hurried, "whole word", digits=2)

# %% [markdown]
# That is the loss on 256 words that were not trained on, in nats a letter. The hurried norm is clearly better, and it was so in all 32 pairs that were run for this lesson (two sets of validation words, 16 seeds each; by 0.11 to 0.23 nats).
#
# **Predict 14.12:** your diagnosis: what do you do with this result?
# - [ ] report it: 32 of 32 pairs are no accident :: They are no accident. But an effect can be certain and still have the wrong cause.
# - [ ] run more seeds :: The difference is several times as large as what the seeds change. Seeds cannot show what both numbers leave out.
# - [x] ask for the footprint: may the output for a letter depend on later letters? :: The norm takes its statistics over all tokens, so each letter is told something of those to come, and how long the word is.
#
# The table gave the net the whole word at once, as training does. When it *writes*, a net has only the letters so far. For a causal net, whose outputs depend on earlier tokens only, both losses are one number.

# %% tags=["optional", "nbval-ignore-output"]
train.table(plain | hurried, "prefix", digits=2)

# %% tags=["optional", "hide-input"]
end = {
    name: {key: history[key][:, -1] for key in ("whole word", "prefix")}
    for name, history in (plain | hurried).items()
}
gap = end["HurriedNorm"]["prefix"] - end["HurriedNorm"]["whole word"]  # (2,)
# causal: one number, up to float32 rounding
assert (end["LayerNorm"]["prefix"] - end["LayerNorm"]["whole word"]).abs().max() < 1e-4
# Per pair, 32 pairs: 0.17 to 0.90, 0.11 to 0.23, and 0.04 to 0.71
assert gap.min() > 0.05
assert (end["LayerNorm"]["whole word"] - end["HurriedNorm"]["whole word"]).min() > 0.03
assert (end["HurriedNorm"]["prefix"] - end["LayerNorm"]["prefix"]).mean() > 0.02

# %% tags=["optional", "nbval-ignore-output", "hide-input"]
plot.bars(
    {
        f"{name}, {key.split()[0]}": columns[key]
        for name, columns in end.items()
        for key in ("whole word", "prefix")
    },
    title="The norm that wins with the whole word in sight is worse when it has to write",
    x="validation loss (nats a letter)",
    xlim=(2.0, 3.0),
    colors={
        f"{name}, {key}": color
        for name, color in (("LayerNorm", "LayerNorm"), ("HurriedNorm", "none"))
        for key in ("whole", "prefix")
    },
    caption="Two blocks, 150 steps, batch 16, two paired seeds, 256 words that were not "
    "trained on. For the causal net the two losses are one number.",
    alt="Four rows of dots with whiskers, from 2 to 3 nats. LayerNorm is at about 2.4 "
    "with the whole word and with the prefix; HurriedNorm is near 2.2 with the whole word and "
    "above 2.4 with the prefix.",
)

# %% [markdown]
# **The better number is a bug.** Left with the prefix, the hurried norm is the worse of the two (in each of the 32 pairs). There was no error, no `nan`, a falling curve and a better loss. So when a result is too good, ask what the output may depend on.
#
# Now yours.

# %% tags=["optional", "nbval-ignore-output"]
own = train.compare({"TrailNorm": lambda: CharGPT(layers=2, norm=TrailNorm)}, **recipe)  # yours
train.table(plain | own, "prefix", digits=2)

# %% tags=["optional", "hide-input"]
trail = own["TrailNorm"]
assert (trail["prefix"] - trail["whole word"])[:, -1].abs().max() < 1e-4  # causal as well
# the 32 pairs: at most 0.0103
assert (trail["prefix"][:, -1] - end["LayerNorm"]["prefix"]).abs().max() < 0.05

# %% [markdown]
# With two blocks and 150 steps, TrailNorm and LayerNorm differed by at most 0.011 nats in 32 pairs, where the leak made 0.11 to 0.23 nats. Nobody should choose a norm for that. It is a result all the same, and its sentence needs all of its parts: *which data, which net, how many steps, how many seeds, paired or not, what was tuned for whom.*

# %% [markdown]
# ## Take-away
#
# - From a symptom to a cause: a **footprint** (what does this output depend on?), **random gains and biases** (a new layer hides what a trained one shows), a **table of parameters**, a **silent branch** (which skeleton remains?).
# - A cure is right when it does what the definition says, and not only when the symptom is gone.
# - Ten tests, each an input made for a fault, each relying only on those before it: then the first failure narrows the fault down.
# - Of the project: report a result with seeds and with what was held equal, and ask whether it is too good.

# %% [markdown]
# ## Deeper (optional, to look things up)
#
# ### Faults and what shows them
#
# Each fault that this course has treated, the place where it did, and the input or the question that shows it.
#
# | the fault | where | what shows it |
# |---|---|---|
# | eps that is 0 in float16 | [3.7](03_epsilon.ipynb#3.7-Clinic:-it-was-fine-in-float32) | a row of zeros in half precision |
# | names that no checkpoint knows | [4.5](04_affine_and_module.ipynb#4.5-The-module) | `load_state_dict` |
# | a checkpoint whose gains mean something else to the layer that loads it | [4.7](04_affine_and_module.ipynb#4.7-Clinic:-every-key-matched,-and-the-net-cannot-read) | gains of 3 and a row that is not constant |
# | a softmax over a row that is masked throughout | [5.6](05_softmax.ipynb#5.6-Clinic:-the-empty-sentence) | an empty sample in the batch, and the gradients |
# | BatchNorm told the wrong number of channels | [6.7](06_batchnorm.ipynb#6.7-Clinic:-the-error-that-went-away) | the length of `running_mean` |
# | gain outside the means, in a hand-written backward pass | [7.7](07_backward.ipynb#7.7-A-test-that-cannot-fail) | gains that differ from one another |
# | a norm over one feature | [8.7](08_geometry.ipynb#8.7-Clinic:-features-that-never-arrive) | two inputs, one output |
# | a sigmoid before the cross-entropy | [lesson 9](09_cnn.ipynb) | a loss that does not fall below 1.46 for ten classes |
# | `eval()` forgotten | [lesson 9](09_cnn.ipynb) | one image, alone and in company |
# | `normalized_shape` with the time in it | [lesson 10](10_rnn.ipynb) | change a later step, look at an earlier one |
# | the norm outside the recurrence | [lesson 10](10_rnn.ipynb) | the gradient through time |
# | two norms in a row | [lesson 11](11_transformer.ipynb) | is the input of a norm normalized already? |
# | Post-LN without warm-up, with 12 layers at a rate of 0.003 | [lesson 11](11_transformer.ipynb) | the first hundred steps |
# | the final norm is missing | [lesson 11](11_transformer.ipynb) | the size of the stream before the output layer |
# | `normalized_shape` with the batch in it | [lesson 12](12_family.ipynb) | change one sample, look at a different one |
# | a layer made anew at each call | [lesson 12](12_family.ipynb) | list the parameters |
# | padding counted in the statistics of a kernel | [lesson 13](13_speed.ipynb) | a width that is no power of two, rows away from 0 |
# | a softmax over an axis with one entry | [5, Deeper](05_softmax.ipynb#Along-which-axis) | do the weights sum to 1 along the axis that you mean? |
# | variance divided by D − 1 | [2.3](02_statistics.ipynb#2.3-Biased-or-not) | few features |
# | eps outside the root | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) | a row with standard deviation 0.001 |
# | one-pass variance | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) | a row far from 0, in float32 |
# | wrong axis on a square input | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows), [lesson 4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) | sizes that are all different |
# | gain that is not registered, or too late | [4.4](04_affine_and_module.ipynb#4.4-A-gain-that-is-never-trained), [4.5](04_affine_and_module.ipynb#4.5-The-module) | list the parameters |
# | statistics cut off from the gradient | [7.5](07_backward.ipynb#7.5-What-the-copy-has-lost) | compare with autograd, random gradient from above |
# | `reshape` where an axis must move | [14.1](#14.1-Every-size-fits) | a footprint |
# | padding that becomes the bias | [14.2](#14.2-Clean-until-it-has-learned) | random gains and biases |
# | gains drawn like weights | [14.3](#14.3-A-net-that-whispers) | a table of parameters |
# | the stream overwritten by its normalized self | [14.4](#14.4-Pre-LN-by-name) | silent branches |
# | a mean over the wrong axis of a network that was ported | [15.2](15_in_the_wild.ipynb#15.2-Over-which-axis) | one changed number |
# | the weights of two norms exchanged | [15.6](15_in_the_wild.ipynb#15.6-Clinic:-all-keys-matched,-once-more) | part by part, each on the original's input |
#
# ### Ten tests for a LayerNorm
#
# In the order of [section 14.5](#14.5-Ten-tests,-in-the-order-to-run-them).
#
# | | test | the input that exposes it | if this is the first to fail |
# |---|---|---|---|
# | 1 | names | none: list the parameters | not registered, frozen, other names or shapes |
# | 2 | rows | 5 features, standard deviations 1 to 0.001, random gain and bias, float64 | the formula: D − 1, eps, mean, bias before gain, type |
# | 3 | axes | three axes of different size | axis 1, time and features |
# | 4 | again | the same rows twice, others in between, `eval()` | it writes into its input, or keeps something |
# | 5 | gradient | random gain, random gradient from above | a path that is cut; a wrong backward pass |
# | 6 | offset | float32 rows around 10,000 | one-pass variance |
# | 7 | half | float16: entries of size 600; zeros with eps = 1e-8 | computed in half precision |
# | 8 | constant | a constant row, and its gradient | a root at 0 |
# | 9 | options | two axes, eps = 0.1, no gain and bias | arguments that are not used |
# | 10 | layout | a transposed tensor | `view` |
#
# ### Glossary
#
# Each term with one sentence, and the place that introduces it. A link opens the notebook; JupyterLab jumps to the section at the second click.
#
# | term | what it is | section |
# |---|---|---|
# | AdaLN | a norm whose gain and bias are functions of a condition | [lesson 12](12_family.ipynb) |
# | attention | an average of the values of the tokens that one may see (itself among them), weighted by a softmax of q · k | [lesson 11](11_transformer.ipynb) |
# | autocast | PyTorch's choice of a dtype for each operation | [3, Deeper](03_epsilon.ipynb#Autocast) |
# | autograd.Function | a class with a forward and a backward pass written by hand | [7.8](07_backward.ipynb#7.8-Your-line-in-PyTorch) |
# | BatchNorm | a norm with one mean and variance for each feature, taken over the batch | [6.2](06_batchnorm.ipynb#6.2-The-other-axis) |
# | bfloat16 | a number in 16 bits with the range of float32 and two digits | [3.5](03_epsilon.ipynb#3.5-Half-precision) |
# | bias | the learned number β added to each normalized feature | [4.1](04_affine_and_module.ipynb#4.1-One-gain-and-one-bias-for-each-feature) |
# | biased (variance) | the variance divided by D, which LayerNorm uses; the unbiased one is divided by D − 1 | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | brightness | the number that is added to every standardized pixel of an image | [lesson 9](09_cnn.ipynb) |
# | buffers | tensors of a layer that are saved and moved with it, and not trained | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | cache | small, fast memory close to the processor, for what was used last | [lesson 13](13_speed.ipynb) |
# | cache line | the piece of memory, 64 bytes on most processors, that is fetched and written back as one | [lesson 13](13_speed.ipynb) |
# | causal | seeing no later tokens: an output depends on its own token and on those before it | [lesson 11](11_transformer.ipynb) |
# | cell | in an LSTM: the second state, which only gates touch | [lesson 10](10_rnn.ipynb) |
# | channels | the features of a pixel or of a step of a sequence | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | checkpoint | what is saved of a model: its `state_dict`, names and tensors | [4.6](04_affine_and_module.ipynb#4.6-Checkpoints,-both-ways) |
# | contrast | the factor by which the standardized pixels of an image are multiplied | [lesson 9](09_cnn.ipynb) |
# | convex combination | an average with shares as weights | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | correction | PyTorch's argument for what is taken off D: 0 for the biased variance | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | DeepNorm | Post-LN with a factor α on the stream, and smaller weights in the branches at the start | [lesson 12](12_family.ipynb) |
# | dilation | the distance between the taps of a convolution's kernel, in pixels | [lesson 9](09_cnn.ipynb) |
# | dy | the gradient that arrives at a layer's output, from above | [7.1](07_backward.ipynb#7.1-Three-paths-back) |
# | DyT | a tanh with one learned factor, then gain and bias: in the place of a norm, and without statistics | [lesson 12](12_family.ipynb) |
# | effective learning rate | the rate at which the direction of weights before a norm turns: η/‖W‖² for plain SGD | [8.6](08_geometry.ipynb#8.6-The-length-of-weights-before-a-norm) |
# | eigenvalues | the factors by which a symmetric matrix stretches directions at right angles to one another | [8, Deeper](08_geometry.ipynb#The-spectrum-of-the-Jacobian) |
# | entropy | a number for how many keys an attention is spread over: ln n if all n count alike, 0 for a single one | [lesson 12](12_family.ipynb) |
# | epsilon, eps | the small number added to the variance under the root | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | float16, half precision | a number in 16 bits with three digits and a range from 6·10⁻⁸ to 65,504 | [3.5](03_epsilon.ipynb#3.5-Half-precision) |
# | fold | to put a layer's factors into the weights of a neighboring layer, so that the two compute the same | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | footprint | the places of the input on which one output depends | [14.1](#14.1-Every-size-fits) |
# | fused | several operations in one run over memory | [lesson 13](13_speed.ipynb) |
# | gain | the learned factor γ of each normalized feature, `weight` in PyTorch | [4.1](04_affine_and_module.ipynb#4.1-One-gain-and-one-bias-for-each-feature) |
# | gradcheck | PyTorch's comparison of a gradient with small differences of the output | [7.8](07_backward.ipynb#7.8-Your-line-in-PyTorch) |
# | gradgradcheck | the same as gradcheck, for the gradient of the gradient | [lesson 4, Deeper](04_affine_and_module.ipynb#Second-derivative-and-vmap) |
# | gradient | the derivatives of the loss, carried backwards from layer to layer | [1.4](01_why_normalize.ipynb#1.4-The-gradient-takes-the-same-road-back) |
# | GroupNorm | a norm with statistics for each group of channels of a sample | [6.6](06_batchnorm.ipynb#6.6-Four-norms,-one-formula) |
# | heads | attentions side by side, each with its own share of the features | [lesson 11](11_transformer.ipynb) |
# | hook | a function that PyTorch runs each time a layer is called | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | idempotent | doing nothing the second time | [8.2](08_geometry.ipynb#8.2-Two-moves-in-whole-numbers) |
# | InstanceNorm | a norm with statistics for each channel of each sample | [6.6](06_batchnorm.ipynb#6.6-Four-norms,-one-formula) |
# | internal covariate shift | the moving distribution of a layer's inputs during training; named as BatchNorm's reason, and not what explains it | [1.7](01_why_normalize.ipynb#1.7-The-story-that-everybody-tells) |
# | Jacobian | the matrix of all derivatives of a layer's outputs with respect to its inputs | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | Kaiming initialization | weights with standard deviation √(2/D), which keep the size of a signal through ReLU layers | [1.3](01_why_normalize.ipynb#1.3-Why-1.4?) |
# | LayerNorm, Layer Normalization | a norm with a mean and a variance for each row, then gain and bias; the same in training and evaluation | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | logits | what goes into a softmax: scores of any sign | [lesson 9](09_cnn.ipynb) |
# | mean | the sum of a row's numbers, divided by their number | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | momentum | in BatchNorm: the weight of the newest batch in the running statistics | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | nan | not a number: the result of 0/0, for instance, which spreads to all that touches it | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | non-temporal store | a store that goes past the caches, so that nothing is fetched before | [lesson 13](13_speed.ipynb) |
# | norm, normalization layer | a layer that gives its input a fixed mean and size, or a fixed size only, with numbers that it computes from the input | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | normalize | subtract the mean, divide by the root of the variance (plus eps) | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | normalized_shape | the sizes of the trailing axes that are normalized together | [4.3](04_affine_and_module.ipynb#4.3-Eight-lines,-for-any-trailing-shape) |
# | null direction | a direction in which a small step changes no output | [5.5](05_softmax.ipynb#5.5-The-same-numbers-in-the-derivatives) |
# | Numba | a compiler for Python loops over numbers | [lesson 13](13_speed.ipynb) |
# | one pass | the variance as E[x²] − E[x]², which loses its digits far from 0; two passes subtract the mean first | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | ONNX | a form for trained models that any framework can read: a list of operations, and constants | [15.1](15_in_the_wild.ipynb#15.1-A-model-is-a-list-of-operations) |
# | orthogonal projection | a matrix with PP = P and Pᵀ = P: it drops vectors straight down onto a flat set | [8.2](08_geometry.ipynb#8.2-Two-moves-in-whole-numbers) |
# | packed | a batch of sequences without its padding | [lesson 10](10_rnn.ipynb) |
# | page fault | a stop in which the system finds and clears fresh memory | [lesson 13](13_speed.ipynb) |
# | patches | the squares into which an image is cut, one token each | [lesson 11](11_transformer.ipynb) |
# | Peri-LN | norms before and after each branch | [lesson 12](12_family.ipynb) |
# | Post-LN | the norm after the sum, on the stream itself: LN(x + f(x)) | [lesson 11](11_transformer.ipynb) |
# | Pre-LN | the norm inside the branch, before its function: x + f(LN(x)) | [lesson 11](11_transformer.ipynb) |
# | QK-norm | a norm on queries and keys, inside attention | [lesson 12](12_family.ipynb) |
# | rank | the number of singular values that are not 0 | [5.5](05_softmax.ipynb#5.5-The-same-numbers-in-the-derivatives) |
# | re-centering | adding one vector to all rows of a weight matrix (or one number to data) | [8.5](08_geometry.ipynb#8.5-What-four-norms-do-not-see) |
# | reduce | to take the mean, sum or variance over an axis, which then has size 1 or is gone | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows) |
# | residual connection | a way around a layer: its input is added to its output | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | residual stream | what runs from block to block and only gets added to | [lesson 11](11_transformer.ipynb) |
# | rms | root mean square: the root of the mean of the squares | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | RMSNorm | a norm that divides by the rms and subtracts no mean | [8.4](08_geometry.ipynb#8.4-RMSNorm:-the-sphere-alone) |
# | row | the D numbers of one sample or token, which are normalized together | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | rstd | one over the root of variance plus eps | [7.2](07_backward.ipynb#7.2-Forward-with-four-numbers) |
# | running statistics | averages of BatchNorm's means and variances over the batches, used in evaluation | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | ScaleNorm | RMSNorm with one gain for all features | [lesson 12](12_family.ipynb) |
# | seed | the number that a random generator starts from; results are reported over several | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | shares | numbers from 0 to 1 that sum to 1 | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | signal | the numbers that a network hands from layer to layer for one input | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | singular values | the factors by which a matrix stretches directions at right angles to one another | [5.5](05_softmax.ipynb#5.5-The-same-numbers-in-the-derivatives) |
# | skeleton | what is left of a block when its branches are silent | [14.4](#14.4-Pre-LN-by-name) |
# | skewness | the mean of the normalized values cubed: 0 for symmetric shapes | [2.5](02_statistics.ipynb#2.5-The-shape-of-a-row) |
# | skip | the way around a function: x + f(x) | [lesson 11](11_transformer.ipynb) |
# | softmax | exponentials of a row divided by their sum: shares between 0 and 1 | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | spectral norm | the largest factor by which a matrix stretches a vector | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | spectrum | all eigenvalues of a matrix, with how often each occurs | [8, Deeper](08_geometry.ipynb#The-spectrum-of-the-Jacobian) |
# | sphere | the points at one distance from the origin; √D for a normalized row at eps = 0 | [8.2](08_geometry.ipynb#8.2-Two-moves-in-whole-numbers) |
# | standardize | subtract the mean and divide by the standard deviation | [1.5](01_why_normalize.ipynb#1.5-Standardize) |
# | state | what a recurrent net hands from one step to the next | [lesson 10](10_rnn.ipynb) |
# | state_dict | the dictionary from names to tensors that a module saves and loads | [4.6](04_affine_and_module.ipynb#4.6-Checkpoints,-both-ways) |
# | stride | the step by which a convolution's kernel moves on | [lesson 9](09_cnn.ipynb) |
# | summed input | what a recurrent unit adds up from input and state, before its nonlinearity | [lesson 10](10_rnn.ipynb) |
# | SyncBatchNorm | BatchNorm that exchanges its statistics between devices | [6, Deeper](06_batchnorm.ipynb#Several-devices) |
# | temperature | what the scores are divided by before a softmax | [5.3](05_softmax.ipynb#5.3-What-each-of-them-cannot-see) |
# | token | one position of a sequence: a word, a letter, or a patch of an image | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | variance | the mean squared distance from the mean; its root is the standard deviation σ | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | warm-up | a learning rate that rises from 0 over the first steps | [lesson 11](11_transformer.ipynb) |
# | weight decay | pulling parameters towards 0 at every step | [lesson 4, Deeper](04_affine_and_module.ipynb#Weight-decay-and-the-gain) |
# | weight scale | the factor on the standard deviation 1/√D of freshly drawn weights | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | WeightNorm | dividing each weight vector by its length, without a look at the data; a learned factor may set a new one | [8.5](08_geometry.ipynb#8.5-What-four-norms-do-not-see) |
# | Welford | a way to update mean and variance number by number, which never gives a negative variance | [3, Deeper](03_epsilon.ipynb#Welford-or-two-passes?) |
# | word | one number, as the unit in which memory traffic is counted | [lesson 13](13_speed.ipynb) |
# | x_hat | the normalized row, before gain and bias | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
#
# ### Index of misconceptions
#
# What is often said, what holds, and the place that settles it.
#
# | often said | what holds | section |
# |---|---|---|
# | LayerNorm averages across the batch | Statistics across the batch are BatchNorm's | [6.2](06_batchnorm.ipynb#6.2-The-other-axis) |
# | the normalized axis is axis 1, in every layout | LayerNorm normalizes the last axes, and a square input hides a wrong one | [lesson 4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | nn.LayerNorm(C) works on images (B, C, H, W) | nn.LayerNorm(C) takes the last axis, on NCHW images the width | [lesson 4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | per-pixel LayerNorm, LayerNorm([C, H, W]) and GroupNorm(1, C) are one thing | Per pixel, [C, H, W] and GroupNorm(1, C) are three different things | [lesson 4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | GroupNorm(1, C) is LayerNorm | On (N, C) it is; on images its statistics are LayerNorm([C, H, W])'s, and its gains one a channel | [lesson 4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | x.shape[2:] is everything but the batch | x.shape[2:] gives Instance Normalization | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | in a sequence all time steps are normalized together | Normalizing over time and features lets the future leak into the past | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | the statistics are taken per training example | Statistics are per position, not per training example | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | normalized_shape is the shape of x | normalized_shape must not hold the batch axis | [lesson 9](09_cnn.ipynb) |
# | the argument is the number of an axis, as in softmax | normalized_shape is a size, not an axis number | [5, Deeper](05_softmax.ipynb#Along-which-axis) |
# | LayerNorm([C, H, W]) drops into any convolutional net | LayerNorm([C, H, W]) ties a net to one image size | [lesson 4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | the output size of a convolution is a plain quotient | Plain division or rounding gives wrong convolution sizes | [lesson 9](09_cnn.ipynb) |
# | equal sizes make a good example | Equal sizes in an example hide a wrong axis | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows) |
# | an assert that compares normalized_shape with a slice of x.shape is enough | normalized_shape must be made a tuple before it is compared, and a mismatch must raise | [4.3](04_affine_and_module.ipynb#4.3-Eight-lines,-for-any-trailing-shape) |
# | BatchNorm cannot be used on sequences | BatchNorm1d wants (B, C, T): on (B, T, C) it fails, or is silently wrong if T = C | [6.7](06_batchnorm.ipynb#6.7-Clinic:-the-error-that-went-away) |
# | any variance will do | torch.var divides by D - 1 unless told otherwise | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | divide by σ + ε | eps added to the deviation changes small rows | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) |
# | ε is a detail | eps must travel with the weights | [3.4](03_epsilon.ipynb#3.4-Which-epsilon-travels-with-which-weights) |
# | the output has variance 1 | The output variance is v/(v+eps), below 1 | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | a small enough ε makes the values as large as one likes | No value is larger than the root of D - 1, up to rounding, whatever eps is | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | no ε is needed | Without eps a constant row gives nan, or noise where its mean is rounded | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | a norm over one or two features normalizes them | LayerNorm over one feature gives zero before the bias, over two a sign where ε is negligible | [8.3](08_geometry.ipynb#8.3-Two-features,-and-one) |
# | LayerNorm makes activations Gaussian, or puts them between −1 and 1 | Normalizing makes nothing Gaussian and confines nothing to [-1, 1] | [2.5](02_statistics.ipynb#2.5-The-shape-of-a-row) |
# | after LayerNorm every row sums to 0 | Row sums are 0 only before gain and bias | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | E[x²] − E[x]² is the same formula | E[x^2] - E[x]^2 is not the same formula in floating point | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | an ε of 1e-8 is safe in half precision | An eps of 1e-8 is zero in float16 | [3.7](03_epsilon.ipynb#3.7-Clinic:-it-was-fine-in-float32) |
# | equal printed digits show that two layers agree | Equal printed digits do not decide whether two layers agree | [5, Deeper](05_softmax.ipynb#The-digit-that-depends-on-rounding) |
# | a right shape on zeros is a test | A shape test on zeros passes most wrong layers | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) |
# | gain and bias have shape (C,) | Gains have the normalized shape, not always (C,) | [4.3](04_affine_and_module.ipynb#4.3-Eight-lines,-for-any-trailing-shape) |
# | the constructor takes the initial gain and bias | The constructor takes no initial values | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | without gain and bias one only skips the multiplication | elementwise_affine=False registers no parameters | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | the names of the parameters do not matter | Parameter names decide whether a checkpoint loads | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | weight decay on the gain is harmless | Weight decay pulls gains to 0: leaving them out is a convention | [lesson 4, Deeper](04_affine_and_module.ipynb#Weight-decay-and-the-gain) |
# | bias=False makes it an RMSNorm | bias=False is not RMSNorm | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | gain and bias are essential for the capacity | Directly before a Linear with a bias they add no function | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | a bias in front of LayerNorm is redundant | A bias before LayerNorm is not redundant, before BatchNorm it is | [6, Deeper](06_batchnorm.ipynb#What-the-layer-before-it-feels) |
# | LayerNorm folds into the layer before it, as BatchNorm does | LayerNorm cannot be folded into the layer before it | [6, Deeper](06_batchnorm.ipynb#Folding-a-BatchNorm-away) |
# | LayerNorm changes in eval() | LayerNorm has no running statistics | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | BatchNorm fails when there are few batches | Small batches widen BatchNorm's gap at any number of batches, few batches only until its running statistics settle | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | with several devices BatchNorm sees the whole batch | Averaging variances of devices is not the variance of the whole | [6, Deeper](06_batchnorm.ipynb#Several-devices) |
# | in the backward pass mean and deviation are constants | Mean and deviation are not constants in the backward pass | [7.5](07_backward.ipynb#7.5-What-the-copy-has-lost) |
# | LayerNorm kills the gradient | A sum of outputs has no gradient: test with random weights | [7.7](07_backward.ipynb#7.7-A-test-that-cannot-fail) |
# | a LayerNorm after an RNN normalizes the recurrence | LayerNorm outside the recurrence does not change the gradient through time | [lesson 10](10_rnn.ipynb) |
# | norm_first needs nothing else | A Pre-LN stack ends in the bare stream: the final norm is yours to add | [lesson 11](11_transformer.ipynb) |
# | overriding __call__, or calling forward, is the same as calling the module | Define forward and call the module: hooks hang on the call | [4.5](04_affine_and_module.ipynb#4.5-The-module) |
# | a sigmoid suits a ten-class cross-entropy | Sigmoid before cross-entropy keeps the loss above a floor | [lesson 9](09_cnn.ipynb) |
# | types of input and parameters mix freely | Half-precision input may meet float32 parameters, and nothing else mixes | [lesson 4, Deeper](04_affine_and_module.ipynb#Types-that-may-meet) |
# | with LayerNorm the rest of the batch does not matter, bit for bit | The norm is batch-invariant bit for bit; the matrix product beside it need not be | [6, Deeper](06_batchnorm.ipynb#Bit-for-bit) |
# | a band in a figure speaks for itself | A band needs its estimator, its n, and what varies | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | one seed at the top makes every later cell repeatable | One seed at the top does not fix later draws | [2, Deeper](02_statistics.ipynb#A-published-notebook,-read-with-care) |
# | activations shoot up because of sharp minima | Activations shoot up with the weight scale, already before training | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | PyTorch's LayerNorm is out of reach, deep in generated code | PyTorch ships a readable reference of its LayerNorm | [lesson 4, Deeper](04_affine_and_module.ipynb#The-source-on-your-disk) |
# | a layer that is called LayerNorm takes its mean over the features | The name says nothing of the axis: ask with one changed number | [15.2](15_in_the_wild.ipynb#15.2-Over-which-axis) |
# | a port whose labels agree is right | Labels of clear cases agree under a wrong eps as well: compare scores | [15.4](15_in_the_wild.ipynb#15.4-What-each-convention-is-worth) |
#
# ## On your own
#
# 1. Add an eleventh test for the second derivative ([lesson 7](07_backward.ipynb)). Which of the twenty layers does it find? Does any layer fail it alone?
# 2. Break a layer of your own in a way that passes all ten tests. Then write the test.
#
# ## Further reading
#
# - Ba, Kiros & Hinton (2016), *Layer Normalization*, eq. 3; Xiong et al. (2020), *On Layer Normalization in the Transformer Architecture*, figure 1.
# - Luo & Mesgarani (2019), *Conv-TasNet*: cumulative layer normalization, the case $\lambda = 1$ of the project.
# - A. Karpathy (2019), [*A Recipe for Training Neural Networks*](https://karpathy.github.io/2019/04/25/recipe/).

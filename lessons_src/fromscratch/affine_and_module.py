"""What lesson 4 builds: LayerNorm, OldNorm, layer_norm, normalize_over.

Made by coursebuild from lessons_src/lessons/04_affine_and_module/lesson.py: edit the lesson, not this file.
"""

from numbers import Integral
from torch import nn
from torch.nn import functional as F
import torch


# The colleague's layer and net: do not look.
class OldNorm(nn.Module):
    """Section 4.5 asks what it does."""

    def __init__(self, D):
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:]) * (1 + self.gain) + self.offset


def _make_net(norm):
    """Four layers of 64 units, each with a norm, between 64 pixels and 10 scores; float64."""
    blocks = [nn.Sequential(nn.Linear(64, 64), norm(64), nn.ReLU()) for _ in range(4)]
    return nn.Sequential(nn.Flatten(), *blocks, nn.Linear(64, 10)).double()


def _old_net(digits):
    """Return a net of OldNorm after five epochs with plain SGD and momentum."""
    torch.manual_seed(4)
    net, g = _make_net(OldNorm), torch.Generator().manual_seed(4)
    x_train = digits.x_train.double()  # (1297, 8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    for _ in range(5):
        for batch in torch.randperm(len(x_train), generator=g).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x_train[batch]), digits.y_train[batch]).backward()
            optimizer.step()
    return net


def _accuracy(net, digits):
    """Return the share of the test digits that a net reads, 0 to 1."""
    scores = net(digits.x_test.double())  # (500, 10)
    return (scores.argmax(-1) == digits.y_test).double().mean().item()


def normalize_over(x, sizes, eps=1e-5):
    """Normalize the last axes of x together; they have these sizes.

    Example: the block 0, 1 over 2, 5 with sizes=(2, 2), eps=0.5 gives -1, -0.5 over 0, 1.5.
    x: (..., *sizes) float32 or float64. sizes: a tuple. Returns x's shape and dtype.
    eps is added to the biased variance, under the root.
    """
    axes = tuple(range(-len(sizes), 0))  # (-1,), (-2, -1), ...
    c = x - x.mean(axes, keepdim=True)
    c = c - c.mean(axes, keepdim=True)  # what rounding left of the mean
    var = (c * c).mean(axes, keepdim=True)
    return c / torch.sqrt(var + eps)


# Makes a tuple of normalized_shape.
def _sizes(normalized_shape):
    """Return normalized_shape as a tuple of whole numbers: (4,) for 4, (3, 4) for [3, 4]."""
    try:
        sizes = (
            (normalized_shape,)
            if isinstance(normalized_shape, Integral)
            else tuple(normalized_shape)
        )
        whole = all(isinstance(size, Integral) for size in sizes)
    except TypeError:
        whole = False
    if not whole:
        raise TypeError(
            f"normalized_shape is {normalized_shape!r}, expected a whole number or several: "
            "4, (3, 4) or x.shape[1:]."
        )
    if not sizes:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
            "one element, but got normalized_shape = []. To normalize the last axis of x, "
            "write x.shape[-1]."
        )
    if min(sizes) < 0:
        raise RuntimeError(
            f"normalized_shape = {list(sizes)} holds a negative size. It lists the sizes of "
            "the last axes, not their numbers: for the last axis of x, write x.shape[-1]."
        )
    return tuple(int(size) for size in sizes)


# Refuses shapes and types that do not fit.
def _check_inputs(x, sizes, weight, bias):
    """Raise an error for a wrong kind of argument, a wrong shape, mixed types, no float."""
    for name, tensor in (("x", x), ("weight", weight), ("bias", bias)):
        if not isinstance(tensor, torch.Tensor) and (name == "x" or tensor is not None):
            raise TypeError(
                f"{name} is of type {type(tensor).__name__}, expected a tensor. "
                f"Write torch.tensor({name})."
            )
    if tuple(x.shape[-len(sizes) :]) != sizes:
        wanted = ", ".join(map(str, sizes))
        raise RuntimeError(
            f"Given normalized_shape=[{wanted}], expected input with shape [*, {wanted}], but "
            f"got input of size {list(x.shape)}. The last axes of x are normalized: write "
            "their sizes, or move the axes you mean to the end with x.movedim."
        )
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != sizes:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of "
                f"shape {list(tensor.shape)} and normalized_shape = {list(sizes)}. Give one "
                "number to each normalized element."
            )
    types = {tensor.dtype for tensor in (weight, bias) if tensor is not None}
    half = x.dtype in (torch.float16, torch.bfloat16)
    if types and types != {x.dtype} and not (half and types == {torch.float32}):
        names = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise RuntimeError(
            f"mixed dtype: x is {str(x.dtype).removeprefix('torch.')}, weight and bias are "
            f"{names}. Expected one type for all, or float32 parameters with float16 or "
            "bfloat16 x. Convert x with x.to(weight.dtype), or the layer."
        )
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise NotImplementedError(
            f"layer_norm is not implemented for {x.dtype}. Convert x first, with x.float()."
        )


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axes of x, with your normalize_over.

    Example: x = [0, 1, 2, 5], 4, weight = [2, 2, 2, 2], eps=0.5 gives [-2, -1, 0, 3].
    x: (..., *normalized_shape), any float type. Returns x's shape and type.
    weight, bias: of shape normalized_shape, or None, each for itself.
    Half precision becomes float32 and is rounded once, at the end; float64 stays float64.
    """
    sizes = _sizes(normalized_shape)  # a tuple, (4,) or (3, 4)
    _check_inputs(x, sizes, weight, bias)
    x = x.contiguous()  # a transposed x gives a result in plain order, as PyTorch's
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
    y = normalize_over(wide, sizes, eps)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype)


class LayerNorm(nn.Module):
    """LayerNorm with a learned gain and bias, as torch.nn.LayerNorm has it.

    Example: LayerNorm((3, 4), bias=False) has a weight of shape (3, 4), all 1; bias is None.
    normalized_shape: sizes of the last axes, an int, a list, a tuple or a torch.Size.
    weight, bias: Parameters of that shape, first 1 and 0, or None, registered.
    elementwise_affine=False: neither, whatever bias says. bias=False: a gain alone.
    device, dtype: where and as what they are made.
    """

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        parameters = {"weight": elementwise_affine, "bias": elementwise_affine and bias}
        for name, wanted in parameters.items():
            parameter = None
            if wanted:
                parameter = nn.Parameter(
                    torch.empty(self.normalized_shape, device=device, dtype=dtype)
                )
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the gain to 1 and the bias to 0, where there are any."""
        for name, parameter in self.named_parameters():
            nn.init.constant_(parameter, 1.0 if name == "weight" else 0.0)

    def forward(self, x):
        """x: (..., *normalized_shape), else an error. Calls your layer_norm, not PyTorch's."""
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        start = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine="
        return f"{start}{self.elementwise_affine}, bias={self.bias is not None}"

"""Answers to the exercises of lesson 4: what people write, right and wrong.

The layers of the five public tutorials that the course answers are here too, in our own words and by their titles:
"Layer Normalization in Pytorch (With Examples)", "Layer Normalization" (notes by Rico), "How is layer normalization
implemented in PyTorch?", labml.ai's annotated LayerNorm, "Lecture 20: Layer Normalization".
"""

import torch
from torch import nn
from torch.nn import functional as F

# ---- Functions: right ------------------------------------------------------------------------------------------------


def short_centered_squares(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    mean = x.mean(axes, keepdim=True)
    c = x - mean
    var = (c * c).mean(axes, keepdim=True)
    return c / torch.sqrt(var + eps) * weight + bias


def short_var_mean(x, normalized_shape, weight, bias, eps=1e-5):
    dims = [-1 - i for i in range(len(normalized_shape))]
    var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(var + eps), weight)


def short_flattened(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.flatten(-len(normalized_shape))
    rows = rows - rows.mean(-1, keepdim=True)
    rows = rows / (rows.square().mean(-1, keepdim=True) + eps) ** 0.5
    return rows.reshape(x.shape) * weight + bias


def checked(x, normalized_shape, weight, bias):
    """What the lesson gives the learner: normalized_shape as a tuple, and errors for what does not fit."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(f"normalized_shape is {shape}, but x has shape {tuple(x.shape)}")
    for parameter in (weight, bias):
        if parameter is not None and tuple(parameter.shape) != shape:
            raise RuntimeError(f"a parameter has shape {tuple(parameter.shape)}, expected {shape}")
    if not x.is_floating_point():
        raise NotImplementedError(f"layer_norm is for floating-point tensors, not for {x.dtype}")
    return shape, tuple(range(-len(shape), 0))


def own(statistics=None, axes=None, scale=None, affine=None, wide=True, narrow=True, eps_is=None):
    """Return a layer_norm with the given arguments handled as in the lesson, and some steps as given.

    statistics: (x, axes) -> (what is divided, variance). scale: (c, var, eps) -> x_hat. affine: (x_hat, w, b) -> y.
    """

    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        shape, over = checked(x, normalized_shape, weight, bias)
        over = axes(x, shape) if axes else over
        eps = eps if eps_is is None else eps_is
        z = x.to(torch.promote_types(x.dtype, torch.float32)) if wide else x
        c, var = (statistics or centered)(z, over)
        x_hat = scale(c, var, eps) if scale else c / torch.sqrt(var + eps)
        y = (affine or gain_and_bias)(x_hat, weight, bias)
        return y.to(x.dtype) if narrow else y

    return layer_norm


def centered(x, axes):
    c = x - x.mean(axes, keepdim=True)
    return c, (c * c).mean(axes, keepdim=True)


def centered_twice(x, axes):
    c = x - x.mean(axes, keepdim=True)
    c = c - c.mean(axes, keepdim=True)
    return c, (c * c).mean(axes, keepdim=True)


def unbiased(x, axes):
    return x - x.mean(axes, keepdim=True), x.var(axes, keepdim=True)


def mean_twice(x, axes):
    c = x - x.mean(axes, keepdim=True) - x.mean(axes, keepdim=True)
    return c, (c * c).mean(axes, keepdim=True)


def one_pass(x, axes):
    mean = x.mean(axes, keepdim=True)
    return x - mean, (x**2).mean(axes, keepdim=True) - mean**2


def not_centered(x, axes):
    return x, x.var(axes, correction=0, keepdim=True)


def mean_square(x, axes):
    return x, x.square().mean(axes, keepdim=True)


def frozen(x, axes):
    mean, var = x.mean(axes, keepdim=True).detach(), x.var(axes, correction=0, keepdim=True).detach()
    return x - mean, var


def gain_and_bias(x_hat, weight, bias):
    if weight is not None:
        x_hat = x_hat * weight
    if bias is not None:
        x_hat = x_hat + bias
    return x_hat


def outside(c, var, eps):
    return c / (var.sqrt() + eps)


def by_pytorch(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape, _ = checked(x, normalized_shape, weight, bias)
    return F.layer_norm(x, shape, weight, bias, eps)


def by_pytorch_kernel(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape, _ = checked(x, normalized_shape, weight, bias)
    return torch.native_layer_norm(x, shape, weight, bias, eps)[0]


def whole_flattened(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape, _ = checked(x, normalized_shape, weight, bias)
    rows = x.flatten(-len(shape))
    rows = rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
    var, mean = torch.var_mean(rows, -1, correction=0, keepdim=True)
    y = ((rows - mean) / (var + eps).sqrt()).reshape(x.shape)
    y = y if weight is None else weight * y
    return (y if bias is None else bias + y).to(x.dtype)


def no_autocast_type(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape, axes = checked(x, normalized_shape, weight, bias)
    type_ = torch.float64 if x.dtype == torch.float64 else torch.float32
    x_hat = sum(centered_twice(x.to(type_), axes)[:1])
    x_hat = x_hat * torch.rsqrt((x_hat**2).mean(axes, keepdim=True) + eps)
    weight = torch.ones(shape, dtype=type_, device=x.device) if weight is None else weight
    bias = torch.zeros(shape, dtype=type_, device=x.device) if bias is None else bias
    return (x_hat * weight + bias).to(x.dtype)


# ---- Functions: wrong ------------------------------------------------------------------------------------------------


def notes_by_rico(x, normalized_shape, weight=None, bias=None):
    return own(eps_is=1e-8)(x, normalized_shape, weight, bias)


def article(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Axis 1, and eps beside the deviation."""
    return own(axes=lambda x, shape: 1, scale=outside)(x, normalized_shape, weight, bias, eps)


def annotated_by_labml(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    assert normalized_shape == x.shape[-len(normalized_shape) :]
    axes = [-(i + 1) for i in range(len(normalized_shape))]
    c, var = one_pass(x, axes)
    return gain_and_bias(c / torch.sqrt(var + eps), weight, bias)


def lecture_20(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """The last axis, whatever the shape."""
    c, var = x - x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return weight * (c / torch.sqrt(var + eps)) + bias


def annotated_transformer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + bias


def only_with_both(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = own()(x, normalized_shape, None, None, eps)
    return y * weight + bias if weight is not None and bias is not None else y


def bias_only_with_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = own()(x, normalized_shape, None, None, eps)
    if weight is not None:
        y = y * weight
        if bias is not None:
            y = y + bias
    return y


def never_none(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return own()(x, normalized_shape, None, None, eps) * weight + bias


def tuples_only(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if not isinstance(normalized_shape, tuple):
        raise TypeError("a tuple, please")
    return by_pytorch(x, normalized_shape, weight, bias, eps)


def no_int(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    assert axes
    return by_pytorch(x, normalized_shape, weight, bias, eps)


def no_list(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if isinstance(normalized_shape, int):
        normalized_shape = (normalized_shape,)
    assert normalized_shape == x.shape[-len(normalized_shape) :]
    return by_pytorch(x, normalized_shape, weight, bias, eps)


def viewed(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape, _ = checked(x, normalized_shape, weight, bias)
    c, var = centered(x.view(-1, *shape).view(-1, int(torch.Size(shape).numel())), -1)
    return gain_and_bias((c / torch.sqrt(var + eps)).view(x.shape), weight, bias)


def assertions(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    assert x.shape[-len(shape) :] == shape, "shapes differ"
    assert weight is None or weight.shape == shape
    assert x.is_floating_point()
    return by_pytorch(x, shape, weight, bias, eps)


def nothing_refused(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    c, var = centered(x.to(torch.promote_types(x.dtype, torch.float32)), tuple(range(-len(shape), 0)))
    return gain_and_bias(c / torch.sqrt(var + eps), weight, bias).to(x.dtype)


def scalar_gain_passes(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape, _ = checked(x, normalized_shape, None, bias)
    return own()(x, shape, None if weight is None else weight.expand(shape), bias, eps)


def in_place(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    _, axes = checked(x, normalized_shape, weight, bias)
    x -= x.mean(axes, keepdim=True)
    return gain_and_bias(x / torch.sqrt((x * x).mean(axes, keepdim=True) + eps), weight, bias)


def numbers_out(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """A branch on values, which vmap cannot take."""
    y = by_pytorch(x, normalized_shape, weight, bias, eps)
    return y if y.numel() == 0 or y.isfinite().all().item() else y.nan_to_num()


def centered_in_half(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    _, axes = checked(x, normalized_shape, weight, bias)
    c = (x - x.mean(axes, keepdim=True)).to(torch.promote_types(x.dtype, torch.float32))
    return gain_and_bias(c / torch.sqrt((c * c).mean(axes, keepdim=True) + eps), weight, bias).to(x.dtype)


def gain_in_half(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = own()(x, normalized_shape, None, None, eps)
    checked(x, normalized_shape, weight, bias)
    return gain_and_bias(y, *(None if p is None else p.to(x.dtype) for p in (weight, bias)))


class Frozen(torch.autograd.Function):
    """dx by hand, with x_hat and rstd as constants."""

    @staticmethod
    def forward(ctx, x, axes, eps):
        c, var = centered(x, axes)
        ctx.axes, ctx.rstd = axes, torch.rsqrt(var + eps)
        ctx.x_hat = c * ctx.rstd
        return ctx.x_hat.clone()

    @staticmethod
    def backward(ctx, dy):
        across = dy.mean(ctx.axes, keepdim=True) + ctx.x_hat * (dy * ctx.x_hat).mean(ctx.axes, keepdim=True)
        return ctx.rstd * (dy - across), None, None


def by_hand_written_backward(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    _, axes = checked(x, normalized_shape, weight, bias)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return gain_and_bias(Frozen.apply(wide, axes, eps), weight, bias).to(x.dtype)


def one_step(**parts):
    """The short version with one step changed."""
    whole = own(**parts)
    return lambda x, normalized_shape, weight, bias, eps=1e-5: whole(x, normalized_shape, weight, bias, eps)


FORMULA = {
    "unbiased": (dict(statistics=unbiased), "divides by D - 1"),
    "eps outside": (dict(scale=outside), "eps is added to the deviation"),
    "eps outside and unbiased": (dict(statistics=unbiased, scale=outside), "two at once"),
    "eps 1e-8 (notes by Rico)": (dict(eps_is=1e-8), "fixed at 1e-8"),
    "eps hard-coded": (dict(eps_is=1e-5), "use the argument eps"),
    "no eps": (dict(eps_is=0.0), "no eps"),
    "divided by the variance": (dict(scale=lambda c, var, eps: c / (var + eps)), "divides by the variance"),
    "the last axis only (Lecture 20)": (dict(axes=lambda x, shape: -1), "only the last axis"),
    "all but the batch": (dict(axes=lambda x, shape: tuple(range(1, x.dim()))), "all but the first"),
    "x.shape[2:]": (dict(axes=lambda x, shape: tuple(range(2, x.dim())) or (-1,)), "x.shape[2:]"),
    "axis 1": (dict(axes=lambda x, shape: 1), "axis 1"),
    "axis 1 and eps outside (the article)": (dict(axes=lambda x, shape: 1, scale=outside), "two at once: axis 1"),
    "the batch axis": (dict(axes=lambda x, shape: 0), "batch axis"),
    "everything": (dict(axes=lambda x, shape: tuple(range(x.dim()))), "every axis"),
    "from the front": (dict(axes=lambda x, shape: tuple(range(len(shape)))), "Count from the end"),
    "not centered": (dict(statistics=not_centered), "not subtracted"),
    "RMSNorm": (dict(statistics=mean_square), "RMSNorm"),
    "statistics detached": (dict(statistics=frozen), "gradient of x"),
    "sizes as axes": (dict(axes=lambda x, shape: shape), "holds sizes, not axis numbers"),
    "one axis of several": (dict(axes=lambda x, shape: -len(shape)), "one axis is normalized"),
    "range(-k, -1)": (dict(axes=lambda x, shape: tuple(range(-len(shape), -1))), "ends before the last axis"),
    "the axes in front": (dict(axes=lambda x, shape: tuple(range(x.dim() - len(shape)))), "axes in front"),
    "axes looked up by size": (
        dict(axes=lambda x, shape: [i for i, n in enumerate(x.shape) if n in shape]),
        "(4, 3, 4)",
    ),
    "the mean of x twice": (dict(statistics=mean_twice), "subtracted twice"),
    "squares summed": (
        dict(statistics=lambda x, axes: (centered(x, axes)[0], centered(x, axes)[0].square().sum(axes, keepdim=True))),
        "squares are summed",
    ),
    "squares of x": (
        dict(statistics=lambda x, axes: (centered(x, axes)[0], x.square().mean(axes, keepdim=True))),
        "squares of x are averaged",
    ),
    "variance of the last axis": (
        dict(statistics=lambda x, axes: (centered(x, axes)[0], centered(x, axes)[0].square().mean(-1, keepdim=True))),
        "the variance over the last alone",
    ),
    "eps behind the division": (dict(scale=lambda c, var, eps: c / var.sqrt() + eps), "behind the division"),
    "eps squared": (dict(scale=lambda c, var, eps: c / (var + eps**2).sqrt()), "eps is squared"),
    "eps as a floor": (dict(scale=lambda c, var, eps: c / var.clamp(min=eps).sqrt()), "a floor"),
    "multiplied": (dict(scale=lambda c, var, eps: c * (var + eps).sqrt()), "multiplies by the deviation"),
    "weight added": (dict(affine=lambda y, w, b: (y + w) * b), "bias multiplies"),
    "bias first": (dict(affine=lambda y, w, b: (y + b) * w if b is not None else gain_and_bias(y, w, b)), "comes last"),
    "swapped": (dict(affine=lambda y, w, b: y * b + w if b is not None else gain_and_bias(y, w, b)), "swapped"),
    "no affine part": (dict(affine=lambda y, w, b: y), "are not used"),
    "bias forgotten": (dict(affine=lambda y, w, b: gain_and_bias(y, w, None)), "bias is not added"),
    "one plus weight": (dict(affine=lambda y, w, b: gain_and_bias(y, None if w is None else 1 + w, b)), "1 + weight"),
    "one gain for all": (
        dict(
            affine=lambda y, w, b: gain_and_bias(
                y, None if w is None else w.flatten()[0], None if b is None else b.flatten()[0]
            )
        ),
        "one number each",
    ),
    "all in float32": (dict(affine=lambda y, w, b: gain_and_bias(y.float().to(y.dtype), w, b)), "In: x"),
}


def short_lecture_20(x, normalized_shape, weight, bias, eps=1e-5):
    return lecture_20(x, normalized_shape, weight, bias, eps)


# ---- Classes ---------------------------------------------------------------------------------------------------------


class Plain(nn.Module):
    """A right module, written out."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if elementwise_affine:
            self.weight = nn.Parameter(torch.ones(shape, device=device, dtype=dtype))
            if bias:
                self.bias = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype))

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class Inherited(nn.LayerNorm):
    """PyTorch's own bookkeeping, our arithmetic."""

    def forward(self, x):
        return own(statistics=centered_twice)(x, self.normalized_shape, self.weight, self.bias, self.eps)


class LikePyTorch(nn.Module):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            empty = torch.empty(self.normalized_shape, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(empty) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self):
        for name, parameter in self.named_parameters():
            nn.init.constant_(parameter, float(name == "weight"))

    def extra_repr(self):
        return "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}".format(**self.__dict__)

    def forward(self, input):
        return whole_flattened(input, self.normalized_shape, self.weight, self.bias, self.eps)


def with_init(body, forward=Plain.forward):
    """Return a module whose __init__ runs body(self, shape, eps, elementwise_affine, bias, device, dtype)."""

    class Answer(nn.Module):
        def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
            super().__init__()
            shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
            self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
            body(self, shape, eps, elementwise_affine, bias, device, dtype)

        def extra_repr(self):
            return f"{self.normalized_shape}, eps={self.eps}"

    Answer.forward = forward
    return Answer


def with_function(function):
    """Return a right module around a function."""

    class Answer(Plain):
        def forward(self, x):
            return function(x, self.normalized_shape, self.weight, self.bias, self.eps)

    return Answer


def named(gain, offset):
    """Right but for the names of the parameters."""

    def body(self, shape, eps, affine, bias, device, dtype):
        kind = {"device": device, "dtype": dtype}
        self.register_parameter(gain, nn.Parameter(torch.ones(shape, **kind)) if affine else None)
        self.register_parameter(offset, nn.Parameter(torch.zeros(shape, **kind)) if affine and bias else None)

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, getattr(self, gain), getattr(self, offset), self.eps)

    return with_init(body, forward)


def plain_tensors(self, shape, eps, affine, bias, device, dtype):
    self.weight = torch.ones(shape, device=device, dtype=dtype) if affine else None
    self.bias = torch.zeros(shape, device=device, dtype=dtype) if affine and bias else None


def buffers(self, shape, eps, affine, bias, device, dtype):
    self.register_buffer("weight", torch.ones(shape, device=device, dtype=dtype) if affine else None)
    self.register_buffer("bias", torch.zeros(shape, device=device, dtype=dtype) if affine and bias else None)


def sized(size):
    def body(self, shape, eps, affine, bias, device, dtype):
        for name, make, wanted in (("weight", torch.ones, affine), ("bias", torch.zeros, affine and bias)):
            self.register_parameter(
                name, nn.Parameter(make(size(shape), device=device, dtype=dtype)) if wanted else None
            )

    return body


def multiplied(self, x):
    return gain_and_bias(F.layer_norm(x, self.normalized_shape, eps=self.eps), self.weight, self.bias)


def multiplied_if_affine(self, x):
    y = F.layer_norm(x, self.normalized_shape, eps=self.eps)
    return y * self.weight + self.bias if self.elementwise_affine else y


def always_registered(self, shape, eps, affine, bias, device, dtype):
    self.weight = nn.Parameter(torch.ones(shape, device=device, dtype=dtype))
    self.bias = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype))


def plain_none(self, shape, eps, affine, bias, device, dtype):
    self.weight = nn.Parameter(torch.ones(shape, device=device, dtype=dtype)) if affine else None
    self.bias = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype)) if affine and bias else None


def only_if_wanted(self, shape, eps, affine, bias, device, dtype):
    if affine:
        self.weight = nn.Parameter(torch.ones(shape, device=device, dtype=dtype))
        if bias:
            self.bias = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype))


def parameter_of_none(self, shape, eps, affine, bias, device, dtype):
    self.weight = nn.Parameter(torch.ones(shape, device=device, dtype=dtype) if affine else None)
    self.bias = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype) if affine and bias else None)


def bias_always(self, shape, eps, affine, bias, device, dtype):
    self.register_parameter("weight", nn.Parameter(torch.ones(shape, device=device, dtype=dtype)) if affine else None)
    self.register_parameter("bias", nn.Parameter(torch.zeros(shape, device=device, dtype=dtype)) if affine else None)


def bias_alone(self, shape, eps, affine, bias, device, dtype):
    self.register_parameter("weight", nn.Parameter(torch.ones(shape, device=device, dtype=dtype)) if affine else None)
    self.register_parameter("bias", nn.Parameter(torch.zeros(shape, device=device, dtype=dtype)) if bias else None)


def starting(gain, offset=0.0, trained=True):
    def body(self, shape, eps, affine, bias, device, dtype):
        for name, value, wanted in (("weight", gain, affine), ("bias", offset, affine and bias)):
            tensor = torch.full(shape, value, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=trained) if wanted else None)

    return body


def by_weight(self, x):
    return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class BiasInRepr(with_init(only_if_wanted)):
    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, bias={self.bias is not None}"


def without_kind(device_too):
    def body(self, shape, eps, affine, bias, device, dtype):
        device = None if device_too else device
        self.register_parameter("weight", nn.Parameter(torch.ones(shape, device=device)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(shape, device=device)) if affine and bias else None)

    return body


class NotesByRico(nn.Module):
    """eps 1e-8, no int, and parameters that stay when there should be none."""

    def __init__(self, normalized_shape, elementwise_affine=True):
        super().__init__()
        self.affine, self.axes = elementwise_affine, tuple(range(-len(normalized_shape), 0))
        self.weight, self.bias = nn.Parameter(torch.ones(normalized_shape)), nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        c, var = centered(x, self.axes)
        y = c / torch.sqrt(var + 1e-8)
        return self.weight * y + self.bias if self.affine else y


class AnnotatedByLabml(nn.Module):
    def __init__(self, normalized_shape, *, eps=1e-5, elementwise_affine=True):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = normalized_shape, eps, elementwise_affine
        if elementwise_affine:
            self.gain = nn.Parameter(torch.ones(normalized_shape))
            self.bias = nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        y = annotated_by_labml(x, self.normalized_shape, eps=self.eps)
        return self.gain * y + self.bias if self.elementwise_affine else y


class Lecture20(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(emb_dim)), nn.Parameter(torch.zeros(emb_dim))

    def forward(self, x):
        return lecture_20(x, None, self.scale, self.shift)


class ReportWithExamples(Plain):
    """PyTorch's layer inside, and __call__ in place of forward."""

    forward = nn.Module.forward

    def __call__(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class NoSuper(Plain):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        self.weight = nn.Parameter(torch.ones(normalized_shape))


class RunningStatistics(Plain):
    def forward(self, x):
        axes = tuple(range(-len(self.normalized_shape), 0))
        if self.training:
            var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
            self.kept = mean.detach().mean(), var.detach().mean()
        else:
            mean, var = getattr(self, "kept", (x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)))
        return gain_and_bias((x - mean) / torch.sqrt(var + self.eps), self.weight, self.bias)


class Shared(Plain):
    pairs = {}

    def __init__(self, normalized_shape, *args, **options):
        super().__init__(normalized_shape, *args, **options)
        for name, parameter in list(self.named_parameters()):
            setattr(self, name, Shared.pairs.setdefault((name, self.normalized_shape), parameter))


class OtherOrder(Plain):
    def __init__(self, normalized_shape, elementwise_affine=True, eps=1e-5, bias=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)


# ---- The clinic ------------------------------------------------------------------------------------------------------


class MendedPlain(Plain):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__(normalized_shape, eps, elementwise_affine)


class MendedOnPyTorch(nn.LayerNorm):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)


def clinic(gain="gain", offset="offset", bare=False, eps=None, keep=None):
    """Return the clinic's layer with some of its faults mended."""

    class Answer(nn.Module):
        def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
            super().__init__()
            self.normalized_shape, self.eps, self.affine = normalized_shape, eps, elementwise_affine
            for name, value in ((gain, torch.ones(normalized_shape)), (offset, torch.zeros(normalized_shape))):
                if elementwise_affine or not bare:
                    setattr(self, name, (keep or nn.Parameter)(value))
                elif bare == "plain":
                    setattr(self, name, None)
                else:
                    self.register_parameter(name, None)

        def forward(self, x):
            y = F.layer_norm(x, self.normalized_shape, eps=self.eps if eps is None else eps)
            return getattr(self, gain) * y + getattr(self, offset) if self.affine else y

    return Answer


class MendedInOldOrder(nn.LayerNorm):
    """FoundNorm's own order of arguments, so that its callers need no change."""

    def __init__(self, normalized_shape, elementwise_affine=True, eps=1e-5):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)


class MendedOffByDefault(nn.LayerNorm):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=False):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)


class MendedWithOtherEps(MendedPlain):
    def __init__(self, normalized_shape, eps=1e-6, elementwise_affine=True):
        super().__init__(normalized_shape, eps, elementwise_affine)


class MendedByCall(MendedPlain):
    forward = nn.Module.forward
    __call__ = Plain.forward


class MendedAround(nn.Module):
    """PyTorch's layer inside: its parameters get longer names."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True):
        super().__init__()
        self.norm = nn.LayerNorm(normalized_shape, eps, elementwise_affine)

    def forward(self, x):
        return self.norm(x)


def mended_start(gain, offset):
    class Answer(MendedPlain):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            for name, parameter in self.named_parameters():
                nn.init.constant_(parameter, gain if name == "weight" else offset)

    return Answer


class MendedByHand(clinic("weight", "bias", bare=True)):
    pass


COUNTS = {
    "LayerNorm([C, H, W]): means": 2,
    "LayerNorm([C, H, W]): parameters": 120,
    "LayerNorm per pixel: means": 40,
    "LayerNorm per pixel: parameters": 6,
    "GroupNorm(1, C): means": 2,
    "GroupNorm(1, C): parameters": 6,
}


def but(number, value):
    """The right counts but for one."""
    return COUNTS | {list(COUNTS)[number]: value}


BANK = {
    "short_layer_norm": {
        "right": {
            "centered squares": short_centered_squares,
            "var_mean, addcmul": short_var_mean,
            "flattened": short_flattened,
            "F.layer_norm": lambda x, normalized_shape, weight, bias, eps=1e-5: F.layer_norm(
                x, normalized_shape, weight, bias, eps
            ),
        },
        "wrong": {what: (one_step(**parts), words) for what, (parts, words) in FORMULA.items()}
        | {
            "Lecture 20": (short_lecture_20, "only the last axis"),
            "Annotated Transformer": (annotated_transformer, "three at once"),
            "no keepdim": (lambda x, n, w, b, eps=1e-5: (x - x.mean(-1)) / (x.var(-1) + eps) * w + b, "it raised"),
            "in place": (in_place, "changed its input"),
            "NumPy": (
                lambda x, n, w, b, eps=1e-5: torch.from_numpy(short_centered_squares(x, n, w, b, eps).detach().numpy()),
                "gradient",
            ),
            "no eps argument": (lambda x, n, w, b: short_centered_squares(x, n, w, b), "it raised TypeError"),
        },
    },
    "layer_norm": {
        "right": {
            "centered twice": own(statistics=centered_twice),
            "centered once": own(),
            "centered twice, x.var": own(
                statistics=lambda x, axes: (centered_twice(x, axes)[0], x.var(axes, correction=0, keepdim=True))
            ),
            "in float64": lambda x, n, weight=None, bias=None, eps=1e-5: own()(
                x.double(),
                checked(x, n, weight, bias)[0],
                *(p if p is None else p.double() for p in (weight, bias)),
                eps,
            ).to(x.dtype),
            "F.layer_norm": by_pytorch,
            "native_layer_norm": by_pytorch_kernel,
            "flattened, var_mean": whole_flattened,
            "ones and zeros for None": no_autocast_type,
        },
        "wrong": {what: (own(**parts), words) for what, (parts, words) in FORMULA.items()}
        | {
            "notes by Rico": (notes_by_rico, "fixed at 1e-8"),
            "the article": (article, "two at once: axis 1"),
            "labml, annotated": (annotated_by_labml, "int"),
            "Lecture 20": (lecture_20, "only the last axis"),
            "Annotated Transformer": (annotated_transformer, "three at once"),
            "the report: PyTorch's, as printed there": (lambda x, **options: F.layer_norm(x), "it raised TypeError"),
            "one pass": (own(statistics=one_pass), "cancels"),
            "tuples only": (tuples_only, "it raised TypeError"),
            "no int": (no_int, "an int is not understood"),
            "no list": (no_list, "a list is not understood"),
            "both or nothing": (only_with_both, "the other is left out"),
            "bias inside the if of weight": (bias_only_with_weight, "bias is left out as well"),
            "None multiplied": (never_none, "is not handled"),
            "view": (viewed, "view()"),
            "in float16": (own(wide=False), "half precision"),
            "float32 comes out": (own(narrow=False), "x's dtype"),
            "centered in half": (centered_in_half, "centered in half precision"),
            "rounded before the gain": (gain_in_half, "rounded more than once"),
            "if weight": (
                lambda x, n, weight=None, bias=None, eps=1e-5: own()(
                    x, n, weight if weight else None, bias if bias else None, eps
                ),
                "ambiguous",
            ),
            "assert": (assertions, "assert is not a check"),
            "nothing refused": (nothing_refused, "nothing is refused"),
            "scalar gain accepted": (scalar_gain_passes, "shape (1,)"),
            "in place": (in_place, "changed its input"),
            "a branch on values": (numbers_out, "vmap"),
            "constants in backward": (by_hand_written_backward, "second derivative"),
            "nothing returned": (lambda x, normalized_shape, weight=None, bias=None, eps=1e-5: None, "return"),
            "a module": (nn.LayerNorm, "not a class"),
        },
    },
    "layer_norm_module": {
        "right": {
            "None, then parameters": Plain,
            "PyTorch's bookkeeping": Inherited,
            "a loop over the names": LikePyTorch,
            "nn.LayerNorm": nn.LayerNorm,
        },
        "wrong": {
            "gain and bias": (named("gain", "bias"), "called gain and bias"),
            "scale and shift": (named("scale", "shift"), "called scale and shift"),
            "gamma and beta": (named("gamma", "beta"), "called gamma and beta"),
            "plain tensors": (with_init(plain_tensors), "plain tensors"),
            "buffers": (with_init(buffers), "are buffers"),
            "one number each": (with_init(sized(lambda shape: (1,)), multiplied), "one number each"),
            "one per channel": (with_init(sized(lambda shape: shape[-1:]), multiplied), "the last size only"),
            "always registered": (with_init(always_registered, multiplied_if_affine), "must leave no parameters"),
            "self.weight = None": (with_init(plain_none), "ordinary attribute"),
            "nothing registered": (with_init(only_if_wanted), "no self.weight at all"),
            "nothing registered, PyTorch's repr": (BiasInRepr, "no self.weight at all"),
            "nn.Parameter(None)": (with_init(parameter_of_none), "an empty one"),
            "the shape of weight": (type("ByWeight", (Plain,), {"forward": by_weight}), "has no shape"),
            "x alone": (with_function(lambda x, n, w, b, eps: F.layer_norm(x, n)), "hand all three on"),
            "swapped": (with_function(lambda x, n, w, b, eps: F.layer_norm(x, n, b, w, eps)), "are swapped"),
            "bias=False ignored": (with_init(bias_always), "bias=False is ignored"),
            "bias without weight": (with_init(bias_alone), "bias decides alone"),
            "gain starts at 0": (with_init(starting(0.0)), "gain starts at 0"),
            "gain starts at 0.02": (with_init(starting(0.02)), "expected [1, 1, 1, 1]"),
            "requires_grad=False": (with_init(starting(1.0, trained=False)), "requires_grad=False"),
            "shared": (Shared, "share one pair"),
            "dtype ignored": (with_init(without_kind(False)), "dtype is ignored"),
            "device and dtype ignored": (with_init(without_kind(True)), "device and dtype are ignored"),
            "eps before affine": (OtherOrder, "layer.eps"),
            "eps not handed on": (
                with_function(lambda x, n, w, b, eps: F.layer_norm(x, n, w, b)),
                "eps is not handed on in forward",
            ),
            "eps 1e-8": (with_function(own(eps_is=1e-8)), "fixed at 1e-8"),
            "unbiased": (with_function(own(statistics=unbiased)), "divides by D - 1"),
            "eps outside": (with_function(own(scale=outside)), "eps is added to the deviation"),
            "one pass": (with_function(own(statistics=one_pass)), "cancels"),
            "the last axis only": (with_function(own(axes=lambda x, shape: -1)), "only the last axis"),
            "all but the batch": (
                with_function(own(axes=lambda x, shape: tuple(range(1, x.dim())))),
                "all but the first",
            ),
            "the batch axis": (with_function(own(axes=lambda x, shape: 0)), "batch axis"),
            "axis 1 (the article)": (with_function(article), "axis 1"),
            "in float16": (with_function(own(wide=False)), "half precision"),
            "the parameters unused": (
                with_function(lambda x, n, w, b, eps: F.layer_norm(x, n, eps=eps)),
                "are not used",
            ),
            "None multiplied": (
                with_function(lambda x, n, w, b, eps: F.layer_norm(x, n, eps=eps) * w + b),
                "leaves out what is None",
            ),
            "detached parameters": (
                with_function(lambda x, n, w, b, eps: F.layer_norm(x, n, w.data, None if b is None else b.data, eps)),
                "no gradient",
            ),
            "running statistics": (RunningStatistics, "BatchNorm"),
            "no super().__init__()": (NoSuper, "Module.__init__()"),
            "notes by Rico": (NotesByRico, "an int is not understood"),
            "labml, annotated": (AnnotatedByLabml, "gain"),
            "Lecture 20": (Lecture20, "scale"),
            "the report: __call__": (ReportWithExamples, "__call__ is overridden"),
            "the function instead": (by_pytorch, "takes your class itself"),
            "an instance": (Plain(4), "takes your class itself"),
        },
    },
    "image_counts": {
        "right": {"all six": COUNTS},
        "wrong": {
            "the batch pooled": (but(0, 1), "never normalized over"),
            "InstanceNorm's means": (but(0, 6), "InstanceNorm"),
            "the gain alone": (but(1, 60), "the gain alone"),
            "per channel": (but(1, 6), "shape of normalized_shape"),
            "one image": (but(2, 20), "That is one image"),
            "one mean an image": (but(2, 2), "Each pixel"),
            "a pair for each pixel": (but(3, 120), "share one nn.LayerNorm(C)"),
            "pixels in GroupNorm": (but(4, 40), "pools over the pixels"),
            "one pair of parameters": (but(5, 2), "not one pair of parameters"),
            "LayerNorm's parameters": (but(5, 120), "LayerNorm([C, H, W])"),
            "parameters for each pixel": (but(3, 40), "all share the parameters"),
            "three groups": (but(4, 3), "One group"),
            "one missing": ({key: COUNTS[key] for key in list(COUNTS)[1:]}, "missing"),
        },
    },
    "mended_norm": {
        "right": {
            "registered None": MendedByHand,
            "on the lesson's layer": MendedPlain,
            "on PyTorch's": MendedOnPyTorch,
            "FoundNorm's order": MendedInOldOrder,
        },
        "wrong": {
            "as found": (clinic(eps=1e-8), "not called weight and bias; with elementwise_affine=False"),
            "names only": (clinic("weight", "bias", eps=1e-8), "still to mend: with elementwise_affine=False"),
            "eps only": (clinic(), "not called weight and bias; with"),
            "bare only": (clinic(bare=True, eps=1e-8), "not called weight and bias; eps is fixed"),
            "all but eps": (clinic("weight", "bias", bare=True, eps=1e-8), "still to mend: eps"),
            "all but the names": (clinic(bare=True), "still to mend: the parameters are not called"),
            "all but the bare layer": (clinic("weight", "bias"), "still to mend: with elementwise_affine=False"),
            "self.weight = None": (clinic("weight", "bias", bare="plain"), "ordinary attribute"),
            "nothing registered": (with_init(only_if_wanted, multiplied_if_affine), "no self.weight at all"),
            "off by default": (MendedOffByDefault, "False unless it is asked for"),
            "another default of eps": (MendedWithOtherEps, "default of eps"),
            "eps not used": (clinic("weight", "bias", bare=True, eps=1e-5), "eps is not handed on in forward"),
            "the shape of weight": (type("ByWeight", (MendedPlain,), {"forward": by_weight}), "has no shape"),
            "bias not used": (
                type(
                    "NoBias",
                    (MendedPlain,),
                    {"forward": lambda self, x: F.layer_norm(x, self.normalized_shape, self.weight, None, self.eps)},
                ),
                "the bias is not used",
            ),
            "gain starts at 0": (mended_start(0.0, 0.0), "gain starts at 0"),
            "bias starts at 1": (mended_start(1.0, 1.0), "bias starts at 1"),
            "__call__": (MendedByCall, "__call__ is overridden"),
            "PyTorch's layer inside": (MendedAround, "norm.weight"),
            "plain tensors": (clinic("weight", "bias", bare=True, keep=lambda value: value), "plain tensors"),
            "notes by Rico": (NotesByRico, "still to mend: with elementwise_affine=False the parameters"),
        },
    },
}

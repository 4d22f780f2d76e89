"""Answers to the exercises of lesson 7."""

import torch
from torch.nn import functional as F


def m(t):
    return t.mean(-1, keepdim=True)


def total(t):
    return t.sum(-1, keepdim=True)


def over_rows(t):
    return t.sum(tuple(range(t.dim() - 1)))


# 7.1


def with_loops(dy, x_hat):
    dweight = dbias = 0
    for one_dy, one_x in zip(dy.flatten(0, -2), x_hat.flatten(0, -2), strict=True):
        dweight, dbias = dweight + one_dy * one_x, dbias + one_dy
    return dweight, dbias


def each(change):
    return lambda dy, x_hat: (change(dy * x_hat), change(dy))


def last_row_wins(dy, x_hat):
    for one_dy, one_x in zip(dy.flatten(0, -2), x_hat.flatten(0, -2), strict=True):
        dweight, dbias = one_dy * one_x, one_dy.clone()
    return dweight, dbias


# 7.2


def steps(dy, x, weight, eps=1e-5):
    D = x.shape[-1]
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    d_x_hat = dy * weight
    d_rstd = (d_x_hat * centered).sum(-1, keepdim=True)
    d_var = d_rstd * -0.5 * rstd**3
    d_centered = d_x_hat * rstd + d_var * 2 * centered / D
    d_mean = -d_centered.sum(-1, keepdim=True)
    d_x = d_centered + d_mean / D
    return d_x_hat, d_rstd, d_var, d_centered, d_mean, d_x


def steps_otherwise(dy, x, weight, eps=1e-5):
    D = x.size(-1)
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    std = (var + eps).sqrt()
    h = weight * dy
    d_rstd = torch.einsum("...d,...d->...", h, x - mean).unsqueeze(-1)
    d_var = -d_rstd / (2 * (var + eps) ** 1.5)
    d_centered = h / std + (x - mean) * (2 / D) * d_var
    d_mean = -h.sum(-1, keepdim=True) / std  # the path through the variance adds nothing
    return [h, d_rstd, d_var, d_centered, d_mean, d_centered - d_centered.mean(-1, keepdim=True)]


def steps_by_autograd(dy, x, weight, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    var = (centered**2).mean(-1, keepdim=True)
    rstd = (var + eps) ** -0.5
    x_hat = centered * rstd
    names = [x_hat, rstd, var, centered, mean, x]
    if not x.requires_grad:
        return steps(dy, x, weight, eps)
    return torch.autograd.grad(x_hat * weight, names, dy, create_graph=True)


def stepwise(line, change):
    """The six lines with one of them changed: change gets a dictionary of all names before it."""

    def answer(dy, x, weight, eps=1e-5):
        D = x.shape[-1]
        mean = m(x)
        centered = x - mean
        var = m(centered**2)
        rstd = 1 / torch.sqrt(var + eps)
        v = dict(
            dy=dy, x=x, weight=weight, D=D, mean=mean, centered=centered, var=var, rstd=rstd, x_hat=centered * rstd
        )
        right = {
            "d_x_hat": lambda v: v["dy"] * v["weight"],
            "d_rstd": lambda v: total(v["d_x_hat"] * v["centered"]),
            "d_var": lambda v: v["d_rstd"] * -0.5 * v["rstd"] ** 3,
            "d_centered": lambda v: v["d_x_hat"] * v["rstd"] + v["d_var"] * 2 * v["centered"] / v["D"],
            "d_mean": lambda v: -total(v["d_centered"]),
            "d_x": lambda v: v["d_centered"] + v["d_mean"] / v["D"],
        }
        for name, formula in right.items():
            v[name] = (change if name == line else formula)(v)
        return tuple(v[name] for name in right)

    return answer


def only(count):
    """The first lines written, the others still None."""
    return lambda *args, **kwargs: tuple(t if i < count else None for i, t in enumerate(steps(*args, **kwargs)))


# 7.3


def closed(dy, x, mean, rstd, weight):
    x_hat = (x - mean) * rstd
    h = dy * weight
    dx = rstd * (h - m(h) - x_hat * m(h * x_hat))
    return dx, over_rows(dy * x_hat), over_rows(dy)


def with_sums(dy, x, mean, rstd, weight):
    D = x.shape[-1]
    x_hat = (x - mean) * rstd
    h = weight * dy
    dx = rstd / D * (D * h - h.sum(-1, keepdim=True) - x_hat * (h * x_hat).sum(-1, keepdim=True))
    return dx, (dy * x_hat).reshape(-1, D).sum(0), dy.reshape(-1, D).sum(0)


def in_steps(dy, x, mean, rstd, weight):
    D = x.shape[-1]
    h = dy * weight
    d_var = -0.5 * rstd**3 * total(h * (x - mean))
    d_centered = h * rstd + 2 / D * (x - mean) * d_var
    dx = d_centered - m(d_centered)
    return [dx, (dy * (x - mean) * rstd).sum_to_size(weight.shape), dy.sum_to_size(weight.shape)]


def expanded(dy, x, mean, rstd, weight):
    """As PyTorch's CPU kernel has it: a * h + b * x + c."""
    D = x.shape[-1]
    h = dy * weight
    ds, db = total(h * x), total(h)
    b = (db * mean - ds) * rstd**3 / D
    c = -b * mean - db * rstd / D
    return rstd * h + b * x + c, over_rows(dy * (x - mean) * rstd), over_rows(dy)


def projections(dy, x, mean, rstd, weight):
    x_hat = (x - mean) * rstd
    h = dy * weight
    h = h - m(h)
    h = h - x_hat * m(h * x_hat)
    return rstd * h, over_rows(x_hat * dy), over_rows(dy)


def dx_is(formula):
    """closed, with another dx: formula gets x_hat, h, rstd, dy, weight, x, mean."""

    def answer(dy, x, mean, rstd, weight):
        x_hat = (x - mean) * rstd
        dx = formula(x_hat, dy * weight, rstd, dy, weight, x, mean)
        return dx, over_rows(dy * x_hat), over_rows(dy)

    return answer


def params(dweight=lambda dy, x_hat, h: over_rows(dy * x_hat), dbias=lambda dy, x_hat, h: over_rows(dy)):
    def answer(dy, x, mean, rstd, weight):
        x_hat = (x - mean) * rstd
        return closed(dy, x, mean, rstd, weight)[0], dweight(dy, x_hat, dy * weight), dbias(dy, x_hat, dy * weight)

    return answer


def detached_statistics(dy, x, mean, rstd, weight):
    x = x.detach().requires_grad_()
    y = (x - mean.detach()) * rstd.detach() * weight
    return torch.autograd.grad(y, x, dy)[0], over_rows(dy * (x - mean) * rstd), over_rows(dy)


def pytorch_anew(dy, x, mean, rstd, weight):
    D = x.shape[-1]
    out = torch.ops.aten.native_layer_norm(x, [D], weight, None, 1e-5)
    dx, dw, db = torch.ops.aten.native_layer_norm_backward(dy, x, [D], out[1], out[2], weight, weight, [True] * 3)
    return dx, dw, db


def loses_keepdim(dy, x, mean, rstd, weight):
    x_hat = (x - mean) * rstd
    h = dy * weight
    return rstd * (h - h.mean(-1) - x_hat * (h * x_hat).mean(-1)), over_rows(dy * x_hat), over_rows(dy)


def works_in_place(dy, x, mean, rstd, weight):
    x -= mean
    x *= rstd
    dy_sum, dw = over_rows(dy), over_rows(dy * x)
    h = dy * weight
    return rstd * (h - m(h) - x * m(h * x)), dw, dy_sum


def a_loop_that_overwrites(dy, x, mean, rstd, weight):
    dx = closed(dy, x, mean, rstd, weight)[0]
    for one_dy, one_x in zip(dy.flatten(0, -2), ((x - mean) * rstd).flatten(0, -2), strict=True):
        dweight, dbias = one_dy * one_x, one_dy * 1
    return dx, dweight, dbias


def swapped_arguments(dy, x, mean, rstd, weight):
    return closed(x, dy, mean, rstd, weight)


# 7.4

SEES = {
    "y.sum(), mean term missing": True,
    "y.sum(), variance term missing": False,
    "(y**2).sum(), mean term missing": False,
    "(y**2).sum(), variance term missing": True,
    "(y * random).sum(), mean term missing": True,
    "(y * random).sum(), variance term missing": True,
    "(y * random).sum(), gain forgotten": False,
}


def but(number):
    key = list(SEES)[number]
    return SEES | {key: not SEES[key]}


# 7.5


def statistics(x, eps):
    mean = m(x)
    return mean, torch.rsqrt(m((x - mean) ** 2) + eps)


def plain_forward(x, weight, bias, eps):
    mean, rstd = statistics(x, eps)
    return (x - mean) * rstd * weight + bias


class NewStyle(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, bias, eps):
        return plain_forward(x, weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, eps = inputs
        ctx.save_for_backward(x, weight)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        mean, rstd = statistics(x, ctx.eps)
        return *closed(dy, x, mean, rstd, weight), None


class OldStyle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias = ctx.saved_tensors
        return (*in_steps(dy, x, *statistics(x, ctx.eps), weight), None)


class ByAutograd(torch.autograd.Function):
    """Runs the forward pass again, on a tape."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        return plain_forward(x, weight, bias, eps)

    @staticmethod
    def backward(ctx, dy):
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            x, weight, bias = (
                t if again and t.requires_grad else t.detach().requires_grad_() for t in ctx.saved_tensors
            )
            y = plain_forward(x, weight, bias, ctx.eps)
            return *torch.autograd.grad(y, (x, weight, bias), dy, create_graph=again), None


class OnlyWhatIsNeeded(OldStyle):
    @staticmethod
    def backward(ctx, dy):
        grads = OldStyle.backward(ctx, dy)
        return tuple(g if wanted else None for g, wanted in zip(grads, ctx.needs_input_grad, strict=True))


class SavesStatistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean, rstd = statistics(x, eps)
        ctx.save_for_backward(x, mean, rstd, weight)
        return (x - mean) * rstd * weight + bias

    @staticmethod
    def backward(ctx, dy):
        return *closed(dy, *ctx.saved_tensors), None


class SavesXHat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean, rstd = statistics(x, eps)
        x_hat = (x - mean) * rstd
        ctx.save_for_backward(x_hat, rstd, weight)
        return x_hat * weight + bias

    @staticmethod
    def backward(ctx, dy):
        x_hat, rstd, weight = ctx.saved_tensors
        h = dy * weight
        return rstd * (h - m(h) - x_hat * m(h * x_hat)), over_rows(dy * x_hat), over_rows(dy), None


class HidesXHat(NewStyle):
    @staticmethod
    def setup_context(ctx, inputs, output):
        NewStyle.setup_context(ctx, inputs, output)
        mean, rstd = statistics(inputs[0], inputs[3])
        ctx.x_hat = (inputs[0] - mean) * rstd


def backward_is(backward, base=NewStyle):
    return type("LayerNormFunction", (base,), {"backward": staticmethod(backward)})


def returns(change):
    return backward_is(lambda ctx, dy: change(*NewStyle.backward(ctx, dy)))


def with_eps(eps):
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        return *closed(dy, x, *statistics(x, eps), weight), None

    return backward_is(backward)


def hands(arguments):
    """NewStyle that hands other arguments to layer_norm_backward: (dy, x, mean, var, eps, weight) -> five."""

    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        mean = m(x)
        return *closed(*arguments(dy, x, mean, m((x - mean) ** 2), ctx.eps, weight)), None

    return backward_is(backward)


def unknown_name(ctx, dy):
    return no_such_name  # noqa: F821


def detaches(ctx, dy):
    x, weight = ctx.saved_tensors
    mean, rstd = statistics(x.detach(), ctx.eps)
    return *closed(dy, x, mean, rstd, weight), None


def one_term_short(ctx, dy):
    x, weight = ctx.saved_tensors
    mean, rstd = statistics(x, ctx.eps)
    x_hat, h = (x - mean) * rstd, dy * weight
    return rstd * (h - m(h)), over_rows(dy * x_hat), over_rows(dy), None


def scales_dy(ctx, dy):
    x, weight = ctx.saved_tensors
    mean, rstd = statistics(x, ctx.eps)
    right = closed(dy.clone(), x, mean, rstd, weight)
    dy *= weight
    return *right, None


class Module(torch.nn.Module):
    def forward(self, x, weight, bias, eps):
        return plain_forward(x, weight, bias, eps)


class NoFunction:
    apply = staticmethod(plain_forward)


# 7.6


def mended(dy, x_hat, rstd, weight):
    h = dy * weight
    return rstd * (h - m(h) - x_hat * m(h * x_hat))


def mended_sums(dy, x_hat, rstd, weight):
    N = dy.shape[-1]
    dy = dy * weight
    return (rstd / N) * (N * dy - total(dy) - x_hat * total(dy * x_hat))


def mended_by_7_3(dy, x_hat, rstd, weight):
    return closed(dy, x_hat, torch.zeros_like(rstd), torch.ones_like(rstd), weight)[0] * rstd


def patient(dy, x_hat, rstd, weight):
    N = dy.shape[-1]
    return (weight * rstd / N) * (N * dy - total(dy) - x_hat * total(dy * x_hat))


def three(a, b, c, after=1.0):
    """dx with the gain (1) or without (0) in each of the three terms."""

    def answer(dy, x_hat, rstd, weight):
        h, e, f = (dy * weight if here else dy for here in (a, b, c))
        return rstd * (h - m(e) - x_hat * m(f * x_hat)) * (weight if after == "gain" else after)

    return answer


BANK = {
    "gain_and_bias_gradients": {
        "right": {
            "a tuple of axes": lambda dy, x_hat: (over_rows(dy * x_hat), over_rows(dy)),
            "reshape": lambda dy, x_hat: [(t.reshape(-1, t.shape[-1])).sum(0) for t in (dy * x_hat, dy)],
            "sum_to_size": lambda dy, x_hat: ((dy * x_hat).sum_to_size(dy.shape[-1]), dy.sum_to_size(dy.shape[-1])),
            "a loop": with_loops,
            "einsum": lambda dy, x_hat: (torch.einsum("...d,...d->d", dy, x_hat), torch.einsum("...d->d", dy)),
        },
        "wrong": {
            "means": (each(lambda t: t.flatten(0, -2).mean(0)), "mean over the rows"),
            "not summed": (each(lambda t: t), "sum over the rows is missing"),
            "over the features": (each(lambda t: t.sum(-1)), "over the features"),
            "over the features, kept": (each(lambda t: t.sum(-1, keepdim=True)), "shape"),
            "first axis": (each(lambda t: t.sum(0)), "only the first axis"),
            "axes 0 and 1": (each(lambda t: t.sum((0, 1))), "axes 0 and 1"),
            "one number": (each(lambda t: t.sum()), "one number"),
            "keepdim": (each(lambda t: t.sum(tuple(range(t.dim() - 1)), keepdim=True)), "size 1"),
            "swapped": (lambda dy, x_hat: (over_rows(dy), over_rows(dy * x_hat)), "swapped"),
            "no x_hat": (lambda dy, x_hat: (over_rows(dy), over_rows(dy)), "lacks x_hat"),
            "no dy": (lambda dy, x_hat: (over_rows(x_hat), over_rows(dy)), "lacks dy"),
            "x_hat in both": (lambda dy, x_hat: (over_rows(dy * x_hat),) * 2, "only added"),
            "sum, then multiply": (
                lambda dy, x_hat: (over_rows(dy) * over_rows(x_hat), over_rows(dy)),
                "Multiply first",
            ),
            "a mean for dbias": (
                lambda dy, x_hat: (over_rows(dy * x_hat), dy.flatten(0, -2).mean(0)),
                "dbias is a mean",
            ),
            "x_hat twice": (lambda dy, x_hat: (over_rows(dy * x_hat**2), over_rows(dy)), "twice"),
            "last row": (last_row_wins, "last row"),
            "first row": (each(lambda t: t.flatten(0, -2)[0]), "first row"),
            "one of two": (lambda dy, x_hat: over_rows(dy * x_hat), "expected dweight and dbias"),
            "detached x_hat": (lambda dy, x_hat: (over_rows(dy * x_hat.detach()), over_rows(dy)), "gradient of x_hat"),
            "for matrices only": (lambda dy, x_hat: (torch.diagonal(dy.T @ x_hat), dy.sum(0)), "raised"),
        },
    },
    "backward_in_steps": {
        "right": {
            "six lines": steps,
            "with the deviation, einsum, a list": steps_otherwise,
            "by autograd": steps_by_autograd,
            "the factory": stepwise("none", None),
        },
        "wrong": {
            "no gain": (stepwise("d_x_hat", lambda v: v["dy"] * 1), "the gain is missing"),
            "divided by the gain": (stepwise("d_x_hat", lambda v: v["dy"] / v["weight"]), "divided by the gain"),
            "gain times x_hat": (stepwise("d_x_hat", lambda v: v["weight"] * v["x_hat"]), "dy is missing"),
            "x_hat for centered": (stepwise("d_rstd", lambda v: total(v["d_x_hat"] * v["x_hat"])), "not x_hat"),
            "x for centered": (stepwise("d_rstd", lambda v: total(v["d_x_hat"] * v["x"])), "x - mean, not x"),
            "a mean in d_rstd": (stepwise("d_rstd", lambda v: m(v["d_x_hat"] * v["centered"])), "summed, not averaged"),
            "d_rstd not summed": (stepwise("d_rstd", lambda v: v["d_x_hat"] * v["centered"]), "Sum the parts"),
            "dy in d_rstd": (stepwise("d_rstd", lambda v: total(v["dy"] * v["centered"])), "not at x_hat"),
            "d_rstd without keepdim": (stepwise("d_rstd", lambda v: (v["d_x_hat"] * v["centered"]).sum(-1)), "raised"),
            "the sign of d_var": (stepwise("d_var", lambda v: v["d_rstd"] * 0.5 * v["rstd"] ** 3), "sign"),
            "rstd not cubed": (stepwise("d_var", lambda v: v["d_rstd"] * -0.5 * v["rstd"]), "power"),
            "rstd squared": (stepwise("d_var", lambda v: v["d_rstd"] * -0.5 * v["rstd"] ** 2), "power"),
            "no half": (stepwise("d_var", lambda v: v["d_rstd"] * -(v["rstd"] ** 3)), "0.5"),
            "no eps": (stepwise("d_var", lambda v: v["d_rstd"] * -0.5 * v["var"] ** -1.5), "eps is missing"),
            "no chain": (stepwise("d_var", lambda v: -0.5 * v["rstd"] ** 3), "d_rstd, is missing"),
            "no path through var": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"]),
                "through var is missing",
            ),
            "overwritten": (stepwise("d_centered", lambda v: v["d_var"] * 2 * v["centered"] / v["D"]), "overwritten"),
            "no 2": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"] + v["d_var"] * v["centered"] / v["D"]),
                "the 2",
            ),
            "no 1 / D": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"] + v["d_var"] * 2 * v["centered"]),
                "1 / D",
            ),
            "Bessel": (
                stepwise(
                    "d_centered", lambda v: v["d_x_hat"] * v["rstd"] + v["d_var"] * 2 * v["centered"] / (v["D"] - 1)
                ),
                "D - 1",
            ),
            "the square of x_hat": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"] + v["d_var"] * 2 * v["x_hat"] / v["D"]),
                "2 * centered",
            ),
            "the sign of d_mean": (stepwise("d_mean", lambda v: total(v["d_centered"])), "sign"),
            "1 / D twice": (stepwise("d_mean", lambda v: -m(v["d_centered"])), "next line"),
            "d_mean not summed": (stepwise("d_mean", lambda v: -v["d_centered"]), "Sum the parts"),
            "no path through the mean": (stepwise("d_x", lambda v: v["d_centered"] * 1), "through the mean is missing"),
            "d_mean whole": (stepwise("d_x", lambda v: v["d_centered"] + v["d_mean"]), "1 / D"),
            "minus twice": (stepwise("d_x", lambda v: v["d_centered"] - v["d_mean"] / v["D"]), "is added"),
            "only through the mean": (
                stepwise("d_x", lambda v: v["d_mean"] / v["D"] + torch.zeros_like(v["x"])),
                "through centered is missing",
            ),
            "dy and x_hat in d_rstd": (stepwise("d_rstd", lambda v: total(v["dy"] * v["x_hat"])), "dy arrives at y"),
            "rstd in d_rstd": (stepwise("d_rstd", lambda v: total(v["d_x_hat"] * v["rstd"])), "the other factor"),
            "rows summed in d_rstd": (
                stepwise("d_rstd", lambda v: (v["d_x_hat"] * v["centered"]).sum(0, keepdim=True)),
                "over the rows",
            ),
            "all summed in d_rstd": (stepwise("d_rstd", lambda v: (v["d_x_hat"] * v["centered"]).sum()), "one number"),
            "minus in d_rstd": (stepwise("d_rstd", lambda v: -total(v["d_x_hat"] * v["centered"])), "No minus"),
            "rstd to minus 3": (stepwise("d_var", lambda v: v["d_rstd"] * -0.5 * v["rstd"] ** -3), "power"),
            "rstd to 1.5": (stepwise("d_var", lambda v: v["d_rstd"] * -0.5 * v["rstd"] ** 1.5), "already"),
            "minus 1.5": (stepwise("d_var", lambda v: v["d_rstd"] * -1.5 * v["rstd"] ** 3), "old power"),
            "minus in d_centered": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"] - v["d_var"] * 2 * v["centered"] / v["D"]),
                "both parts are added",
            ),
            "dy in d_centered": (
                stepwise("d_centered", lambda v: v["dy"] * v["rstd"] + v["d_var"] * 2 * v["centered"] / v["D"]),
                "not at x_hat",
            ),
            "no rstd in d_centered": (
                stepwise("d_centered", lambda v: v["d_x_hat"] + v["d_var"] * 2 * v["centered"] / v["D"]),
                "multiplied by rstd",
            ),
            "no d_var in d_centered": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"] + 2 * v["centered"] / v["D"]),
                "d_var is missing",
            ),
            "x in d_centered": (
                stepwise("d_centered", lambda v: v["d_x_hat"] * v["rstd"] + v["d_var"] * 2 * v["x"] / v["D"]),
                "not of x",
            ),
            "all divided by D": (
                stepwise("d_centered", lambda v: (v["d_x_hat"] * v["rstd"] + v["d_var"] * 2 * v["centered"]) / v["D"]),
                "brackets",
            ),
            "h in d_mean": (stepwise("d_mean", lambda v: -total(v["d_x_hat"])), "not d_x_hat"),
            "rows summed in d_mean": (stepwise("d_mean", lambda v: -v["d_centered"].sum(0)), "over the rows"),
            "h in d_x": (stepwise("d_x", lambda v: v["d_x_hat"] + v["d_mean"] / v["D"]), "not d_x_hat"),
            "D - 1 in d_x": (stepwise("d_x", lambda v: v["d_centered"] + v["d_mean"] / (v["D"] - 1)), "not by D - 1"),
            "times D": (stepwise("d_x", lambda v: v["d_centered"] + v["d_mean"] * v["D"]), "divide by D"),
            "five of six": (lambda *a: steps(*a)[:5], "expected d_x_hat"),
            "two lines so far": (only(2), "d_x_hat, d_rstd: right so far. d_var is still None"),
            "two lines, the second wrong": (
                lambda *a: (
                    *stepwise("d_rstd", lambda v: m(v["d_x_hat"] * v["centered"]))(*a)[:2],
                    None,
                    None,
                    None,
                    None,
                ),
                "summed, not averaged",
            ),
            "two lines wrong": (
                lambda *a: (*stepwise("d_var", lambda v: v["d_rstd"] * 0.5 * v["rstd"] ** 3)(*a)[:5], a[0] * 3),
                "the sign",
            ),
            "nothing written": (lambda *a: (None,) * 6, "d_x_hat is still None"),
        },
    },
    "layer_norm_backward": {
        "right": {
            "the closed form": closed,
            "sums and D": with_sums,
            "line by line, a list": in_steps,
            "PyTorch's expanded form": expanded,
            "two projections": projections,
        },
        "wrong": {
            # seen in public code
            "no mean term": (dx_is(lambda n, h, r, *_: r * (h - n * m(h * n))), "mean term is missing"),
            "statistics under no_grad": (detached_statistics, "constants"),
            "gain applied after": (
                dx_is(lambda n, h, r, dy, w, *_: w * r * (dy - m(dy) - n * m(dy * n))),
                "as in BatchNorm",
            ),
            "D - 1": (
                dx_is(lambda n, h, r, *_: r * (h - m(h) - n * (h * n).sum(-1, keepdim=True) / (n.shape[-1] - 1))),
                "This variance is biased",
            ),
            "x - mean for x_hat": (
                dx_is(lambda n, h, r, dy, w, x, mu: r * (h - m(h) - n * m(h * (x - mu)))),
                "factor rstd",
            ),
            "means over the rows": (
                params(lambda dy, n, h: (dy * n).flatten(0, -2).mean(0), lambda dy, n, h: dy.flatten(0, -2).mean(0)),
                "means over the rows",
            ),
            "weight and bias swapped": (
                params(lambda dy, n, h: over_rows(dy), lambda dy, n, h: over_rows(dy * n)),
                "swapped",
            ),
            "rstd for the variance": (
                lambda dy, x, mean, rstd, weight: closed(dy, x, mean, 1 / torch.sqrt(rstd + 1e-5), weight),
                "taken for the variance",
            ),
            "axes 0 and 1": (
                params(lambda dy, n, h: (dy * n).sum((0, 1)), lambda dy, n, h: dy.sum((0, 1))),
                "axes 0 and 1",
            ),
            # the others
            "no variance term": (dx_is(lambda n, h, r, *_: r * (h - m(h))), "variance term is missing"),
            "constants by hand": (dx_is(lambda n, h, r, *_: r * h), "constants"),
            "no gain": (dx_is(lambda n, h, r, dy, *_: r * (dy - m(dy) - n * m(dy * n))), "gain is missing in dx"),
            "gain twice": (dx_is(lambda n, h, r, dy, w, *_: w * r * (h - m(h) - n * m(h * n))), "twice"),
            "gain in the first term": (
                dx_is(lambda n, h, r, dy, *_: r * (h - m(dy) - n * m(dy * n))),
                "first term only",
            ),
            "gain not in the third": (
                dx_is(lambda n, h, r, dy, *_: r * (h - m(h) - n * m(dy * n))),
                "inside the variance term",
            ),
            "gain not in the second": (
                dx_is(lambda n, h, r, dy, *_: r * (h - m(dy) - n * m(h * n))),
                "inside the mean term",
            ),
            "D - 1 in both": (
                dx_is(
                    lambda n, h, r, *_: r * (h - total(h) / (n.shape[-1] - 1) - n * total(h * n) / (n.shape[-1] - 1))
                ),
                "both terms divide by D - 1",
            ),
            "sums": (dx_is(lambda n, h, r, *_: r * (h - total(h) - n * total(h * n))), "sums where means"),
            "a sum in the mean term": (
                dx_is(lambda n, h, r, *_: r * (h - total(h) - n * m(h * n))),
                "mean term is a sum",
            ),
            "a sum in the variance term": (
                dx_is(lambda n, h, r, *_: r * (h - m(h) - n * total(h * n))),
                "variance term is a sum",
            ),
            "all divided by D": (
                dx_is(lambda n, h, r, *_: r / n.shape[-1] * (h - total(h) - n * total(h * n))),
                "Only the two sums",
            ),
            "y for x_hat": (dx_is(lambda n, h, r, dy, w, *_: r * (h - m(h) - n * w * m(h * n * w))), "y stands where"),
            "centered twice": (
                dx_is(lambda n, h, r, dy, w, x, mu: r * (h - m(h) - (x - mu) * m(h * (x - mu)))),
                "where x_hat belongs, twice",
            ),
            "x for x_hat": (dx_is(lambda n, h, r, dy, w, x, mu: r * (h - m(h) - x * m(h * x))), "holds x where"),
            "not centered": (
                lambda dy, x, mean, rstd, weight: closed(dy, x, 0.0, rstd, weight),
                "mean is not subtracted",
            ),
            "one x_hat short": (dx_is(lambda n, h, r, *_: r * (h - m(h) - m(h * n))), "second x_hat"),
            "no mean in the variance term": (dx_is(lambda n, h, r, *_: r * (h - m(h) - n * h * n)), "one number a row"),
            "product of means": (
                dx_is(lambda n, h, r, *_: r * (h - m(h) - n * m(h) * m(n))),
                "variance term is missing",
            ),
            "no rstd": (dx_is(lambda n, h, r, *_: h - m(h) - n * m(h * n)), "in front is missing"),
            "rstd squared": (dx_is(lambda n, h, r, *_: r**2 * (h - m(h) - n * m(h * n))), "squared in front"),
            "rstd cubed in front": (dx_is(lambda n, h, r, *_: r**3 * (h - m(h) - n * m(h * n))), "cubed in front"),
            "doubled": (dx_is(lambda n, h, r, *_: r * (h - m(h) - 2 * n * m(h * n))), "doubled"),
            "halved": (dx_is(lambda n, h, r, *_: r * (h - m(h) - n * m(h * n) / 2)), "halved"),
            "the other way": (dx_is(lambda n, h, r, *_: -r * (h - m(h) - n * m(h * n))), "sign of the whole"),
            "gain out of the mean": (
                dx_is(lambda n, h, r, dy, w, *_: r * (h - w * m(dy) - n * m(h * n))),
                "out of the mean term",
            ),
            "unbiased anew": (
                lambda dy, x, mean, rstd, weight: closed(dy, x, mean, 1 / x.std(-1, keepdim=True), weight),
                "unbiased variance",
            ),
            "dx last": (lambda *a: (lambda dx, dw, db: (dw, db, dx))(*closed(*a)), "first output is dweight"),
            "h for weight and bias": (
                params(lambda dy, n, h: over_rows(h * n), lambda dy, n, h: over_rows(h)),
                "on its way to x_hat",
            ),
            "dweight without dy": (params(lambda dy, n, h: over_rows(n)), "lacks dy"),
            "rstd on one term": (dx_is(lambda n, h, r, *_: r * h - m(h) - n * m(h * n)), "first term only"),
            "rstd cubed": (dx_is(lambda n, h, r, *_: r * (h - m(h)) - r**3 * n * m(h * n)), "cubed"),
            "plus": (dx_is(lambda n, h, r, *_: r * (h + m(h) + n * m(h * n))), "terms are added"),
            "plus on the third": (dx_is(lambda n, h, r, *_: r * (h - m(h) + n * m(h * n))), "variance term is added"),
            "plus on the second": (dx_is(lambda n, h, r, *_: r * (h + m(h) - n * m(h * n))), "mean term is added"),
            "std for rstd": (lambda dy, x, mean, rstd, weight: closed(dy, x, mean, 1 / rstd, weight), "deviation"),
            "its own eps": (pytorch_anew, "which eps"),
            "means over the batch": (
                dx_is(lambda n, h, r, *_: r * (h - h.mean(0, keepdim=True) - n * (h * n).mean(0, keepdim=True))),
                "as in BatchNorm",
            ),
            "means over axis 1": (
                dx_is(lambda n, h, r, *_: r * (h - h.mean(1, keepdim=True) - n * (h * n).mean(1, keepdim=True))),
                "axis 1",
            ),
            "means over everything": (
                dx_is(lambda n, h, r, *_: r * (h - h.mean() - n * (h * n).mean())),
                "whole tensor",
            ),
            "no keepdim": (loses_keepdim, "raised"),
            "dx summed": (dx_is(lambda n, h, r, *_: over_rows(r * (h - m(h) - n * m(h * n)))), "Each row of x"),
            "h for dx": (dx_is(lambda n, h, *_: h * 1), "gradient at x_hat"),
            "not summed": (params(lambda dy, n, h: dy * n, lambda dy, n, h: dy * 1), "not summed over the rows"),
            "first axis": (params(lambda dy, n, h: (dy * n).sum(0), lambda dy, n, h: dy.sum(0)), "first axis only"),
            "over the features": (
                params(lambda dy, n, h: (dy * n).sum(-1), lambda dy, n, h: dy.sum(-1)),
                "over the features",
            ),
            "single numbers": (params(lambda dy, n, h: (dy * n).sum(), lambda dy, n, h: dy.sum()), "single numbers"),
            "only the last row": (a_loop_that_overwrites, "last row"),
            "dweight not summed": (params(lambda dy, n, h: dy * n), "dweight is not summed"),
            "dweight with h": (params(lambda dy, n, h: over_rows(h * n)), "dweight uses h"),
            "dweight without x_hat": (params(lambda dy, n, h: over_rows(dy)), "lacks x_hat"),
            "dweight with x": (
                lambda dy, x, mean, rstd, weight: (
                    closed(dy, x, mean, rstd, weight)[0],
                    over_rows(dy * x),
                    over_rows(dy),
                ),
                "dweight uses x, not",
            ),
            "dweight with x - mean": (
                lambda dy, x, mean, rstd, weight: (
                    closed(dy, x, mean, rstd, weight)[0],
                    over_rows(dy * (x - mean)),
                    over_rows(dy),
                ),
                "dweight uses x - mean",
            ),
            "dbias with h": (params(dbias=lambda dy, n, h: over_rows(h)), "dbias uses h"),
            "dbias not summed": (params(dbias=lambda dy, n, h: dy * 1), "dbias is not summed"),
            "no gain, and means over the rows": (
                lambda dy, x, mean, rstd, weight: (
                    closed(dy, x, mean, rstd, torch.ones_like(weight))[0],
                    (dy * x).mean(0),
                    dy.mean(0),
                ),
                "gain is missing in dx",
            ),
            "two of three": (lambda *a: closed(*a)[:2], "expected dx and dweight and dbias"),
            "dx alone": (lambda *a: closed(*a)[0], "expected dx and dweight and dbias"),
            "in place": (works_in_place, "changed its input x"),
            "arguments swapped": (swapped_arguments, "expected"),
            "detached rstd": (
                lambda dy, x, mean, rstd, weight: closed(dy, x, mean, rstd.detach(), weight),
                "gradient of",
            ),
            "under no_grad": (torch.no_grad()(closed), "gradient"),
            "float32 only": (lambda *a: tuple(t.double() for t in closed(*(t.float() for t in a))), "expected"),
        },
    },
    "blind_losses": {
        "right": {"the answers": SEES, "in another order": dict(reversed(SEES.items()))},
        "wrong": {
            "sum and mean": (but(0), "without the mean term h stays"),
            "sum and variance": (but(1), "nothing to miss"),
            "squares and mean": (but(2), "mean(h) = 0"),
            "squares and variance": (but(3), "without the variance term h stays"),
            "random and mean": (but(4), "has a mean"),
            "random and variance": (but(5), "along x_hat"),
            "random and gain": (but(6), "The gain is 1"),
            "all seen": (dict.fromkeys(SEES, True), "nothing to miss"),
            "none seen": (dict.fromkeys(SEES, False), "not right"),
            "numbers": ({k: int(v) for k, v in SEES.items()}, "not right"),
            "words": ({k: "yes" if v else "no" for k, v in SEES.items()}, "not right"),
            "a key is missing": ({k: v for k, v in SEES.items() if "gain" not in k}, "missing"),
            "a list": (list(SEES.values()), "dictionary"),
        },
    },
    "layer_norm_function": {
        "right": {
            "setup_context": NewStyle,
            "ctx in forward, line by line": OldStyle,
            "the forward pass again": ByAutograd,
            "only what is needed": OnlyWhatIsNeeded,
            "a None too many, which PyTorch allows": returns(lambda dx, dw, db, e: (dx, dw, db, None, None)),
        },
        "wrong": {
            "saved statistics": (SavesStatistics, "constants for the second derivative"),
            "detached statistics": (backward_is(detaches), "or detached"),
            "once_differentiable": (
                backward_is(torch.autograd.function.once_differentiable(NewStyle.backward)),
                "once_differentiable",
            ),
            "under no_grad": (backward_is(torch.no_grad()(NewStyle.backward)), "without a tape"),
            "saves x_hat": (SavesXHat, "instead of x"),
            "hides x_hat on ctx": (HidesXHat, "x_hat is saved as well"),
            "no None for eps": (returns(lambda dx, dw, db, e: (dx, dw, db)), "return None"),
            "dx alone": (returns(lambda dx, dw, db, e: dx), "dx alone"),
            "a list": (returns(lambda dx, dw, db, e: [dx, dw, db, None]), "or a list"),
            "swapped": (returns(lambda dx, dw, db, e: (dx, db, dw, None)), "in the order"),
            "a tuple in the tuple": (returns(lambda dx, dw, db, e: ((dx, dw, db), None)), "A star"),
            "0 for eps": (returns(lambda dx, dw, db, e: (dx, dw, db, 0.0)), "is no tensor"),
            "sqrt for rstd": (hands(lambda dy, x, mean, var, eps, w: (dy, x, mean, (var + eps).sqrt(), w)), "got sqrt"),
            "the variance for rstd": (
                hands(lambda dy, x, mean, var, eps, w: (dy, x, mean, var, w)),
                "got the variance",
            ),
            "var + eps for rstd": (
                hands(lambda dy, x, mean, var, eps, w: (dy, x, mean, var + eps, w)),
                "got var + eps",
            ),
            "eps outside": (
                hands(lambda dy, x, mean, var, eps, w: (dy, x, mean, 1 / (var**0.5 + eps), w)),
                "outside the root",
            ),
            "unbiased": (
                hands(lambda dy, x, mean, var, eps, w: (dy, x, mean, torch.rsqrt(x.var(-1, keepdim=True) + eps), w)),
                "is unbiased",
            ),
            "mean and rstd swapped": (
                hands(lambda dy, x, mean, var, eps, w: (dy, x, (var + eps) ** -0.5, mean, w)),
                "mean and rstd are swapped",
            ),
            "dy and x swapped": (
                hands(lambda dy, x, mean, var, eps, w: (x, dy, mean, (var + eps) ** -0.5, w)),
                "dy and x are swapped",
            ),
            "a name that is not there": (backward_is(unknown_name), "NameError"),
            "no dx": (returns(lambda dx, dw, db, e: (None, dw, db, None)), "x gets no gradient"),
            "only dx": (returns(lambda dx, dw, db, e: (dx, None, None, None)), "weight and bias get no gradient"),
            "returns nothing": (backward_is(lambda ctx, dy: None), "gradient"),
            "eps fixed": (with_eps(1e-5), "ctx.eps"),
            "eps left out": (with_eps(0.0), "leaves eps out"),
            "no variance term": (backward_is(one_term_short), "gradient of x"),
            "dy changed in place": (backward_is(scales_dy), "changed its input dy"),
            "a module": (Module, "autograd.Function"),
            "no Function": (NoFunction, "autograd.Function"),
            "apply itself": (NewStyle.apply, "class itself"),
            "its result": (torch.zeros(3, 5), "class itself"),
        },
    },
    "mended_gradient": {
        "right": {"h first": mended, "sums": mended_sums, "by exercise 7.3": mended_by_7_3},
        "wrong": {
            "the patient": (patient, "that is the patient"),
            "no gain": (three(0, 0, 0), "gain is gone"),
            "gain twice": (three(1, 1, 1, "gain"), "twice"),
            "first term": (three(1, 0, 0), "first term only"),
            "not in the first term": (three(0, 1, 1), "missing in the first term"),
            "still in front": (three(0, 1, 1, "gain"), "still stands in front"),
            "a factor D": (lambda dy, x_hat, rstd, weight: mended(dy, x_hat, rstd, weight) * dy.shape[-1], "factor D"),
            "not in the mean term": (three(1, 0, 1), "missing in the mean term"),
            "not in the variance term": (three(1, 1, 0), "missing in the variance term"),
            "mean gain": (
                lambda dy, x_hat, rstd, weight: three(0, 0, 0, weight.mean())(dy, x_hat, rstd, weight),
                "no cure",
            ),
            "divided": (lambda dy, x_hat, rstd, weight: mended(dy / weight, x_hat, rstd, weight**0), "divided by"),
            "gain in x_hat": (lambda dy, x_hat, rstd, weight: mended(dy, x_hat * weight, rstd, weight), "x_hat too"),
            "no mean term": (
                lambda dy, x_hat, rstd, weight: rstd * (dy * weight - x_hat * m(dy * weight * x_hat)),
                "mean term is missing",
            ),
            "no variance term": (
                lambda dy, x_hat, rstd, weight: rstd * (dy * weight - m(dy * weight)),
                "variance term is missing",
            ),
            "no rstd": (lambda dy, x_hat, rstd, weight: mended(dy, x_hat, rstd, weight) / rstd, "rstd is missing"),
            "over the batch": (
                lambda dy, x_hat, rstd, weight: (
                    rstd * (dy * weight - (dy * weight).mean(0) - x_hat * (dy * weight * x_hat).mean(0))
                ),
                "expected",
            ),
        },
    },
}

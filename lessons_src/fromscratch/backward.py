"""What lesson 7 builds: LayerNormFunction, layer_norm_backward.

Made by coursebuild from lessons_src/lessons/07_backward/lesson.py: edit the lesson, not this file.
"""

from fromscratch import layer_norm
from fromscratch import mean_and_var
from lessonkit import data
from torch import nn
from torch.nn import functional as F
import torch


# Prepares the training of a net with a norm.


def _trained(norm, rate=0.05, seed=0):
    """Train a net of six blocks with this norm for 200 steps, and print what it has learned."""
    torch.manual_seed(seed)  # the same first weights for every norm
    blocks = [nn.Sequential(nn.Linear(64, 64), norm, nn.ReLU()) for _ in range(6)]
    net = nn.Sequential(*blocks, nn.Linear(64, 10))
    digits = data.digits_split(0)
    for _ in range(200):
        net.zero_grad()
        F.cross_entropy(net(digits.x_train.flatten(1)), digits.y_train).backward()
        with (
            torch.no_grad()
        ):  # plain SGD; whoever makes torch.optim's first waits seconds for its imports
            for parameter in net.parameters():
                parameter.add_(parameter.grad, alpha=-rate)
    right = net(digits.x_test.flatten(1)).argmax(1) == digits.y_test  # (B,)
    print(f"{type(norm).__name__} reads {right.double().mean():.0%} of the test digits")


# For the raise line, write `straight = ...`, then the others. The check may run after each.
def layer_norm_backward(dy, x, mean, rstd, weight):
    """Carry a gradient back through LayerNorm over the last axis.

    Example: our row and dy give dx = [-2, 2, 1, -1], dweight = [0, -3.5, 0, 4.5], dbias = dy.
    dy, x, dx: (..., D). mean, rstd: (..., 1), those of x. weight, dweight, dbias: (D,).
    """
    c = x - mean  # (..., D)
    h = dy * weight  # (..., D)
    straight = through_mean = through_variance = torch.zeros_like(h)  # (..., D)
    dweight = None
    x_hat = c * rstd  # (..., D)
    straight = rstd * h
    through_mean = -rstd * h.mean(-1, keepdim=True)
    through_variance = -rstd * x_hat * (h * x_hat).mean(-1, keepdim=True)
    dweight = (dy * x_hat).sum_to_size(weight.shape)  # (D,) over all rows
    dx = straight + through_mean + through_variance  # (..., D)
    dbias = dy.sum_to_size(weight.shape)  # (D,) added over all rows
    return dx, dweight, dbias


class LayerNormFunction(torch.autograd.Function):
    """LayerNorm over the last axis, with a backward pass that may be differentiated again.

    Example: LayerNormFunction.apply(x, weight, bias, 1e-5) has the values of F.layer_norm.
    x: (..., D); weight, bias: (D,); eps: a float. Returns (..., D).
    Any of the three may need a gradient, or none. Nothing of x's size is kept but x.
    """

    generate_vmap_rule = True  # lets torch.func.vmap and jacrev through

    @staticmethod
    def forward(x, weight, bias, eps):
        return layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):  # saves for forward: torch.func wants it apart
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        """dy: (..., D). Returns a gradient for each input of forward, None for eps."""
        x, weight = ctx.saved_tensors
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # half precision is too coarse
        x = x - x.mean(-1, keepdim=True)  # far from 0 the digits would be lost
        mean, var = mean_and_var(x)  # (..., 1) each
        rstd = torch.rsqrt(var + ctx.eps)  # (..., 1)
        return *layer_norm_backward(dy, x, mean, rstd, weight), None

"""What lesson 7 builds: LayerNormFunction, layer_norm_backward.

Made by coursebuild from lessons_src/lessons/07_backward.py: edit the lesson, not this file.
"""

from fromscratch import layer_norm
from fromscratch import mean_and_var
import torch


def layer_norm_backward(dy, x, mean, rstd, weight):
    """The backward pass of LayerNorm over the last axis.

    dy: (..., D) gradient of the loss by the output. x: (..., D) the input, also a single row.
    mean, rstd: (..., 1) statistics of x, rstd = 1 / sqrt(var + eps). weight: (D,) the gain.
    Returns (dx, dweight, dbias) of shapes (..., D), (D,), (D,).
    Only tensor operations, none in place: autograd must be able to differentiate the result
    once more. Neither autograd nor PyTorch's own LayerNorm inside: it is your formula.
    """
    x_hat = (x - mean) * rstd  # (..., D)
    h = dy * weight  # (..., D) what arrives at x_hat
    along_x_hat = (h * x_hat).mean(-1, keepdim=True)  # (..., 1)
    dx = rstd * (h - h.mean(-1, keepdim=True) - x_hat * along_x_hat)  # (..., D)
    dweight = (dy * x_hat).sum_to_size(weight.shape)  # (D,) over all rows
    return dx, dweight, dy.sum_to_size(weight.shape)


class LayerNormFunction(torch.autograd.Function):
    """LayerNorm over the last axis, with a backward pass that may be differentiated again.

    LayerNormFunction.apply(x, weight, bias, eps): x (..., D); weight, bias (D,); eps a float.
    Returns (..., D). Any of the three tensors may need a gradient, or none.
    It keeps x and weight, and nothing else of x's size.
    """

    generate_vmap_rule = True  # lets torch.func.vmap and jacrev through

    @staticmethod
    def forward(x, weight, bias, eps):
        return layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        """dy: (..., D). Returns one gradient for each input of forward, None for eps."""
        x, weight = ctx.saved_tensors
        # half precision is computed in float32
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        # where a row lies changes nothing, but far from 0 it costs digits
        x = x - x.mean(-1, keepdim=True)
        mean, var = mean_and_var(x)  # (..., 1) each
        rstd = torch.rsqrt(var + ctx.eps)  # (..., 1)
        return *layer_norm_backward(dy, x, mean, rstd, weight), None

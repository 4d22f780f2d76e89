"""Answers to the exercise of lesson NN."""

from .checks import _mean_square

ANSWERS = {
    "mean_square_of_new_lesson": {
        "right": {
            "the solution": _mean_square,
            "a power": lambda x: (x**2).mean(dim=-1, keepdim=True),
            "a sum": lambda x: x.square().sum(-1)[..., None] / x.shape[-1],
        },
        "wrong": {"a list": (lambda x: _mean_square(x).tolist(), "list")},
    }
}

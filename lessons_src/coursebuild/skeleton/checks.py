"""Checks of lesson NN: the mean square."""

from lessonkit.check.declare import exercise, numbers


def _mean_square(x):
    squares = x * x
    return squares.mean(-1, keepdim=True)


mean_square_of_new_lesson = exercise(
    _mean_square,
    ("the row -3, -1, 1, 3", numbers([-3, -1, 1, 3])),
    takes={"x": "... D"},
    tried="one to five axes, two number types, gradients",
    wrong="""
    # the squares are summed. | Take their mean.
    return squares.sum(-1, keepdim=True)

    # the mean is squared, and the signs have canceled before. | Square first, then take the mean.
    return x.mean(-1, keepdim=True) ** 2

    # the reduced axis is gone. | Say keepdim=True.
    return squares.mean(-1)

    # one number for the whole tensor. Every row has its own. | Reduce axis -1 only.
    return squares.mean()

    # that is the root of the mean square. | Leave the root away.
    return squares.mean(-1, keepdim=True).sqrt()
    """,
)

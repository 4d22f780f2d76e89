"""What lesson 9 builds: conv_output_shape.

Made by coursebuild from lessons_src/lessons/09_cnn.py: edit the lesson, not this file.
"""

from numbers import Integral


def _per_axis(name, value, axes, least):
    """Return value as a tuple, one whole number for each axis: 3 is (3, 3) for two axes."""
    several = isinstance(value, (tuple, list))
    numbers = tuple(value) if several else (value,) * axes
    if not all(
        isinstance(number, Integral) and not isinstance(number, bool) for number in numbers
    ):
        raise TypeError(
            f"{name} is {value!r}, expected a whole number, or a whole number for each axis: 3 "
            "or (3, 5)."
        )
    if len(numbers) != axes or not numbers:
        raise ValueError(
            f"{name} is {value!r}, expected one number for each axis: {axes or 'at least one'}."
        )
    if min(numbers) < least:
        raise ValueError(f"{name} is {value!r}, expected at least {least}.")
    return tuple(int(number) for number in numbers)


def conv_output_shape(size, kernel_size, stride=1, padding=0, dilation=1):
    """Return the size of what a convolution or a pooling layer makes of an image.

    size: (H, W), or the sizes of any number of axes. kernel_size, stride, padding, dilation: as
    in nn.Conv2d, one whole number for all axes or one for each. Returns a tuple of whole
    numbers. Raises ValueError where the kernel does not fit into the padded image.
    """
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"size is {size!r}, expected a whole number for each axis: (H, W).")
    n = len(size)
    axes = zip(
        _per_axis("size", size, n, least=1),
        _per_axis("kernel_size", kernel_size, n, least=1),
        _per_axis("stride", stride, n, least=1),
        _per_axis("padding", padding, n, least=0),
        _per_axis("dilation", dilation, n, least=1),
        strict=True,
    )
    # Your part: "for L, k, s, p, d in axes" gives the five numbers of one axis after the other.
    # Raise a ValueError where the kernel does not fit; return all output sizes as a tuple.
    shape = []
    for L, k, s, p, d in axes:
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError(f"the kernel does not fit: {reach} pixels in {L} + 2 * {p}.")
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)

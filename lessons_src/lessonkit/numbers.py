"""Print numbers so that the same text comes out on every machine that rounds alike."""

import torch

from lessonkit import _threads  # noqa: F401  sets how many torch uses


def text(value, digits=4):
    """Return value as text with a fixed number of decimals; a negative zero loses its sign.

    value: number, bool, str, tensor or nested list of them.
    digits: decimals of floating-point numbers; whole numbers and bools are written in full.
    """
    if hasattr(value, "tolist"):  # a tensor, or a NumPy array or number
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        inner = ", ".join(text(item, digits) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, float):
        written = f"{value:.{digits}f}"
        return written.removeprefix("-") if float(written) == 0 else written
    return str(value)


def show(label, value, digits=4):
    """Print `label = value`, a matrix with one row a line.

    label: str, what the numbers are. value: number, tensor, or (nested) list.
    digits: decimals. Print only digits that hold on every machine; assert the rest.
    """
    if isinstance(value, torch.Tensor) and value.dim() == 2:
        cells = [[text(item, digits) for item in row] for row in value.detach().cpu().tolist()]
        width = max((len(cell) for row in cells for cell in row), default=0)
        rows = ["  ".join(cell.rjust(width) for cell in row) for row in cells]
        print(f"{label} =", *rows, sep="\n  ")
    else:
        print(f"{label} = {text(value, digits)}")

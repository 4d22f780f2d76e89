"""Shapes as blocks: which entries of a tensor share one mean, and how many means come out."""

import itertools
import math

from matplotlib import colors as mcolors
from matplotlib.collections import PolyCollection

from lessonkit.plot import _numbers
from lessonkit.plot._style import COLORS, GREY, LABEL, WIDE, ink, measure, named, publish

_BLUE = COLORS["LayerNorm"]
_PALE = ("#F1F5F8", "#B9D6E8")  # neighbouring groups take turns
_MOST = 8  # cells along one axis
_DEPTH = (0.5, 0.4)  # one step into the page, in cells to the right and up
_FONT = {"fontsize": 12, "color": ink(GREY)}


def reduced(shape, over):
    """(keepdim shape of a statistic over the axes `over`, how many values it has, how many entries make one value).

    shape: {axis: size} in order, such as {"B": 2, "T": 3, "C": 4}. over: names of the axes that are averaged.
    Raises ValueError for an axis that is not in the shape.
    """
    for axis in over:
        if axis not in shape:
            raise ValueError(f"axis {axis!r} is not one of {', '.join(shape)}. Axes are named as in shape=.")
    kept = tuple(1 if axis in over else size for axis, size in shape.items())
    return kept, math.prod(kept), math.prod(shape.values()) // math.prod(kept)


def cubes(layouts, /, **words):
    """Draw tensors as blocks of cells and shade which entries share one statistic.

    layouts: {name: dict(shape={"B": 2, "T": 3, "C": 4}, over=("C",))}, one to four axes of 1 to 8 cells. The last axis
    runs to the right, the one before it down, the one before that into the page, and a fourth makes blocks side by
    side. What shares its mean with the first entry is LayerNorm's blue; the others take turns in two pale shades. Below
    each block stand the keepdim shape of the mean and how many means there are.
    Raises ValueError for shapes that cannot be drawn, unknown axes.
    """
    for name, layout in named(layouts, "plot.cubes").items():
        shape = layout["shape"]
        if not 1 <= len(shape) <= 4 or not all(n in range(1, _MOST + 1) for n in shape.values()):
            raise ValueError(f"plot.cubes: {name!r} has shape {shape}, expected 1 to 4 axes of 1 to {_MOST} cells.")

    def build(fig):
        blocks = [_Block(fig, name, **layout) for name, layout in layouts.items()]
        # Lengths are in points, so that cells and letters share one scale; 20 and 10 are the margins of the figure.
        width = fig.get_figwidth() * 72 - 20
        cell, rows = _arrange(blocks, width)
        heights = [max(block.height(cell) for block in row) for row in rows]
        height = sum(heights) + 14 * (len(rows) - 1)
        ax = fig.add_subplot()
        top = height
        for row, tall in zip(rows, heights, strict=True):
            spare = (width - sum(block.width(cell) for block in row)) / len(row)
            left = spare / 2
            for block in row:
                block.draw(ax, left + block.width(cell) / 2, top, cell)
                left += block.width(cell) + spare
            top -= tall + 14
        ax.set_axis_off()
        ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        fig.set_figheight((height + 10) / 72)

    cells = []
    for name, layout in layouts.items():
        kept, count, entries = reduced(**layout)
        shape = ", ".join(f"{axis} = {n}" for axis, n in layout["shape"].items())
        cells.append((name, shape, str(kept), count, entries))
    numbers = _numbers.table(["tensor", "shape", "shape of the mean", "means", "entries in each"], {(): cells})
    return publish(build, size=(WIDE, 3), numbers=numbers, **words)


def _arrange(blocks, width):
    """(side of a cell in points, rows of blocks): the fewest rows, and the largest cells with which they fit."""
    for count in range(1, len(blocks) + 1):
        each = math.ceil(len(blocks) / count)
        rows = [blocks[i : i + each] for i in range(0, len(blocks), each)]
        for cell in range(24, 12 if each > 1 else 5, -1):
            if all(sum(block.width(cell) + 14 for block in row) <= width for row in rows):
                return cell, rows
    raise ValueError("plot.cubes: a block is too wide for the figure. Take smaller axes or a shorter name.")


class _Block:
    """One layout on the page: how much room it takes, and how to draw it, with cells of a given side."""

    def __init__(self, fig, name, shape, over):
        self.name, self.over = name, over
        kept, count, entries = reduced(shape, over)
        means, of = "mean" if count == 1 else "means", "entry" if entries == 1 else "entries"
        self.words = [f"mean: {kept}", f"{count} {means} of {entries} {of}"]
        # Where each axis runs; a missing one counts one cell and has no name.
        self.axes = dict(zip(("side", "deep", "down", "right"), [None] * (4 - len(shape)) + list(shape), strict=True))
        self.n = {where: shape.get(axis, 1) for where, axis in self.axes.items()}
        self.label = {where: f"{axis} = {shape[axis]}" if axis else "" for where, axis in self.axes.items()}
        self.depth = self.n["deep"] if self.axes["deep"] else 0
        widths = {where: 72 * measure(fig, text, **_FONT)[0] if text else 0 for where, text in self.label.items()}
        self.before, self.after = widths["down"] + 6, widths["deep"]
        self.text_width = max(72 * measure(fig, text, **LABEL)[0] for text in [name, *self.words]) + 6

    def step(self, cell):
        """From one block to the next beside it."""
        return cell * (self.n["right"] + self.depth * _DEPTH[0] + 0.5)

    def blocks(self, cell):
        return self.n["side"] * self.step(cell) - 0.5 * cell

    def width(self, cell):
        return max(self.before + self.blocks(cell) + self.after, self.text_width)

    def height(self, cell):
        return 24 + cell * (self.n["down"] + self.depth * _DEPTH[1]) + (46 if self.axes["side"] else 24) + 34

    def group(self, **at):
        """Which group an entry belongs to: its place on each axis that is kept."""
        return [at[where] for where, axis in self.axes.items() if axis and axis not in self.over]

    def draw(self, ax, centre, top, cell):
        """Draw around `centre`, from `top` downwards."""
        dx, dy = cell * _DEPTH[0], cell * _DEPTH[1]
        rows, columns, count = self.n["down"], self.n["right"], self.n["side"]
        x0 = centre - (self.before + self.blocks(cell) + self.after) / 2 + self.before
        y0 = top - 24 - self.depth * dy  # the upper edge of the front
        foot = y0 - rows * cell
        faces, colors = [], []

        def face(x, y, first, second, light, **at):
            """A parallelogram with a corner at (x, y), in the colour of the entry's group."""
            ends = [(0, 0), first, (first[0] + second[0], first[1] + second[1]), second]
            faces.append([(x + a, y + b) for a, b in ends])
            group = self.group(**at)
            color = mcolors.to_rgb(_PALE[(sum(group) + 1) % 2] if any(group) else _BLUE)
            colors.append([light * part for part in color])

        right, down, deep = (cell, 0), (0, -cell), (dx, dy)
        for side in range(count):
            x = x0 + side * self.step(cell)
            for i, j in itertools.product(range(rows), range(columns)):
                face(x + j * cell, y0 - i * cell, right, down, 1.0, side=side, deep=0, down=i, right=j)
            for k, j in itertools.product(range(self.depth), range(columns)):
                face(x + j * cell + k * dx, y0 + k * dy, right, deep, 0.97, side=side, deep=k, down=0, right=j)
            edge = x + columns * cell
            for k, i in itertools.product(range(self.depth), range(rows)):
                at = {"side": side, "deep": k, "down": i, "right": columns - 1}
                face(edge + k * dx, y0 - i * cell + k * dy, deep, down, 0.9, **at)
        ax.add_collection(PolyCollection(faces, facecolors=colors, edgecolors="#7D93A3", linewidths=0.8))

        ax.text(centre, top, self.name, ha="center", va="top", fontsize=13, fontweight="bold")
        ax.text(x0 + columns * cell / 2, foot - 4, self.label["right"], ha="center", va="top", **_FONT)
        ax.text(x0 - 6, (y0 + foot) / 2, self.label["down"], ha="right", va="center", **_FONT)
        ax.text(edge + self.depth * dx / 2 + 5, foot + self.depth * dy / 2, self.label["deep"], va="top", **_FONT)
        if self.axes["side"]:
            ax.plot([x0, x0 + self.blocks(cell)], [foot - 24] * 2, color=GREY, lw=1.2)
            ax.text(x0 + self.blocks(cell) / 2, foot - 26, self.label["side"], ha="center", va="top", **_FONT)
            foot -= 22
        for line, text in enumerate(self.words):
            ax.text(centre, foot - 24 - 17 * line, text, ha="center", va="top", color=ink(_BLUE), **LABEL)

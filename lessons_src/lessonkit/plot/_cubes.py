"""Shapes as blocks: which entries of a tensor share one mean, and how many means come out."""

import itertools
import math

import numpy as np
from matplotlib import colors as mcolors
from matplotlib.collections import PolyCollection

from lessonkit.plot import _numbers
from lessonkit.plot._style import COLORS, GREY, LABEL, WIDE, ink, measure, publish

_BLUE = COLORS["LayerNorm"]
_PALE = ("#F1F5F8", "#B9D6E8")  # neighbouring groups take turns
# From one cell to the next along an axis, in cells to the right and up; the two axes of each face, and its brightness.
_STEPS = {"right": np.array([1, 0]), "down": np.array([0, -1]), "deep": np.array([0.5, 0.4])}
_FACES = {("down", "right"): 1.0, ("deep", "right"): 0.97, ("deep", "down"): 0.9}
_FONT = {"fontsize": 12, "color": ink(GREY)}


def _reduced(shape, over):
    """Return (keepdim shape of a mean over axes, how many means, how many entries in each)."""
    kept = tuple(1 if axis in over else size for axis, size in shape.items())
    return kept, math.prod(kept), math.prod(shape[axis] for axis in over)


def cubes(layouts, /, **words):
    """Draw tensors as blocks of cells and shade which entries share one statistic.

    layouts: {name: dict(shape={"B": 2, "T": 3, "C": 4}, over=("C",))}, two to four axes of few cells. The last axis
    runs to the right, the one before it down, the one before that into the page, and a fourth makes blocks side by
    side. What shares its mean with the first entry is LayerNorm's blue; the others take turns in two pale shades. Below
    each block stand the keepdim shape of the mean and how many means there are.
    Raises ValueError for shapes that have no room, KeyError for unknown axes.
    """

    def build(fig):
        blocks = [_Block(fig, name, **layout) for name, layout in layouts.items()]
        # Lengths are in points; 20 and 10 are the margins of the figure.
        width = fig.get_figwidth() * 72 - 20
        spare = {cell: width - sum(block.width(cell) for block in blocks) for cell in range(6, 25)}
        cell = max(cell for cell in spare if spare[cell] >= 14 * len(blocks))  # ValueError: too wide for one figure
        height = max(block.height(cell) for block in blocks)
        ax, left = fig.add_subplot(), 0
        for block in blocks:
            room = block.width(cell) + spare[cell] / len(blocks)
            block.draw(ax, left + room / 2, height, cell)
            left += room
        ax.set_axis_off()
        ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        fig.set_figheight((height + 10) / 72)

    cells = []
    for name, layout in layouts.items():
        kept, count, entries = _reduced(**layout)
        shape = ", ".join(f"{axis} = {n}" for axis, n in layout["shape"].items())
        cells.append((name, shape, str(kept), count, entries))
    numbers = _numbers.table(["tensor", "shape", "shape of the mean", "means", "entries in each"], {(): cells})
    return publish(build, size=(WIDE, 3), numbers=numbers, **words)


class _Block:
    """One layout on the page, with cells of a given side."""

    def __init__(self, fig, name, shape, over):
        self.name, self.over = name, over
        kept, count, entries = _reduced(shape, over)
        self.words = [f"mean: {kept}", f"{count} means of {entries} entries"]
        # Where each axis runs; a missing one counts one cell and has no name.
        self.axes = dict(zip(("side", "deep", "down", "right"), [None] * (4 - len(shape)) + list(shape), strict=True))
        self.n = {where: shape.get(axis, 1) for where, axis in self.axes.items()}
        self.label = {where: f"{axis} = {shape[axis]}" if axis else "" for where, axis in self.axes.items()}
        self.depth = self.n["deep"] if self.axes["deep"] else 0
        self.step = self.n["right"] + self.depth * _STEPS["deep"][0] + 0.5  # from one block to the next, in cells
        widths = {where: 72 * measure(fig, text, **_FONT)[0] if text else 0 for where, text in self.label.items()}
        self.before, self.after = widths["down"] + 6, widths["deep"]
        self.text_width = max(72 * measure(fig, text, **LABEL)[0] for text in [name, *self.words]) + 6

    def blocks(self, cell):
        """How wide the cells are; half a cell is between two blocks."""
        return cell * (self.n["side"] * self.step - 0.5)

    def width(self, cell):
        return max(self.before + self.blocks(cell) + self.after, self.text_width)

    def height(self, cell):
        return 24 + cell * (self.n["down"] + self.depth * _STEPS["deep"][1]) + (46 if self.axes["side"] else 24) + 34

    def color(self, at, light):
        """The colour of an entry's group: its place on each axis that is kept."""
        group = [at[where] for where, axis in self.axes.items() if axis and axis not in self.over]
        color = mcolors.to_rgb(_PALE[(sum(group) + 1) % 2] if any(group) else _BLUE)
        return [light * part for part in color]

    def faces(self):
        """The faces that are seen: (where each begins and the two steps along it, in cells; its colour)."""
        counts = self.n | {"deep": self.depth}
        for (first, second), light in _FACES.items():
            a, b = _STEPS[first], _STEPS[second]
            last = {} if "right" in (first, second) else {"right": self.n["right"] - 1}
            edge = _STEPS["right"] * (self.n["right"] if last else 0)
            for side, i, j in itertools.product(range(counts["side"]), range(counts[first]), range(counts[second])):
                at = {"side": side, "deep": 0, "down": 0, "right": 0} | last | {first: i, second: j}
                yield side * self.step * _STEPS["right"] + edge + i * a + j * b, a, b, self.color(at, light)

    def draw(self, ax, centre, top, cell):
        dx, dy = self.depth * cell * _STEPS["deep"]
        x0 = centre - (self.before + self.blocks(cell) + self.after) / 2 + self.before
        y0 = top - 24 - dy  # the upper edge of the front
        right, foot = x0 + self.n["right"] * cell, y0 - self.n["down"] * cell
        faces, colors = [], []
        for corner, a, b, color in self.faces():
            faces.append([x0, y0] + cell * np.array([corner, corner + a, corner + a + b, corner + b]))
            colors.append(color)
        ax.add_collection(PolyCollection(faces, facecolors=colors, edgecolors="#7D93A3", linewidths=0.8))

        ax.text(centre, top, self.name, ha="center", va="top", fontsize=13, fontweight="bold")
        ax.text((x0 + right) / 2, foot - 4, self.label["right"], ha="center", va="top", **_FONT)
        ax.text(x0 - 6, (y0 + foot) / 2, self.label["down"], ha="right", va="center", **_FONT)
        edge = x0 + self.blocks(cell) - dx  # of the last block's front
        ax.text(edge + dx / 2 + 5, foot + dy / 2, self.label["deep"], va="top", **_FONT)
        if self.axes["side"]:
            ax.plot([x0, x0 + self.blocks(cell)], [foot - 24] * 2, color=GREY, lw=1.2)
            ax.text(x0 + self.blocks(cell) / 2, foot - 26, self.label["side"], ha="center", va="top", **_FONT)
            foot -= 22
        for line, text in enumerate(self.words):
            ax.text(centre, foot - 24 - 17 * line, text, ha="center", va="top", color=ink(_BLUE), **LABEL)

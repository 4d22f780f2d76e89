"""Boxes with a word in them, and arrows."""

from matplotlib.patches import FancyBboxPatch

from lessonkit.plot._style import COLORS, luminance, method

LINE, DARK = "#2B2F33", "#15191C"  # wires; words and arrows between words
PALE = "#D5DBE0"  # a box that is no method


def colour(text):
    """Return the colour of the method that a box is named after ("LN", "RMSNorm"), PALE for any other word."""
    return COLORS[method(text)] if method(text) else PALE


def box(ax, x, y, wide, high, text, fill, **font):
    """Draw a rounded box with its centre at (x, y), with a word that is dark on light or white on dark."""
    style = "round,pad=0,rounding_size=5"
    corner = x - wide / 2, y - high / 2
    ax.add_patch(FancyBboxPatch(corner, wide, high, boxstyle=style, fc=fill, ec="none", zorder=2))
    color = DARK if luminance(fill) > 0.3 else "white"
    ax.text(x, y, text, ha="center", va="center", color=color, zorder=3, **font)


def arrow(ax, tip, tail, *, lw=2, head=(0.45, 0.26), color=LINE):
    """Draw an arrow from tail to tip. head: (length, width) of its head, in units of the font size."""
    style = f"-|>,head_length={head[0]},head_width={head[1]}"
    ax.annotate("", tip, tail, arrowprops=dict(arrowstyle=style, color=color, lw=lw, shrinkA=0, shrinkB=0))

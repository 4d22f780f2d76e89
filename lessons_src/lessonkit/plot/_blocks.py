"""Residual blocks as diagrams."""

from matplotlib.patches import Circle

from lessonkit.plot._diagrams import LINE, arrow, box, colour
from lessonkit.plot._style import GREY, WIDE, ink, publish

_NAME = {"fontsize": 17, "fontweight": "bold"}
_BOX = {"fontsize": 16, "fontweight": "bold"}
_HIGH, _STEP, _RADIUS, _FOOT = 30, 48, 12, 62  # points: a box, from one to the next, the circle of the sum, the foot


def blocks(layouts, /, **words):
    """Draw residual blocks side by side, each from its input x at the bottom to its output y at the top.

    layouts: {name: dict(branch=["LN", "f"], after=["LN"], formula="x + f(LN(x))")}, one to five blocks.
    branch: the boxes between x and the sum, in the order in which a signal meets them. after: boxes after the sum, if
    there are any. formula: a line below the diagram. A box that is named like a method ("LN", "RMSNorm") has that
    method's colour, every other one is grey.
    """

    def build(fig):
        width = fig.get_figwidth() * 72 - 20
        each = width / max(len(layouts), 3)
        longest = max(len(layout["branch"]) for layout in layouts.values())
        tops = max(len(layout.get("after", ())) for layout in layouts.values())
        height = _FOOT + 70 + _STEP * (longest + tops) + 46
        ax = fig.add_subplot()
        for place, (name, layout) in enumerate(layouts.items()):
            centre = width * (place + 0.5) / len(layouts)
            _block(ax, centre, each, longest, tops, name, **layout)
        ax.set_axis_off()
        ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        fig.set_figheight((height + 10) / 72)

    return publish(build, size=(WIDE, 4), **words)


def _block(ax, centre, each, longest, tops, name, *, branch, formula, after=()):
    stream, side = centre - 0.2 * each, centre + 0.2 * each  # where the skip and the branch run
    wide = min(0.36 * each, 78)
    fork, total = _FOOT + 24, _FOOT + 24 + _STEP * longest + 34  # heights
    end = total + 16 + _STEP * tops + 12
    line = {"color": LINE, "lw": 3, "solid_capstyle": "butt", "zorder": 1}
    ax.plot([stream, stream], [_FOOT, end - 8], **line)
    ax.plot([stream, side, side, stream + _RADIUS + 8], [fork, fork, total, total], **line, solid_joinstyle="round")
    for tip, tail in (((stream, end), (stream, end - 10)), ((stream + _RADIUS, total), (stream + _RADIUS + 12, total))):
        arrow(ax, tip, tail, lw=3, head=(0.5, 0.3))
    middle = (fork + total) / 2
    for place, text in enumerate(branch):
        box(ax, side, middle + _STEP * (place - (len(branch) - 1) / 2), wide, _HIGH, text, colour(text), **_BOX)
    for place, text in enumerate(after):
        box(ax, stream, total + 16 + _STEP * (place + 0.5), wide, _HIGH, text, colour(text), **_BOX)
    ax.add_patch(Circle((stream, total), _RADIUS, facecolor="white", edgecolor=LINE, lw=2, zorder=3))
    ax.text(stream, total, "+", ha="center", va="center_baseline", zorder=4, fontsize=17, fontweight="bold")
    words = {"ha": "center", "va": "center", "style": "italic", "fontsize": 16}
    ax.text(stream - 12, _FOOT + 6, "x", **words)
    ax.text(stream - 12, end - 4, "y", **words)
    ax.text(centre, _FOOT + 70 + _STEP * (longest + tops) + 30, name, ha="center", va="center", **_NAME)
    ax.text(centre, 34, formula, ha="center", va="center", color=ink(GREY), fontsize=14)

"""What operations carry between memory and processor, as a diagram of arrows."""

from matplotlib.patches import FancyBboxPatch, Rectangle

from lessonkit.plot._diagrams import DARK, PALE, arrow, box
from lessonkit.plot._style import COLORS, GREY, WIDE, ink, publish

_NAME = {"fontsize": 16, "fontweight": "bold"}
_TEXT = {"fontsize": 13.5}
_STEP, _HIGH, _MEMORY = 36, 26, 26  # points: from row to row, a box, the memory


def memory_traffic(layouts, /, **words):
    """Draw one or two lists of operations side by side, each with an arrow for every tensor that it moves.

    layouts: {name: [(operation, [tensors read from memory], [tensors written to memory]), ...]}, from top to bottom.
    Below each list the arrows are counted. Where an operation reads and writes nothing, the whole list works on what
    is in the cache, and a frame says so.
    """

    def build(fig):
        width = fig.get_figwidth() * 72 - 16
        each = width / 2
        longest = max(map(len, layouts.values()))
        top = 58 + _STEP * longest
        ax = fig.add_subplot()
        for place, (name, rows) in enumerate(layouts.items()):
            _column(ax, place * each, each, top, longest, name, rows)
        ax.set_axis_off()
        ax.set(xlim=(0, each * len(layouts)), ylim=(0, top + 36), aspect="equal")
        fig.set_figheight((top + 46) / 72)

    return publish(build, size=(WIDE, 4), **words)


def _column(ax, left, each, top, longest, name, rows):
    memory, right, wide = left + 8, left + 0.97 * each, 0.46 * each
    ax.text(left + each / 2, top + 22, name, ha="center", va="center", **_NAME)
    ax.add_patch(Rectangle((memory, 40), _MEMORY, top - 44, fc=PALE, ec="none"))
    middle = (40 + top - 4) / 2
    ax.text(memory + _MEMORY / 2, middle, "memory", rotation=90, ha="center", va="center", **_TEXT)
    if any(not read and not written for _, read, written in rows):
        high = _STEP * len(rows) + 26
        frame = (right - wide - 8, middle - high / 2 - 6), wide + 16, high
        style = "round,pad=0,rounding_size=6"
        ax.add_patch(FancyBboxPatch(*frame, boxstyle=style, fc="none", ec=ink(GREY), lw=1.5, ls=(0, (4, 2))))
        ax.text(right - wide / 2, middle + high / 2 - 8, "one row, in the cache", ha="center", va="top", **_TEXT)
        middle -= 12
    for k, (text, read, written) in enumerate(rows):
        y = middle + _STEP * ((len(rows) - 1) / 2 - k)
        fill = COLORS["LayerNorm"] if len(rows) < longest else PALE
        box(ax, right - wide / 2, y, wide, _HIGH, text, fill, **_TEXT)
        both = [(word, False) for word in read] + [(word, True) for word in written]
        for n, (word, back) in enumerate(both):
            _arrow(ax, memory + _MEMORY + 2, right - wide - 2, y + 9 * (len(both) - 1) - 18 * n, word, back)
    count = [sum(len(row[kind]) for row in rows) for kind in (1, 2)]
    counted = f"{count[0]} read, {count[1]} written"
    ax.text(left + each / 2, 18, counted, ha="center", va="center", color=ink(GREY), **_NAME)


def _arrow(ax, memory, side, y, word, back):
    tip, tail = ((memory, y), (side, y)) if back else ((side, y), (memory, y))
    arrow(ax, tip, tail, lw=2, head=(0.45, 0.25), color=DARK)
    around = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    ax.text((memory + side) / 2, y, word, ha="center", va="center", bbox=around, zorder=3, **_TEXT)

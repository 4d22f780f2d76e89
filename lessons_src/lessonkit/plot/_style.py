"""What all figures share: palette, the picture that is shown, the layout of titles and direct labels."""

import io
import re
import sys
from dataclasses import dataclass

import matplotlib.style
import numpy as np
from matplotlib import colors as mcolors
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, ScalarFormatter
from matplotlib.transforms import ScaledTranslation
from PIL import Image

from lessonkit.plot import _numbers

# One colour a method in the whole course: six are Okabe & Ito's, and every pair stays apart for normal, protan and
# deutan eyes (tests/test_plot.py). Names that are no method get what is left, from InstanceNorm's on.
COLORS = {
    "LayerNorm": "#0072B2",
    "InstanceNorm": "#CC79A7",
    "GroupNorm": "#009E73",
    "Post-LN": "#882200",
    "DyT": "#56B4E9",
    "Pre-LN": "#221188",
    "Post-LN + warm-up": "#005566",
    "RMSNorm": "#E69F00",
    "softmax": "#550022",
    "BatchNorm": "#D55E00",
    "none": "#686868",
}
_ALIASES = {"ln": "LayerNorm", "bn": "BatchNorm", "gn": "GroupNorm", "rms": "RMSNorm", "nonorm": "none"}
GREY = "#5F6B73"  # what is not data
DANGER = "#C0392B"  # what goes wrong; no method has it

DPI = 110  # pixels of the page for an inch; drawn twice as fine, for sharp screens
WIDTH, WIDE = 7.0, 8.6  # inches of a plain figure, and of several panels
STYLE = {
    "font.family": "DejaVu Sans",  # ships with matplotlib
    "font.size": 12,
    "axes.labelcolor": "#2B2F33",
    "axes.edgecolor": GREY,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E8EB",
    "grid.linewidth": 0.9,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "#2B2F33",
    "ytick.labelcolor": "#2B2F33",
    "lines.linewidth": 2.4,
    "lines.solid_capstyle": "round",
    "text.color": "#15191C",
}
TITLE = {"fontsize": 14, "fontweight": "bold", "linespacing": 1.15}
LABEL = {"fontsize": 12, "fontweight": "bold", "linespacing": 1.0}
_END = "end label"  # marks the texts that `_place_labels` moves


def short_number(value):
    """A number for a tick: 0.003, 128, or a power of ten as mathtext."""
    text = f"{value + 0.0:g}"  # + 0.0 takes the sign from -0.0
    if "e" not in text:
        return text.replace("-", "\N{MINUS SIGN}")
    factor, power = text.split("e")
    factor = "" if factor == "1" else rf"{factor}\cdot"
    return rf"${factor}10^{{{int(power)}}}$"


def method(name):
    """The key of COLORS that a name or its abbreviation stands for, or None."""
    key = _key(name)
    return _ALIASES.get(key) or {_key(known): known for known in COLORS}.get(key)


def _key(name):
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def colors_for(names, colors=None):
    """A colour for each name: {name: "#rrggbb"}.

    Methods of the course keep theirs. `colors` maps further names to a method ("LayerNorm") or to any colour. The
    others get what is left of the palette, BatchNorm's orange late and never LayerNorm's blue. IndexError if there are
    more than that.
    """
    colors, chosen = colors or {}, {}
    for name in names:
        wish = colors.get(name, name)
        if method(wish):
            chosen[name] = COLORS[method(wish)]
        elif name in colors:
            chosen[name] = mcolors.to_hex(wish)
    left = [color for color in list(COLORS.values())[1:] if color not in chosen.values()]
    return {name: chosen[name] if name in chosen else left.pop(0) for name in names}


def luminance(color):
    """Relative luminance of a colour, 0 to 1 (WCAG 2)."""
    c = np.array(mcolors.to_rgb(color))
    return float(np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def ink(color):
    """The colour darkened until text in it reads on white: a contrast of at least 4.5 to 1."""
    rgb = np.array(mcolors.to_rgb(color))
    while 1.05 / (luminance(rgb) + 0.05) < 4.5:
        rgb = 0.96 * rgb
    return mcolors.to_hex(rgb)


@dataclass(repr=False)
class Picture:
    """A figure as it is shown: `png` (bytes), `width` (pixels on the page), `alt` (the picture in words), `caption`.

    numbers: what was drawn, as CSV, and rows: of how many rows; "" and 0 for a diagram. The web site shows them.
    """

    png: bytes
    width: int
    alt: str
    caption: str
    numbers: str
    rows: int

    def _repr_png_(self):
        stored = {"alt": self.alt, "width": self.width}
        return self.png, stored | ({"numbers": self.numbers, "rows": self.rows} if self.numbers else {})

    def __repr__(self):
        return self.alt


def publish(build, *, title, caption, alt, size, note="", numbers=("", 0)):
    """Draw build(fig) in the house style and show it.

    size: (width, height) in inches of the drawing; the lines of the title come on top of it. note: what a chart adds
    to the caption by itself. numbers: what is drawn, as `_numbers.table` returns it. The other words are those of
    lessonkit.plot; ValueError where one is empty.
    """
    if not (title.strip() and caption.strip() and alt.strip()):
        raise ValueError(f"a figure needs words: title={title!r}, caption={caption!r}, alt={alt!r}. Write them.")
    alt, caption = " ".join(alt.split()), " ".join([*caption.split(), *note.split()])
    with matplotlib.style.context(["default", STYLE]):  # whatever is in somebody's matplotlibrc
        fig = Figure(figsize=size, dpi=2 * DPI)
        canvas = FigureCanvasAgg(fig)
        build(fig)
        _plain_ticks(fig)
        _make_room(fig)
        _add_title(fig, title)
        fig.draw_without_rendering()  # the layout engine places the axes
        fig.set_layout_engine("none")
        _place_labels(fig)
        canvas.draw()
        return _show(Picture(_png(canvas), round(fig.get_figwidth() * DPI), alt, caption, *numbers))


def _show(picture):
    ipython, caption = sys.modules.get("IPython"), picture.caption  # a kernel has loaded it
    if ipython is None or ipython.get_ipython() is None:
        print(picture, caption, sep="\n")
        return
    ipython.display.display(picture)
    ipython.display.display({"text/markdown": f"*{caption}*", "text/plain": caption}, raw=True)


def _png(canvas):
    """The drawing as PNG in 256 colours: a third of the bytes, and no difference to see."""
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    file = io.BytesIO()
    image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, "png")
    return file.getvalue()


def figure(draw, *, numbers=None, size=(WIDTH, 3.3), ncols=1, sharey=False, **words):
    """Draw by hand in the house style.

    draw: a function of one matplotlib Axes, or of a list of them if ncols > 1; it sets the axis labels and names its
    curves. numbers: what is drawn, {column: values}, all of one length (else ValueError); none for a diagram.
    size: inches of the drawing without the title.
    """
    drawn = _numbers.table(list(numbers), {(): list(zip(*numbers.values(), strict=True))}) if numbers else ("", 0)

    def build(fig):
        axes = list(fig.subplots(1, ncols, sharey=sharey, squeeze=False)[0])
        draw(axes if ncols > 1 else axes[0])
        for ax in axes:
            level_ylabel(ax)

    return publish(build, size=size, numbers=drawn, **words)


def level_ylabel(ax):
    """Write the label of the vertical axis above it."""
    ax.yaxis.label.set(rotation=0, ha="left", va="bottom")
    ax.yaxis.set_label_coords(0, 1, ax.transAxes + ScaledTranslation(0, 7 / 72, ax.figure.dpi_scale_trans))


def measure(fig, text, **font):
    """Width and height of a text in inches."""
    probe = fig.text(0, 0, text, **font)
    box = probe.get_window_extent()
    probe.remove()
    return box.width / fig.dpi, box.height / fig.dpi


def wrap(fig, text, width, **font):
    """Break a text into lines of at most `width` inches, between words and never inside $math$."""
    lines = []
    for word in re.findall(r"(?:\$[^$]*\$|\S)+", text):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure(fig, longer, **font)[0] <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def _add_title(fig, title):
    """Set the title on top and make the figure taller by its height."""
    width, height = fig.get_size_inches()
    text = wrap(fig, title, width - 0.2, **TITLE)
    total = height + measure(fig, text, **TITLE)[1] + 0.2
    fig.set_size_inches(width, total)
    fig.text(0.1 / width, 1 - 0.1 / total, text, va="top", ha="left", **TITLE)
    fig.set_layout_engine("constrained", rect=(0, 0, 1, height / total), w_pad=0.1, h_pad=0.06, wspace=0.04)


def _plain_ticks(fig):
    """No factor of all ticks ("1e-5") in the corner, where the axis label stands."""
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            if not isinstance(axis.get_major_formatter(), ScalarFormatter):
                continue
            if 1e-3 <= abs(axis.get_view_interval()).max() < 1e6:
                axis.get_major_formatter().set_scientific(False)
                axis.get_major_formatter().set_useOffset(False)
            else:
                axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def end_label(ax, text, x, y, color=GREY):
    """Name the curve that ends at (x, y) beside the axes, where labels move apart."""
    text = wrap(ax.figure, text, 0.22 * ax.figure.get_figwidth(), **LABEL)
    width = measure(ax.figure, text, **LABEL)[0]
    leader = {"arrowstyle": "-", "color": color, "lw": 1.1, "relpos": (-0.05 / width, 0.5)}
    leader |= {"shrinkA": 0, "shrinkB": 0, "patchA": None}  # matplotlib's own clipping is slow
    beside = ax.transAxes + ScaledTranslation(0.2, 0, ax.figure.dpi_scale_trans)
    ax.annotate(
        text,
        (x, y),
        (1, 0.5),
        textcoords=beside,
        va="center",
        color=ink(color),
        annotation_clip=False,
        arrowprops=leader,
        gid=_END,
        **LABEL,
    )


def _make_room(fig):
    """Make the figure tall enough for the labels beside its axes."""
    for ax in fig.axes:
        labels = [text for text in ax.texts if text.get_gid() == _END]
        need = sum(_extent(label).height / fig.dpi + 0.02 for label in labels)
        around = 1.5 if ax.get_title(loc="left") else 1.1  # ticks and axis labels, and a panel's title
        fig.set_figheight(max(fig.get_figheight(), need + around))


def _extent(label):
    return Text.get_window_extent(label)  # of the text, without its leader


def _place_labels(fig):
    for ax in fig.axes:
        box = ax.get_window_extent()
        labels = [text for text in ax.texts if text.get_gid() == _END]
        marks = [ax.transData.transform(label.xy)[1] for label in labels]
        sizes = [_extent(label).height + 0.02 * fig.dpi for label in labels]
        for label, y in zip(labels, spread(marks, sizes, box.y0, box.y1), strict=True):
            label.set_position((1, (y - box.y0) / box.height))


def spread(centres, sizes, low, high):
    """Move intervals apart as little as possible (least squares) until none overlaps another, from low to high.

    centres, sizes: one number an interval. Returns the new centres; where they do not fit they start at low.
    """
    order = np.argsort(centres, kind="stable")
    ordered = np.array(sizes)[order]
    packed = ordered.cumsum() - ordered / 2  # the centres, were all packed from 0 on
    # How far each wants to be from there may not decrease: the closest such numbers are the largest of the least means
    # over neighbours (isotonic regression).
    wanted, n = np.array(centres)[order] - packed, len(order)
    least = lambda i, first: min(wanted[first:end].mean() for end in range(i + 1, n + 1))
    shifts = [max(least(i, first) for first in range(i + 1)) for i in range(n)]
    placed = np.empty(n)
    placed[order] = np.maximum(np.minimum(shifts, high - sum(sizes)), low) + packed
    return placed

"""Charts: lines over a common x, and small multiples of them."""

import math

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from lessonkit.plot import _numbers
from lessonkit.plot._style import (
    GREY,
    WIDE,
    WIDTH,
    array,
    colors_for,
    end_label,
    estimator,
    ink,
    level_ylabel,
    mean_and_sd,
    named,
    publish,
    short_number,
    wrap,
)

_BAND = "Mean line and band"
_SD = ["standard deviation"]  # a column of the numbers behind a figure of several runs


def lines(
    x_values,
    curves,
    /,
    *,
    x,
    y,
    xlog=False,
    ylog=False,
    ylim=None,
    href=None,
    markers=None,
    dots=(),
    colors=None,
    size=None,
    **words,
):
    """Curves over a common x, each with its name at its end.

    x_values: (n,) numbers, or n strings for categories. curves: {name: (n,) values}, or {name: (runs, n)}, drawn as
    the mean line with a band of one sample standard deviation (ddof = 1), which the caption then says by itself; a
    single run, (1, n), has no band.
    xlog, ylog: logarithmic axes. ylim: (low, high). href: {text: value}, dashed reference lines.
    markers: mark each point; by default up to 12 of them. dots: names drawn as points without a line.
    colors: {name: method or colour}. size: inches without the title.
    A value that is not finite leaves a gap; a curve that ends so is marked and called "diverges". On a logarithmic
    axis zero is a gap too, and a curve that ends there "reaches 0".
    Raises ValueError for lengths that differ, nothing finite to draw, negative values on a log axis.
    """
    part = _Lines("plot.lines", x_values, curves, xlog, ylog, ylim, href, markers, dots)
    chosen = colors_for(list(curves), colors)

    def build(fig):
        ax = fig.subplots()
        part.draw(ax, chosen, part.limits())
        ax.set(xlabel=x, ylabel=y)
        level_ylabel(ax)

    note = estimator(_BAND, part.runs())
    numbers = _numbers.table(["curve", x, y, *_SD * bool(part.runs())], part.numbers())
    return publish(build, size=size or (WIDTH, 3.1), note=note, numbers=numbers, **words)


def panels(parts, /, *, x, y, xlog=False, ylog=False, colors=None, **words):
    """Small multiples of `lines` beside each other, under one title.

    parts: {panel title: (x_values, curves)}. y: one label, and the panels share their vertical axis; or a list with
    a label for each panel, and each has its own. xlog, ylog and colors are those of `lines` and hold for
    all panels; a name has the same colour in each.
    """
    named(parts, "plot.panels")
    labels = list(y) if isinstance(y, (list, tuple)) else [y]
    if len(labels) not in (1, len(parts)):
        raise ValueError(f"plot.panels got {len(labels)} labels in y= for {len(parts)} panels. Pass one, or one each.")
    drawn = [_Lines(f"plot.panels, {name!r}", *part, xlog, ylog) for name, part in parts.items()]
    chosen = colors_for(list(dict.fromkeys(curve for part in drawn for curve in part.curves)), colors)

    def build(fig):
        axes = fig.subplots(1, len(parts), sharex=len(labels) == 1, sharey=len(labels) == 1, squeeze=False)[0]
        ranges = [part.limits() for part in drawn]
        if len(labels) == 1:
            ranges = [(min(low for low, _ in ranges), max(high for _, high in ranges))] * len(drawn)
        for ax, name, part, limits in zip(axes, parts, drawn, ranges, strict=True):
            part.draw(ax, chosen, limits)
            ax.set_title(name, loc="left", fontsize=13, fontweight="bold", color=ink(GREY), pad=28)
            ax.set_xlabel(x)
        for ax, label in zip(axes, labels, strict=False):
            ax.set_ylabel(label)
            level_ylabel(ax)

    runs = {}
    for panel, part in zip(parts, drawn, strict=True):
        for name, n in part.runs().items():
            runs[name if runs.get(name, n) == n else f"{name}, {panel}"] = n
    groups, same = {}, len(labels) == 1
    for at, (panel, part) in enumerate(zip(parts, drawn, strict=True)):
        where = panel if same else f"{panel}: {labels[at]}"
        gap = [math.nan] * (bool(runs) and not part.runs())
        groups |= {(where, *curve): [(*row, *gap) for row in rows] for curve, rows in part.numbers().items()}
    numbers = _numbers.table(["panel", "curve", x, labels[0] if same else "value", *_SD * bool(runs)], groups)
    return publish(build, size=(WIDE, 3.3), note=estimator(_BAND, runs), numbers=numbers, **words)


class _Lines:
    """The data of one set of axes, checked, and how to draw them."""

    def __init__(self, where, x_values, curves, xlog, ylog, ylim=None, href=None, markers=None, dots=()):
        self.where, self.xlog, self.ylog, self.ylim = where, xlog, ylog, ylim
        self.href, self.dots = href or {}, dots
        self.categories = None
        if isinstance(x_values, (list, tuple)) and all(isinstance(value, str) for value in x_values):
            self.categories, x_values = x_values, range(len(x_values))
        self.x = array(x_values, f"{where}: x")
        if self.x.ndim != 1 or not len(self.x) or not np.isfinite(self.x).all():
            raise ValueError(f"{where}: x has shape {self.x.shape}, expected (n,) finite numbers or n strings.")
        if xlog and (self.x <= 0).any():
            raise ValueError(f"{where}: x holds {self.x.min():g}, which xlog=True cannot show. Leave it out, or xlog.")
        self.curves = {name: self._curve(name, values) for name, values in named(curves, where).items()}
        for name in dots:
            if name not in self.curves:
                raise ValueError(f"{where}: dots={dots!r}, expected a list of names out of {', '.join(self.curves)}.")
        self.markers = len(self.x) <= 12 if markers is None else markers

    def _curve(self, name, values):
        """(mean, sd or None, runs, the word for how it ends) of one curve; what cannot be drawn is nan."""
        runs = array(values, f"{self.where}: {name!r}")
        if runs.ndim not in (1, 2) or runs.shape[-1] != len(self.x) or not len(runs):
            raise ValueError(
                f"{self.where}: {name!r} has shape {runs.shape} and x has {len(self.x)} values. "
                f"Expected ({len(self.x)},), or (runs, {len(self.x)})."
            )
        if self.ylog and (runs < 0).any():
            low = np.nanmin(runs)
            raise ValueError(f"{self.where}: {name!r} holds {low:g}, below zero. Leave ylog out, or pass |y|.")
        last = np.atleast_2d(runs)[:, -1]
        lost = int((~np.isfinite(last)).sum())
        end = f"{lost} of {len(last)} diverge" if len(last) > 1 else "diverges"
        runs = np.atleast_2d(np.where(np.isfinite(runs), runs, np.nan))
        mean, sd = mean_and_sd(runs)
        if self.ylog:
            if not lost and mean[-1] == 0:
                lost, end = 1, "reaches 0"
            mean[mean == 0] = np.nan
        if not np.isfinite(mean).any():
            raise ValueError(
                f"{self.where}: {name!r} has no value to draw: at every x a run is nan or inf{', or 0' * self.ylog}. "
                "Leave it out and say so in the caption, or end the curve where it still is finite."
            )
        return mean, sd if len(runs) > 1 else None, len(runs), end if lost else ""

    def runs(self):
        return {name: runs for name, (_, sd, runs, _) in self.curves.items() if sd is not None}

    def numbers(self):
        """{(name,): [(x, mean, and its standard deviation if there are several runs)]}, references included."""
        across = self.categories or self.x
        columns = {}
        for name, (mean, sd, *_) in self.curves.items():
            spread = [] if not self.runs() else [sd if sd is not None else np.full(len(mean), np.nan)]
            columns[(name,)] = list(zip(across, mean, *spread, strict=True))
        gap = [math.nan] * bool(self.runs())
        return columns | {(text,): [("all", value, *gap)] for text, value in self.href.items()}

    def limits(self):
        """(low, high) of the vertical axis: ylim, or all means, bands and references with a little room."""
        if self.ylim:
            return self.ylim
        seen = [list(self.href.values())]
        for mean, sd, *_ in self.curves.values():
            seen += [mean] if sd is None else [mean, mean - sd, mean + sd]
        seen = np.concatenate(seen)
        seen = seen[np.isfinite(seen) & ((seen > 0) if self.ylog else True)]
        seen = np.log10(seen) if self.ylog else seen
        low, high = seen.min(), seen.max()
        if self.ylog:
            room = 0.05 * (high - low) or 0.5
            return 10.0 ** (low - room), 10.0 ** (high + room)
        room, size = 0.05 * (high - low), max(abs(low), abs(high))
        if room < 1e-6 * size:  # a constant: do not magnify its rounding errors
            room = 0.1 * size
        return low - (room or 1), high + (room or 1)

    def draw(self, ax, colors, limits):
        x = self.x
        ax.set_xscale("log" if self.xlog else "linear")
        ax.set_yscale("log" if self.ylog else "linear")
        ax.set_ylim(limits)
        low, high = sorted(limits)
        for value in self.href.values():
            ax.axhline(value, color=GREY, ls=(0, (5, 3)), lw=1.4, zorder=2)
        for name, (mean, sd, _, end) in self.curves.items():
            color = colors[name]
            there = np.flatnonzero(np.isfinite(mean))
            last = there[-1]
            inside = bool((mean[there] >= low).all() and (mean[there] <= high).all())
            if sd is not None:
                foot = np.where(mean - sd > 0, mean - sd, low / 10) if self.ylog else mean - sd
                ax.fill_between(x, foot, mean + sd, color=color, alpha=0.2, lw=0, zorder=1)
            marker = "o" if self.markers or name in self.dots else ""
            dash = "none" if name in self.dots else "-"
            ax.plot(x, mean, color=color, ls=dash, marker=marker, clip_on=not inside, zorder=3)
            # A value between two gaps has no line, the end of each curve is a dot, and that of a lost one a cross.
            alone = [i for i in there if np.isfinite(mean[max(i - 1, 0) : i + 2]).sum() == 1]
            ax.plot(x[alone], mean[alone], "o", ms=4, color=color, zorder=3)
            mark = {"marker": "x", "ms": 11, "mew": 3} if end else {"marker": "o"}
            if name not in self.dots:
                ax.plot(x[last], mean[last], color=color, clip_on=not inside, zorder=4, **mark)
            # a curve that leaves the picture is named where it leaves
            end_label(ax, f"{name} ({end})" if end else name, x[last], min(max(mean[last], low), high), color)
        ax.margins(x=0.02)
        for text, value in self.href.items():
            end_label(ax, text, ax.get_xlim()[1], min(max(value, low), high))
        self._ticks(ax)

    def _ticks(self, ax):
        width = ax.get_subplotspec().get_position(ax.figure).width * ax.figure.get_figwidth()  # inches
        if self.categories:
            room = 0.85 * width / max(1, len(self.x) - 1)  # the labels at the ends may stick out
            ax.set_xticks(self.x, [wrap(ax.figure, text, room, fontsize=12) for text in self.categories])
        elif self.xlog and len(self.x) <= 10:  # a sweep: ticks where something was measured, as far as they have room
            shown = []
            for value in np.sort(self.x):
                if not shown or math.log(value / shown[-1]) > 0.1 * math.log(self.x.max() / self.x.min()):
                    shown.append(value)
            ax.xaxis.set_major_locator(FixedLocator(shown))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        elif not self.xlog:
            ax.xaxis.set_major_locator(MaxNLocator(min(6, round(1.6 * width)), integer=not (self.x % 1).any()))
        if not self.ylog:
            ax.yaxis.set_major_locator(MaxNLocator(5))

"""Charts: lines over a common x, and small multiples of them."""

import math

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from lessonkit.plot import _numbers
from lessonkit.plot._style import (
    GREY,
    WIDE,
    WIDTH,
    colors_for,
    end_label,
    ink,
    level_ylabel,
    publish,
    short_number,
    wrap,
)


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
    the mean line with a band of one sample standard deviation (ddof = 1), which the caption then says by itself.
    xlog, ylog: logarithmic axes. ylim: (low, high). href: {text: value}, dashed reference lines.
    markers: mark each point; by default up to 12 of them. dots: names drawn as points without a line.
    colors: {name: method or colour}. size: inches without the title.
    A value that is not finite leaves a gap; a curve that ends so is marked and called "diverges". On a logarithmic
    axis zero is a gap too, and a curve that ends there "reaches 0".
    Raises ValueError for nothing finite to draw, and for negative values on a log axis.
    """
    part = _Lines(x_values, curves, xlog, ylog, ylim, href, markers, dots)
    return _publish({"": part}, x, [y], colors, size or (WIDTH, 3.1), words)


def panels(parts, /, *, x, y, xlog=False, ylog=False, colors=None, **words):
    """Small multiples of `lines` beside each other, under one title; a name has the same colour in each.

    parts: {panel title: (x_values, curves)}. y: one label, and the panels share their vertical axis; or a list with
    a label for each panel, and each has its own. xlog, ylog and colors are those of `lines`.
    """
    labels = [y] if isinstance(y, str) else y
    drawn = {name: _Lines(*part, xlog, ylog) for name, part in parts.items()}
    return _publish(drawn, x, labels, colors, (WIDE, 3.3), words)


def _publish(parts, x, labels, colors, size, words):
    """Publish axes beside each other, {title: _Lines}; with one label they share their axes."""
    shared, many = len(labels) == 1, "" not in parts
    chosen = colors_for(list(dict.fromkeys(curve for part in parts.values() for curve in part.curves)), colors)

    def build(fig):
        axes = fig.subplots(1, len(parts), sharex=shared, sharey=shared, squeeze=False)[0]
        for ax, (title, part) in zip(axes, parts.items(), strict=True):
            part.draw(ax, chosen)
            if many:
                ax.set_title(title, loc="left", fontsize=13, fontweight="bold", color=ink(GREY), pad=28)
            ax.set_xlabel(x)
        for ax, label in zip(axes, labels, strict=False):
            ax.set_ylabel(label)
            level_ylabel(ax)
        for ax, part in zip(axes, parts.values(), strict=True):
            part.finish(ax, chosen)

    groups = {}
    for at, (title, part) in enumerate(parts.items()):
        panel = [title if shared else f"{title}: {labels[at]}"] * many
        groups |= {(*panel, *curve): rows for curve, rows in part.numbers().items()}
    runs = {n for part in parts.values() for _, sd, n, _ in part.curves.values() if sd is not None}
    header = [*["panel"] * many, "curve", x, labels[0] if shared else "value", *["standard deviation"] * bool(runs)]
    many_runs = " or ".join(map(str, sorted(runs)))
    note = f"Mean line and band of one sample standard deviation over n = {many_runs} runs." if runs else ""
    return publish(build, size=size, note=note, numbers=_numbers.table(header, groups), **words)


def _plain(values):
    """Return nested lists without the tensors in them."""
    if hasattr(values, "detach"):
        return values.detach().cpu().double().numpy()  # double: NumPy has no bfloat16
    if isinstance(values, (list, tuple)):
        return [_plain(v) for v in values]
    return values


class _Lines:
    """The data of one set of axes, and how to draw them."""

    def __init__(self, x_values, curves, xlog, ylog, ylim=None, href=None, markers=None, dots=()):
        self.xlog, self.ylog, self.ylim, self.href, self.dots = xlog, ylog, ylim, href or {}, dots
        self.categories = x_values if isinstance(x_values[0], str) else None
        self.x = np.asarray(range(len(x_values)) if self.categories else _plain(x_values), dtype=float)
        self.curves = {name: self._curve(name, values) for name, values in curves.items()}
        self.markers = len(self.x) <= 12 if markers is None else markers

    def _curve(self, name, values):
        """(mean, sd or None, runs, the word for how it ends) of one curve; what cannot be drawn is nan."""
        runs = np.asarray(_plain(values), dtype=float)
        if self.ylog and (runs < 0).any():
            raise ValueError(f"{name!r} holds {np.nanmin(runs):g}, below zero. Leave ylog out, or pass |y|.")
        runs = np.atleast_2d(np.where(np.isfinite(runs), runs, np.nan))
        n, lost = len(runs), np.isnan(runs[:, -1]).sum()
        end = (f"{lost} of {n} diverge" if n > 1 else "diverges") if lost else ""
        with np.errstate(over="ignore"):  # the square of 1e200
            mean, sd = runs.mean(0), runs.std(0, ddof=1) if n > 1 else None
        if self.ylog:
            end = end or ("reaches 0" if mean[-1] == 0 else "")
            mean[mean == 0] = np.nan
        if np.isnan(mean).all():
            raise ValueError(f"{name!r} has no value to draw: at every x a run is nan or inf. Leave it out and say so.")
        return mean, sd, n, end

    def numbers(self):
        """{(name,): [(x, mean, standard deviation of several runs)]}, references included."""
        columns = {}
        for name, (mean, sd, *_) in self.curves.items():
            columns[(name,)] = list(zip(self.categories or self.x, mean, *[] if sd is None else [sd], strict=True))
        return columns | {(text,): [("all", value)] for text, value in self.href.items()}

    def draw(self, ax, colors):
        """Draw what does not depend on the limits of the vertical axis, which panels share."""
        ax.set(xscale="log" if self.xlog else "linear", yscale="log" if self.ylog else "linear")
        for value in self.href.values():
            ax.axhline(value, color=GREY, ls=(0, (5, 3)), lw=1.4, zorder=2)
        for name, (mean, sd, _, end) in self.curves.items():
            style = {"color": colors[name], "clip_on": bool(self.ylim)}
            if sd is not None:
                ax.fill_between(self.x, mean - sd, mean + sd, color=colors[name], alpha=0.2, lw=0, zorder=1)
            marker = "o" if self.markers or name in self.dots else ""
            ax.plot(self.x, mean, ls="none" if name in self.dots else "-", marker=marker, zorder=3, **style)
            if name not in self.dots:
                mark = {"marker": "x", "ms": 11, "mew": 3} if end else {"marker": "o"}
                ax.plot(*self._end(mean), zorder=4, **mark, **style)
        ax.margins(x=0.02)
        if self.ylim:
            ax.set_ylim(self.ylim)
        if not self.ylog:
            ax.yaxis.set_major_locator(MaxNLocator(5))
        self._ticks(ax)

    def _end(self, mean):
        last = np.flatnonzero(np.isfinite(mean))[-1]
        return self.x[last], mean[last]

    def finish(self, ax, colors):
        """Name the curves and references where they end, or where they leave the picture."""
        low, high = sorted(ax.get_ylim())
        for name, (mean, _, _, end) in self.curves.items():
            x, y = self._end(mean)
            end_label(ax, f"{name} ({end})" if end else name, x, min(max(y, low), high), colors[name])
        for text, value in self.href.items():
            end_label(ax, text, ax.get_xlim()[1], min(max(value, low), high))

    def _ticks(self, ax):
        width = ax.get_position().width * ax.figure.get_figwidth()  # inches
        if self.categories:
            room = 0.85 * width / (len(self.x) - 1)  # the labels at the ends may stick out
            ax.set_xticks(self.x, [wrap(ax.figure, text, room, fontsize=12) for text in self.categories])
        elif self.xlog and len(self.x) <= 10:  # a sweep: ticks where something was measured
            shown = []
            for value in np.sort(self.x):
                if not shown or math.log(value / shown[-1]) > 0.1 * math.log(self.x.max() / self.x.min()):
                    shown.append(value)
            ax.xaxis.set_major_locator(FixedLocator(shown))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        elif not self.xlog:
            ax.xaxis.set_major_locator(MaxNLocator(min(6, round(1.6 * width)), integer=not (self.x % 1).any()))

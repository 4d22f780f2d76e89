"""Points and curves in three dimensions."""

import itertools

import numpy as np
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox, ScaledTranslation
from mpl_toolkits.mplot3d import proj3d
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from lessonkit.plot import _numbers
from lessonkit.plot._style import GREY, WIDTH, array, colors_for, end_label, publish


def scatter3d(
    points,
    /,
    *,
    title,
    x,
    y,
    z,
    caption,
    alt,
    curves=None,
    plane=None,
    view=(22, 35),
    limit=None,
    colors=None,
    size=None,
    show=True,
):
    """Sets of points, and curves, in a cube around the origin with equal scales.

    points: {name: (n, 3)}. curves: {name: (n, 3)}, drawn as lines; repeat the first point to close one. plane: its
    normal, three numbers; the plane through the origin is drawn as a pale sheet. view: (elevation, azimuth) in degrees.
    limit: half the side of the cube. colors: {name: method or colour}. size: (width, height) in inches without the
    title; the cube fills it.
    Raises ValueError for other shapes and values that are not finite.
    """
    sets = {**points, **(curves or {})}
    for name, values in sets.items():
        values = sets[name] = array(values, f"plot.scatter3d: {name!r}")
        if values.ndim != 2 or values.shape[1] != 3 or not len(values) or not np.isfinite(values).all():
            raise ValueError(f"plot.scatter3d: {name!r} has shape {values.shape}, expected (n, 3) finite numbers.")
    chosen = colors_for(list(sets), colors)
    limit = limit or 1.05 * max(abs(values).max() for values in sets.values())

    def build(fig):
        ax = fig.add_subplot(projection="3d", computed_zorder=False)
        ax.view_init(*view)
        ax.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit))
        ax.set_box_aspect((1, 1, 1))
        for axis, label in zip((ax.xaxis, ax.yaxis, ax.zaxis), (x, y, z), strict=True):
            axis.set_label_text(label)
            axis.set_pane_color("#F6F8F9")
            axis.set_major_locator(MaxNLocator(3))
        if plane is not None:
            _sheet(ax, np.array(plane), limit)
        for name, values in sets.items():
            color = chosen[name]
            if name in points:
                ax.plot(*values.T, "o", ms=6, color=color, mec="white", mew=0.5, zorder=5)
            else:
                ax.plot(*values.T, color=color, lw=2.6, zorder=4)
        project = ax.get_proj()
        for name, values in sets.items():
            flat = np.array(proj3d.proj_transform(*values.T, project))[:2]
            right = flat[0].argmax()  # the labels stand on the right
            end_label(ax, name, *flat[:, right], chosen[name])
        _fill(fig, ax, limit)

    numbers = _numbers.table(["points", x, y, z], {(name,): list(values) for name, values in sets.items()})
    size = size or (WIDTH, 4.4)
    return publish(build, title=title, caption=caption, alt=alt, size=size, numbers=numbers, show=show)


def _fill(fig, ax, limit):
    """Give the cube, with its ticks and axis labels, all the room that the names on its right leave.

    matplotlib's layout engines do not know how far an axis label stands from its axis before it is drawn: they cut it.
    """
    names, gap = list(ax.texts), 0.25
    renderer, inches = fig.canvas.get_renderer(), fig.dpi_scale_trans
    axes = (ax.xaxis, ax.yaxis, ax.zaxis)
    beside = gap + max(Text.get_window_extent(text).width for text in names) / fig.dpi
    width, height = fig.get_size_inches()
    room = Bbox([[0.12, 0.1], [width - beside - 0.12, height - 0.05]])
    cube = np.array(list(itertools.product((-limit, limit), repeat=3))).T
    side, centre = min(room.size), (room.p0 + room.p1) / 2

    def place(ax, renderer):  # in inches from the corner at the bottom: the title above makes the figure taller
        return Bbox([centre - side / 2, centre + side / 2]).transformed(inches - fig.transFigure)

    ax.set_in_layout(False)
    ax.set_axes_locator(place)
    for _ in range(3):  # ticks and labels keep their size, so one step is not enough
        fig.draw_without_rendering()
        corners = ax.transData.transform(np.array(proj3d.proj_transform(*cube, ax.get_proj()))[:2].T) / fig.dpi
        core = Bbox([corners.min(0), corners.max(0)])
        around = [axis.get_tightbbox(renderer).transformed(inches.inverted()) for axis in axes]
        drawn = Bbox.union([core, *around])
        centre = centre + (room.p0 + room.p1 - drawn.p0 - drawn.p1) / 2
        side *= min((room.size - drawn.size + core.size) / core.size)
    fig.draw_without_rendering()
    right = max(core.x1, *(axis.get_tightbbox(renderer).x1 / fig.dpi for axis in axes))
    for text in names:
        text.anncoords = ax.transAxes + ScaledTranslation(right + gap - centre[0] - side / 2, 0, inches)


def _sheet(ax, normal, limit):
    """A square sheet of the plane through the origin."""
    first = np.cross(normal, np.eye(3)[abs(normal).argmin()])
    second = np.cross(normal, first)
    first, second = limit * first / np.linalg.norm(first), limit * second / np.linalg.norm(second)
    corners = [first + second, first - second, -first - second, -first + second]
    ax.add_collection3d(Poly3DCollection([corners], facecolor="#56B4E9", alpha=0.13, edgecolor=GREY, lw=0.7, zorder=1))

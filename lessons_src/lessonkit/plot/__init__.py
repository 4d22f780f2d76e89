"""Figures in one style for all lessons: the title is the conclusion, curves carry their names, nothing needs a legend.

Every function takes `title`, the conclusion in one sentence, `caption`, what is drawn, under which conditions and over
how many runs, and `alt`, the picture in words. It shows the picture with that text alternative and, below it, the
caption as text. Data may be torch tensors, NumPy arrays, numbers, or nested lists of those.
"""

from importlib import import_module

from lessonkit import _threads  # noqa: F401  sets how many torch uses

# Each name and its module, imported at the name's first use: matplotlib takes a second, which a lesson whose first cell
# draws nothing need not wait for.
_PLACES = {
    "blocks": "_blocks",
    "lines": "_charts",
    "panels": "_charts",
    "cubes": "_cubes",
    "arrow": "_diagrams",
    "box": "_diagrams",
    "COLORS": "_style",
    "DANGER": "_style",
    "colors_for": "_style",
    "figure": "_style",
    "ink": "_style",
}
__all__ = [*_PLACES]  # noqa: PLE0604


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}. It has {', '.join(__all__)}.")
    globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    return globals()[name]


def __dir__():
    return sorted({*globals(), *__all__})

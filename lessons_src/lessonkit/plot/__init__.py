"""Figures in one style for all lessons: the title is the conclusion, curves carry their names, nothing needs a legend.

Every function takes `title`, the conclusion in one sentence, `caption`, what is drawn, under which conditions and over
how many runs, and `alt`, the picture in words. It shows the picture with that text alternative and, below it, the
caption as text. Data may be torch tensors, NumPy arrays, numbers, or nested lists of those.
"""

from lessonkit import _threads  # noqa: F401  sets how many torch uses
from lessonkit.plot._blocks import blocks
from lessonkit.plot._charts import lines, panels
from lessonkit.plot._cubes import cubes
from lessonkit.plot._diagrams import arrow, box
from lessonkit.plot._style import COLORS, DANGER, colors_for, figure, ink

__all__ = ["COLORS", "DANGER", "arrow", "blocks", "box", "colors_for", "cubes", "figure", "ink", "lines", "panels"]

"""The LayerNorm inventory: twelve questions before the course and twelve after it, on the same points.

inventory.answer("A3", "b")       keeps a letter, and does not say whether it is right
inventory.result("A")             when all twelve have one: the result by theme, reasons, and sections to read

python -m lessonkit.inventory --print A [--answers]     a form on paper
python -m lessonkit.inventory --report FOLDER...        a class: what each theme has gained
"""

from lessonkit.inventory.answers import answer
from lessonkit.inventory.results import result

__all__ = ["answer", "result"]

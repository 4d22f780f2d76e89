"""How far a learner is, read from saved notebooks; and what a class's attempts show, read from its logs.

    make progress                                               the learner's own, as text
    python -m lessonkit.progress FOLDER                         that of another folder
    python -m lessonkit.progress --html class.html FOLDER...    a class: a row a learner
    python -m lessonkit.progress --report FOLDER...             the attempts of a class

Nothing here imports torch.
"""

from lessonkit.progress.saved import learner
from lessonkit.progress.summary import line

__all__ = ["learner", "line"]

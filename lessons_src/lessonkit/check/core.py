"""What a check module leans on, in one place: the names of the small modules beside this one."""

from lessonkit.check.comparing import examine
from lessonkit.check.differences import problem
from lessonkit.check.misconceptions import Misconception, misconceptions
from lessonkit.check.observations import Raised
from lessonkit.check.probing import (
    Probe,
    call,
    call_layer,
    draw,
    filled,
    gradients,
    in_float64,
    observe,
    outside,
    quiet,
    raised,
    refusing,
)
from lessonkit.check.quizzes import values
from lessonkit.check.verdicts import NotYet, YourTurn, accept, reject

"""What a check module leans on, in one place: the names of the small modules beside this one."""

from lessonkit.check.comparing import examine
from lessonkit.check.contract import Contract, of_a_layer
from lessonkit.check.misconceptions import Misconception, announce, instead, misconceptions
from lessonkit.check.observations import Raised
from lessonkit.check.probing import (
    Probe,
    call,
    call_layer,
    derives,
    draw,
    filled,
    gradients,
    in_float64,
    numbers,
    outside,
    raised,
    refusing,
    verdict_on,
)
from lessonkit.check.quizzes import as_python, values
from lessonkit.check.verdicts import NotYet, YourTurn, accept, refuse_dots, reject
from lessonkit.check.wording import kind_of, row_of

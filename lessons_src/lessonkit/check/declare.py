"""What a lesson's checks are written with: exercise, judging and quiz, and the names that go into them.

A check is one declaration in checks.py of its lesson, and is called as it is bound: `channel_stats = exercise(...)` is
check.channel_stats. Where none of the three fits, a check is a function of the answer that ends in accept or reject.
"""

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


class Check:
    """A declared check. name: what it is bound to, which lessonkit.check fills in when it loads the lesson's room."""

    name = ""

    def __init__(self, judge, *arguments, **options):
        self.judge, self.arguments, self.options = judge, arguments, options

    def __call__(self, answer):
        """Judge an answer: accept it, or raise NotYet or YourTurn."""
        self.judge(answer, self.name, *self.arguments, **self.options)


def exercise(right, *cases, wrong="", takes=None, returns=("the result",), reference=None, contract=None, **how):
    """Return the check of a function or class.

    right: an answer as a learner would write it: the lesson's own export, where it can be.
    cases: what it is tried on first, by hand: (label, inputs ..., options of `call`), the options left out or last, or
        a Probe. The first is what a learner reads. A list of them is a stage, ([...], part) one with a name: see
        examine.
    wrong: misconceptions, as text: lines in the place of right's. Of several designs {right answer: text}.
    takes: the axes of each input, {"x": "... D"}, from which the sweep is made. What else Contract knows may be named
        as well: half=True, options=..., use=..., sizes=...
    reference: what says what is right, if not right itself: in_float64(right), say.
    contract: a Contract, where the inputs of the cases are not those of the sweep.
    how: of the answer, what examine knows: tried, says, by_hand; the rest is the contract's.
    """
    told = {key: how.pop(key) for key in ("tried", "by_hand") if key in how} | {"right": how.pop("says", None)}
    if takes:
        contract = Contract(takes, returns=returns, **how)
    elif how:
        raise TypeError(f"{', '.join(how)}: these belong to a contract. Say what the answer takes.")

    def probe(case):
        if isinstance(case, tuple):
            label, *inputs = case
            options = inputs.pop() if isinstance(inputs[-1], dict) else {}
            return call(label, *inputs, **{"returns": returns, "names": tuple(takes or ("x",))} | options)
        return case

    def stage(case):
        if isinstance(case, list):
            return [probe(each) for each in case]
        return ([probe(each) for each in case[0]], case[1]) if isinstance(case[0], list) else [probe(case)]

    staged = any(isinstance(case, list) or isinstance(case, tuple) and isinstance(case[0], list) for case in cases)
    probes = [stage(case) for case in cases] if staged else [probe(case) for case in cases]
    texts = wrong if isinstance(wrong, dict) else {right: wrong} if wrong else {}
    mistakes = [mistake for design, text in texts.items() for mistake in misconceptions(design, text)]
    return Check(examine, probes, reference or right, mistakes, contract=contract, **told)


def judging(right, *, accepts, refuses, wrong="", why=None, **how):
    """Return the check of a test: a function that is given a layer and says whether it is right.

    right, wrong, tried: as of an exercise. accepts: {label: a right layer}. refuses: {label: a wrong one}, or
        misconceptions of a layer, each of which is one. why: {label: what its Probe says if the answer errs on it}.
    """
    if not isinstance(refuses, dict):
        refuses = {f"a layer that {mistake.cause}": mistake.answer for mistake in refuses}
    layers = [(accepts, True), (refuses, False)]
    cases = [
        verdict_on(label, outside(layer), verdict, (why or {}).get(label, ""))
        for some, verdict in layers
        for label, layer in some.items()
    ]
    how.setdefault("tried", f"{len(accepts)} right layers and {len(refuses)} wrong ones")
    return exercise(right, *cases, wrong=wrong, **how)


def quiz(rows=None, tolerance=None, **more):
    """Return the check of a dictionary of values.

    rows, more: {key: (right value, {wrong value: its cause})}, or a right value alone. tolerance: see values.
    """
    rows = {
        key: row if isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], dict) else (row, {})
        for key, row in ((rows or {}) | more).items()
    }
    right, causes = ({key: row[at] for key, row in rows.items()} for at in (0, 1))
    return Check(values, right, causes, tolerance=tolerance)

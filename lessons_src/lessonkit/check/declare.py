"""What a lesson's checks are declared with, exercise, judging and quiz, and how an answer goes through one.

A check is one declaration in checks.py of its lesson, and is called as it is bound: `channel_stats = exercise(...)` is
check.channel_stats. Where none of the three fits, a check is a function of the answer that ends in accept or reject.

An answer to an exercise is observed and compared, in this order:
1. the cases by hand, stage by stage. Where one fails, a misconception that is observed to do exactly the same, on all
   cases of the stage, is the probable cause; without one the input on which the answer fails is told.
2. whether PyTorch's own function has made a result that is to be built.
3. the sweep of the contract, which tells the plainest case that fails.
"""

import contextlib
import functools
import inspect
import itertools
import time
from dataclasses import replace

import torch

from lessonkit.check import relations
from lessonkit.check.cases import (  # some are here for those who write checks
    Probe,
    call,
    call_layer,
    draw,
    filled,
    gradients,
    in_float64,
    numbers,
    refusing,
    verdict_on,
)
from lessonkit.check.differences import NOT_FINITE, problem, same
from lessonkit.check.layers import device_after_moving, of_a_layer
from lessonkit.check.misconceptions import Misconception, announce, both, instead, misconceptions
from lessonkit.check.observing import Observed, derives, observe, outside, quiet, raised, ready_made, where_not_finite
from lessonkit.check.questions import as_python, values
from lessonkit.check.slips import slips
from lessonkit.check.sweep import Contract, plain_cases, sweep
from lessonkit.check.verdicts import (
    CAUSE,
    NotYet,
    Raised,
    YourTurn,
    accept,
    kind_of,
    refuse_dots,
    reject,
    row_of,
    with_repairs,
)


class Exercise:
    """The check of a function or class; exercise says how it is declared.

    name: what it is bound to, which lessonkit.check fills in when it loads the lesson's room. stages: [(its Probes,
    what of the answer they are about or "")].
    """

    name = ""

    def __init__(self, right, stages, wrong=(), *, contract=None, tried=None, by_hand=(), says=None):
        self.right, self.stages, self.wrong, self.contract = right, stages, list(wrong), contract
        self.tried, self.by_hand, self.says = tried, by_hand, says

    def __call__(self, answer):
        """Judge an answer: accept it, or raise NotYet or YourTurn."""
        announce(self.wrong)
        _refuse_other_kinds(answer, self.name, "class" if isinstance(self.right, type) else "function")
        if isinstance(answer, Observed):
            own = [self.right, getattr(self.right, "plain", None), *(known.answer for known in self.wrong)]
            answer.hidden, answer.by_hand = own, self.by_hand
        passed, parts = [], []
        for at, (probes, part) in enumerate(self.stages):
            try:
                self._compare(answer, probes, passed)
            except (NotYet, YourTurn) as error:
                raise type(error)(_with(str(error), parts)) from None
            passed += probes
            if part and all(part != later for _, later in self.stages[at + 1 :]):
                parts.append(part)
        cases = sweep(self.contract) if self.contract else []
        for theirs, told in self._ready_made(answer, [*passed, *cases[:1]]):  # a case has inputs with gradients
            reject(f"Right values, and PyTorch's own {theirs} made them.", told)
        for case in cases:
            self._keep(answer, case)
        accept(f"Right: {self._praise(answer, passed)}.")

    def _praise(self, answer, probes):
        if self.says:
            return self.says.format(answer=answer, count=len(probes))
        count = f"{len(probes)} input{'s' if len(probes) > 1 else ''}"
        tried = self.tried or ", ".join(probe.label for probe in probes)
        return f"{self.name} does what it should on {count} ({tried})"

    def _compare(self, answer, probes, passed):
        """Raise NotYet if answer does not do what is right on all probes. passed: those on which it does already."""
        seen = []
        for probe in probes:
            seen.append(mine := observe(probe, answer))
            trouble = problem(mine, _known(probe, self.right), probe)
            if trouble:
                seen += [observe(later, answer) for later in probes[len(seen) :]]
                why = probe.why(mine) if callable(probe.why) else probe.why
                first = self._cause(answer, seen, probes, passed, bool(why) or "has dtype" in trouble[0])
                known = first.startswith(CAUSE)
                if not first and NOT_FINITE in str(trouble[1]):
                    first = where_not_finite(probe, answer)
                told = first or trouble[1] or why or None
                if not known:  # an answer that PyTorch's own function makes may fail for reasons that nobody wrote
                    for theirs, instead_of_it in self._ready_made(answer, [probe]):
                        first, told = None, f"PyTorch's own {theirs} made the result. {instead_of_it}"
                reject(f"On {probe.label}: {trouble[0]}", told, bool(first))

    def _cause(self, answer, seen, probes, passed, written):
        """Return what explains what was seen, "" where nothing does: a misconception, a relation, two at once, a slip.

        written: what the check says itself of a failure like this. A slip that nobody listed does not go before it.
        """
        evidence = [(probe, one, _known(probe, self.right)) for probe, one in zip(probes, seen, strict=True)]
        evidence += [(probe, _known(probe, self.right), _known(probe, self.right)) for probe in passed]
        wrong_values = any(not same(_values(one), _values(right), probe) for probe, one, right in evidence)
        for part in (dict, _values) if wrong_values else (dict,):  # one that does it but for the gradients, if need be
            for wrong in self.wrong:
                if _does(wrong.answer, evidence, part, _known):
                    return CAUSE + wrong.told
        with contextlib.suppress(*NO_HINT):
            cases = plain_cases(self.contract) if self.contract else []
            evidence += [(case, observe(case, answer), _known(case, self.right)) for case in cases]
            related, whole = relations.told(evidence)
            return related if related and whole else self._search(evidence, part, written) or related
        return ""

    def _search(self, evidence, part, written):
        """Return what tells two misconceptions at once, or a slip that nobody listed; "" where none is found."""
        observed = [value for probe, one, right in evidence if not same(one, right, probe) for value in one.values()]
        if not any(torch.is_tensor(value) and value.numel() > 3 and value.isfinite().all() for value in observed):
            return ""  # a few verdicts or words are too little to tell two apart, and so is nan
        evidence = sorted(evidence, key=lambda one: same(*one[1:], one[0]))  # where it differs a slip shows first
        until = time.thread_time() + 0.3
        for first, second in itertools.combinations(self.wrong, 2):
            pair = both(first, second) if time.thread_time() < until else None
            if pair and _does(pair.answer, evidence, part):
                return CAUSE + pair.told
        written = written or any(isinstance(value, Raised) for value in observed)
        evidence = [(replace(probe, seconds=0.2), *more) for probe, *more in evidence]
        until = time.thread_time() + 0.2
        for told, make in () if written else slips(self.right):
            if time.thread_time() > until:
                break
            with contextlib.suppress(Exception):  # a change may make what cannot be read, or never ends
                if _does(make(), evidence, part):
                    return told
        return ""

    def _ready_made(self, answer, probes):
        """Return [(name, what to do)] of the first of PyTorch's functions by_hand that answer calls, [] if none."""
        for probe in ready_made(probes, self.by_hand):
            called = observe(probe, answer)
            for name in called.keys() & set(self.by_hand):
                return [(name, called[name])]
        return []

    def _keep(self, answer, case):
        """Raise NotYet if answer does not keep its promise in a case of the contract, in the case's plainest form."""

        def trouble(case):
            right, room = case.expect(self.right)
            seen = observe(case, answer)
            for what, value in seen.items():  # a second derivative that is 0 may be none
                none = value == "no gradient" if isinstance(value, str) else False
                if none and what.startswith("gradient of the gradient") and torch.is_tensor(right.get(what)):
                    seen[what] = torch.zeros_like(right[what])
            # What is too large for its number type was taken out of right.
            return problem({what: seen[what] for what in seen if what in right or what not in room}, right, case, room)

        if trouble(case):
            plain, needed = case.plainer(trouble)
            what, cause = trouble(plain)
            only = f"It is right without: {', '.join(needed)}." if needed else None
            reject(f"On {plain.label}: {what}", cause or only)


@functools.lru_cache(10_000)
def _known(probe, answer):
    """Observe the right answer or a misconception, once: they do the same every time."""
    return observe(probe, answer)


NO_HINT = (Exception,)  # an answer may give out anything, and a hint is worth no error; a test lets them raise


def _does(answer, evidence, part, ask=observe):
    """Whether an answer does what was seen, as far as part goes. evidence: (a Probe, what was seen, what is right)."""
    return all(same(part(seen), part(ask(probe, answer)), probe) for probe, seen, _ in evidence)


def _values(observed):
    return {what: value for what, value in observed.items() if not what.startswith("gradient of")}


def _with(text, parts):
    """Return the text of an error with a line that says which parts are right so far; what mends it stays the last."""
    lines, repairs = with_repairs(text)
    return "\n".join([*lines, *([f"Right so far: {', '.join(parts)}."] if parts else []), *repairs])


def _refuse_other_kinds(answer, name, kind):
    """Raise NotYet for what is no function or no class."""
    refuse_dots(answer, name)
    elsewhere = isinstance(answer, Observed)
    words = answer.words if elsewhere else kind_of(answer)
    is_class = answer.kind == "class" if elsewhere else isinstance(answer, type)
    if kind == "class" and not is_class:
        reject(f"check.{name} takes your class itself, not {words}: write the name without brackets.")
    if kind == "function" and is_class:
        reject(f"check.{name} takes your function itself, not a class.")
    if not elsewhere and not callable(answer):
        reject(
            f"check.{name} takes your {kind} itself, not {words}: write check.{name}({name}), without calling it first."
        )


def exercise(right, *cases, wrong="", takes=None, returns=("the result",), reference=None, contract=None, **how):
    """Return the check of a function or class.

    right: an answer as a learner would write it: the lesson's own export, where it can be.
    cases: what it is tried on first, by hand: (label, inputs ..., options of `call`), the options left out or last, or
        a Probe. The first is what a learner reads. A list of them is a stage, ([...], part) one with a name: see
        Exercise.
    wrong: misconceptions, as text: lines in the place of right's. Of several designs {right answer: text}.
    takes: the axes of each input, {"x": "... D"}, from which the sweep is made. What else Contract knows may be named
        as well: half=True, options=..., use=..., sizes=...
    reference: what says what is right, if not right itself: in_float64(right), say.
    contract: a Contract, where the inputs of the cases are not those of the sweep.
    how: tried, what the cases cover, in plain words; says, the line for a right answer, where the usual one does not
        fit ({answer.__name__} and {count} are filled in); by_hand, names of PyTorch's functions that would do what
        the learner is to build. The rest is the contract's.
    """
    told = {key: how.pop(key) for key in ("tried", "says", "by_hand") if key in how}
    if takes:
        how.setdefault("devices", "device" in inspect.signature(right).parameters)
        how.setdefault("empty", isinstance(right, type) and "..." in " ".join(takes.values()))
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
            return [probe(each) for each in case], ""
        return ([probe(each) for each in case[0]], case[1]) if _is_stage(case) else ([probe(case)], "")

    stages = [stage(case) for case in cases] if any(map(_is_stage, cases)) else [([probe(case) for case in cases], "")]
    texts = wrong if isinstance(wrong, dict) else {right: wrong} if wrong else {}
    mistakes = [mistake for design, text in texts.items() for mistake in misconceptions(design, text)]
    return Exercise(reference or right, stages, mistakes, contract=contract, **told)


def _is_stage(case):
    return isinstance(case, list) or isinstance(case, tuple) and isinstance(case[0], list)


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
    check = exercise(right, *cases, wrong=wrong, **how)
    turned = "True and False are exchanged: True says that the layer is right."
    check.wrong.append(Misconception(turned, lambda layer: not right(layer)))
    return check


class Quiz:
    """The check of a dictionary of values; quiz says how it is declared. name: as of an Exercise."""

    name = ""

    def __init__(self, right, causes, tolerance):
        self.right, self.causes, self.tolerance = right, causes, tolerance

    def __call__(self, answer):
        values(answer, self.name, self.right, self.causes, self.tolerance)


def quiz(rows=None, tolerance=None, **more):
    """Return the check of a dictionary of values.

    rows, more: {key: (right value, {wrong value: its cause})}, or a right value alone. tolerance: see values.
    """
    rows = {
        key: row if isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], dict) else (row, {})
        for key, row in ((rows or {}) | more).items()
    }
    right, causes = ({key: row[at] for key, row in rows.items()} for at in (0, 1))
    return Quiz(right, causes, tolerance)

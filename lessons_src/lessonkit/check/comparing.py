"""Compare what was observed of an answer with what is expected, and name the cause where they differ.

A misconception that is observed to do exactly what the learner's answer does is the probable cause. An answer that
matches no misconception is still rejected, with the input on which it fails.

Observing and comparing are two halves. All that a check learns of an answer it learns from observe(probe, answer), so
an answer may be observed elsewhere: examine takes an Observed in its place, which holds what was seen.
"""

import functools

import torch

from lessonkit.check.contract import sweep
from lessonkit.check.differences import problem, same
from lessonkit.check.misconceptions import announce
from lessonkit.check.probing import Observed, observe
from lessonkit.check.ready_made import ready_made
from lessonkit.check.verdicts import CAUSE, REPAIR, NotYet, YourTurn, accept, refuse_dots, reject
from lessonkit.check.wording import kind_of


@functools.lru_cache(10_000)
def _known(probe, answer):
    """Observe the reference or a misconception, once: they do the same every time."""
    return observe(probe, answer)


def examine(answer, name, probes, reference, misconceptions=(), tried=None, *, contract=None, by_hand=(), right=None):
    """Compare answer with reference on all probes; print one line if right, raise NotYet if not.

    name: what the learner calls it. reference: a right answer, a function or a class as the check takes.
    probes: a list of Probe, or of stages, [Probe] or ([Probe], part): a misconception is recognized by what it
        does in the first stage that fails, whatever the rest of the answer does, so of two at once each gets its
        cause, one after the other. A rejection then says which parts are right so far.
    tried: what the probes cover, in plain words; without it the probes' labels are listed.
    contract: what the exercise promises for every input; its sweep comes last.
    by_hand: names of PyTorch's functions that would do what the learner is to build ("layer_norm"): see ready_made.
    right: the line for a right answer, where the usual one does not fit; {answer.__name__} and {count} are filled in.
    """
    stages = probes if isinstance(probes[0], (list, tuple)) else [probes]
    stages = [stage if isinstance(stage, tuple) else (stage, "") for stage in stages]
    announce(misconceptions)
    _refuse_other_kinds(answer, name, "class" if isinstance(reference, type) else "function")
    if isinstance(answer, Observed):
        own = [reference, getattr(reference, "plain", None), *(known.answer for known in misconceptions)]
        answer.hidden, answer.by_hand = own, by_hand
    parts = []  # those that are right so far
    for i, (these, part) in enumerate(stages):
        try:
            before = [probe for passed, _ in stages[:i] for probe in passed]
            _compare(answer, these, reference, misconceptions, before, by_hand)
        except (NotYet, YourTurn) as error:
            raise type(error)(_with(str(error), parts)) from None
        if part and all(later != part for _, later in stages[i + 1 :]):
            parts.append(part)
    probes = [probe for these, _ in stages for probe in these]
    cases = sweep(contract) if contract else []
    for theirs, told in _theirs(answer, [*probes, *cases[:1]], by_hand).items():  # a case has inputs with gradients
        reject(f"Right values, and PyTorch's own {theirs} made them.", told)
    _sweep(answer, cases, reference)
    count = f"{len(probes)} input{'s' if len(probes) > 1 else ''}"
    tried = tried or ", ".join(probe.label for probe in probes)
    usual = f"{name} does what it should on {count} ({tried})"
    accept(f"Right: {right.format(answer=answer, count=len(probes)) if right else usual}.")


def _with(text, parts):
    """Return the text of an error with a line that says which parts are right so far; what mends it stays the last."""
    lines = text.split("\n")
    if parts:
        lines.insert(len(lines) - lines[-1].startswith(REPAIR), f"Right so far: {', '.join(parts)}.")
    return "\n".join(lines)


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


def _theirs(answer, probes, by_hand):
    """Return {name: what to do} of one of PyTorch's functions by_hand that answer calls, empty if it calls none."""
    called = (
        {name: observed[name] for name in observed.keys() & set(by_hand)}
        for observed in (observe(p, answer) for p in ready_made(probes, by_hand))
    )
    return next(filter(None, called), {})


def _compare(answer, probes, reference, misconceptions, passed, by_hand):
    """Raise NotYet if answer does not do what reference does on all probes. passed: those on which it does already."""
    seen = []
    for probe in probes:
        seen.append(mine := observe(probe, answer))
        trouble = problem(mine, _known(probe, reference), probe)
        if trouble:
            seen += [observe(later, answer) for later in probes[len(seen) :]]
            expected = [_known(probe, reference) for probe in probes]
            passes = lambda wrong: all(same(_known(p, wrong), _known(p, reference), p) for p in passed)
            misconception = next(
                (m for m in _matching(seen, expected, probes, misconceptions) if passes(m.answer)), None
            )
            why = probe.why(mine) if callable(probe.why) else probe.why
            told = CAUSE + misconception.told if misconception else trouble[1] or why or None
            if not misconception:  # an answer that PyTorch's own function makes may fail for reasons that nobody wrote
                for theirs, instead in _theirs(answer, [probe], by_hand).items():
                    told = f"PyTorch's own {theirs} made the result. {instead}"
            reject(f"On {probe.label}: {trouble[0]}", told)


def _matching(seen, right, probes, misconceptions):
    """Yield the misconceptions that do what was seen; then, if values are wrong, those with other gradients alone."""
    everything, values_only = (lambda observed: observed), _values
    wrong_values = any(not same(_values(a), _values(b), p) for a, b, p in zip(seen, right, probes, strict=True))
    for part in (everything, values_only) if wrong_values else (everything,):
        for misconception in misconceptions:
            theirs = (_known(probe, misconception.answer) for probe in probes)
            if all(same(part(a), part(b), probe) for a, b, probe in zip(seen, theirs, probes, strict=True)):
                yield misconception


def _values(observed):
    return {what: value for what, value in observed.items() if not what.startswith("gradient of")}


def _sweep(answer, cases, reference):
    """Raise NotYet for the first case of a contract that fails, in its plainest form."""

    def trouble(case):
        right, room = case.expect(reference)
        seen = observe(case, answer)
        for what, value in seen.items():  # a second derivative that is 0 may be none
            none = value == "no gradient" if isinstance(value, str) else False
            if none and what.startswith("gradient of the gradient") and torch.is_tensor(right.get(what)):
                seen[what] = torch.zeros_like(right[what])
        # What is too large for its number type was taken out of right.
        return problem({what: seen[what] for what in seen if what in right or what not in room}, right, case, room)

    for case in cases:
        if trouble(case):
            plain, needed = case.plainer(trouble)
            what, cause = trouble(plain)
            only = f"It is right without: {', '.join(needed)}." if needed else None
            reject(f"On {plain.label}: {what}", cause or only)

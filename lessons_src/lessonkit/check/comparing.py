"""Compare an answer with a reference on the same probes, and name the cause where they differ.

A known mistake that is observed to do exactly what the learner's answer does is the probable cause. An answer that
matches no known mistake is still rejected, with the input on which it fails.
"""

import functools

from lessonkit.check.devices import other_device
from lessonkit.check.differences import problem, same
from lessonkit.check.mistakes import announce
from lessonkit.check.probing import observe, quiet
from lessonkit.check.ready_made import ready_made
from lessonkit.check.verdicts import NotYet, YourTurn, accept, refuse_dots, reject
from lessonkit.check.wording import kind_of, sentence


@functools.lru_cache(maxsize=10_000)
def _known(probe, answer):
    """Observe the reference or a known mistake, once: they do the same every time."""
    return observe(probe, answer)


def examine(
    answer, name, probes, reference, mistakes=(), tried=None, kind="function", *, by_hand=(), devices=False, right=None
):
    """Compare answer with reference on all probes; print one line if right, raise NotYet if not.

    name: what the learner calls it. kind: "function" or "class", what the check takes.
    tried: what the probes cover, in plain words; without it the probes' labels are listed.
    by_hand: names of PyTorch's functions that would do what the learner is to build ("layer_norm"): see ready_made.
    devices: whether the answer must run where x is; only where the exercise's text says so.
    right: the line for a right answer, where the usual one does not fit.
    """
    _compare(answer, name, probes, reference, mistakes, kind)
    _afterwards(answer, name, probes, by_hand, devices)
    count = f"{len(probes)} input{'s' if len(probes) > 1 else ''}"
    tried = tried or ", ".join(probe.label for probe in probes)
    accept(f"Right: {right or f'{name} does what it should on {count} ({tried})'}.")


def in_stages(answer, name, stages, reference, right, kind="class", *, by_hand=(), devices=False):
    """Examine answer stage by stage; print one line if all are right, raise NotYet for the first that fails if not.

    A mistake is recognized by what it does in its own stage, whatever the rest of the answer does. So of two mistakes
    at once each gets its cause, one after the other.

    stages: [(probes, mistakes)], or [(probes, mistakes, part)] for an exercise of several parts: a rejection, and the
        line for a part that is not written yet, then says which parts are right so far.
    right: the line for a right answer, with {answer.__name__} and {count}, the number of probes, to be filled in.
    by_hand, devices: as for examine.
    """
    parts = []  # those that are right so far
    probes = [probe for stage in stages for probe in stage[0]]
    for i, (these, mistakes, *part) in enumerate(stages):
        try:
            _compare(answer, name, these, reference, mistakes, kind)
        except (NotYet, YourTurn) as error:
            so_far = f" Right so far: {', '.join(parts)}." if parts else ""
            first, *more = str(error).split("\n")
            raise type(error)("\n".join([sentence(first) + so_far if parts else first, *more])) from None
        if part and all(later[2:] != stages[i][2:] for later in stages[i + 1 :]):
            parts += part
    _afterwards(answer, name, probes, by_hand, devices)
    accept(f"Right: {right.format(answer=answer, count=len(probes))}.")


def _compare(answer, name, probes, reference, mistakes, kind):
    """Raise NotYet if answer does not do what reference does on all probes."""
    announce(mistakes)
    refuse_dots(answer, name)
    if kind == "class" and not isinstance(answer, type):
        reject(f"check.{name} takes your class itself, not {kind_of(answer)}: write the name without brackets.")
    if kind == "function" and isinstance(answer, type) and not isinstance(reference, type):
        reject(f"check.{name} takes your function itself, not a class.")
    if not callable(answer):
        reject(
            f"check.{name} takes your {kind} itself, not {kind_of(answer)}: write check.{name}({name}), "
            f"without calling it first."
        )
    expected = [_known(probe, reference) for probe in probes]
    seen = []
    for probe, right in zip(probes, expected, strict=True):
        seen.append(observe(probe, answer))
        found = problem(seen[-1], right, probe)
        if found:
            seen += [observe(later, answer) for later in probes[len(seen) :]]
            reject(f"On {probe.label}: {found[0]}", _cause(seen, expected, probes, mistakes) or found[1])


def _afterwards(answer, name, probes, by_hand, devices):
    """Raise NotYet for what only an answer with the right values can do wrong."""
    with quiet():
        found = ready_made(answer, probes, by_hand) if by_hand else None
        found = found or (other_device(answer, probes) if devices else None)
    if found:
        reject(*found)


def _cause(seen, right, probes, mistakes):
    """Return the cause of the first mistake that does what was seen; if the values are wrong, gradients may differ."""
    everything, values_only = (lambda observed: observed), _values
    wrong_values = any(not same(_values(a), _values(b), p) for a, b, p in zip(seen, right, probes, strict=True))
    for part in (everything, values_only) if wrong_values else (everything,):
        for mistake in mistakes:
            theirs = (_known(probe, mistake.answer) for probe in probes)
            if all(same(part(a), part(b), probe) for a, b, probe in zip(seen, theirs, probes, strict=True)):
                return f"Probable cause: {mistake.cause}"
    return None


def _values(observed):
    return {what: value for what, value in observed.items() if not what.startswith("gradient of")}

"""Whether an answer is told the same when it is observed in another process: the answers of the tests, all of a lesson.

    python -m teaching.tests.grading_alike 06       (in the lessons' Python)

prints how many answers were tried, and each that is told something else.
"""

import sys

import numba.cloudpickle

from lessonkit import check, course
from lessonkit.check import NotYet
from lessonkit.check.observing import quiet
from lessonkit.check.verdicts import collecting
from teaching.grading import assignment
from teaching.grading.jail import Jail, Limits
from teaching.grading.judge_outside import Jailed, by_value, cloudpickle
from teaching.grading.processes import Process
from tests.helpers import all_answers


def observer(stem):
    """Return a Process, an observer in its jail, and its Jailed."""
    limits = Limits(memory=8 << 30)
    process = Process(Jail(limits, assignment.read(stem)).observer(), limits.bounds()).started()
    return process, Jailed(process.channel)


def told(name, answer):
    """Return what a check tells of an answer."""
    try:
        with quiet(), collecting() as texts:
            check.plain(name)(answer)
        return "\n".join(texts)
    except NotYet as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def elsewhere(jailed, answer):
    """Return what stands for an answer that was sent to an observer."""
    text = f"import pickle\nanswer = pickle.loads(bytes.fromhex({cloudpickle.dumps(answer).hex()!r}))"
    asked = {"number": "1", "context": [], "cells": [text], "seconds": 100_000, "expressions": ["answer"]}
    answers, why = jailed.run(asked)
    if why:
        raise RuntimeError(why)
    return answers[0]


def main(number):
    stem = assignment.find(number)
    by_value(stem)
    answers_to = all_answers()[course.lessons()[stem].module]
    for pickles in (cloudpickle, numba.cloudpickle):  # numba writes what it compiles in its own way
        for name in ("answers", "checks"):
            pickles.register_pickle_by_value(sys.modules[f"lessons.{stem}.{name}"])
    process, jailed = observer(stem)
    tried, other = 0, []
    for name, answers in answers_to.items():
        wrong = {label: case[0] for label, case in answers.get("wrong", {}).items()}
        for label, answer in [*answers["right"].items(), *wrong.items()]:
            tried += 1
            try:
                texts = told(name, answer), told(name, elsewhere(jailed, answer))
            except Exception as error:
                texts = "", f"{type(error).__name__}: {error}"
            if texts[0] != texts[1]:
                other.append((name, label, *texts))
    process.end()
    print(f"{stem}: {tried} answers, {len(other)} told otherwise")
    for name, label, here, there in other:
        print(f"  {name}, {label}\n    here:  {here[:300]!r}\n    there: {there[:300]!r}")


if __name__ == "__main__":
    main(sys.argv[1])

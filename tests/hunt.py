"""Hunt for holes in the checks: change one thing at a time in a right answer, and show each change that is accepted.

    python -m tests.hunt layer_norm softmax     these exercises, all their right answers that are written out
    python -m tests.hunt                        all of them: some minutes

An accepted change either leaves the function the same or is a hole in the check: a person decides.
"""

import argparse
import contextlib
import itertools

from lessonkit import check
from lessonkit.check.misconceptions import made, source_of
from lessonkit.check.observing import TooLong, limit, quiet
from lessonkit.check.slips import mutants
from lessonkit.check.verdicts import NotYet, YourTurn, collecting
from tests.helpers import all_answers


def accepted(name, answer):
    """Return (how many changes were tried, those that the check accepts) for one right answer that is written out."""
    tried, good = 0, []
    for line, before, after, changed in mutants(source_of(answer)):
        try:
            mutant = made(answer, changed, f"<{answer.__name__}, changed>")
        except Exception:
            continue
        tried += 1
        with contextlib.suppress(NotYet, YourTurn, TooLong), quiet(), collecting(), limit(20):
            check.plain(name)(mutant)
            old, new = _first_difference(before, after)
            good.append(f"line {line}: {old[:90]} -> {new[:90]}")
    return tried, good


def _first_difference(before, after):
    """Return the first lines in which two texts differ, of a change to a whole definition too."""
    pairs = itertools.zip_longest(before.splitlines(), after.splitlines(), fillvalue="nothing")
    return next(((old.strip(), new.strip()) for old, new in pairs if old != new), (before, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="exercises; without any, all")
    names = parser.parse_args().names
    strays = set(names).difference(*all_answers().values())
    if strays:
        parser.error(f"no check is called {', '.join(sorted(strays))}. An exercise is named as in check.NAME(NAME).")
    for lesson, exercises in all_answers().items():
        for name in exercises:
            for answer in exercises[name]["right"].values() if not names or name in names else ():
                with contextlib.suppress(TypeError, OSError, AttributeError, SyntaxError):  # not written out
                    tried, good = accepted(name, answer)
                    print(
                        f"{lesson} · {name} · {answer.__name__}: {tried} tried, {len(good)} accepted",
                        *good,
                        sep="\n    ",
                    )


if __name__ == "__main__":
    main()

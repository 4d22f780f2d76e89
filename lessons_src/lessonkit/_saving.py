"""Keep an answer that has passed its check: its source, and what it needs, in work/mine.

The source is found in what this kernel has executed. An answer that would not import by itself in a new process, or
does something besides computing, is refused in one sentence, and later lessons go on with the course's.
"""

import ast
import datetime

from filelock import FileLock

from lessonkit import _allowed, _saved_answers, _work
from lessonkit._saved_answers import Refused
from lessonkit.program import needed, statements

MINE = "from lessonkit.mine import "  # of the same lesson, in a new kernel: the file has it
PATIENCE = 10  # seconds for which a kernel waits for another one that is keeping an answer just now


def save(answer, exercise, passes, borrowed, given):
    """Keep an answer that has just passed its check, where a learner works; return what there is to say, or None.

    exercise: (its lesson, its number, the answer's name, its check's name). passes: puts an object through the check
    of a name of this lesson and returns why it does not pass, or None. borrowed: names for which the course's own has
    stood in. given: what else the course has from this lesson: where the lesson's own code for it cannot be kept, it is
    imported. Never raises an Exception: whatever is wrong, the lesson goes on.
    """
    from IPython import get_ipython

    folder = _work.folder()
    if folder is None:
        return None
    place, shell = f"{folder.name}/mine", get_ipython()
    lesson, number, name, check = exercise
    try:
        cells = shell.history_manager.input_hist_parsed  # all that were executed, the present one included
        program = [statement for cell in cells for statement in statements(cell)]
        if shell.user_ns.get(name) is not answer:
            program += statements(f"{name} = {_argument(program, check)}")
        (folder / "mine").mkdir(exist_ok=True)
        with FileLock(folder / "mine/.lock", timeout=PATIENCE):
            path = folder / f"mine/{lesson}.py"
            old = _saved_answers.read(path)
            program = [s for s in program if not (s.text.startswith(MINE) and s.binds <= old.entries.keys())]
            try:
                new = _needed(_imported(program, borrowed, lesson), name, old)
            except Refused:
                new = _needed(_imported(program, borrowed | given, lesson), name, old)
            if name in old.entries and _texts(new) == _texts(needed(old.program, name)[0]):
                return None
            entry, aside = {name: (number, datetime.date.today().isoformat())}, ""
            try:
                text = _merged(path, old, entry, new, passes)
            except Refused:
                if old.whole:
                    raise
                text = _merged(
                    path, _saved_answers.SavedAnswers(), entry, new, passes
                )  # what was edited by hand does not hold
            if not old.whole:
                aside = f" The edited file that was there is now called {_saved_answers.set_aside(path)}."
            _saved_answers.write(path, text)
            return f"Kept as yours in {place}/{path.name}: the cells below and later lessons can use it.{aside}"
    except Refused as error:
        return f"It is not kept in {place}, because {error}."
    except TimeoutError:
        return (
            f"It is not kept in {place} yet, because another notebook is just keeping an answer. Run the check again."
        )
    except OSError as error:
        return f"It is not kept in {place}, because that folder cannot be written ({error.strerror})."
    except Exception as error:
        return f"It is not kept in {place}, because keeping it failed ({type(error).__name__}: {error})."


def _argument(program, check):
    """Return the text of what a check was last called with: the answer has another name, or none."""
    for statement in reversed(program):
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == check and len(node.args) == 1:
                return ast.unparse(node.args[0])
    raise Refused(f"no cell calls check.{check}, so that its name is not known")


def _imported(program, names, lesson):
    """Return a program that imports some names from the course, in the place of the statements that bind them."""
    imports = [
        statement for name in sorted(names) for statement in statements(f"from fromscratch.{lesson} import {name}")
    ]
    return [*(statement for statement in program if not statement.binds & names), *imports]


def _needed(program, name, old):
    """Return the statements that an answer needs, what is kept already left out; Refused if one cannot be kept."""
    new, unbound = needed(program, name)
    trouble = _allowed.trouble(new)
    if trouble:
        raise Refused(trouble)
    unbound = [other for other in unbound if other not in old.entries]
    if unbound:
        raise Refused(
            f"no line in a cell binds {unbound[0]} by itself, as an import, a definition or an assignment does; exec, "
            "globals(), import * and cells that begin with %% hide what they bind"
        )
    return new


def _merged(path, old, entry, new, passes):
    """Return the text of a file with a new answer, after it and all that it changes have passed their checks.

    entry: the new answer's, as in SavedAnswers.entries. new: the statements that it needs.
    """
    again = _bound(new)
    program = [*new, *(statement for statement in old.program if not statement.binds & again)]
    kept = _saved_answers.parse(_saved_answers.compose(path.stem, old.entries | entry, program))
    with _saved_answers.draft(path, kept.text) as file, _saved_answers.loaded(kept, path, file) as module:
        for name, (exercise, _) in kept.entries.items():
            before = needed(old.program, name)[0]
            if old.whole and name not in entry and _texts(before) == _texts(needed(kept.program, name)[0]):
                continue
            trouble = passes(name, getattr(module, name, None))
            if trouble and name not in entry:
                both = ", ".join(sorted(again & _bound(before)))
                trouble = f"your kept answer to exercise {exercise} would no longer pass its check: both bind {both}"
            if trouble:
                raise Refused(trouble)
    return kept.text


def _texts(program):
    return {statement.text for statement in program}


def _bound(program):
    return set().union(*(statement.binds for statement in program))

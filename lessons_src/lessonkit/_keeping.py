"""Keep an answer that has passed its check: its source, and what it needs, in work/mine.

The source is found in what this kernel has executed. An answer that would not import by itself in a new process, or
does something besides computing, is refused in one sentence, and later lessons go on with the course's.
"""

import ast
import datetime

from lessonkit import _allowed, _kept, _trying, _work, course
from lessonkit._program import needed, statements
from lessonkit._tones import in_notebook
from lessonkit._trying import Refused


def keep(check, answer):
    """Keep an answer that has just passed a check, where a learner works; print a line if there is news.

    check: its name. Never raises an Exception: whatever is wrong, the lesson goes on.
    """
    folder = _work.folder()
    if folder is None or not in_notebook():
        return
    lesson, exercise = course.checks()[check]
    names = {its: name for name, its in exercise.answers.items()}
    if check not in names:  # a quiz: its answer is a number or a dictionary
        return
    place = f"{folder.name}/mine"
    try:
        said = _keep(folder / "mine" / f"{lesson.module}.py", exercise.number, names[check], check, answer)
    except Refused as error:
        said = f"It is not kept in {place}, because {error}."
    except TimeoutError:
        said = (
            f"It is not kept in {place} yet, because another notebook is just keeping an answer. Run the check again."
        )
    except OSError as error:
        said = f"It is not kept in {place}, because that folder cannot be written ({error.strerror})."
    except Exception as error:
        said = f"It is not kept in {place}, because keeping it failed ({type(error).__name__}: {error})."
    if said:
        print(said)


def _keep(path, exercise, name, check, answer):
    """Write an answer to its lesson's file, and return what there is to say; Refused if it cannot be kept."""
    from IPython import get_ipython

    cells = get_ipython().history_manager.input_hist_parsed  # all that were executed, the present one included
    program = [statement for cell in cells for statement in statements(cell)]
    if get_ipython().user_ns.get(name) is not answer:
        program += statements(f"{name} = {_argument(program, check)}")
    with _kept.locked(path.parent):
        old = _kept.read(path)
        new = _needed(program, name, path.stem, old)
        if name in old.entries and _texts(new) == _texts(needed(old.program, name)[0]):
            return None
        entry = {name: (exercise, datetime.date.today().isoformat())}
        try:
            text = _merged(path, old, entry, new)
        except Refused:
            if old.whole:
                raise
            text = _merged(path, _kept.Kept(), entry, new)  # what was edited by hand does not hold
        aside = "" if old.whole else f" The edited file that was there is now called {_kept.set_aside(path)}."
        _kept.write(path, text)
    return f"Kept as yours in {path.parent.parent.name}/mine/{path.name}.{aside}"


def _argument(program, check):
    """Return the text of what a check was last called with: the answer has another name, or none."""
    for statement in reversed(program):
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == check and len(node.args) == 1:
                return ast.unparse(node.args[0])
    raise Refused(f"no cell calls check.{check}, so that its name is not known")


def _needed(program, name, lesson, old):
    """Return the statements that an answer needs, what is kept already left out; Refused if one cannot be kept."""
    program = [other for statement in program for other in _from_the_same(statement, lesson, old)]
    new, unbound = needed(program, name)
    found = _allowed.trouble(new)
    if found:
        raise Refused(found)
    unbound = [other for other in unbound if other not in old.entries]
    if unbound:
        raise Refused(
            f"no line in a cell binds {unbound[0]} by itself, as an import, a definition or an assignment does; exec, "
            "globals(), import * and cells that begin with %% hide what they bind"
        )
    return new


def _from_the_same(statement, lesson, old):
    """Yield a statement, or what it stands for if it imports from lessonkit.mine what the same file is to hold."""
    from lessonkit import mine

    node = statement.node
    if isinstance(node, ast.ImportFrom) and node.module == "lessonkit.mine":
        asked, bound = node.names[0].name, min(statement.binds)
        if mine.home(asked) == lesson:
            if asked not in old.entries:
                yield from statements(f"from fromscratch import {asked} as {bound}")
            elif asked != bound:
                yield from statements(f"{bound} = {asked}")
            return
    yield statement


def _merged(path, old, entry, new):
    """Return the text of a file with a new answer, after it and all that it changes have passed their checks.

    entry: the new answer's, as in Kept.entries. new: the statements that it needs.
    """
    again = _bound(new)
    program = [*new, *(statement for statement in old.program if not statement.binds & again)]
    made = _kept.parse(_kept.compose(path.stem, old.entries | entry, program))
    module = _trying.execute(made, path)
    for name, (exercise, _) in made.entries.items():
        before, after = needed(old.program, name)[0], needed(made.program, name)[0]
        if old.whole and name not in entry and _texts(before) == _texts(after):
            continue
        try:
            _trying.passes(module, path.stem, name)
        except Refused:
            if name in entry:
                raise
            both = ", ".join(sorted(again & _bound(before)))
            raise Refused(
                f"your kept answer to exercise {exercise} would no longer pass its check: both bind {both}"
            ) from None
    return made.text


def _texts(program):
    return {statement.text for statement in program}


def _bound(program):
    return set().union(*(statement.binds for statement in program))

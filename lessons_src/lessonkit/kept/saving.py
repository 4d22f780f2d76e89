"""Keep an answer that has passed its check: its source, and what it needs, in work/mine.

The source is found in what this kernel has executed. What would not import by itself, or does something besides
computing, is refused in one sentence, and later lessons go on with the course's.
"""

import ast
import datetime

from filelock import FileLock

from lessonkit import places
from lessonkit.kept import allowed, files
from lessonkit.kept.files import Refused
from lessonkit.program import needed, statements

MINE = "from lessonkit.mine import "  # of the same lesson, in a new kernel: the file has it
PATIENCE = 10  # seconds for which a kernel waits for another one


def save(answer, exercise, passes, borrowed, exported):
    """Keep an answer that has just passed its check, where a learner works; return what there is to say, or None.

    exercise: (its lesson, its number, the answer's name, its check's name). passes: puts an object through the check
    of a name of this lesson and returns why it does not pass, or None. borrowed: names for which the course's own has
    stood in. exported: what else the course has from this lesson, imported where the lesson's own code cannot be kept.
    Never raises an Exception: whatever is wrong, the lesson goes on.
    """
    folder = places.work()
    if folder is None:
        return None
    lesson, number, name, check = exercise
    place = f"{folder.name}/mine"
    try:
        program = _executed(answer, name, check)
        (folder / "mine").mkdir(exist_ok=True)
        with FileLock(folder / "mine/.lock", timeout=PATIENCE):
            path = folder / f"mine/{lesson}.py"
            old = files.read(path)
            new = _new(program, name, old, lesson, borrowed, exported)
            if name in old.entries and _texts(new) == _texts(old.code(name)):
                return None
            aside = _write(path, old, {name: (number, datetime.date.today().isoformat())}, new, passes)
        return f"Kept as yours in {place}/{path.name}: the cells below and later lessons can use it.{aside}"
    except Refused as error:
        why = f", because {error}"
    except TimeoutError:
        why = " yet, because another notebook is just keeping an answer. Run the check again"
    except Exception as error:
        why = f", because keeping it failed ({type(error).__name__}: {error})"
    return f"It is not kept in {place}{why}."


def _executed(answer, name, check):
    """Return the statements that this kernel has run, and name = the answer if that goes by another name."""
    from IPython import get_ipython

    shell = get_ipython()
    program = [statement for cell in shell.history_manager.input_hist_parsed for statement in statements(cell)]
    if shell.user_ns.get(name) is answer:
        return program
    for node in (node for statement in reversed(program) for node in ast.walk(statement.node)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == check and len(node.args) == 1:
            return [*program, *statements(f"{name} = {ast.unparse(node.args[0])}")]
    raise Refused(f"no cell calls check.{check}, so that its name is not known")


def _new(program, name, old, lesson, borrowed, exported):
    """Return the statements that an answer needs, without what is kept already; Refused if one cannot be kept.

    The course's own takes the place of borrowed names, and of what the lesson exports where nothing else can be kept.
    """
    program = [s for s in program if not (s.text.startswith(MINE) and s.binds <= old.entries.keys())]
    for names in (borrowed, borrowed | exported):
        imports = [f"from fromscratch.{lesson} import {other}" for other in sorted(names)]
        own = [statement for statement in program if not statement.binds & names]
        new, unbound = needed([*own, *statements("\n".join(imports))], name)
        unbound = [other for other in unbound if other not in old.entries]
        trouble = allowed.trouble(new)
        if not trouble and unbound:
            trouble = (
                f"no line in a cell binds {unbound[0]} by itself, as an import, a definition or an assignment does; "
                "exec, globals(), import * and %% cells hide what they bind"
            )
        if not trouble:
            return new
    raise Refused(trouble)


def _write(path, old, entry, new, passes):
    """Write a file with a new answer; return a sentence if an edited one was there, which is put aside.

    entry: the new answer's, as in Kept.entries. new: the statements that it needs.
    """
    try:
        text = _merged(path, old, entry, new, passes)
    except Refused:
        if old.whole:
            raise
        text = _merged(path, files.Kept(), entry, new, passes)  # what was edited by hand does not hold
    aside = "" if old.whole else f" The edited file that was there is now called {files.set_aside(path)}."
    files.write(path, text)
    return aside


def _merged(path, old, entry, new, passes):
    """Return the text of a file with a new answer, after all that it changes has passed its checks."""
    again = _bound(new)
    program = [*new, *(statement for statement in old.program if not statement.binds & again)]
    kept = files.parse(files.compose(path.stem, old.entries | entry, program))
    with files.draft(path, kept.text) as file, files.loaded(kept, path, file) as module:
        for name, (exercise, _) in kept.entries.items():
            before = old.code(name)
            if old.whole and name not in entry and _texts(before) == _texts(kept.code(name)):
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

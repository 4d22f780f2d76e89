"""The cause that stands for the id of a known mistake, in the words of the present checks."""

import ast
import functools
import importlib

from lessonkit._work import ROOT
from lessonkit.attempts import mistake_id


def cause(ident, lesson):
    """Return the cause of a known mistake, None if the present checks do not tell it. lesson: "statistics"."""
    for causes in (_written, _made):
        found = causes(lesson).get(ident)
        if found:
            return found
    return None


@functools.cache
def _written(lesson):
    """Return {id: text} of the texts in a lesson's module of checks: read, not imported, so that this needs no torch.

    A text counts for each check of the module, since nothing in the text says whose it is.
    """
    path = ROOT / f"lessons_src/lessonkit/check/lessons/{lesson}.py"
    if not path.exists():
        return {}
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return _by_id(texts, [node.name for node in nodes if isinstance(node, ast.FunctionDef)])


@functools.cache
def _made(lesson):
    """Return {id: cause} of what the module makes of its texts when it is imported, where there is torch.

    About one cause in seven is put together from several texts.
    """
    try:
        module = importlib.import_module(f"lessonkit.check.lessons.{lesson}")
    except ImportError:
        return {}
    return _by_id(_causes_in(vars(module)), [name for name, item in vars(module).items() if callable(item)])


def _by_id(texts, names):
    checks = [name for name in names if not name.startswith("_")]
    return {mistake_id(check, text): text for text in texts for check in checks}


def _causes_in(item):
    """Return the causes of all mistakes, and all texts, in nested dictionaries, lists and tuples."""
    if isinstance(item, (dict, list, tuple)):
        return set().union(*map(_causes_in, item.values() if isinstance(item, dict) else item))
    text = getattr(item, "cause", item)
    return {text} if isinstance(text, str) else set()

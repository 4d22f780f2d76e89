"""What a lesson's code imports, and its cells as statements."""

import ast

from lessonkit.program import modules, names, statements

__all__ = ["imports", "modules", "names", "parse"]


def imports(lesson):
    """Return {name: (import statement that binds just it, its line)} of a lesson's top-level imports.

    Its way-back cell repeats them, and may take what the lesson itself exports from its module of fromscratch, or
    from lessonkit.mine: these are left out.
    """
    exported = set().union(*(names(cell.source)[1] for cell in lesson.code("export") if parse(lesson, cell)))
    own = tuple(f"from {package} import " for package in (f"fromscratch.{lesson.module}", "lessonkit.mine"))
    return {
        min(statement.binds, default="*"): (statement.text, cell.line + statement.node.lineno)
        for cell in lesson.code()
        if parse(lesson, cell)
        for statement in statements(cell.source)
        if statement.imports
        and not ("way-back" in cell.tags and statement.text.startswith(own) and statement.binds <= exported)
    }


def parse(lesson, cell):
    """Return the statements of a code cell; what Python cannot read stops the lesson."""
    try:
        return ast.parse(cell.source).body
    except SyntaxError as error:
        lesson.fail(
            cell.line + (error.lineno or 1),
            f"Python cannot read this line: {error.msg}. Mend it; %magics and !commands have no place in a lesson.",
        )

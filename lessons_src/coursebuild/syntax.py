"""What a piece of code imports, reads and binds, found without running it."""

import ast
import symtable


def names(code):
    """Return (names read from outside, names bound at top level) by a piece of code, without running it."""
    top = symtable.symtable(code, "cell", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    read = set()

    def visit(table):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                read.add(symbol.get_name())
        for child in table.get_children():
            visit(child)

    visit(top)
    return read - bound - {"__class__"}, bound


def imports(lesson):
    """Return {name: (import statement that binds just it, its line)} of a lesson's top-level imports."""
    found = {}
    for cell in lesson.code():
        for node in parse(lesson, cell):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                plain = isinstance(node, ast.Import)
                for alias in node.names:
                    one = ast.Import([alias]) if plain else ast.ImportFrom(node.module, [alias], 0)
                    name = (alias.asname or alias.name).partition(".")[0]
                    found[name] = ast.unparse(one), cell.line + node.lineno
    return found


def parse(lesson, cell):
    """Return the statements of a code cell; what Python cannot read stops the lesson."""
    try:
        return ast.parse(cell.source).body
    except SyntaxError as error:
        lesson.fail(
            cell.line + (error.lineno or 1),
            f"Python cannot read this line: {error.msg}. Mend it; %magics and !commands have no place in a lesson.",
        )


def modules(node):
    """Return the modules that an import statement names, [] for any other node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []

"""The learner notebooks as Google Colab opens them: the course is installed first, folds are folded, links lead on.

Colab reads a notebook from a branch of a repository on GitHub: publishing the site pushes these copies to one.
"""

import posixpath
import re

import nbformat

BRANCH = "colab"
LINK = re.compile(r"\]\(([\w./-]+\.[a-z]+)(?:#[^)\s]*)?\)")  # to a file of the course
KIT = re.compile(r"^(?:from|import) (?:lessonkit|fromscratch)\b", re.MULTILINE)

INSTALL = """#@title Install the course, beside the torch that is here
# What you build is kept until Colab ends the session: download what you want to keep.
%pip install --quiet "layernorm-from-scratch[all] @ git+https://github.com/{repository}\""""


def write(notebooks, folder, repository):
    """Write a copy of each notebook of a folder to another one. repository: "owner/name" on GitHub."""
    folder.mkdir(parents=True)
    for path in notebooks.glob("*.ipynb"):
        nbformat.write(copy(nbformat.read(path, as_version=4), repository), folder / path.name)


def copy(notebook, repository):
    """Change a notebook into its copy for Colab, and return it."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(KIT.search(cell.source) for cell in code):
        install = nbformat.v4.new_code_cell(INSTALL.format(repository=repository), id="install")
        install.metadata["cellView"] = "form"
        notebook.cells.insert(notebook.cells.index(code[0]), install)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(lambda link: f"]({_target(link[1], repository)})", cell.source)
        elif cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["cellView"] = "form"
            cell.source = re.sub(r"\A# ", "#@title ", cell.source)
    return notebook


def address(name, repository):
    """Return where Colab opens the copy with a file name."""
    return f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{name}"


def _target(path, repository):
    if "/" not in path and path.endswith(".ipynb"):
        return address(path, repository)
    return f"https://github.com/{repository}/blob/HEAD/{posixpath.normpath(f'notebooks/{path}')}"

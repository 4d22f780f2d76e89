"""The options of a question in a notebook: folds that open on their reasons. The one that is clicked is the answer.

The folds are Markdown: the front end sets their formulas, and a viewer that runs no script has them, too. choices.mjs
makes buttons of them while they stand in the notebook that has shown them.
"""

from pathlib import Path

import anywidget
from IPython.display import display
from traitlets import Unicode

# Without its kernel JupyterLab cannot find what stands below the folds, and would say so.
GONE = ".jp-OutputArea-child:has(.lesson-option) + * .jupyter-widgets:not(:has(.lesson-choices))"
AGAIN = f"""

<style>
{GONE} {{ font-size: 0; }}
{GONE}::after {{ content: "Run this cell, and a click answers."; font-size: var(--jp-ui-font-size1); }}
</style>"""


class Choices(anywidget.AnyWidget):
    """The line below the folds of a question. letter: the one that was clicked, "" until then. how: to answer it."""

    _esm = Path(__file__).with_suffix(".mjs").read_text(encoding="utf-8")
    place, letter, how = (Unicode().tag(sync=True) for _ in range(3))

    def __repr__(self):
        return self.how


def show(question, letter, how, answer):
    """Show a Question's options, that of a letter opened; answer(letter) is called when one is clicked.

    how: a sentence for those who cannot click.
    """
    display({"text/markdown": question.folds(letter) + AGAIN, "text/plain": question.markdown}, raw=True)
    choices = Choices(place=question.place, letter=letter, how=how)
    choices.observe(lambda change: answer(change.new), "letter")
    display(choices)

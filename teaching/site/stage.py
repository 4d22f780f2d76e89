"""Write all that Sphinx reads: a page a lesson, glossary, start page, pictures, downloads."""

import json
import re
import shutil
from pathlib import Path

import nbformat

from teaching import material
from teaching.site import colab, explorables, landing, pages
from teaching.site.markdown import box, links

# The parts of MathJax that conf.py loads: less than half of a whole bundle.
MATHJAX = ["startup.js", "core.js", "input/tex-base.js", "input/tex/extensions/ams.js", "output/chtml.js"]
MATHJAX += ["output/chtml/fonts/tex.js", "a11y/assistive-mml.js"]
MATH_FONTS = "output/chtml/fonts/woff-v2"

CHOICES = material.ROOT / "lessons_src/lessonkit/check/choices.mjs"  # what makes buttons of a question's options

PLAY = "A digit goes through fifty layers, and fades. Choose a LayerNorm: does it come through?"  # begins lesson 0

TERM = re.compile(r"^\| (.+?) \| (.+?) \| (\[.+?\]\(.+?\)) \|$", re.MULTILINE)  # a row of the table, with its link


def stage(folder, repository="", slides=None):
    """Write the Sphinx source of the whole site to a folder, which is emptied before.

    repository: "owner/name" on GitHub, for links to it, to Binder and to Colab; "" for none. slides: a folder of decks,
    or None.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).with_name("sphinx"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(material.ROOT / "README.md", folder)  # the start page includes a part of it
    lessons = [material.read(stem) for stem in material.every()]
    look_up = [material.read(stem) for stem in material.references()]
    for lesson in [*lessons, *look_up]:
        above = links("work", _places(lesson, repository, slides))
        if lesson is lessons[0]:
            above = f"{PLAY}\n\n{explorables.place('depth')}\n\n{above}"
        page = pages.page(lesson, above, material.keeper(folder / "figures", lesson.stem))
        nbformat.write(page, folder / f"{lesson.stem}.ipynb")
    first = landing.page(lessons, look_up, repository, slides)
    (folder / "index.md").write_text(first, encoding="utf-8")
    (folder / "glossary.md").write_text(_glossary(look_up), encoding="utf-8")
    about = {"descriptions": {lesson.stem: landing.card(lesson)[1] for lesson in lessons}, "repository": repository}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")  # for conf.py
    texts = "\n".join([first, *(text for lesson in [*lessons, *look_up] for text in lesson.texts)])
    _copies(folder, set(re.findall(r"\]\((?:\.\./)?(data/[^)\s]+)\)", texts)), repository, slides)


def _copies(folder, data, repository, slides):
    """Copy what pages load and offer to a folder. data: the paths of the data files that they link to."""
    predict = folder / "_static/predict.js"  # calls what the module exports; a page opened from a disk loads no module
    module = CHOICES.read_text(encoding="utf-8").replace("export default { render };", predict.read_text("utf-8"))
    predict.write_text(f"{{\n{module}}}\n", encoding="utf-8")
    for name in explorables.NAMES:
        explorables.bundle(name, folder / "_static/explore")
    mathjax = material.PACKAGES / "mathjax/es5"
    copied = {f"_static/mathjax/{name}": mathjax / name for name in MATHJAX}
    for name, path in (copied | {name: material.ROOT / name for name in data}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    shutil.copytree(mathjax / MATH_FONTS, folder / "_static/mathjax" / MATH_FONTS)
    notebooks = material.ROOT / "notebooks"
    shutil.copytree(notebooks, folder / "_extra/notebooks", ignore=shutil.ignore_patterns(".*"))
    if repository:
        colab.write(notebooks, folder / "_extra/colab", repository)
    if slides:
        shutil.copytree(slides, folder / "_extra/slides")


def _places(lesson, repository, slides):
    """Return {text of a link: address}: where to get a lesson and where to run it."""
    name = f"{lesson.stem}.ipynb"
    if lesson.reference:
        return {"Notebook": f"notebooks/{name}"}
    places = {"Learner notebook": f"notebooks/{name}", "Notebook with solutions": f"notebooks/solutions/{name}"}
    if slides and (slides / f"{lesson.stem}.html").exists():
        places["Slides"] = f"slides/{lesson.stem}.html"
    if repository:
        places["Open in Colab"] = colab.address(name, repository)
        places["Run on Binder"] = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree/notebooks/{name}"
        places["On GitHub"] = f"https://github.com/{repository}/blob/HEAD/notebooks/solutions/{name}"
    return places


def _glossary(references):
    """Return the glossary page, from the table in the reference."""
    sections = ((f"{lesson.stem}.ipynb", section) for lesson in references for section in lesson.sections)
    page, glossary = next((page, section) for page, section in sections if section.title == "Glossary")
    terms = [_term(*row, page) for text in glossary.texts for row in TERM.findall(text)]
    return "\n\n".join(["# Glossary", ABOUT.format(page=page), box("glossary", "", "\n\n".join(terms))])


ABOUT = (
    "The {{ref}}`index <genindex>` lists the same terms by letter. What people often get wrong about LayerNorm, and "
    "where the course settles it, is in the [index of misconceptions]({page}#Index-of-misconceptions)."
)


def _term(names, meaning, where, page):
    place = where.replace("](#", f"]({page}#")
    return "\n".join(name.strip() for name in names.split(", ")) + f"\n  {meaning} ({place})"

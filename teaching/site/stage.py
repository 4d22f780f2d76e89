"""Write all that Sphinx reads: a page a lesson, glossary, start page, pictures, downloads."""

import html
import io
import json
import re
import shutil
from pathlib import Path

import nbformat
from PIL import Image

from teaching import material
from teaching.site import colab, explorables, landing, pages
from teaching.site.markdown import DATA, box

TITLE = 0.15  # the part of a figure's height that its title takes: too small to read on a card

# The parts of MathJax that conf.py loads: less than half of a whole bundle.
MATHJAX = ["startup.js", "core.js", "input/tex-base.js", "input/tex/extensions/ams.js", "output/chtml.js"]
MATHJAX += ["output/chtml/fonts/tex.js", "a11y/assistive-mml.js"]
MATH_FONTS = "mathjax/es5/output/chtml/fonts/woff-v2"

TERM = re.compile(r"^\| (.+?) \| (.+?) \| (\[.+?\]\(.+?\)) \|$", re.MULTILINE)  # a row of the table, with its link


def stage(folder, repository="", slides=None):
    """Write the Sphinx source of the whole site to a folder, which is emptied before.

    repository: "owner/name" on GitHub, for links to it, to Binder and to Colab; "" for none. slides: a folder of decks,
    or None.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).with_name("sphinx"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    lessons = [material.read(stem) for stem in material.every()]
    look_up = [material.read(stem) for stem in material.references()]
    for lesson in [*lessons, *look_up]:
        page = pages.page(lesson, _links(lesson, repository, slides), material.keeper(folder / "figures", lesson.stem))
        nbformat.write(page, folder / f"{lesson.stem}.ipynb")
    readme = (material.ROOT / "README.md").read_text(encoding="utf-8")
    first = landing.page(lessons, readme, repository, slides, look_up)
    (folder / "index.md").write_text(first, encoding="utf-8")
    _cards(folder, lessons)
    for name in explorables.NAMES:
        explorables.bundle(name, folder / "_static/explore")
    about = {"descriptions": {lesson.stem: landing.line(lesson) for lesson in lessons}, "repository": repository}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")  # for conf.py
    (folder / "glossary.md").write_text(_glossary(look_up), encoding="utf-8")
    texts = [text for lesson in [*lessons, *look_up] for text in lesson.texts]
    for name in {*DATA.findall("\n".join(texts)), *re.findall(r"\]\((data/[^)]+)\)", first)}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(material.ROOT / name, folder / name)
    shutil.copytree(material.ROOT / "notebooks", folder / "_extra/notebooks", ignore=shutil.ignore_patterns(".*"))
    if repository:
        colab.write(material.ROOT / "notebooks", folder / "_extra/colab", repository)
    if slides:
        shutil.copytree(slides, folder / "_extra/slides")
    for name in MATHJAX:
        (folder / "_static/mathjax" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(material.PACKAGES / "mathjax/es5" / name, folder / "_static/mathjax" / name)
    shutil.copytree(material.PACKAGES / MATH_FONTS, folder / "_static/mathjax/output/chtml/fonts/woff-v2")


def _cards(folder, lessons):
    """Write the pictures of the start page's cards."""
    (folder / "_static/cards").mkdir()
    for shown, path in landing.faces(lessons).values():
        if isinstance(shown, material.Explorable):
            (folder / path).write_text(shown.picture, encoding="utf-8")
        else:
            picture = Image.open(io.BytesIO(shown.png))
            picture = picture.crop((0, round(TITLE * picture.height), *picture.size))
            picture.thumbnail((480, 300))  # a card's width on screens with two pixels for one
            picture.save(folder / path, quality=80)


def _links(lesson, repository, slides):
    """Return the HTML below a title: where to get the lesson and where to run it."""
    name = f"{lesson.stem}.ipynb"
    if lesson.reference:
        return f'<p class="work"><a href="notebooks/{name}" download>Notebook</a></p>'
    links = {
        "Learner notebook": f'href="notebooks/{name}" download',
        "Notebook with solutions": f'href="notebooks/solutions/{name}" download',
    }
    if slides and (slides / f"{lesson.stem}.html").exists():
        links["Slides"] = f'href="slides/{lesson.stem}.html"'
    if repository:
        links["Open in Colab"] = f'href="{colab.address(name, repository)}"'
        binder = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree/notebooks/{name}"
        links["Run on Binder"] = f'href="{html.escape(binder)}"'
        links["On GitHub"] = f'href="https://github.com/{repository}/blob/HEAD/notebooks/solutions/{name}"'
    return '<p class="work">' + " ".join(f"<a {where}>{text}</a>" for text, where in links.items()) + "</p>"


def _glossary(references):
    """Return the glossary page, from the table in the reference."""
    for lesson in references:
        for section in lesson.sections:
            if section.title == "Glossary":
                page = f"{lesson.stem}.ipynb"
                terms = [_term(*row, page) for text in section.texts for row in TERM.findall(text)]
                return "\n\n".join(["# Glossary", ABOUT.format(page=page), box("glossary", "", "\n\n".join(terms))])
    raise ValueError("No reference has a section '## Glossary' with a table of three columns: term, what it is, where.")


ABOUT = (
    "The {{ref}}`index <genindex>` lists the same terms by letter. What people often get wrong about LayerNorm, and "
    "where the course settles it, is in the [index of misconceptions]({page}#Index-of-misconceptions)."
)


def _term(names, meaning, where, page):
    place = where.replace("](#", f"]({page}#")
    return "\n".join(name.strip() for name in names.split(", ")) + f"\n  {meaning} ({place})"

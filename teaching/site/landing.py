"""The start page, for people who have never heard of the course: what it is, something to play with, how to begin.

What it says of a lesson stands in that lesson's words.md: a card, and for what it leads to, the words that it prints.
"""

import html
import re
from itertools import groupby
from pathlib import Path
from string import Template

from teaching.material import Explorable, pictures
from teaching.plan import notes
from teaching.site import colab, explorables
from teaching.site.markdown import box, code

TEMPLATE = Path(__file__).with_name("sphinx") / "index.md"
NEEDS = re.compile(r"^## What you will be able to do[^\n]*\n(.*?)^(You need .*?)$", re.DOTALL | re.MULTILINE)


def page(lessons, readme, repository="", slides=None, look_up=()):
    """Return the start page as Markdown: the template, filled in.

    readme: the README's text. repository, slides: as teaching.site.stage takes them. look_up: Lessons that are
    no lessons, in the order of the sidebar.
    """
    about = NEEDS.search(readme)
    if not about:
        raise ValueError(
            "README.md has no section '## What you will be able to do' with a paragraph 'You need ...': from it the "
            "site's start page is made."
        )
    in_full = [lesson for lesson in lessons if lesson.number]
    on_github, folder = f"https://github.com/{repository}", repository.partition("/")[2]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        buttons=_buttons(lessons[0], in_full[0], repository, slides),
        play=explorables.place("sphere"),
        abilities=about[1].strip(),
        leads="\n\n".join(text for lesson in lessons for text in leads(lesson)),
        count=len(in_full),
        cards="\n\n".join(_cards(lessons)),
        needs=about[2].strip(),
        hours=round(sum(lesson.minutes for lesson in in_full) / 60),
        anywhere="**Nothing to install:** *Open in Colab*, on the page of each lesson.\n\n" if repository else "",
        where="" if repository else " in the folder of the course",
        clone=f"git clone {on_github} && cd {folder}\n" if repository else "",
        guide=f"[GUIDE.md]({on_github}/blob/HEAD/GUIDE.md)" if repository else "GUIDE.md",
        look_up=_sidebar("Look up", ["glossary", *(f"{page.name} <{page.stem}>" for page in look_up)]),
    )


def line(lesson):
    """Return what a lesson's card says about it."""
    return _card(lesson)[1]


def faces(lessons):
    """Return {stem: (Figure or Explorable, where its file lies as a page sees it)}, the pictures of the cards.

    A card shows the first picture of its lesson that no card before it shows, and none where the lesson draws nothing.
    """
    drawn = lambda picture: picture.picture if isinstance(picture, Explorable) else picture.png
    shown, before = {}, set()
    for lesson in lessons:
        for first in [picture for picture in pictures(lesson) if drawn(picture) not in before][:1]:
            before.add(drawn(first))
            kind = "svg" if isinstance(first, Explorable) else "webp"
            shown[lesson.stem] = first, f"_static/cards/{lesson.stem}.{kind}"
    return shown


def leads(lesson):
    """Return what a lesson's words.md says of where it leads, and what its cells print with the words named there."""
    if not (promised := notes.read(lesson.stem).leads):
        return []
    words, text = promised
    printed = [cell.text for cell in lesson.code if words in getattr(cell, "text", "")]
    if not printed:
        raise ValueError(f"{lesson.stem} prints nothing with the words {words!r}, which its words.md leads to.")
    return [text, *(code(block, "text") for block in printed)]


def _cards(lessons):
    """Return the parts of the course, each with the cards of its lessons and its list in the sidebar."""
    shown, parts = faces(lessons), []
    for part, inside in groupby(lessons, key=lambda lesson: _card(lesson)[0]):
        cards, names = "", []
        for lesson in inside:
            _, path = shown.get(lesson.stem, (None, ""))
            image = f'<img src="{path}" alt="" loading="lazy" width="320" height="200">' if path else ""
            cards += (
                f'<a class="card" href="{lesson.stem}.html">{image}'
                f"<strong>{html.escape(lesson.label)}</strong><span>{html.escape(line(lesson))}</span>"
                f'<span class="minutes">{lesson.minutes} min</span></a>'
            )
            names.append(f"{lesson.label} <{lesson.stem}>")
        parts += [f"### {part}", f'<div class="cards">{cards}</div>', _sidebar(part, names)]
    return parts


def _card(lesson):
    """Return (the part of the course that a lesson belongs to, what its card says)."""
    card = notes.read(lesson.stem).card
    if not card:
        raise ValueError(f'{lesson.stem}/words.md has no card for the site\'s start page: Card "Build it": ...')
    return card


def _sidebar(caption, names):
    return box("toctree", "", "\n".join(names), caption=caption, hidden="")


def _buttons(sitting, first, repository, slides):
    """Return the buttons: to a Lesson of one sitting, to the first one of the whole course, and to run it."""
    run = colab.address(f"{sitting.stem}.ipynb", repository) if repository else "#How-to-start"
    links = {"Begin: one hour": f"{sitting.stem}.html", "Begin: lesson 1": f"{first.stem}.html", "Run it": run}
    if slides:
        links["Slides"] = f"slides/{first.stem}.html"
    if repository:
        links["Source on GitHub"] = f"https://github.com/{repository}"
    return (
        '<p class="buttons">'
        + " ".join(f'<a href="{html.escape(to)}">{name}</a>' for name, to in links.items())
        + "</p>"
    )

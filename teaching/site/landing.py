"""The start page, for people who have never heard of the course: what it is, something to play with, how to begin.

What it says of a lesson stands in that lesson's words.md: a card, and for what it leads to, the words that it prints.
"""

import html
import re
from itertools import groupby
from pathlib import Path
from string import Template

from teaching.plan import notes
from teaching.site import colab, explorables
from teaching.site.icons import icon, tiles
from teaching.site.markdown import box, links

TEMPLATE = Path(__file__).with_name("sphinx") / "index.md"


def page(lessons, look_up=(), repository="", slides=None):
    """Return the start page as Markdown: the template, filled in.

    look_up: Lessons that are no lessons, in the order of the sidebar. repository, slides: as teaching.site.stage takes
    them.
    """
    in_full = [lesson for lesson in lessons if lesson.number]
    on_github, folder = f"https://github.com/{repository}", repository.partition("/")[2]
    first = f"{lessons[0].stem}.ipynb"
    get = {"Open lesson 0 in Colab": colab.address(first, repository)} if repository else {}
    get |= {"Lesson 0 as a notebook": f"notebooks/{first}"}
    get |= {"Slides": f"slides/{in_full[0].stem}.html"} if slides else {}
    get |= {"Source on GitHub": on_github} if repository else {}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        stakes="".join(map(leads, lessons)),
        play=explorables.place("sphere"),
        buttons=links("buttons", {"Begin: one hour": f"{lessons[0].stem}.html", "Run it": "#Run-it"}),
        count=len(in_full),
        hours=round(sum(lesson.minutes for lesson in in_full) / 60),
        cards="\n\n".join(_parts(lessons)),
        get=links("work", get),
        where="" if repository else " in the folder of the course",
        clone=f"git clone {on_github} && cd {folder}\n" if repository else "",
        guide=f"[GUIDE.md]({on_github}/blob/HEAD/GUIDE.md)" if repository else "GUIDE.md",
        look_up=_sidebar("Look up", ["glossary", *(f"{page.name} <{page.stem}>" for page in look_up)]),
    )


def card(lesson):
    """Return (the part of the course that a lesson belongs to, what its card says)."""
    return notes.read(lesson.stem).card


def leads(lesson):
    """Return what a lesson's words.md says of where it leads, and what its cells print of it, drawn, as HTML."""
    if not (promised := notes.read(lesson.stem).leads):
        return ""
    words, text = promised
    printed = "\n".join(getattr(cell, "text", "") for cell in lesson.code)
    counts = re.findall(rf"^({re.escape(words)}.* (\d+) of (\d+).*)$", printed, re.MULTILINE)
    if not counts:
        raise ValueError(f"{lesson.stem} prints no count with the words {words!r}, which its words.md leads to.")
    drawn = (
        f"<p>{tiles(int(some), int(total))} {when} · {html.escape(line)}</p>"
        for when, (line, some, total) in zip(("Before", "After"), counts, strict=True)
    )
    return f'<div class="stakes"><p>{html.escape(text)}</p><div>{"".join(drawn)}</div></div>'


def _parts(lessons):
    """Return the parts of the course, each with the cards of its lessons and its list in the sidebar."""
    parts = []
    for part, inside in groupby(lessons, key=lambda lesson: card(lesson)[0]):
        cards, names = "", []
        for lesson in inside:
            cards += (
                f'<a class="card" href="{lesson.stem}.html">{icon(lesson.stem)}'
                f"<strong>{html.escape(lesson.label)}</strong><span>{html.escape(card(lesson)[1])}</span>"
                f'<span class="minutes">{lesson.minutes} min</span></a>'
            )
            names.append(f"{lesson.label} <{lesson.stem}>")
        parts += [f"### {part}", f'<div class="cards">{cards}</div>', _sidebar(part, names)]
    return parts


def _sidebar(caption, names):
    return box("toctree", "", "\n".join(names), caption=caption, hidden="")

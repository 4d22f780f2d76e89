"""The start page, for people who have never heard of the course: what it is, something to play with, how to begin.

What it says of a lesson stands in that lesson's words.md: a card, and for what it leads to, the words that it prints.
"""

import html
import io
from itertools import groupby
from pathlib import Path
from string import Template

from PIL import Image

from teaching.material import Explorable, pictures
from teaching.plan import notes
from teaching.site import colab, explorables
from teaching.site.markdown import box, code, links

TEMPLATE = Path(__file__).with_name("sphinx") / "index.md"
TITLE = 0.15  # the part of a figure's height that its title takes: too small to read on a card


def page(lessons, faces, look_up=(), repository="", slides=None):
    """Return the start page as Markdown: the template, filled in.

    faces: {stem: address of the picture on its card}. look_up: Lessons that are no lessons, in the order of the
    sidebar. repository, slides: as teaching.site.stage takes them.
    """
    in_full = [lesson for lesson in lessons if lesson.number]
    on_github, folder = f"https://github.com/{repository}", repository.partition("/")[2]
    run = colab.address(f"{lessons[0].stem}.ipynb", repository) if repository else "#How-to-start"
    begin = {"Begin: one hour": f"{lessons[0].stem}.html", "Begin: lesson 1": f"{in_full[0].stem}.html"}
    buttons = begin | {"Run it": run} | ({"Slides": f"slides/{in_full[0].stem}.html"} if slides else {})
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        buttons=links("buttons", buttons | ({"Source on GitHub": on_github} if repository else {})),
        play=explorables.place("sphere"),
        leads="\n\n".join(text for lesson in lessons for text in leads(lesson)),
        count=len(in_full),
        cards="\n\n".join(_parts(lessons, faces)),
        hours=round(sum(lesson.minutes for lesson in in_full) / 60),
        anywhere="**Nothing to install:** *Open in Colab*, on the page of each lesson.\n\n" if repository else "",
        where="" if repository else " in the folder of the course",
        clone=f"git clone {on_github} && cd {folder}\n" if repository else "",
        guide=f"[GUIDE.md]({on_github}/blob/HEAD/GUIDE.md)" if repository else "GUIDE.md",
        look_up=_sidebar("Look up", ["glossary", *(f"{page.name} <{page.stem}>" for page in look_up)]),
    )


def card(lesson):
    """Return (the part of the course that a lesson belongs to, what its card says)."""
    return notes.read(lesson.stem).card


def save_faces(lessons, folder):
    """Write the pictures of the cards to a folder, small; return {stem: file name}.

    A card shows the first picture of its lesson that no card before it shows, and none where the lesson draws nothing.
    """
    names, before = {}, set()
    for lesson in lessons:
        drawn = [shown.picture if isinstance(shown, Explorable) else shown.png for shown in pictures(lesson)]
        first = next((picture for picture in drawn if picture not in before), None)
        before.add(first)
        if isinstance(first, str):
            names[lesson.stem] = f"{lesson.stem}.svg"
            (folder / names[lesson.stem]).write_text(first, encoding="utf-8")
        elif first:
            names[lesson.stem] = f"{lesson.stem}.webp"
            picture = Image.open(io.BytesIO(first))
            picture = picture.crop((0, round(TITLE * picture.height), *picture.size))
            picture.thumbnail((480, 300))  # a card's width on screens with two pixels for one
            picture.save(folder / names[lesson.stem], quality=80)
    return names


def leads(lesson):
    """Return what a lesson's words.md says of where it leads, and what its cells print with the words named there."""
    if not (promised := notes.read(lesson.stem).leads):
        return []
    words, text = promised
    printed = [cell.text for cell in lesson.code if words in getattr(cell, "text", "")]
    if not printed:
        raise ValueError(f"{lesson.stem} prints nothing with the words {words!r}, which its words.md leads to.")
    return [text, *(code(block, "text") for block in printed)]


def _parts(lessons, faces):
    """Return the parts of the course, each with the cards of its lessons and its list in the sidebar."""
    parts = []
    for part, inside in groupby(lessons, key=lambda lesson: card(lesson)[0]):
        cards, names = "", []
        for lesson in inside:
            path = faces.get(lesson.stem)
            image = f'<img src="{path}" alt="" loading="lazy" width="320" height="200">' if path else ""
            cards += (
                f'<a class="card" href="{lesson.stem}.html">{image}'
                f"<strong>{html.escape(lesson.label)}</strong><span>{html.escape(card(lesson)[1])}</span>"
                f'<span class="minutes">{lesson.minutes} min</span></a>'
            )
            names.append(f"{lesson.label} <{lesson.stem}>")
        parts += [f"### {part}", f'<div class="cards">{cards}</div>', _sidebar(part, names)]
    return parts


def _sidebar(caption, names):
    return box("toctree", "", "\n".join(names), caption=caption, hidden="")

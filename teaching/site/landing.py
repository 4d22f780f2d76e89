"""The start page, for people who have never heard of the course: what it is, something to play with, how to begin.

What it says of a lesson stands in that lesson's words.md: a card, and for what it leads to, the words that it prints.
"""

import html
import re
from itertools import groupby

from teaching.material import Explorable, pictures
from teaching.plan import notes
from teaching.site import colab, explorables
from teaching.site.markdown import box, code

NEEDS = re.compile(r"^## What you will be able to do[^\n]*\n(.*?)^(You need .*?)$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^make lab\b", re.MULTILINE)

SENTENCE = (
    "Build Layer Normalization in PyTorch from a mean and a variance, see what it does to every number, and train real "
    "networks with a layer of your own."
)
PLAY = (
    "This is LayerNorm of three numbers. Drag the point x: which ways can it go while its image x̂ on the circle stands "
    "still?"
)
INVENTORY = (
    "## Before and after\n\nWhat do you know already, and what has the course changed? Two forms of an inventory ask "
    'the same things about LayerNorm in different situations: <a href="notebooks/inventory_a.ipynb" download>form A'
    '</a> before the course, <a href="notebooks/inventory_b.ipynb" download>form B</a> after it.'
)


def page(lessons, readme, repository="", slides=None, look_up=()):
    """Return the start page as Markdown.

    readme: the README's text. repository, slides: as teaching.site.stage takes them. look_up: Lessons that are
    no lessons, in the order of the sidebar.
    """
    about = NEEDS.search(readme)
    if not about or not COMMAND.search(readme):
        raise ValueError(
            "README.md has no section '## What you will be able to do' with a paragraph 'You need ...', or no command "
            "'make lab': from both the site's start page is made."
        )
    abilities, needs = (part.strip() for part in about.groups())
    in_full = [lesson for lesson in lessons if lesson.number]
    hours = round(sum(lesson.minutes for lesson in in_full) / 60)
    parts = [
        "---\nhtml_theme.sidebar_secondary.remove: true\n---",
        "# LayerNorm from scratch",
        f'<p class="lead">{SENTENCE}</p>',
        _buttons(lessons[0], in_full[0], repository, slides),
        f'<p class="find-out">{PLAY}</p>',
        explorables.place("sphere"),
        "## What you will be able to do",
        abilities,
        "## Where it leads",
        *(text for lesson in lessons for text in leads(lesson)),
        f"## One hour, or {len(in_full)} lessons",
        *_cards(lessons),
        "## Who it is for, and how long it takes",
        f"{needs} The {len(in_full)} lessons take some {hours} hours: each is an hour in two sittings, and after "
        "every sitting you can stop with something of your own that runs.",
        "## How to start",
        _how_to_start(repository),
        INVENTORY,
        _sidebar("Look up", ["glossary", *(f"{page.name} <{page.stem}>" for page in look_up)]),
    ]
    return "\n\n".join(parts)


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


def _how_to_start(repository):
    guide = f"[GUIDE.md](https://github.com/{repository}/blob/HEAD/GUIDE.md)" if repository else "GUIDE.md"
    anywhere = "**Nothing to install:** *Open in Colab*, on the page of each lesson.\n\n" if repository else ""
    clone = f"git clone https://github.com/{repository} && cd {repository.partition('/')[2]}\n" if repository else ""
    where = "" if repository else " in the folder of the course"
    return (
        f"{anywhere}On a machine of your own you need Linux or macOS, make, and Python 3.11 to 3.14, no GPU, and after "
        f"the set-up no network. Run{where}:\n\n"
        f"```bash\n{clone}make lab\n```\n\n"
        "It sets up once, then opens JupyterLab on the first lesson that you have not finished. What to do on Windows, "
        f"or without make, is in {guide}."
    )

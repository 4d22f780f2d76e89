"""The start page, for people who have never heard of the course: what it is, something to play with, how to begin."""

import html
import re

from lessonkit.course import Code
from teaching.site import colab, explorables
from teaching.site.markdown import box

# The lesson with which each part begins.
PARTS = {"In one hour": 0, "Build it": 1, "Understand it": 5, "Train with it": 9, "Beyond": 12}
NEEDS = re.compile(r"^## What you will be able to do[^\n]*\n(.*?)^(You need .*?)$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^make lab\b", re.MULTILINE)
TYPED = re.compile(r"^(\S+) +original: (\S+) +rebuilt: (\S+)$", re.MULTILINE)
SAME = re.compile(r"same type as the original: (\d+) of (\d+)")

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
# {lesson: its line, and its picture: the explorable of that name, or the lesson's figure with this index}
CARDS = {
    "in_one_sitting": (
        "The whole way in one notebook: build the layer, carry a gradient back on paper, train a Transformer, find a "
        "broken layer. It needs torch and matplotlib and nothing else, and runs in an empty folder.",
        1,
    ),
    "why_normalize": ("A digit goes into fifty layers, and nothing comes out. What would have saved it?", "depth"),
    "statistics": ("One mean and one variance: over which axes, and divided by what?", "row"),
    "epsilon": ("Equal numbers, huge numbers, half precision: where a right formula goes wrong.", 0),
    "affine_and_module": ("A class of your own that loads the checkpoints of torch.nn.LayerNorm.", 0),
    "softmax": ("Both take a row and keep something constant. A triangle and a circle show what.", 1),
    "batchnorm": ("Why a sample's answer changes with its neighbors, and how LayerNorm avoids it.", "batch"),
    "backward": ("The gradient comes back on three paths. Cut one, and training still seems to work.", "backward"),
    "geometry": ("A projection and a sphere: what LayerNorm can see of a row, and what it cannot.", "sphere"),
    "cnn": ("What a norm does for a network on digits, measured beside its controls.", 0),
    "rnn": ("A net that must remember: LayerNorm inside the loop and after it.", 2),
    "transformer": ("The norm before or after the sum: the same parts, and another training.", "stream"),
    "family": ("GroupNorm, RMSNorm and their relatives: one formula, and which norm when.", "block"),
    "speed": ("A fused kernel that reads its memory once, beside PyTorch's own.", 0),
    "clinic": ("Four broken layers, each without an error message. Find the fault, then cure it.", 0),
    "in_the_wild": ("A network that Google ships, rebuilt in PyTorch with the LayerNorm that you wrote.", 2),
}


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
        _proof(next(lesson for lesson in lessons if lesson.module == "in_the_wild")),
        f"## One hour, or {len(in_full)} lessons",
    ]
    for n, (part, first) in enumerate(PARTS.items()):
        after = [*PARTS.values(), 1000][n + 1]
        inside = [lesson for lesson in lessons if first <= lesson.number < after]
        names = "\n".join(f"{lesson.label} <{lesson.stem}>" for lesson in inside)
        parts += [f"### {part}", '<div class="cards">' + "".join(map(_card, inside)) + "</div>"]
        parts.append(box("toctree", "", names, caption=part, hidden=""))
    look_up = ["glossary", *(f"{page.name} <{page.stem}>" for page in look_up)]
    parts += [
        "## Who it is for, and how long it takes",
        f"{needs} The {len(in_full)} lessons take some {hours} hours: each is an hour in two sittings, and after "
        "every sitting you can stop with something of your own that runs.",
        "## How to start",
        _how_to_start(repository),
        INVENTORY,
        box("toctree", "", "\n".join(look_up), caption="Look up", hidden=""),
    ]
    return "\n\n".join(parts)


def picture(lesson):
    """Return the picture of a lesson's card: the name of an explorable, or a Figure."""
    chosen = CARDS[lesson.module][1]
    if isinstance(chosen, str):
        return chosen
    return [figure for item in lesson.items if isinstance(item, Code) for figure in item.figures][chosen]


def line(lesson):
    """Return what a lesson's card says about it."""
    return CARDS[lesson.module][0]


def picture_file(lesson):
    """Return where the picture of a lesson's card lies, as a page sees it."""
    return f"_static/cards/{lesson.stem}.{'svg' if isinstance(picture(lesson), str) else 'webp'}"


def _card(lesson):
    return (
        f'<a class="card" href="{lesson.stem}.html">'
        f'<img src="{picture_file(lesson)}" alt="" loading="lazy" width="320" height="200">'
        f"<strong>{html.escape(lesson.label)}</strong><span>{html.escape(line(lesson))}</span>"
        f'<span class="minutes">{lesson.minutes} min</span></a>'
    )


def _proof(lesson):
    """Return lesson 15's file types, as its cells printed them: by a net of others, and by it rebuilt twice."""
    printed = [item.text for item in lesson.items if isinstance(item, Code) and SAME.search(item.text)]
    if len(printed) < 2 or not TYPED.search(printed[0]):
        raise ValueError(
            f"{lesson.stem} prints no file types such as 'page.html  original: html  rebuilt: txt' and, before and "
            "after the repair, 'same type as the original: 16 of 48': the site's start page shows them."
        )
    cell = lambda typed, right: f'<td class="{"right" if typed == right else "wrong"}">{html.escape(typed)}</td>'
    rows = [
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(right)}</td>{cell(wrong, right)}{cell(right, right)}</tr>"
        for name, right, wrong in TYPED.findall(printed[0])
    ]
    (before, files), (after, _) = (SAME.search(text).groups() for text in printed[:2])
    total = f"<tr><th>the same, of {files}</th><td></td>{cell(before, files)}{cell(after, files)}</tr>"
    return (
        "Magika tells file types in Gmail and Drive. You rebuild its network in PyTorch, first with LayerNorm where "
        "one expects it, then with the layer that you wrote, over the axis that you read off the original's graph.\n\n"
        '<table class="proof"><thead><tr><th>file</th><th>original</th><th>LayerNorm over the features</th>'
        f"<th>your LayerNorm, over the right axis</th></tr></thead><tbody>{''.join(rows)}{total}</tbody></table>"
    )


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

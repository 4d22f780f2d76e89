"""The plans as Markdown: a page a lesson, which begins with its run sheet, a page a course, and an index."""

import re

from coursebuild.manifest import FIND_OUT, MINUTES
from lessonkit.course import Exercise, Question, Text
from teaching import material
from teaching.material import in_class
from teaching.plan import notes, sections
from teaching.slides import render

SOLUTIONS = "notebooks/solutions"
FROM_HERE = f"../../{SOLUTIONS}"  # as seen from build/plan


def pages():
    """Return {name of a file: Markdown} of all plans, the index first."""
    outlines = sections.courses()
    there = {"index.md": index(outlines)} | {f"{stem}.md": lesson(stem) for stem in material.every()}
    return there | {file(outline): course(outline) for outline in outlines}


def lesson(stem):
    """Return the plan of a lesson's session: its run sheet, and then each step with all that is asked and said."""
    words = notes.read(stem)
    lines = [
        f"**Solutions.** [{SOLUTIONS}/{stem}.ipynb]({FROM_HERE}/{stem}.ipynb)",
        f"**Slides.** [build/slides/{stem}.html](../slides/{stem}.html), which `make slides` writes.",
    ]
    for clock, section in _clocked(sections.core(stem)):
        lines += _section(section, clock, words, stem)
    return f"{sheet(stem)}\n{_linked(_joined(lines))}"


def sheet(stem):
    """Return the run sheet of a lesson: what an instructor has in hand, short enough for one page of A4."""
    there = sections.of(stem)
    words = notes.read(stem)
    known = sections.lesson(stem)
    asking = f"a question takes {material.CLASS_QUESTION:g} min, what is tried {material.CLASS_TRY} min more"
    asking += f", and an exercise {MINUTES['exercises']} times the minutes of its card (on paper {MINUTES['paper']})"
    asking += ", which its slide counts down"
    lines = [
        f"# {known.number} · {known.title}",
        f"**Minutes.** {known.minutes} for one reader, {_sum(sections.core(stem))} in a class, where {asking}. "
        f"{_sum(_optional(there)) or 'No'} more are optional. The clock below is the class's.",
        _sittings(stem),
        f"**Prepare.** {words.prepare}",
        "**What must stick.**",
        *sticks(stem),
        "**The board.** Draw a block when its section comes (at the right), and leave it there. Some of its lines are "
        "answers: write a line when the class has found it, not before.",
        f"```\n{words.board}\n```",
        _table([(stem, section) for section in sections.core(stem)], lambda stem, section: _title(section)),
    ]
    lines.append("## Drop this if you are late")
    late = [(there[key], *text) for key, texts in words.late.items() for text in texts]
    lines += [f"{_takes(section)} {why} Tell: “{tell}”" for section, why, tell in late]
    lines.append("## And if you are early: in the notebook, not on the slides")
    lines += [f"{_takes(there[key])} {text}" for key, texts in words.early.items() for text in texts]
    return _joined(lines)


def _takes(section):
    under = f"in “{section.under}”, " if section.optional and section.under else ""
    return f"- **{_title(section)}** ({under}{_minutes(in_class(section))})."


def sticks(stem):
    """Return up to three sentences that a class should take home: the first points of the core's last section."""
    points = re.findall(r"^- .+(?:\n  .+)*", "\n".join(sections.core(stem)[-1].texts), re.MULTILINE)
    return [_linked(point) for point in points[:3]]


def _linked(text):
    """Return a text of a lesson with links that work from build/plan."""
    return re.sub(r"\]\((?=[\w#])(?!\w+:)", f"]({FROM_HERE}/", text)


def course(outline):
    """Return the plan of a course: its sessions as lists of sections, with their minutes in a class."""
    lines = [
        f"# {outline.name}",
        outline.words,
        "Minutes are those of a class, without breaks. The number of a lesson leads to its page: what to prepare, "
        "the board, what to say, and which wrong answers to expect.",
    ]
    for session in outline.sessions:
        lines.append(f"## {session.name} · {round(session.minutes)} of {session.has} min")
        lines.append(_table(session.parts, _linked_title))
        for stem, part in session.parts:
            for _, tell in notes.read(stem).late.get(part.key, []):
                lines.append(f"**Late?** Drop {_title(part)} ({_minutes(in_class(part))}), and tell: “{tell}”")
    return _joined(lines)


def _linked_title(stem, section):
    number = int(stem[:2])
    name = _title(section) if section.key[0].isdigit() else f"{number} · {section.title}"
    return f"[{number}]({stem}.md) · {name}"


def index(outlines):
    """Return the page that leads to all plans."""
    table = "| lesson | reader | class | optional |\n|---|---|---|---|"
    for stem in material.every():
        known, optional = sections.lesson(stem), _sum(_optional(sections.of(stem)))
        table += f"\n| [{known.label}]({stem}.md) | {known.minutes} | {_sum(sections.core(stem))} | {optional} |"
    lines = ["# Plans", "Minutes of the core for one reader and in a class, and of what is optional.", table]
    lines.append("A lesson of one sitting stands alone, for a single session. Courses, with the minutes of a class:")
    for outline in outlines:
        whole = round(sum(session.minutes for session in outline.sessions))
        lines.append(f"- [{outline.name}]({file(outline)}): {len(outline.sessions)} sessions, {whole} min of lessons")
    return _joined(lines)


def file(outline):
    return f"course_{outline.name.lower().replace(' ', '_')}.md"


def _clocked(parts):
    """Yield (minutes of a class from the beginning, Section)."""
    clock = 0.0
    for section in parts:
        yield clock, section
        clock += in_class(section)


def _table(parts, title):
    """Return a table of [(stem, Section)] with the clock of a class. title: a function of both."""
    rows = ["| from | slides | section | min | asked |\n|---|---|---|---|---|"]
    for (stem, _), (clock, section) in zip(parts, _clocked(section for _, section in parts), strict=True):
        asked = ", ".join(filter(None, map(_brief, section.items)))
        cells = _clock(clock), _slides(stem, section.key), title(stem, section), round(in_class(section)), asked
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _slides(stem, name):
    """Return the numbers of the slides of a section, a question or an exercise: "6" or "6–8"."""
    numbers = sections.slides(stem)[name]
    return "–".join(map(str, sorted({numbers[0], numbers[-1]})))


def _on(numbers):
    return f"slides {numbers}" if "–" in numbers else f"slide {numbers}"


def _brief(item):
    """Name a question with its right letter, an exercise with its minutes in a class, or that something is tried."""
    match item:
        case Question():
            return f"{item.name} **{next(letter for letter, option in item.by_letter.items() if option['right'])}**"
        case Exercise():
            return f"{item.name} ({_minutes(in_class(item))})"
        case Text() if FIND_OUT.search(item.text):
            return "*Find out*"


def _section(section, clock, words, stem):
    """Return the lines about a section, its items in the notebook's order."""
    took, numbers = _minutes(in_class(section)), _on(_slides(stem, section.key))
    lines = [f"## {_clock(clock)} · {_title(section)} · {took} · {numbers}"]
    lines += [f"**Open.** {text}" for text in words.open.get(section.key, [])]
    for item in section.items:
        match item:
            case Text():
                lines += [f"**Find out** (in the notebook) {task}" for task in FIND_OUT.findall(item.text)]
            case Question():
                lines += _question(item, stem, words)
            case Exercise():
                lines += _exercise(item, stem, words, section.heading)
    return lines + [f"**Close.** {text}" for text in words.close.get(section.key, [])]


def _question(item, stem, words):
    name = item.name
    lines = [f"{_named(item, stem)} {item.asked}"]
    for letter, option in item.by_letter.items():
        which = f"**{letter}, right:**" if option["right"] else f"{letter}:"
        lines.append(f"- {which} {option['text']} ({option['reason']})")
    lines += [f"**Listen for.** {text}" for text in words.ask.get(name, [])]
    return lines + [f"**Then.** {text}" for text in words.close.get(name, [])]


def _exercise(item, stem, words, heading):
    names = item.defines or re.findall(r"^(\w+) = ", item.solution, re.MULTILINE)[-1:]
    called = ", ".join(f"`{name}`" for name in names)
    points = " ".join(point for point in render.asked(item)[0] if not point.startswith("Example"))
    about = f"{item.dots} {called}, {_minutes(in_class(item))}. {points}"
    lines = [f"{_named(item, stem)} {about} [Solution]({FROM_HERE}/{stem}.ipynb#{heading.replace(' ', '-')})"]
    return lines + [f"- If the check says “{quote}”: {means}" for quote, means in words.expect.get(item.number, [])]


def _named(item, stem):
    return f"**{item.name}** ({_on(_slides(stem, item.name))})"


def _sittings(stem):
    """Say how long each sitting takes a class, and where one stops between them."""
    first, *others = sections.sittings(stem)
    if not others:
        return f"**One sitting.** {_sum(first)} min."
    (second,) = others
    until, begins = _title(first[-1]), _title(second[0])
    return f"**Two sittings.** {_sum(first)} min up to “{until}”, {_sum(second)} min from {begins} on."


def _optional(there):
    return [section for section in there.values() if section.optional and section.minutes]


def _title(section):
    return f"{section.key} {section.title}" if section.key[0].isdigit() else section.title


def _minutes(number):
    return f"{max(1, round(number))} min"


def _sum(parts):
    return round(sum(in_class(part) for part in parts))


def _clock(minutes):
    hours, rest = divmod(round(minutes), 60)
    return f"{hours}:{rest:02}"


def _joined(lines):
    """Join paragraphs; the items of a list stay together."""
    text = ""
    for before, line in zip(["", *lines], lines, strict=False):
        text += ("\n" if before.startswith("- ") and line.startswith("- ") else "\n\n" if text else "") + line
    return text + "\n"

"""The plans as Markdown: a page a lesson, a page a course, and an index."""

import re
import textwrap
from pathlib import Path

from lessonkit.course import Question, lessons
from teaching.plan import notes, sections

SOLUTIONS = "notebooks/solutions"
ONE_SESSION = Path(__file__).with_name("one_session.md")  # of lesson 0, written by hand: it is in no manifest
FROM_HERE = f"../../{SOLUTIONS}"  # as seen from build/plan


def lesson(stem, folder=notes.FOLDER):
    """Return the plan of a lesson's session."""
    there = sections.of(stem)
    words = notes.read(stem, there, folder)
    core = [there[key] for key in sections.core(stem)]
    known = sections.lesson(stem)
    lines = [
        f"# {known.number} · {known.title}",
        f"**Minutes.** {known.minutes} for one reader, {_sum(core)} in a class, where a question takes "
        f"{sections.CLASS_QUESTION:g} min; {_sum(_optional(there))} more are optional. The clock below is the class's.",
        f"**Two sittings.** {_sittings(stem)}",
        f"**Prepare.** {words.prepare}",
        "**What must stick.**",
        *sticks(known),
        f"**Solutions.** [{SOLUTIONS}/{stem}.ipynb]({FROM_HERE}/{stem}.ipynb)" + _waits(known.number),
    ]
    clock = 0.0
    for one in core:
        lines += _section(one, clock, words, f"{FROM_HERE}/{stem}.ipynb")
        clock += sections.in_class(one)
    lines.append("## Drop this if you are late")
    for key, (why, tell) in words.late.items():
        settles = "; ".join(sections.misconceptions().get(key, []))
        index = f" The index of misconceptions refers to it: {settles}." if settles else ""
        takes = _minutes(sections.in_class(there[key]))
        lines.append(f"- **{_title(there[key])}** ({takes}). {why} Tell: “{tell}”{index}")
    lines.append("## And if you are early")
    for key, text in words.early.items():
        under = f"in “{there[key].under}”, " if there[key].under else ""
        lines.append(f"- **{_title(there[key])}** ({under}{_minutes(sections.in_class(there[key]))}). {text}")
    return _joined(lines)


def sticks(lesson):
    """Return up to three sentences that a class should take home: the first points of the lesson's take-away."""
    texts = [text for section in lesson.sections if section.title == "Take-away" for text in section.texts]
    points = re.findall(r"^- .+(?:\n  .+)*", "\n".join(texts), re.MULTILINE)
    return [re.sub(r"\]\((?=[\w#])", f"]({FROM_HERE}/", point) for point in points[:3]]


def course(one):
    """Return the plan of a course: its sessions as lists of sections, with their minutes in a class."""
    lines = [f"# {one.name}", one.words, "Minutes are those of a class."]
    for session in one.sessions:
        lines.append(f"## {session.name} · {round(session.minutes)} of {session.has} min")
        lines.append("| from | section | min |\n|---|---|---|")
        clock = 0.0
        for stem, part in session.parts:
            link = f"[{int(stem[:2])}]({stem}.md)"
            name = _title(part) if part.key[0].isdigit() else f"{int(stem[:2])} · {part.title}"
            minutes = sections.in_class(part)
            lines[-1] += f"\n| {_clock(clock)} | {link} · {name} | {round(minutes)} |"
            clock += minutes
    return _joined(lines)


def index(courses):
    """Return the page that leads to all plans."""
    lines = [
        "# Plans",
        "Minutes of the core for one reader and in a class, of the two sittings in a class, and of what is optional.",
    ]
    lines.append("| lesson | reader | class | first | second | optional |\n|---|---|---|---|---|---|")
    for stem, known in lessons().items():
        found = sections.of(stem)
        core, *both = (_sum([found[key] for key in keys]) for keys in (sections.core(stem), *sections.sittings(stem)))
        cells = (known.minutes, core, *both, _sum(_optional(found)))
        lines[-1] += f"\n| [{known.label}]({stem}.md) | {' | '.join(map(str, cells))} |"
    lines.append(f"Only one session? [90 minutes with lesson 0]({ONE_SESSION.name})")
    lines.append("Courses, with the minutes of a class:")
    for one in courses:
        whole = sum(session.minutes for session in one.sessions)
        lines.append(f"- [{one.name}]({file(one)}): {len(one.sessions)} sessions, {round(whole)} min of lessons")
    return _joined(lines)


def file(one):
    return f"course_{one.name.lower().replace(' ', '_')}.md"


def task(item):
    """Return (the names that an exercise asks for, what it asks in a line or two)."""
    names = re.findall(r"^(?:def|class) (\w+)", item.task, re.MULTILINE)
    docs = re.findall(r'"""(.+?)(?:"""|\n\s*\n)', item.task, re.DOTALL)
    if names:
        texts = [_sentences(text, 1) for text in docs[: len(names) if len(names) > 1 else 1]]
    else:
        names = re.findall(r"^(\w+) = ", item.solution, re.MULTILINE)[-1:]
        asked = " ".join(re.findall(r"^# ?(.*)", item.task, re.MULTILINE))
        before, _, after = asked.partition(f"{names[0]} = ")
        text = _sentences(before or re.sub(r"^\{.*?\},? ", "", after), 2).rstrip(" :")
        texts = [text[:1].upper() + text[1:]]
    return names, " ".join(textwrap.shorten(text, 200, placeholder=" …") for text in texts)


def _sentences(text, count):
    return " ".join(re.split(r"(?<=[.?!])\s+(?=[A-Z])", " ".join(text.split()))[:count])


def _section(one, clock, words, solutions):
    """Return the lines about a section, its items in the notebook's order."""
    lines = [f"## {_clock(clock)} · {_title(one)} · {_minutes(sections.in_class(one))}"]
    lines += [f"**Open.** {text}" for text in words.open.get(one.key, [])]
    for item in sections.asked(one):
        if isinstance(item, Question):
            lines += _question(item, words)
        else:
            lines += _exercise(item, words, f"{solutions}#{one.heading.replace(' ', '-')}")
    return lines + [f"**Close.** {text}" for text in words.close.get(one.key, [])]


def _question(item, words):
    name = item.name
    lines = [f"**{name}.** {item.asked}"]
    for letter, option in item.by_letter.items():
        which = f"**{letter}, right:**" if option["right"] else f"{letter}:"
        lines.append(f"- {which} {option['text']} ({option['reason']})")
    if name in words.ask:
        lines.append(f"**Listen for.** {words.ask[name]}")
    return lines + [f"**Then.** {text}" for text in words.close.get(name, [])]


def _exercise(item, words, solution):
    names, text = task(item)
    called = ", ".join(f"`{name}`" for name in names)
    about = f"{item.dots} {called}, {_minutes(sections.cost(item))}. {text} [Solution]({solution})"
    lines = [f"**{item.name}** {about}"]
    return lines + [f"- If the check says “{quote}”: {means}" for quote, means in words.expect.get(item.number, [])]


def _sittings(stem):
    """Say how long each sitting takes a class, and where one stops between them."""
    first, second = ([sections.of(stem)[key] for key in keys] for keys in sections.sittings(stem))
    if not second:
        return f"This lesson names no place to stop. It takes {_sum(first)} min."
    return f"{_sum(first)} min up to “{_title(first[-1])}”, {_sum(second)} min from {_title(second[0])} on."


def _waits(number):
    """Say how long the class waits if all cells are run, where the README has it."""
    took = sections.seconds().get(number)
    return f". To run all of it takes about {took} s on the two cores of the builder (README)." if took else "."


def _optional(there):
    return [one for one in there.values() if one.optional and one.minutes]


def _title(one):
    return f"{one.key} {one.title}" if one.key[0].isdigit() else one.title


def _minutes(number):
    return f"{max(1, round(number))} min"


def _sum(parts):
    return round(sum(sections.in_class(part) for part in parts))


def _clock(minutes):
    hours, rest = divmod(round(minutes), 60)
    return f"{hours}:{rest:02}"


def _joined(lines):
    """Join paragraphs; the items of a list stay together."""
    text = ""
    for before, line in zip(["", *lines], lines, strict=False):
        text += ("\n" if before.startswith("- ") and line.startswith("- ") else "\n\n" if text else "") + line
    return text + "\n"

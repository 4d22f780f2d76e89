"""The plans as Markdown: a page a lesson, a page a course, and an index."""

import re
import textwrap

from lessonkit.course import Question, lessons
from teaching.plan import notes, sections

SOLUTIONS = "notebooks/solutions"
FROM_HERE = f"../../{SOLUTIONS}"  # as seen from build/plan


def lesson(stem, folder=notes.FOLDER):
    """Return the plan of a lesson's session."""
    there = sections.of(stem)
    said = notes.read(stem, there, folder)
    core = [there[key] for key in sections.core(stem)]
    known = sections.lesson(stem)
    lines = [
        f"# {known.number} · {known.title}",
        f"**Minutes.** {known.minutes} for one reader, {_sum(core)} in a class, where a question takes "
        f"{sections.CLASS_QUESTION:g} min; {_sum(_optional(there))} more are optional. The clock below is the class's.",
        f"**In 60 minutes.** {_cut(core, said.home)}",
        f"**Prepare.** {said.prepare}",
        f"**Solutions.** [{SOLUTIONS}/{stem}.ipynb]({FROM_HERE}/{stem}.ipynb)" + _waits(known.number),
    ]
    clock = 0.0
    for one in core:
        lines += _section(one, clock, said, f"{FROM_HERE}/{stem}.ipynb")
        clock += sections.in_class(one)
    lines.append("## Drop this if you are late")
    for key, (why, tell) in said.late.items():
        settles = "; ".join(sections.misconceptions().get(key, []))
        index = f" Lesson 14's index refers to it: {settles}." if settles else ""
        takes = _minutes(sections.in_class(there[key]))
        lines.append(f"- **{_title(there[key])}** ({takes}). {why} Tell: “{tell}”{index}")
    lines.append("## And if you are early")
    for key, text in said.early.items():
        under = f"in “{there[key].under}”, " if there[key].under else ""
        lines.append(f"- **{_title(there[key])}** ({under}{_minutes(sections.in_class(there[key]))}). {text}")
    return _joined(lines)


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
            minutes = session.of(stem, part)
            lines[-1] += f"\n| {_clock(clock)} | {link} · {name} | {round(minutes)} |"
            clock += minutes
        home = [name for names in session.home.values() for name in names]
        lines += [f"Homework: {', '.join(home)}."] * bool(home)
    return _joined(lines)


def index(courses):
    """Return the page that leads to all plans."""
    lines = [
        "# Plans",
        "Minutes of the core for one reader, in a class, in a class with the cut; and of what is optional.",
    ]
    lines.append("| lesson | reader | class | cut | optional |\n|---|---|---|---|---|")
    for stem, known in lessons().items():
        found = sections.of(stem)
        core, home = [found[key] for key in sections.core(stem)], notes.read(stem, found).home
        cells = (known.minutes, _sum(core), _sum(core, home), _sum(_optional(found)))
        lines[-1] += f"\n| [{known.label}]({stem}.md) | {' | '.join(map(str, cells))} |"
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


def _section(one, clock, said, solutions):
    """Return the lines about a section, its items in the notebook's order."""
    home = " · homework in 60 minutes" if one.key in said.home else ""
    lines = [f"## {_clock(clock)} · {_title(one)} · {_minutes(sections.in_class(one))}{home}"]
    lines += [f"**Open.** {text}" for text in said.open.get(one.key, [])]
    for item in sections.asked(one):
        mark = " (homework in 60 minutes)" if item.name in said.home else ""
        if isinstance(item, Question):
            lines += _question(item, said, mark)
        else:
            lines += _exercise(item, said, mark, f"{solutions}#{one.heading.replace(' ', '-')}")
    return lines + [f"**Close.** {text}" for text in said.close.get(one.key, [])]


def _question(item, said, mark):
    name = item.name
    lines = [f"**{name}.**{mark} {item.asked}"]
    for letter, option in item.by_letter.items():
        which = f"**{letter}, right:**" if option["right"] else f"{letter}:"
        lines.append(f"- {which} {option['text']} ({option['reason']})")
    if name in said.ask:
        lines.append(f"**Listen for.** {said.ask[name]}")
    return lines + [f"**Then.** {text}" for text in said.close.get(name, [])]


def _exercise(item, said, mark, solution):
    names, text = task(item)
    called = ", ".join(f"`{name}`" for name in names)
    about = f"{item.dots} {called}, {_minutes(sections.cost(item))}. {text} [Solution]({solution})"
    lines = [f"**{item.name}**{mark} {about}"]
    return lines + [f"- If the check says “{quote}”: {means}" for quote, means in said.expect.get(item.number, [])]


def _cut(core, home):
    """Say what is homework where a session has 60 minutes, and what that leaves."""
    parts = [f"{_title(one)} ({sections.in_class(one):.1f} min)" for one in core if one.key in home]
    for item in [item for one in core for item in sections.asked(one)]:
        if item.name in home:
            parts.append(f"{item.name} ({sections.cost(item):.1f} min)")
    return f"Homework: {', '.join(parts)}. What is left takes {_sum(core, home)} min."


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


def _sum(found, home=()):
    return round(sum(sections.left(one, home) for one in found))


def _clock(minutes):
    hours, rest = divmod(round(minutes), 60)
    return f"{hours}:{rest:02}"


def _joined(lines):
    """Join paragraphs; the items of a list stay together."""
    text = ""
    for before, line in zip(["", *lines], lines, strict=False):
        text += ("\n" if before.startswith("- ") and line.startswith("- ") else "\n\n" if text else "") + line
    return text + "\n"

"""The plans as Markdown: a page a lesson, a page a course, and an index."""

from teaching import material
from teaching.plan import sections, words

LETTERS = "abcd"


def lesson(stem, root=material.ROOT, folder=words.FOLDER):
    """Return the plan of a lesson's session."""
    there = sections.of(stem, root)
    said = words.read(stem, there, folder)
    core = [there[key] for key in sections.core(stem, root)]
    optional = [one for one in there.values() if one.optional and one.minutes]
    read = material.read(stem, root)
    lines = [
        f"# {read.number} · {read.title}",
        f"{round(_sum(core))} min core, {round(_sum(optional))} min optional. Minutes are the course's own model's.",
        f"**Prepare.** {said.prepare}",
    ]
    clock = 0.0
    for one in core:
        lines.append(f"## {_clock(clock)} · {_title(one)} · {_minutes(one)}")
        clock += one.minutes
        lines += [f"**Say.** {text}" for text in said.say.get(one.key, [])]
        listen = dict(said.ask.get(one.key, []))
        lines += [_question(item, listen) for item in one.questions]
        for item in one.exercises:
            lines.append(f"**Exercise {item.number}** {_points(item)}, {item.minutes} min for writing it.")
            lines += [
                f"- The check says “{quote}” {text}"
                for number, quote, text in said.expect.get(one.key, [])
                if number == item.number
            ]
    lines.append("## Drop this if you are late")
    lines += [f"- **{_title(there[key])}** ({_minutes(there[key])}). {text}" for key, text in said.late.items()]
    lines.append("## And if you are early")
    lines += [f"- **{_title(there[key])}** ({_minutes(there[key])}). {text}" for key, text in said.early.items()]
    return _joined(lines)


def course(one):
    """Return the plan of a course: its sessions as lists of sections, with their minutes."""
    lines = [f"# {one.name}", one.words]
    for session in one.sessions:
        lines.append(f"## {session.name} · {round(session.minutes)} of {session.has} min")
        lines.append("| from | section | min |\n|---|---|---|")
        clock = 0.0
        for stem, part in session.parts:
            link = f"[{int(stem[:2])}]({stem}.md)"
            name = part.title if part.key[0].isdigit() else f"{int(stem[:2])} · {part.title}"
            number = f"{part.key} " if part.key[0].isdigit() else ""
            lines[-1] += f"\n| {_clock(clock)} | {link} · {number}{name} | {round(part.minutes)} |"
            clock += part.minutes
    return _joined(lines)


def index(courses, root=material.ROOT):
    """Return the page that leads to all plans."""
    lines = ["# Plans", "| lesson | core | optional |\n|---|---|---|"]
    for stem in material.stems(root):
        found = sections.of(stem, root).values()
        core = sum(one.minutes for one in found if not one.optional)
        optional = sum(one.minutes for one in found if one.optional)
        read = material.read(stem, root)
        lines[-1] += f"\n| [{read.number} · {read.name}]({stem}.md) | {round(core)} min | {round(optional)} min |"
    lines.append("Courses:")
    for one in courses:
        whole = sum(session.minutes for session in one.sessions)
        lines.append(f"- [{one.name}]({file(one)}): {len(one.sessions)} sessions, {round(whole)} min of lessons")
    return _joined(lines)


def file(one):
    return f"course_{one.name.lower().replace(' ', '_')}.md"


def _question(item, listen):
    name = f"{item.kind} {item.number}"
    right = next(at for at, option in enumerate(item.options) if option["right"])
    answer = item.options[right]
    asked = item.text[:1].upper() + item.text[1:]
    text = f"**{name}.** {asked} *Right is {LETTERS[right]}: {answer['text']}. {answer['reason']}*"
    return f"{text}\n**Listen for:** {listen[name]}" if name in listen else text


def _points(item):
    return "●" * item.difficulty + "○" * (5 - item.difficulty)


def _title(one):
    return f"{one.key} {one.title}" if one.key[0].isdigit() else one.title


def _minutes(one):
    return f"{max(1, round(one.minutes))} min"


def _sum(found):
    return sum(one.minutes for one in found)


def _clock(minutes):
    hours, rest = divmod(round(minutes), 60)
    return f"{hours}:{rest:02}"


def _joined(lines):
    """Join paragraphs; the items of a list stay together."""
    text = ""
    for before, line in zip(["", *lines], lines, strict=False):
        text += ("\n" if before.startswith("- ") and line.startswith("- ") else "\n\n" if text else "") + line
    return text + "\n"

"""The result of a form: by theme, with a reason for each answer, and the sections that settle what was missed."""

from lessonkit.inventory.answers import finish, mine
from lessonkit.inventory.questions import UNKNOWN, by_letter, questions, right_letter, themes
from lessonkit.shown import in_notebook


def result(form):
    """Show the result of a form, "A" or "B", when each of its questions has a letter; before that, what is open."""
    answers = mine()
    still = [name for name in questions(form) if name not in answers.last]
    if still:
        there = len(questions(form))
        print(
            f"Form {form}: {there - len(still)} of {there} questions have a letter. Still open: {', '.join(still)}. "
            f"The result is shown when all have one; {UNKNOWN} counts as a letter."
        )
        return
    finish(form)
    text = told(form, answers)
    if in_notebook():
        from IPython.display import Markdown, display

        display(Markdown(text))
    else:
        print(text)


def told(form, answers):
    """Return the result of a form as Markdown. answers: Answers in which the form is complete."""
    forms = ["A", "B"] if form == "B" and answers.complete("A") else [form]
    lines = [f"**Form {form}: {answers.score(form)} right.**"]
    if len(forms) > 1:
        lines[0] += f" Form A, before the course: {answers.score('A')}."
    elif form == "B":
        lines.append("\nYour answers to form A are not all there, so nothing is compared.")
    rows = [("theme", *(f"form {each}" for each in forms)), ["---"] * (1 + len(forms))]
    rows += [(theme, *(answers.score(each, theme) for each in forms)) for theme in themes()]
    lines += ["", *(f"| {' | '.join(row)} |" for row in rows)]
    for heading, right in (("To read, for what you missed", False), ("What you had right", True)):
        names = [name for name in questions(form) if answers.right(name) == right]
        lines += ["", f"**{heading}**", "", *(_line(name, answers.last[name], form) for name in names)] if names else []
    if form == "A":
        lines += ["", "The right options of what you missed are not told here: the course comes to each of them."]
    return "\n".join(lines)


def _line(name, letter, form):
    """Return a question of the result: the learner's letter, its reason, and the sections that settle it."""
    options = by_letter(name)
    right, chosen = options[right_letter(name)], options.get(letter)
    lines = _option(letter, chosen) if chosen else ["You put a question mark."]
    if chosen is not right and form == "B":
        head, reason = _option(right_letter(name), right)
        lines += [f"Right is {head}", reason]
    links = dict.fromkeys(f"[{o['section']}]({o['link']})" for o in (chosen, right) if o)
    lines += [f"→ {', '.join(links)}"]
    return f"- **{name}** " + "  \n  ".join(lines)  # two blanks at its end break a line in Markdown


def _option(letter, option):
    """Return an option and its reason, a line each."""
    return [f"**{letter}.** {option['text']}", f"*{option['reason']}*"]

"""The result of a form: by theme, with a reason for each answer, and the sections that settle what was missed."""

from lessonkit.inventory.answers import finish, mine
from lessonkit.inventory.questions import FORMS, UNKNOWN, by_letter, items, questions, right_letter, themes
from lessonkit.shown import in_notebook


def result(form):
    """Show the result of a form, "A" or "B", when each of its questions has a letter; before that, what is open."""
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}, expected 'A' or 'B'. Correct the letter.")
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
    both = form == "B" and answers.complete("A")
    lines = [f"**Form {form}: {_score(answers, questions(form))} right.**"]
    if both:
        lines[0] += f" Form A, before the course: {_score(answers, questions('A'))}."
    elif form == "B":
        lines.append("\nYour answers to form A are not all there, so nothing is compared.")
    lines += ["", f"| theme | {'form A | form B |' if both else 'right |'}", f"|---|---|{'---|' * both}"]
    for theme in themes():
        scores = [
            _score(answers, [name for name in questions(letter_of_form) if items()[name]["theme"] == theme])
            for letter_of_form in (("A", "B") if both else form)
        ]
        lines.append(f"| {' | '.join([theme, *scores])} |")
    missed = [name for name in questions(form) if not answers.right(name)]
    lines += ["", "**To read, for what you missed**", ""] if missed else []
    lines += [_line(name, answers.last[name], form) for name in missed]
    lines += ["", "**What you had right**", ""] if len(missed) < len(questions(form)) else []
    lines += [_line(name, answers.last[name], form) for name in questions(form) if name not in missed]
    if form == "A" and missed:
        lines += ["", "The right options of what you missed are not told here: the course comes to each of them."]
    return "\n".join(lines)


def _score(answers, names):
    return f"{sum(map(answers.right, names))} of {len(names)}"


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

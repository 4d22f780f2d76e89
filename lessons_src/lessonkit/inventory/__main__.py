"""See lessonkit.inventory."""

import argparse
import sys
from pathlib import Path

from lessonkit.inventory import class_report
from lessonkit.inventory.questions import FORMS, WORDS, by_letter, items, questions
from lessonkit.progress.files import for_a_pipe


def printed(form, answers=False):
    """Return a form as plain text. answers: with the right letter, and the reasons and sections of all options."""
    lines = [f"The LayerNorm inventory, form {form}: {FORMS[form]}"]
    lines.append("One option is right. Give its letter, or ? if you do not know.")
    lines += ["", WORDS]
    for name in questions(form):
        lines += ["", f"{name}. {items()[name]['question']}"]
        for letter, option in by_letter(name).items():
            lines.append(f"   {letter}) {option['text']}")
            if answers:
                lines.append(f"      {'RIGHT. ' * option['right']}{option['reason']} ({option['section']})")
    return "\n".join(lines)


def main(arguments=None):
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lessonkit.inventory", description="A form of the LayerNorm inventory, or the report of a class."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--print", choices=FORMS, dest="form", help="a form as plain text, without what is right")
    what.add_argument(
        "--report", nargs="+", metavar="FOLDER", help="the work folders of a class: who chose what, gains"
    )
    parser.add_argument("--answers", action="store_true", help="with --print: what is right, reasons and sections too")
    options = parser.parse_args(arguments)
    if options.answers and not options.form:
        parser.error("--answers goes with --print.")
    with for_a_pipe():
        if not options.form:
            return class_report.main([Path(name) for name in options.report])
        print(printed(options.form, options.answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())

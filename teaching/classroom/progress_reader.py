"""Print the page of a class, or one lesson of it: the part that reads the copies of the learners' work.

progress_page.py runs it, as an account that cannot read this file, as python -c TEXT LESSON MISSING FOLDER...: a
lesson's number in two digits, or "" for all lessons; names of who has not come yet, with commas; a folder a learner.
"""

import html
import sys


def page_of(lesson, missing, folders):
    from lessonkit.course import lessons
    from lessonkit.progress import learner, page

    whole = lessons()
    chosen = {stem: part for stem, part in whole.items() if not lesson or stem.startswith(f"{lesson}_")}
    text = page.html([learner(folder, whole) for folder in folders], chosen)
    columns = 1 + sum(len(part.exercises) for part in chosen.values())
    return with_missing(with_choice(text, whole, lesson), missing, columns)


def with_choice(text, stems, lesson):
    """Put links to each lesson's page below the heading."""
    links = [("", "all"), *((stem[:2], str(int(stem[:2]))) for stem in stems)]
    shown = [f"<b>{name}</b>" if at == lesson else f'<a href="?lesson={at}">{name}</a>' for at, name in links]
    return text.replace("</h1>", f"</h1>\n<p>Lesson: {' '.join(shown)}</p>", 1)


def with_missing(text, missing, columns):
    """Put a row for each missing name at the end of the table; columns: how many follow the name."""
    row = '<tr><th class="name" scope="row">{}</th><td colspan="{}" style="text-align: left">not yet here</td></tr>\n'
    rows = "".join(row.format(html.escape(name), columns) for name in missing)
    return text.replace("</tbody>", f"{rows}</tbody>", 1)


if __name__ == "__main__":
    sys.stdout.buffer.write(page_of(sys.argv[1], [*filter(None, sys.argv[2].split(","))], sys.argv[3:]).encode())

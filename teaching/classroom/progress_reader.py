"""Print the page of a class, or one lesson of it: the part that reads the copies of the learners' work.

progress_page.py runs it, as an account that cannot read this file, as python -c TEXT LESSON MISSING FOLDER...: a
lesson's number in two digits, or "" for all lessons; names of who has not come yet, with commas; a folder a learner.
"""

import gc
import html
import sys
import time
from pathlib import Path

READING = 3.5  # seconds of the processor for all learners: the page shall be there in five


def page_of(lesson, missing, folders):
    from lessonkit.course import lessons
    from lessonkit.progress import learner, page

    gc.disable()  # of millions of small objects in somebody's file it would look at each again and again
    whole, learners, unread = lessons(), [], {}
    chosen = {stem: part for stem, part in whole.items() if not lesson or stem.startswith(f"{lesson}_")}
    sizes = {folder: sum(file.stat().st_size for file in Path(folder).iterdir()) for folder in folders}
    for folder, size in sorted(sizes.items(), key=lambda pair: pair[1]):  # who has filled a home waits for the others
        if time.process_time() < READING:
            learners.append(learner(folder, whole))
        else:
            unread[Path(folder).name] = f"not read: there was no time left for these {size / 2**20:.0f} MB"
    columns = 1 + sum(len(part.exercises) for part in chosen.values())
    rows = unread | dict.fromkeys(missing, "not yet here")
    return with_rows(with_choice(page.html(learners, chosen), whole, lesson), rows, columns)


def with_choice(text, stems, lesson):
    """Put links to each lesson's page below the heading."""
    links = [("", "all"), *((stem[:2], str(int(stem[:2]))) for stem in stems)]
    shown = [f"<b>{name}</b>" if at == lesson else f'<a href="?lesson={at}">{name}</a>' for at, name in links]
    return text.replace("</h1>", f"</h1>\n<p>Lesson: {' '.join(shown)}</p>", 1)


def with_rows(text, said, columns):
    """Put a row for each name of said, {name: what is said of it}, at the table's end; columns: how many follow it."""
    row = '<tr><th class="name" scope="row">{}</th><td colspan="{}" style="text-align: left">{}</td></tr>\n'
    rows = "".join(row.format(html.escape(name), columns, why) for name, why in said.items())
    return text.replace("</tbody>", f"{rows}</tbody>", 1)


if __name__ == "__main__":
    sys.stdout.buffer.write(page_of(sys.argv[1], [*filter(None, sys.argv[2].split(","))], sys.argv[3:]).encode())

"""What the tests of the site and of the slides share: a Chromium, if there is one, and a server for a folder."""

import contextlib
import functools
import http.server
import threading

import pytest

from coursebuild.manifest import divide
from lessonkit.course import Code, Lesson, Text
from teaching.slides.pdf import browser_path
from teaching.slides.pdf import chromium as chromium

needs_chromium = pytest.mark.skipif(
    browser_path() is None, reason="no Chromium on the PATH: what pages look like and do in a browser is not tested"
)


@contextlib.contextmanager
def served(folder):
    """Serve a folder on 127.0.0.1 and yield its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def listen(page):
    """Return a list that collects what a page should not do: ask another server, fail to load, raise, write errors."""
    page.set_default_timeout(180_000)  # on a busy machine
    faults = []
    ours = ("http://127.0.0.1", "data:", "blob:")
    page.on("request", lambda r: None if r.url.startswith(ours) else faults.append(r.url))
    aborted = "net::ERR_ABORTED"  # a picture that was still on its way when the next page was opened
    page.on("requestfailed", lambda r: None if r.failure == aborted else faults.append(f"failed: {r.url}"))
    page.on("response", lambda r: faults.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    return faults


def toy_lesson(*items):
    """Return a Lesson 6 that consists of these items; a heading in a Text begins a section."""
    sections = []
    for item in items:
        if isinstance(item, Text):
            divide(sections, item.text, item.tags)
        else:
            sections[-1].items.append(item)
    return Lesson("06_toy", "Toy: a lesson", 60, sections)


def own_lines(lesson):
    """Return {number of an exercise: the longest line that only its solution has, without blanks}, where it has one."""
    shown = [line.strip() for item in lesson.items if isinstance(item, Code) for line in item.source.splitlines()]
    own = {}
    for exercise in lesson.exercises:
        lines = {line.strip() for line in exercise.solution.splitlines() if line.strip() not in exercise.task}
        own[exercise.number] = squeezed(max(lines.difference(shown), key=len, default=""))
    return {number: line for number, line in own.items() if line}


def squeezed(text):
    """Return a text without blanks and line breaks, which a page may set otherwise."""
    return "".join(text.split())

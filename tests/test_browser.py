"""What learners see, in a real browser: JupyterLab on a fresh copy of the course, in a folder with a space and umlauts.

`make test` runs it where Chromium and playwright are (.venv-teaching has playwright, and no torch: nothing here may
import the course). JupyterLab itself is the learners' own, started by `make lab`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from teaching.slides import pdf

pytest.importorskip("playwright.sync_api", reason="make test runs this with .venv-teaching's python")
ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not pdf.browser_path(), reason="no Chromium (on Debian: apt install chromium)")
LESSON = "03_epsilon.ipynb"
WAIT = 60_000  # ms for anything that a kernel does; a busy machine is slow


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A fresh copy of the course; its environment is this repository's."""
    copy = tmp_path_factory.mktemp("browser") / "Mein Kurs äöü"
    copy.mkdir()
    for name in ("Makefile", "README.md", "requirements.txt", "pyproject.toml", "data", "lessons_src", "notebooks"):
        whole = ROOT / name
        (shutil.copytree if whole.is_dir() else shutil.copy2)(whole, copy / name)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    return copy


@pytest.fixture(scope="module")
def lab(course):
    """`make lab` in the course, with a home of its own: its address, its token, and again() to make it once more."""
    log, home = course.parent / "lab.log", course.parent / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    # The environment's own lessonkit is the repository's; this one's is the copy's.
    kept |= {"HOME": str(home), "PYTHONPATH": str(course / "lessons_src"), "PYTHONUTF8": "1"}
    command, where = ["make", "-o", ".venv/ready", "lab"], {"cwd": course, "env": kept}  # -o: nothing is installed
    with open(log, "w") as output:
        into = {"stdout": output, "stderr": output, "start_new_session": True}
        arguments = "--no-browser --LabApp.expose_app_in_browser=True"
        process = subprocess.Popen([*command, f"ARGS={arguments}"], **into, **where)
    end = time.monotonic() + 60
    while not (found := re.search(r"(http://127\.0\.0\.1:\d+/lab).*\?token=(\w+)", log.read_text())):
        assert process.poll() is None and time.monotonic() < end, f"make lab did not start:\n{log.read_text()}"
        time.sleep(0.2)
    again = lambda: subprocess.check_output(command, text=True, timeout=60, **where)
    yield SimpleNamespace(address=found[1], token=found[2], again=again)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


class Page:
    """A page with a notebook, and what a learner does in it."""

    def __init__(self, page):
        self.page, self.errors, self.elsewhere = page, [], []
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        ours = re.compile(r"(https?|wss?)://127\.0\.0\.1:|data:|blob:|about:")
        page.on("request", lambda request: ours.match(request.url) or self.elsewhere.append(request.url))

    def open(self, url):
        """Open an address, and wait until its notebook is the one in front and has a kernel that is idle."""
        self.page.goto(url)
        self.page.wait_for_function(  # a kernel's status is "idle" before there is one, too
            """path => { const widget = globalThis.jupyterapp?.shell.currentWidget;
                         const kernel = widget?.sessionContext?.session?.kernel;
                         return widget?.context?.path === path && widget.content.widgets.length &&
                                kernel?.connectionStatus === "connected" && kernel.status === "idle" }""",
            arg=re.search("/tree/([^?]+)", url)[1],
        )

    def menu(self, menu, item):
        self.page.click(f".lm-MenuBar-itemLabel:text-is('{menu}')")
        self.page.click(f".lm-Menu-itemLabel:text-is('{item}')")

    def idle(self):
        self.page.wait_for_function(
            """() => { const {content, sessionContext} = jupyterapp.shell.currentWidget;
                       return sessionContext.session.kernel.status === "idle" &&
                              content.widgets.every(cell => !/^\\[\\*\\]/.test(cell.promptNode?.textContent ?? "")) }"""
        )

    def cells(self):
        """Return the notebook's cells as they would be saved, by their id."""
        notebook = self.page.evaluate("jupyterapp.shell.currentWidget.content.model.toJSON()")
        return {cell["id"]: cell for cell in notebook["cells"]}

    def go_to(self, cell):
        """Scroll to a cell, make it the active one, and return its element."""
        self.page.evaluate(
            """async id => { const {content} = jupyterapp.shell.currentWidget;
                 const at = content.widgets.findIndex(cell => cell.model.id === id);
                 content.activeCellIndex = at;
                 await content.scrollToItem(at, "center") }""",
            cell,
        )
        element = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-mod-active.jp-Cell")
        element.wait_for()
        return element

    def type_into(self, cell, *keys, text=""):
        """Press keys in a cell's editor, put text in at the cursor, and run the cell."""
        self.go_to(cell).locator(".cm-content").click()
        for key in keys:
            self.page.keyboard.press(key)
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Control+Enter")
        self.idle()

    def run(self, cell):
        self.go_to(cell)
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+Enter")
        self.idle()
        return output_of(self.cells()[cell])


def output_of(cell):
    """Return the text of a cell's outputs: what was printed or shown. An error has its box."""
    texts = []
    for out in cell["outputs"]:
        data = out.get("data", {})
        texts.append(out.get("text") or data.get("text/markdown") or data.get("text/plain"))
    return re.sub(r"\x1b\[[\d;]*m", "", "".join("".join(text or "") for text in texts))


def below(cells, cell):
    """Return the id of the next code cell."""
    ids = [id for id in cells if cells[id]["cell_type"] == "code"]
    return ids[ids.index(cell) + 1]


@pytest.fixture(scope="module")
def address(lab):
    return f"{lab.address}/tree/work/{LESSON}?token={lab.token}"


@pytest.fixture(scope="module")
def notebook(address):
    with pdf.chromium() as browser:
        page = Page(browser.new_page(viewport={"width": 1280, "height": 900}))
        page.open(address)
        yield page


def test_run_all_on_an_untouched_lesson_reaches_the_last_cell(notebook):
    notebook.menu("Run", "Run All Cells")
    notebook.page.wait_for_function(
        "jupyterapp.shell.currentWidget.content.widgets.filter(c => c.model.type === 'code')"
        ".every(c => c.model.executionCount)"
    )
    notebook.idle()
    cells = notebook.cells().values()
    errors = {out["ename"] for cell in cells for out in cell.get("outputs", []) if out["output_type"] == "error"}
    assert errors == {"YourTurn"}


def test_a_wrong_and_a_right_answer_are_typed(notebook):
    solutions = json.loads((ROOT / f"notebooks/solutions/{LESSON}").read_text(encoding="utf-8"))["cells"]
    right = next("".join(cell["source"]) for cell in solutions if cell["id"] == "ex-3-1")
    wrong = right.replace("(var + eps)", "(var) + eps")
    (check,) = [id for id, cell in notebook.cells().items() if cell["source"] == "check.normalize(normalize)"]
    assert output_of(notebook.cells()[check]).strip() == "Your turn: exercise 3.1 · replace this line by your answer"
    notebook.type_into("ex-3-1", "ControlOrMeta+a", text=wrong)
    told = notebook.run(check)
    assert told.startswith("Not yet") and "eps is added to the quotient" in told, told
    shown = notebook.go_to(check)
    assert shown.locator(".lesson-error").is_visible()
    assert shown.locator("[data-mime-type='application/vnd.jupyter.stderr']").is_hidden(), "on pink, below its box"
    notebook.type_into("ex-3-1", "ControlOrMeta+a", text=right)
    told = notebook.run(check)
    assert told.startswith("Right"), told


EDGES = """() => {
  const notebook = jupyterapp.shell.currentWidget.content.node;
  const shown = [".jp-CodeCell .jp-Editor", ".jp-MarkdownOutput > p", "details", ".alert", ".lesson-error", ".ln"]
    .map(kind => [...notebook.querySelectorAll(kind)].filter(each => each.offsetWidth));
  return shown.map(found => [...new Set(found.map(each => Math.round(each.getBoundingClientRect().right)))]);
}"""


def test_text_code_boxes_and_explorables_share_one_right_edge_and_the_list_of_files_gives_way(notebook):
    page = notebook.page
    edges = [edge for found in page.evaluate(EDGES) for edge in found]
    assert len(edges) >= 6 and max(edges) - min(edges) <= 2, edges
    listed = page.locator(".jp-DirListing-itemText")
    assert listed.first.is_visible()
    page.set_viewport_size({"width": 640, "height": 450})  # 1280 x 900 at 200 %
    listed.first.wait_for(state="hidden")
    page.set_viewport_size({"width": 1280, "height": 900})
    listed.first.wait_for()


def answers(element, letter):
    """Wait until the line below a question's options says which letter was the answer."""
    element.get_by_role("status").get_by_text(f"Your answer is {letter}.", exact=True).wait_for()


def test_a_prediction_is_clicked_or_answered_by_keys_and_its_outcome_says_what_was_expected(notebook, course):
    page, outcome = notebook.page, below(notebook.cells(), "predict-3-1")
    closing = page.locator(".after-predict-3-1")
    assert closing.get_attribute("open") is None and "expected" not in output_of(notebook.cells()[outcome])
    options = notebook.go_to("predict-3-1-asked").locator("ul").last
    options.wait_for(state="hidden")  # they are buttons, as soon as the cell below is drawn
    asked = notebook.go_to("predict-3-1")
    asked.locator("summary").nth(1).click()
    answers(asked, "b")
    assert asked.locator("[open]").inner_text().startswith("b. 5e-6\n\nNot quite.")
    assert closing.get_attribute("open") == ""
    assert notebook.run(outcome).startswith("You expected **b**: 5e-6")
    recalled = notebook.go_to("recall-3-1")
    page.keyboard.press("Escape")
    while page.evaluate("document.activeElement.tagName") != "SUMMARY":
        page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answers(recalled, "b")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # reads another reason
    assert recalled.locator("details[open]").count() == 2 and answers(recalled, "b") is None
    page.keyboard.press("Shift+Enter")
    notebook.idle()
    ids = list(notebook.cells())
    assert page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex") == ids.index("recall-3-1") + 1
    log = [json.loads(line) for line in (course / "work/attempts.jsonl").read_text("utf-8").splitlines()]
    page.evaluate("jupyterapp.commands.execute('filebrowser:refresh')")
    assert "attempts.jsonl" not in page.locator(".jp-DirListing-itemText").all_inner_texts()
    noted = [(line["item"], line["letter"], line["verdict"]) for line in log if "letter" in line]
    assert noted == [("Predict 3.1", "b", "not yet"), ("Recall 3.1", "b", "right")]


def moved(notebook):
    """Press an arrow key on an explorable's first slider, wait until its value has changed, and return its cell."""
    cell = next(id for id, cell in notebook.cells().items() if "".join(cell["source"]).startswith("explore."))
    handle = notebook.go_to(cell).get_by_role("slider").first
    before = handle.input_value()
    handle.press("ArrowRight")
    notebook.page.wait_for_function("before => document.activeElement.value !== before", arg=before)
    return cell


def test_an_explorable_moves_by_the_keyboard_keeps_its_letters_and_is_left(notebook):
    page, active = notebook.page, "jupyterapp.shell.currentWidget.content.activeCell.model.id"
    for key in ("Escape", "Shift+Enter"):
        cell = moved(notebook)
        count = len(notebook.cells())
        page.locator(".say").click()
        page.keyboard.press("b")  # would be a new cell
        assert (page.evaluate(active), len(notebook.cells())) == (cell, count)
        page.keyboard.press(key)
        notebook.idle()
        page.keyboard.press("ArrowUp" if key == "Escape" else "ArrowDown")
        assert page.evaluate(active) != cell
    page.locator(".ln").wait_for()
    assert page.locator("[data-explore] > img").is_hidden()
    page.emulate_media(media="print")
    assert page.locator("[data-explore] > img").is_visible() and page.locator(".ln").is_hidden()
    page.emulate_media(media="screen")


def test_nothing_was_asked_of_another_machine_and_the_console_is_clean(notebook):
    assert (notebook.elsewhere, notebook.errors) == ([], [])


def test_answers_are_there_after_a_reload_and_in_a_new_kernel(notebook, address):
    page = notebook.page
    page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    notebook.open(address)
    answers(notebook.go_to("predict-3-1"), "b")
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notebook.open(address)
    asked = notebook.go_to("predict-3-1")
    says = "(element) => getComputedStyle(element, '::after').content"
    assert asked.locator(".jupyter-widgets").evaluate(says) == '"Run this cell, and a click answers."'
    moved(notebook)  # in a kernel that has run nothing
    page.keyboard.press("Escape")
    first = next(id for id, cell in notebook.cells().items() if cell["cell_type"] == "code")
    notebook.run(first)
    notebook.run("predict-3-1")
    answers(asked, "b")
    assert asked.locator("[open]").inner_text().startswith("b."), "as it was answered"


def test_make_lab_a_second_time_says_where_the_first_one_is(lab):
    said = lab.again()
    assert (
        "already running for this course" in said
        and f"{lab.address.partition('127.0.0.1')[2]}?token={lab.token}" in said
    )

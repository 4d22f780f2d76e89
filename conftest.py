"""What nbval lets pass in a notebook and this course does not.

nbval compares nothing in a cell that was never run, and a cell tagged raises-exception may raise anything, or nothing.
So here:
- a cell of a learner notebook may raise only YourTurn, or the very error that its twin in the solutions edition stores;
- a cell of a solutions notebook has been run, and it raises if it is tagged raises-exception.

And in which order the files are run, and with which kernels of the math libraries.
"""

import functools
import os

import nbformat
import pytest

os.environ["LESSON_WORK"] = "off"  # no kernel of a test uses, keeps or logs anything of a learner's


def pytest_addoption(parser):
    text = "compute with other kernels of the math libraries, as another processor would (coursebuild/execution.py)"
    parser.addoption("--other-processor", action="store_true", help=text)
    parser.addoption("--lesson", help="only the tests of this lesson and of its checks: its number, as 06")


def pytest_configure(config):
    config.option.loadscopereorder = False  # pytest-xdist would begin with the files of many tests, and these are quick
    if config.option.other_processor:
        from coursebuild.execution import OTHER_PROCESSOR

        os.environ.update(OTHER_PROCESSOR)  # for the kernels, and for the tests if torch is not there yet


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return how many tests -n auto runs at once: three, since a worker waits while its kernel starts; four if it may.

    Each needs up to a gigabyte.
    """
    return 4 if (os.cpu_count() or 1) >= 4 else 3


def of_lesson(number, items):
    """Return the tests whose parameters name one lesson: its source (path, stem), module (lesson), check (name)."""
    from lessonkit import course

    if number == "00":  # in no manifest: it has a file of its own, and rules that hold for all lessons
        return [item for item in items if item.path.name == "test_one_sitting.py" or "00_in_one_sitting" in item.name]
    lessons = {lesson.stem[:2]: lesson for lesson in course.pages().values()}
    if number not in lessons:
        raise pytest.UsageError(
            f"--lesson {number}: there are 00, {', '.join(lessons)}. A new one is known once it is built: "
            f"`make notebooks ARGS={number}`."
        )
    lesson = lessons[number]
    checks = [name for name, (asking, _) in course.checks().items() if asking.stem == lesson.stem]
    asked = {"path": [lesson.stem], "stem": [lesson.stem], "lesson": [lesson.module], "name": checks}

    def about(parameters):
        return any(getattr(parameters.get(key), "stem", parameters.get(key)) in there for key, there in asked.items())

    return [item for item in items if about(getattr(getattr(item, "callspec", None), "params", {}))]


LONGEST = "test_runs.py test_mine.py test_checks.py 09_cnn.ipynb 11_transformer.ipynb test_build.py".split()


def pytest_collection_modifyitems(config, items):
    """Files that take longest first: at the end no worker is left alone with one of them."""
    if config.option.lesson:
        items[:] = of_lesson(config.option.lesson, items)
    items.sort(key=lambda item: (*LONGEST, item.path.name).index(item.path.name))


@functools.cache
def stored_errors(path):
    """Return {cell id: (ename, evalue)} of the errors that a notebook stores."""
    return {
        cell.id: (out.ename, out.evalue)
        for cell in nbformat.read(path, as_version=4).cells
        for out in cell.get("outputs", [])
        if out.output_type == "error"
    }


def refusal(path, cell, outputs):
    """Return why a cell that was run just now is refused, None if it is not. outputs: what it has put out."""
    raised = next(((out.ename, out.evalue) for out in outputs if out.output_type == "error"), None)
    if path.parent.name == "notebooks" and raised and raised[0] != "YourTurn":
        twin = path.parent / "solutions" / path.name
        expected = stored_errors(twin).get(cell.id) if twin.exists() else None
        if raised != expected:
            return f"an untouched learner cell may raise only YourTurn, this one raised {raised[0]}: {raised[1]}"
    if path.parent.name == "solutions":
        if cell.execution_count is None:
            return "this cell of a solutions notebook was never run, so nothing was compared. Build the lesson"
        if not raised and "raises-exception" in cell.metadata.get("tags", []):
            return "the cell is tagged raises-exception and does not raise"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    if getattr(item, "test_outputs", None) is not None:  # one of nbval's cells
        reason = refusal(item.path, item.cell, item.test_outputs)
        if reason:
            item.raise_cell_error(reason)
    return result

"""What nbval lets pass in a notebook and this course does not.

A cell of a learner notebook may raise only YourTurn, or the very error that its twin in the solutions edition stores;
a cell of a solutions notebook has been run, and it raises if it is tagged raises-exception.
"""

import functools
import os

import nbformat
import pytest

# At the end no worker is left alone with one of these. The notebooks among them are those of lessons that train.
LONGEST = ["test_evidence.py", "test_mine.py", "test_checks.py", "trains", "test_build.py"]
# Of the others, these have the untouched editions that take longest, 13 to 19 s each.
LONG = ["in_one_sitting", "backward", "geometry", "clinic", "in_the_wild"]

os.environ["LESSON_WORK"] = "off"  # no kernel of a test uses, keeps or logs anything of a learner's


def pytest_addoption(parser):
    other = "compute with other kernels of the math libraries, as another processor would"
    parser.addoption("--other-processor", action="store_true", help=other)
    quick = "leave out what trains and was done before: learner editions, another processor's run, runs of records"
    parser.addoption("--quick", action="store_true", help=quick)
    parser.addoption("--lesson", help="only the tests of this lesson and of its checks: its number, as 06")


def pytest_configure(config):
    config.option.loadscopereorder = False  # pytest-xdist would begin with the files of many tests, and these are quick
    if config.option.other_processor:
        from coursebuild.notebooks import OTHER_PROCESSOR

        os.environ.update(OTHER_PROCESSOR)  # for the kernels, and for the tests if torch is not there yet


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return how many tests -n auto runs at once: three or four, since a worker waits while its kernel starts."""
    return 4 if (os.cpu_count() or 1) >= 4 else 3


def of_lesson(number, items):
    """Return the tests whose parameters name one lesson: its room (path, stem), module (lesson), check (name)."""
    from coursebuild import source
    from lessonkit import course

    stems = {room.name[:2]: room.name for room in source.rooms()}
    if number not in stems:
        raise pytest.UsageError(f"--lesson {number}: there are {', '.join(stems)}. Name one of them.")
    checks = [name for name, (lesson, _) in course.checks().items() if lesson.stem == stems[number]]
    names = [stems[number], stems[number][3:], *checks]

    def about(parameters):
        asked = (parameters.get(key) for key in ("path", "stem", "lesson", "name"))
        return any(getattr(value, "stem", value) in names for value in asked)

    return [item for item in items if about(getattr(getattr(item, "callspec", None), "params", {}))]


def pytest_collection_modifyitems(config, items):
    """Leave out what is not asked for, and begin with the files that take longest."""
    option = config.option
    if option.lesson:
        items[:] = of_lesson(option.lesson, items)
    if option.quick:
        untouched = lambda path: path.parent.name == "notebooks" and (trains(path) or path.stem[3:] in LONG)
        repeats = trains if option.other_processor else untouched
        items[:] = [item for item in items if not repeats(item.path) and not item.get_closest_marker("trains")]
    called = lambda item: "trains" if trains(item.path) else item.path.name
    items.sort(key=lambda item: (*LONGEST, called(item)).index(called(item)))


@functools.cache
def trains(path):
    """Whether a file is the notebook of a lesson that trains while one watches."""
    return path.suffix == ".ipynb" and "trains" in nbformat.read(path, as_version=4).cells[0].metadata.get("tags", [])


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
    """Return why a cell that has just put out outputs is refused, None if it is not."""
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
    # In a notebook: scripts are neither stored nor compared (coursebuild.notebooks, which some tests cannot import).
    getattr(item.parent, "sanitize_patterns", {})["(?s)<script.*?</script>"] = ""
    result = yield
    if getattr(item, "test_outputs", None) is not None:  # one of nbval's cells
        reason = refusal(item.path, item.cell, item.test_outputs)
        if reason:
            item.raise_cell_error(reason)
    return result

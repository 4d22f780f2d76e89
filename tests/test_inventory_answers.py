"""Answering the LayerNorm inventory: what is kept, when the result is told, and the report of a class."""

import json
import re

import nbformat
import pytest

from lessonkit import attempts, places
from lessonkit.inventory import answer, answers, result
from lessonkit.inventory.__main__ import main
from lessonkit.inventory.answers import collect
from lessonkit.inventory.questions import by_letter, items, questions, right_letter, themes
from tests.helpers import ROOT, executed


@pytest.fixture
def kernel(monkeypatch):
    """Return what starts a new kernel: one that has kept nothing in memory."""

    def start():
        monkeypatch.setattr(answers, "_lines", attempts.Lines("Not kept in {name}: {why}."))

    start()
    monkeypatch.delenv("LESSON_LOG", raising=False)
    return start


@pytest.fixture
def work(tmp_path, kernel, monkeypatch):
    """Return the folder of a learner in whose kernel the test runs."""
    monkeypatch.setattr(places, "work", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def printed(capsys):
    """Return a function that calls a function with arguments and returns what that printed."""

    def call(function, *arguments):
        capsys.readouterr()
        function(*arguments)
        return capsys.readouterr().out

    return call


def records(work):
    return [json.loads(line) for line in (work / "inventory.jsonl").read_text().splitlines()]


def wrong_letter(name):
    return next(letter for letter in "abcd" if letter != right_letter(name))


def fill(form, right=lambda name: True):
    for name in questions(form):
        answer(name, right_letter(name) if right(name) else wrong_letter(name))


# ---------------------------------------------------------------------------------------------------------- answering


def test_an_empty_answer_waits_in_one_line_and_keeps_nothing(work, printed):
    output = printed(answer, "A3", "")
    assert output == "A3: put a, b, c or d between the quotes, or ? if you do not know, and run this cell.\n"
    for letter in ("e", 2):
        assert f"A3: {letter!r} is none of its letters. Put a, b, c or d" in printed(answer, "A3", letter)
    assert not (work / "inventory.jsonl").exists()
    with pytest.raises(ValueError, match="there is no question 'A13', expected A1 to A12 or B1 to B12"):
        answer("A13", "a")
    with pytest.raises(ValueError, match="there is no form 'C', expected 'A' or 'B'"):
        result("C")


def test_a_letter_is_kept_without_a_word_on_whether_it_is_right(work, printed):
    outputs = {re.sub(r"\b[abcd](?=[ .])|\?", "X", printed(answer, "A3", f" {letter.upper()}) ")) for letter in "abcd?"}
    assert outputs == {"A3: X is kept.\n", "A3: X is kept in place of X.\n"}
    answer("A3", "?")
    assert [record["letter"] for record in records(work)] == [*"abcd?"], "the same letter again adds nothing"
    assert set(records(work)[0]) == {"v", "time", "question", "edition", "letter"}
    assert printed(answer, "A3", "").endswith("So far ? is kept.\n")


def test_the_last_letter_over_kernels_counts_and_what_comes_after_the_result_does_not(work, kernel, printed):
    answer("A1", "d")
    kernel()
    assert "A1: c is kept in place of d." in printed(fill, "A", lambda name: name != "A2")
    result("A")
    assert "Form A: 11 of 12 right." in printed(result, "A")
    assert [record["result"] for record in records(work) if "result" in record] == ["A"]
    right, wrong = right_letter("A2"), wrong_letter("A2")
    assert printed(answer, "A2", right) == f"A2: {wrong} counts, and {right} came after the result.\n"
    kernel()
    answer("A2", wrong)
    assert "Form A: 11 of 12 right." in printed(result, "A")


def test_a_result_waits_until_all_twelve_have_a_letter(work, printed):
    for name in questions("A"):
        if name not in ("A4", "A9"):
            answer(name, "?")
    output = printed(result, "A")
    assert output.startswith("Form A: 10 of 12 questions have a letter. Still open: A4, A9.")
    assert output.count("\n") == 1
    assert not any(option["reason"] in output for item in items().values() for option in item["options"])
    answer("A4", "?")
    answer("A9", "?")
    assert "Form A: 0 of 12 right." in printed(result, "A")


def test_form_a_says_what_to_read_and_keeps_the_right_options_for_the_course(work, printed):
    wrong, right, had = wrong_letter("A3"), by_letter("A3")[right_letter("A3")], by_letter("A1")[right_letter("A1")]
    fill("A", lambda name: name != "A3")
    answer("A7", "?")
    output = printed(result, "A")
    table = dict(re.findall(r"^\| ([^|]+) \| (\d of \d) \|$", output, re.MULTILINE))
    assert list(table) == themes() and list(table.values()).count("2 of 2") == 4
    assert table["Epsilon and number types"] == table["Softmax and BatchNorm"] == "1 of 2"
    to_read, _, known = output.partition("**What you had right**")
    chosen = by_letter("A3")[wrong]
    assert f"**A3** **{wrong}.** {chosen['text']}  \n  *{chosen['reason']}*" in to_read
    assert "**A7** You put a question mark." in to_read and f"[{right['section']}]({right['link']})" in to_read
    assert right["reason"] not in output and had["reason"] in known and known.count("\n- **A") == 10


def test_form_b_tells_the_right_options_and_compares(work, printed):
    fill("A", lambda name: int(name[1:]) % 2)
    fill("B", lambda name: name != "B5")
    output = printed(result, "B")
    assert "**Form B: 11 of 12 right.** Form A, before the course: 6 of 12." in output
    assert output.count("| 1 of 2 | 2 of 2 |") == 5 and "| Gain, bias and variants | 1 of 2 | 1 of 2 |" in output
    right = by_letter("B5")[right_letter("B5")]
    assert f"Right is **{right_letter('B5')}.** {right['text']}  \n  *{right['reason']}*" in output


# ------------------------------------------------------------------------------------------------- what can go wrong


def test_lines_that_do_not_fit_a_question_are_left_out_and_left_where_they_are(work):
    right = {"v": 1, "question": "A2", "edition": items()["A2"]["edition"], "letter": "a"}
    quiet = ({"edition": "000000"}, {"question": "A99"}, {"result": "C"})
    changes = ({"letter": "e"}, {"letter": ["a"]}, {"question": ["A2"]}, *quiet, {"v": 2})
    before = "\n".join(json.dumps(right | change) for change in changes) + '\n{"v": 1, "quest'
    (work / "inventory.jsonl").write_text(before)
    answer("A3", "b")
    assert collect(work).last == {"A3": "b"} and (work / "inventory.jsonl").read_text().startswith(before)
    damaged, newer = collect(work).notes
    assert "4 lines are damaged and left out" in damaged and "1 line is of a newer edition of the course" in newer


@pytest.mark.parametrize("why", ["no learner", "LESSON_LOG=off"])
def test_without_a_file_letters_are_kept_in_the_kernel_alone(why, work, monkeypatch, printed):
    if why == "no learner":
        monkeypatch.setattr(places, "work", lambda: None)
    monkeypatch.setenv("LESSON_LOG", "off" if why == "LESSON_LOG=off" else "")
    monkeypatch.chdir(work)
    fill("B")
    output = printed(result, "B")
    assert "Form B: 12 of 12 right." in output and not list(work.iterdir())
    assert "Your answers to form A are not all there, so nothing is compared." in output


def test_a_form_in_a_learners_kernel(work, printed):
    """Answered as a learner does, in a copy of the notebook."""
    cells = [cell for cell in nbformat.read(ROOT / "notebooks/inventory_a.ipynb", 4).cells if cell.cell_type == "code"]
    for cell in cells:
        name = cell.id.upper()
        letter = right_letter(name) if name in items() and name != "A6" else "?"
        cell.source = cell.source.replace('""', f'"{letter}"')
    start, first, *_, shown = executed([cell.source for cell in cells], work, LESSON_WORK=str(work))
    assert start.outputs == [] and first.outputs[0].text == f"A1: {right_letter('A1')} is kept.\n"
    assert "**Form A: 11 of 12 right.**" in shown.outputs[0].data["text/markdown"]
    assert printed(answer, "A1", right_letter("A1")) == f"A1: {right_letter('A1')} counts.\n"
    assert len(records(work)) == 13, "run again it adds nothing"


# ------------------------------------------------------------------------------------------------------ a class

CLASS = {  # learner: how many points, from the first on, are known in form A and in form B
    "anna": (6, 12),
    "bo": (0, 6),
    "cy": (3, 0),
}


@pytest.fixture
def folders(tmp_path):
    """The folders of a class; cy has stopped after form A, and a line of the log is cut off."""
    for learner, known in CLASS.items():
        (tmp_path / learner).mkdir()
        lines = [
            {"v": 1, "question": name, "edition": item["edition"]}
            | {"letter": right_letter(name) if int(name[1:]) <= known["AB".index(name[0])] else "?"}
            for name, item in items().items()
            if known["AB".index(name[0])] or name[0] == "A"
        ]
        (tmp_path / learner / "inventory.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n" + '{"v": 1, "qu')
    return [tmp_path / learner for learner in CLASS]


def test_the_report_of_a_class_counts_letters_and_gains_by_theme(folders, capsys):
    assert main(["--report", *map(str, folders)]) == 0
    output, errors = capsys.readouterr()
    assert output.startswith("The LayerNorm inventory: 3 learners, 3 with all of form A, 2 of B\n")
    rows = {line.split()[0]: line.split() for line in output.splitlines() if re.match(r"[AB]\d+ ", line)}
    assert list(rows) == list(items()) and errors.count("1 line is damaged") == 3
    counts = {"A1": (2, 1, "67%"), "A6": (1, 2, "33%"), "A12": (0, 3, "0%"), "B1": (2, 0, "100%"), "B12": (1, 1, "50%")}
    for name, (right, unknown, share) in counts.items():
        assert f"{right}*" in rows[name] and rows[name][-2:] == [str(unknown), share], rows[name]
    assert "From A to B, 2 learners with both forms" in output
    gains = [line.split()[-3:] for line in output.splitlines()[-7:]]  # six themes of two points, and all
    assert gains == [["50%", "100%", "1.00"]] * 3 + [["0%", "50%", "0.50"]] * 3 + [["25%", "75%", "0.67"]]


def test_folders_without_answers_are_named_and_the_others_count(folders, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["--report", str(folders[0]), str(tmp_path / "empty"), str(tmp_path / "gone")]) == 1
    output, errors = capsys.readouterr()
    assert output.startswith("The LayerNorm inventory: 1 learner,")
    assert f"{tmp_path / 'empty'}: no answers" in errors and f"{tmp_path / 'gone'}: there is no such folder" in errors
    assert main(["--report", str(tmp_path / "empty")]) == 1
    assert "No folder holds answers" in capsys.readouterr().err

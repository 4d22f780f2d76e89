"""Answering the LayerNorm inventory: what is kept, when the result is told, and the report of a class."""

import json

import pytest

from lessonkit import attempts, places
from lessonkit.inventory import answer, answers, result
from lessonkit.inventory.__main__ import main
from lessonkit.inventory.questions import by_letter, items, questions, right_letter


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Return the folder of a learner in whose kernel the test runs."""
    monkeypatch.setattr(places, "work", lambda: tmp_path)
    monkeypatch.setattr(answers, "_lines", attempts.Lines(""))
    monkeypatch.delenv("LESSON_LOG", raising=False)
    return tmp_path


@pytest.fixture
def printed(capsys):
    """Return what calls a function and returns what that printed."""

    def call(function, *arguments):
        capsys.readouterr()
        function(*arguments)
        return capsys.readouterr().out

    return call


def records(work):
    return [json.loads(line) for line in (work / "inventory.jsonl").read_text().splitlines()]


def wrong_letter(name):
    return next(letter for letter in "abcd" if letter != right_letter(name))


def fill(form, wrong=()):
    for name in questions(form):
        answer(name, wrong_letter(name) if name in wrong else right_letter(name))


def test_a_letter_is_kept_in_silence_and_the_last_one_before_the_result_counts(work, printed):
    asks = "A3: put one of a, b, c, d between the quotes, or ? if you do not know, and run this cell."
    assert printed(answer, "A3", "") == printed(answer, "A3", "e") == f"{asks}\n"
    assert not list(work.iterdir())
    outputs = [printed(answer, "A3", f" {letter.upper()}) ") for letter in "abb?"]
    assert outputs == [
        f"A3: {said}.\n" for said in ("a is kept", "b is kept in place of a", "b is kept", "? is kept in place of b")
    ]
    assert [record["letter"] for record in records(work)] == [*"ab?"], "the same letter again adds nothing"
    assert set(records(work)[0]) == {"v", "time", "question", "edition", "letter"}
    assert printed(answer, "A3", "") == f"{asks} So far ? is kept.\n"
    output = printed(result, "A")
    assert output.startswith("Form A: 1 of 12 questions have a letter. Still open: A1, A2, A4, ")
    assert not any(option["reason"] in output for item in items().values() for option in item["options"])
    fill("A", ["A2"])
    assert "Form A: 11 of 12 right." in printed(result, "A")
    right, wrong = right_letter("A2"), wrong_letter("A2")
    assert printed(answer, "A2", right) == f"A2: {wrong} counts, and {right} came after the result.\n"
    assert "Form A: 11 of 12 right." in printed(result, "A")
    assert [record["result"] for record in records(work) if "result" in record] == ["A"]


def test_form_a_keeps_the_right_options_for_the_course_and_form_b_tells_them_and_compares(work, printed):
    chosen, right = by_letter("A3")[wrong_letter("A3")], by_letter("A3")[right_letter("A3")]
    fill("A", ["A3"])
    answer("A7", "?")
    output = printed(result, "A")
    missed, _, known = output.partition("**What you had right**")
    assert f"**A3** **{wrong_letter('A3')}.** {chosen['text']}  \n  *{chosen['reason']}*" in missed
    assert "**A7** You put a question mark." in missed and f"[{right['section']}]({right['link']})" in missed
    assert right["reason"] not in output and known.count("\n- **A") == 10
    fill("B", ["B5"])
    output, right = printed(result, "B"), by_letter("B5")[right_letter("B5")]
    assert "**Form B: 11 of 12 right.** Form A, before the course: 10 of 12." in output
    assert "| Epsilon and number types | 1 of 2 | 2 of 2 |" in output
    assert f"Right is **{right_letter('B5')}.** {right['text']}  \n  *{right['reason']}*" in output


@pytest.mark.parametrize("log", ["", "off"])
def test_without_a_file_letters_are_kept_in_the_kernel_alone(log, work, monkeypatch, printed):
    monkeypatch.setattr(places, "work", lambda: work if log else None)
    monkeypatch.setenv("LESSON_LOG", log)
    fill("B")
    output = printed(result, "B")
    assert "Form B: 12 of 12 right." in output and not list(work.iterdir())
    assert "Your answers to form A are not all there, so nothing is compared." in output


def test_the_report_of_a_class_gives_the_gain_of_each_theme(tmp_path, capsys):
    """Known are so many points, from the first on, in form A and in form B."""
    for learner, known in {"anna": (6, 12), "bo": (0, 6), "cy": (3, None), "dee": ()}.items():
        (tmp_path / learner).mkdir()
        lines = [
            {"v": 1, "question": name, "edition": items()[name]["edition"]}
            | {"letter": right_letter(name) if int(name[1:]) <= many else "?"}
            for form, many in zip("AB", known, strict=False)
            if many is not None
            for name in questions(form)
        ]
        (tmp_path / learner / "inventory.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"v": 1, "qu')
    main(["--report", str(tmp_path)])
    output, errors = capsys.readouterr()
    assert output.startswith("The LayerNorm inventory: 2 of 3 learners have answered both forms.\n")
    assert errors.count("left out, damaged") == 4 and f"{tmp_path / 'dee'}: no answers" in errors
    gains = [line.split()[-3:] for line in output.splitlines()[-7:]]  # six themes of two points, and all
    assert gains == [["50%", "100%", "1.00"]] * 3 + [["0%", "50%", "0.50"]] * 3 + [["25%", "75%", "0.67"]]

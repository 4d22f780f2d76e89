"""The lessons: one folder each, and all of it. README.md says how one is written.

    lesson.py    text, code and exercises, from which its notebooks are built
    checks.py    what judges an answer: all of a lesson that an installed course has
    answers.py   right and wrong answers, which the tests give to the checks
    words.md     what an instructor says, and listens for

A folder's name begins with a digit, so importlib imports its modules: lessons.03_epsilon.checks
"""

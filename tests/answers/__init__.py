"""Answers that people give: one module a lesson, called as the lesson, each with a dictionary ANSWERS.

ANSWERS = {"name of the check": {
    "right": {"how it is written": answer, ...},             # at least three for a function or class
    "wrong": {"what is wrong": (answer, "words that the message must contain"), ...},
}}
"""

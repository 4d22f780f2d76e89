"""Grading: submitted copies of a lesson -> a CSV file with points, and a page of feedback for each learner.

    lesson      what a lesson asks, and which of its statements an exercise needs
    submission  the answers in a learner's notebook, in whatever state it is
    suspect     what in an answer's text a person should look at
    jail        where submissions run
    worker      the process there that runs them, and what it finds this machine to prevent
    inside/     what it consists of: one process for each answer, and whether it has changed what judges it
    marking     a submission's answers, run and given points
    sheet       the CSV file: never torn, and taken up again where a run was stopped
    feedback    the pages
    nbgrader    an export for those who use nbgrader

README.md says how to use it, and what it does not prevent.
"""

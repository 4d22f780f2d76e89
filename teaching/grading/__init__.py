"""Grading: submitted copies of a lesson -> a CSV file with points, and a page of feedback for each learner.

    lesson      what a lesson asks, and which of its statements an exercise needs
    submission  the answers in a learner's notebook, in whatever state it is
    apart       what is done with a learner's file, in a process that is given up in time
    jail        how processes are started, and what holds them
    inside/     what is in a jail with an answer: an observer, which knows nothing that is right
    judge       a process outside that compares what was observed
    bench       a judge, and a jail for each answer
    marking     a submission's answers, observed and given points
    sheet       the CSV file: never torn, and taken up again where a run was stopped
    feedback    the pages
    nbgrader    an export for those who use nbgrader

README.md says how to use it, and what it cannot promise.
"""

"""Grading: submitted copies of a lesson -> a CSV file with points, and a page of feedback for each learner.

The way of a submission, and the file in which each step stands:

    __main__       the command: a folder of submissions, one after the other
    assignment     what the lesson asks, and which of its statements an exercise needs
    learners       whose is what: a notebook for each learner
    notebook       the answers in a notebook, in whatever state it is, read in a process that is given up in time
    points         each answer is sent on, and gets points for what comes back
    processes      one judge for all answers, and a jail for each, whose time it keeps
    jail           how these processes are started, and what holds them
    in_jail/       the observer, which runs an answer, and knows nothing that is right
    judge_outside  the judge, which runs no answer, and compares what was observed with what is right
    table          the CSV file: never torn, and taken up again where a run was stopped
    pages          the pages of feedback
"""

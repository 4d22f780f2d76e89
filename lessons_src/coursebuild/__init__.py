"""Build the course: from the lessons' sources to the two editions of its notebooks, and to the package fromscratch.

Five floors; a module imports from those below its own, and from lessonkit.course and lessonkit.program.

    __main__   the command line: build what changed, or say what is stale

    generated  what a build leaves: what it would change, and why; all that needs no kernel, written
    minutes    how many minutes a lesson takes a learner, and whether it prints them: a command line

    sources    all lessons together, and what they export to each other: the package fromscratch
    editions   the learner edition and the solutions edition of a lesson: made, run and written
    inventory  the two notebooks of questions before and after the course

    frame      read a lesson, and add what nobody writes: lettered questions, cards, the way on
    manifest   what the kit knows of a lesson, its minutes among it: lessonkit/course, which everybody reads who asks
    notebooks  a notebook in a kernel and in its file: run it, make its outputs the same on every day, or refuse them
    records    what evidence.py of the lessons measures, run and kept in data/runs (make runs)
    new        write a new lesson, from the files in the folder skeleton: a command line

    source     a lesson's cells, where they stand, and how it stops when it is wrong
    digest     what a lesson's notebooks depend on beside its source, as one number

Nothing is read back from a notebook.
"""

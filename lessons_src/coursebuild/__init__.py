"""Build the course: from the lessons' sources to the two editions of its notebooks, and to the package fromscratch.

Five floors; a module imports from those below its own, and from lessonkit.

    __main__   build what changed, or say what is stale: a command line

    generated  what a build leaves: what it would change, and why
    minutes    how many minutes a lesson takes a learner: a command line

    sources    all lessons together, and what they export to each other
    editions   the two editions of a lesson: made, run and written
    inventory  the two notebooks of questions before and after the course

    frame      read a lesson, and add lettered questions, cards, the way on
    manifest   what the kit knows of a lesson, its minutes among it
    notebooks  run a notebook, make its outputs the same on every day, or refuse them
    records    what evidence.py of the lessons measures, kept in data/runs: a command line
    new        write a new lesson from the folder skeleton: a command line

    source     a lesson's cells, where they stand, and how it stops when it is wrong
    digest     what a lesson's notebooks depend on, as one number

Nothing is read back from a notebook.
"""

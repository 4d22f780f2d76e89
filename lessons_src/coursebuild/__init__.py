"""Build the course: from the lessons' sources to the two editions of its notebooks, and to the package fromscratch.

    source    read one lesson and refuse what would build a wrong notebook
    frame     what every lesson has and nobody writes: cards, the way on
    options   predictions and recall questions: from a list of options to a question and a cell
    manifest  what the kit knows of a lesson: lessonkit/course, which everybody reads who asks
    minutes   how many minutes a section takes, by a model
    syntax    what a piece of code imports, reads and binds, without running it
    export    the export cells of the lessons, as the package fromscratch
    generated all that is made without a kernel: written, or found to differ
    records   the cells tagged record: training that is run once and loaded from data/runs
    sources   all lessons together; one that is broken is set aside, and the others go on
    digest    what a lesson's notebooks depend on, as one number
    inventory the two notebooks of questions before and after the course
    kernel    run a notebook
    outputs   make what a cell has put out the same on every day, or refuse it
    editions  make, run and write the learner edition and the solutions edition
    stale     what is not as a build would leave it
    budgets   how long a lesson and a cell may take
    command   the command line, `python -m coursebuild`

One way only: nothing is ever read back from a notebook. The same source gives the same bytes on one machine.
"""

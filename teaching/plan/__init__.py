"""The plan of each session, and of courses: numbers from the model of minutes, words from lessons and courses.toml.

    sections   what a lesson consists of: sections with minutes, questions and exercises, from the manifest
    notes      what a person has written: words.md in a lesson's folder, in a small form that is checked
    courses    lists of sections for one day, two or three evenings, fifteen sessions: courses.toml
    plans      the plans, as Markdown
    sheets     their run sheets as pages to print

`make plan` writes build/plan, `make plan ARGS=--pdf` prints the run sheets. README.md says how the words are written.
"""

"""The plan of each session, and of courses: numbers from the model of minutes, words from words/ and courses.toml.

    sections   what a lesson consists of: sections with minutes, questions and exercises, from the manifest
    words      what a person has written: words/NN_name.md, in a small form that is checked
    courses    lists of sections for one day, three evenings, fourteen sessions: courses.toml
    plans      the plans, as Markdown

`make plan` writes build/plan. README.md says how the words are written.
"""

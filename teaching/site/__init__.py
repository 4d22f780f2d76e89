"""The course as a web site: Sphinx pages from the executed solutions edition, for reading, teaching and screen readers.

    markdown   write MyST: boxes, folds, code, and links that hold on the site
    pages      one page a lesson
    landing    what fills the start page, sphinx/index.md
    explorables  an explorable as a page shows it without a kernel
    colab      the learner notebooks as Google Colab opens them
    stage      all that Sphinx reads: pages, glossary, start page, pictures, downloads
    conf       Sphinx's configuration
    __main__   `make site`

No kernel runs while pages are made, and a finished page asks no other server for anything.
"""

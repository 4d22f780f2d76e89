"""A deck of slides for each lesson: reveal.js, offline, made from the built notebooks.

deck      which slides a lesson gives, in order
render    Markdown, code and pictures as HTML
theme     style sheet and script that every deck loads
pdf       print decks, with a Chromium
__main__  `make slides`
"""

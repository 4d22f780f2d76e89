"""Anchors of headings as JupyterLab makes them, so that one link works in a notebook and on the site."""


def slug(text):
    """Return the anchor of a heading. Sphinx names this function by its path, because a function cannot be pickled."""
    return text.replace(" ", "-")

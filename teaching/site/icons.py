"""A drawn icon for the card of each lesson: one idea in lines, of 48 x 32, what the lesson adds to it in blue."""

DRAWN = {  # number of a lesson: paths in ink, in blue, and in orange, BatchNorm's color
    0: ("M24 3a13 13 0 1 0 .1 0", "M24 8v8h7"),  # an hour
    1: ("M4 28V4m8 24V14m8 14V21m8 7v-4m8 4v-2m8 2v-1", "M4 4h40"),  # a signal fades; one that does not
    2: ("M6 16V6m9 10v10m9-10V9m9 7v6m9-6V3", "M2 16h44"),  # distances from a mean
    3: ("M4 18l4-2 5 13L19 3h25", "M37 11c-5-3-11-1-11 3 0 3 3 4 7 4-5 0-8 1-8 5 0 5 8 6 13 2"),  # a root that holds ε
    4: ("M8 3v26h36", "M8 23L42 5"),  # a gain and a bias: slope and height
    5: ("M24 2L42 30H6Z", "M24 13a7.5 7.5 0 1 0 .1 0"),  # a triangle and a circle
    6: ("M10 2h28v28H10zM19 2v28M29 2v28M10 11h28M10 21h28", "M10 11h28v10H10z", "M19 2h10v28H19z"),  # row and column
    7: ("M44 16C34 0 20 2 8 14m36 2C34 32 20 30 8 18", "M44 16H6m7-6l-7 6 7 6"),  # three paths, all of them back
    8: ("M24 3a13 13 0 1 0 .1 0M24 0v32", "M11 16c0 7 26 7 26 0s-26-7-26 0"),  # a ball and its circle
    9: ("M8 3h26v26H8zM24 13l18-5m-18 15l18-5", "M14 13h10v10H14z"),  # an image and a kernel
    10: ("M15 12h18v16H15zM4 20h11m18 0h11", "M30 12C40-4 8-4 18 12m-6-4l6 4 3-6"),  # a loop
    11: ("M14 31V1m-4 5l4-5 4 5", "M14 27h20v-6M34 11V5H14m14 6h12v10H28z"),  # a stream and its branch
    12: ("M6 6h36v20H6zM15 6v20M24 6v20M33 6v20M6 16h36", "M6 6h18v10H6z"),  # a part of the features
    13: ("M8 28a17 17 0 1 1 32 0", "M24 26l9-13"),  # a speed
    14: ("M16 2h16v28H16z", "M3 17h11l4-8 7 15 4-7h16"),  # a pulse
    15: ("M13 2h14l8 8v20H13zM27 2v8h8", "M18 20l5 5 8-11"),  # a file of the right type
}
PAGE = ("M13 2h22v28H13z", "M18 10h12m-12 6h12m-12 6h7")  # of a lesson that has none


def icon(number):
    """Return the icon of a lesson as SVG, a written page if none is drawn for it."""
    paths = "".join(f'<path d="{path}"/>' for path in DRAWN.get(number, PAGE))
    return f'<svg viewBox="-1 -1 50 34" width="72" height="49" aria-hidden="true">{paths}</svg>'


def tiles(filled, total):
    """Return squares as SVG, two in a column, some of them filled: so many of so many."""
    squares = [f"M{10 * (i // 2)} {10 * (i % 2)}h8v8h-8z" for i in range(total)]
    paths = f'<path d="{"".join(squares)}"/><path d="{"".join(squares[:filled])}"/>'
    return f'<svg viewBox="-1 -1 {5 * total} 20" aria-hidden="true">{paths}</svg>'

"""Recurrent cells as wiring diagrams: where each product, normalization layer, gate and sum lies."""

from matplotlib.patches import Circle

from lessonkit.plot._diagrams import LINE, arrow, box, colour
from lessonkit.plot._style import COLORS, WIDE, ink, publish

_BOX = {"fontsize": 16, "fontweight": "bold"}
_WORD = {"fontsize": 17, "style": "italic"}
_NAME = {"fontsize": 12.5, "color": ink(COLORS["LayerNorm"])}
_WIDTHS, _HIGH, _RADIUS = {"LN": 50, "tanh": 66, "sigmoid": 92}, 32, 13  # points; other boxes are 64 wide
_AREA = (600, 300)

# Places in points, from the lower left corner. products: (y, text, the name in the code of the norm behind it). boxes:
# (x, y, text), for a norm also the name it has in the code, and True if that is to be written below it. wires: the
# corners of each, with an arrow at its end. dots: where one forks.
_CELLS = {
    "GRU": {
        "products": [
            (190, "W x", "gates_ih"), (130, "U h", "gates_hh"), (72, "U h", "new_hh"), (14, "W x", "new_ih"),
        ],
        "boxes": [(298, 160, "sigmoid"), (490, 72, "tanh")],
        "circles": [(205, 160, "+"), (375, 72, "×"), (425, 72, "+"), (455, 260, "×"), (556, 160, "×"), (556, 260, "+")],
        "wires": [
            [(155, 190), (205, 190), (205, 173)], [(155, 130), (205, 130), (205, 147)], [(218, 160), (252, 160)],
            [(344, 160), (543, 160)], [(375, 160), (375, 85)], [(455, 160), (455, 247)], [(155, 72), (362, 72)],
            [(388, 72), (412, 72)], [(155, 14), (425, 14), (425, 59)], [(438, 72), (457, 72)],
            [(523, 72), (556, 72), (556, 147)], [(556, 173), (556, 247)], [(24, 260), (442, 260)],
            [(468, 260), (543, 260)], [(569, 260), (586, 260)],
        ],
        "dots": [(375, 160), (455, 160)],
        "words": [
            (14, 260, "h"), (595, 260, "h′"), (362, 118, "r"), (443, 205, "z"), (508, 174, "1 − z"), (568, 108, "n"),
        ],
    },
    "LSTM": {
        "products": [(152, "W x", "norm_ih"), (68, "U h", "norm_hh")],
        "boxes": [
            (316, 200, "sigmoid"), (316, 146, "sigmoid"), (316, 78, "tanh"), (316, 14, "sigmoid"),
            (540, 178, "LN", "norm_c", True), (540, 96, "tanh"),
        ],
        "circles": [(205, 110, "+"), (408, 260, "×"), (440, 112, "×"), (484, 260, "+"), (540, 14, "×")],
        "wires": [
            [(155, 152), (205, 152), (205, 123)],
            [(155, 68), (205, 68), (205, 97)], [(218, 110), (242, 110), (242, 200), (270, 200)],
            [(242, 146), (270, 146)], [(242, 110), (242, 78), (283, 78)], [(242, 78), (242, 14), (270, 14)],
            [(362, 200), (440, 200), (440, 125)], [(362, 146), (408, 146), (408, 247)],
            [(349, 78), (440, 78), (440, 99)], [(453, 112), (484, 112), (484, 247)], [(24, 260), (395, 260)],
            [(421, 260), (471, 260)], [(497, 260), (586, 260)], [(540, 260), (540, 194)], [(540, 162), (540, 112)],
            [(540, 80), (540, 27)], [(362, 14), (527, 14)], [(553, 14), (586, 14)],
        ],
        "dots": [(242, 110), (242, 146), (242, 78), (540, 260)],
        "words": [
            (14, 260, "c"), (595, 260, "c′"), (595, 14, "h′"), (384, 213, "i"), (384, 159, "f"), (384, 91, "g"),
            (384, 27, "o"),
        ],
    },
}  # fmt: skip


def cell(kind, /, **words):
    """Draw a recurrent cell with LayerNorm, "GRU" or "LSTM": from its products W x and U h to its new state.

    The names at the normalization layers are those of LayerNormGRUCell and LayerNormLSTMCell in lesson 10.
    """
    parts = _CELLS[kind]

    def build(fig):
        ax = fig.add_subplot()
        products = [[(42, y, text), (130, y, "LN", norm)] for y, text, norm in parts["products"]]
        for wire in [*parts["wires"], *([(74, y), (105, y)] for y, *_ in parts["products"])]:
            x, y = zip(*wire, strict=True)
            ax.plot(x, y, color=LINE, lw=2.6, solid_joinstyle="round", solid_capstyle="butt", zorder=1)
            arrow(ax, wire[-1], wire[-2], lw=2.6, head=(0.45, 0.26))
        for place in parts["dots"]:
            ax.add_patch(Circle(place, 4.5, color=LINE, zorder=2))
        for x, y, sign in parts["circles"]:
            ax.add_patch(Circle((x, y), _RADIUS, facecolor="white", edgecolor=LINE, lw=2, zorder=3))
            ax.text(x, y, sign, ha="center", va="center_baseline", zorder=4, fontsize=18, fontweight="bold")
        for place in sum(products, parts["boxes"]):
            _named_box(ax, *place)
        for x, y, text in parts["words"]:
            ax.text(x, y, text, ha="center", va="center", **_WORD)
        ax.set_axis_off()
        ax.set(xlim=(-4, _AREA[0] + 6), ylim=(-16, _AREA[1] - 16), aspect="equal")

    return publish(build, size=(WIDE, WIDE * _AREA[1] / _AREA[0]), **words)


def _named_box(ax, x, y, text, name="", below=False):
    box(ax, x, y, _WIDTHS.get(text, 64), _HIGH, text, colour(text), **_BOX)
    if below:
        ax.text(x + 7, y - _HIGH / 2 - 3, name, ha="left", va="top", **_NAME)
    else:
        ax.text(x, y + _HIGH / 2 + 2, name, ha="center", va="bottom", **_NAME)

"""What the start page draws: a lesson's icon, which stands in its room, and tiles."""

from teaching import material

# Of a lesson that has none: a written page. Paths of 48 x 32 in ink, in blue, and in orange, BatchNorm's color.
PAGE = (
    '<svg viewBox="-1 -1 50 34" width="72" height="49" aria-hidden="true">'
    '<path d="M13 2h22v28H13z"/><path d="M18 10h12m-12 6h12m-12 6h7"/></svg>'
)


def icon(stem):
    """Return the icon of a lesson, icon.svg in its room, as SVG for a page: one idea in lines, what is new in blue."""
    drawn = material.ROOT / "lessons_src/lessons" / stem / "icon.svg"
    return drawn.read_text(encoding="utf-8") if drawn.exists() else PAGE


def tiles(filled, total):
    """Return squares as SVG, two in a column, some of them filled: so many of so many."""
    squares = [f"M{10 * (i // 2)} {10 * (i % 2)}h8v8h-8z" for i in range(total)]
    paths = f'<path d="{"".join(squares)}"/><path d="{"".join(squares[:filled])}"/>'
    return f'<svg viewBox="-1 -1 {5 * total} 20" aria-hidden="true">{paths}</svg>'

"""The numbers behind a picture as a table."""

import csv
import io
import math

MOST = 200  # rows of a table, about


def table(header, groups):
    """Return (the table as CSV with that header, how many rows it would have if none were left out).

    header: names of the columns, with units. groups: {what all rows of a group begin with, a tuple: its other cells,
    row by row}; a short row ends with empty cells. Numbers have three significant digits, whole ones all of theirs.
    From long groups evenly spaced rows are taken, with the first and the last one.
    """
    share = max(2, MOST // max(1, len(groups)))
    file = io.StringIO()
    write = csv.writer(file, lineterminator="\n").writerow
    write(header)
    for first, rows in groups.items():
        steps = min(share, len(rows))
        for k in range(steps):
            row = [*first, *rows[round(k * (len(rows) - 1) / max(1, steps - 1))]]
            write([_text(cell) for cell in row] + [""] * (len(header) - len(row)))
    return file.getvalue(), sum(map(len, groups.values()))


def _text(cell):
    """A cell as text: 0.00123, 12300, 3e-08; whole numbers such as 1024 in full; no value for nan."""
    if isinstance(cell, str):
        return cell
    cell = float(cell)
    if math.isnan(cell):
        return ""
    value = cell if cell.is_integer() else float(f"{cell:.3g}")
    return f"{value:.0f}" if abs(value) < 1e6 and value.is_integer() else f"{value:.3g}"

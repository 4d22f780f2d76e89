"""Move the widgets of a cell through all their positions and keep what each shows. Runs in the lesson's own kernel."""

import hashlib
import html
import io
import itertools
import json
import re

import ipywidgets as widgets
from PIL import Image

from lessonkit import plot

MOST = 80  # positions of one cell; sliders of more are moved in wider steps
SCALE = 1.5  # pixels of a picture for each pixel of the page
RANGES = (widgets.FloatSlider, widgets.IntSlider, widgets.FloatLogSlider, widgets.SelectionSlider)
SHOWN = (widgets.Image, widgets.HTML, widgets.Label)
KINDS = {widgets.Dropdown: "choice", widgets.ToggleButtons: "buttons", widgets.SelectMultiple: "several"}


def sweep(box, folder):
    """Write the pictures of all positions of a VBox of widgets, and positions.json, to a folder.

    The children are controls first and then what they move: Image, HTML, Label. Where one control offers what another
    one allows, the other one comes first. Every value is stored as the text that a reader sees.
    Raises ValueError for a widget that is not known here, and for a picture that lessonkit.plot did not draw.
    """
    controls = [child for child in box.children if not isinstance(child, SHOWN)]
    for control in controls:
        if not isinstance(control, (*RANGES, *KINDS)):
            raise ValueError(f"{type(control).__name__} is not known here. Add it to teaching/site/sweep.py.")
    drawn = {}  # png: its Picture
    init = plot.Picture.__init__

    def remember(self, png, *rest):
        init(self, png, *rest)
        drawn[bytes(png)] = self

    plot.Picture.__init__ = remember  # a widget keeps the bytes only, and not what they show
    try:
        start = [_said(control) for control in controls]
        every = _steps(controls)
        for control in controls:  # there and back: what is shown at the first position is drawn anew, and remembered
            places = _places(control)
            _set(control, places[-1])
            _set(control, places[0])
        rows = []
        for _ in _positions(controls, every):
            key = [_said(control) for control in controls]
            names = [f"{control.description.strip(': ')} {value}" for control, value in zip(controls, key, strict=True)]
            shown = [
                _shown(child, drawn, ", ".join(names), folder) for child in box.children if isinstance(child, SHOWN)
            ]
            rows.append({"key": key, "show": shown})
    finally:
        plot.Picture.__init__ = init
    described = [
        {
            "kind": "range" if isinstance(control, RANGES) else KINDS[type(control)],
            "label": _label(control),
            "start": value,
        }
        for control, value in zip(controls, start, strict=True)
    ]
    text = json.dumps({"controls": described, "rows": rows}, ensure_ascii=False)
    (folder / "positions.json").write_text(text, encoding="utf-8")


def _places(control):
    """Return how to set each value of a control, in order: indices of options, or numbers."""
    if isinstance(control, widgets.SelectMultiple):
        every = range(len(control.options))
        return [chosen for n in range(len(control.options) + 1) for chosen in itertools.combinations(every, n)]
    if hasattr(control, "index"):
        return list(range(len(control.options)))
    count = round((control.max - control.min) / control.step)
    exponents = [control.min + k * control.step for k in range(count + 1)]
    return [control.base**e for e in exponents] if isinstance(control, widgets.FloatLogSlider) else exponents


def _now(control):
    return control.index if hasattr(control, "index") else control.value


def _set(control, place):
    setattr(control, "index" if hasattr(control, "index") else "value", place)


def _steps(controls):
    """Return which places of each slider are taken, {position in controls: places}: all, or evenly fewer."""
    taken = {at: _places(control) for at, control in enumerate(controls) if isinstance(control, RANGES)}
    counts = [len(taken.get(at, [1])) for at in range(len(controls))]
    steps = dict.fromkeys(taken, 1)
    while _product(-(-count // steps.get(at, 1)) for at, count in enumerate(counts)) > MOST:
        widest = max(steps, key=lambda at: counts[at] / steps[at])
        steps[widest] += 1
    for at, places in taken.items():
        now = _now(controls[at])
        nearest = min(range(len(places)), key=lambda k: abs(places[k] - now))
        places[nearest] = now
        taken[at] = places[nearest % steps[at] :: steps[at]]
    return taken


def _product(counts):
    whole = 1
    for count in counts:
        whole *= count
    return whole


def _positions(controls, every, at=0):
    """Set the controls to each combination in turn. A control may change what later ones offer."""
    if at == len(controls):
        yield
        return
    for place in every.get(at) or _places(controls[at]):
        _set(controls[at], place)
        yield from _positions(controls, every, at + 1)


def _label(control):
    return control.description.strip(": ")


def _said(control):
    """Return the value of a control as the widget writes it."""
    if isinstance(control, widgets.SelectMultiple):
        return ", ".join(control.label) or "nothing"
    if hasattr(control, "label"):
        return str(control.label)
    return re.sub(r"e([+-])0*(?=\d)", r"e\1", format(control.value, control.readout_format or ".2f"))


def _shown(child, drawn, position, folder):
    """Return what a widget shows now; a picture is written to the folder."""
    if isinstance(child, widgets.HTML):
        return {"html": child.value}
    if isinstance(child, widgets.Label):
        return {"text": child.value}
    picture = drawn.get(bytes(child.value))
    if picture is None:
        raise ValueError(f"At {position} the widget shows a picture that plot did not draw. Use plot, with show=False.")
    name = f"{hashlib.sha256(child.value).hexdigest()[:12]}.webp"
    image = Image.open(io.BytesIO(child.value)).convert("RGB")
    width = int(child.width)
    height = round(width * image.height / image.width)
    if not (folder / name).exists():
        image.resize((round(SCALE * width), round(SCALE * height)), Image.Resampling.LANCZOS).save(
            folder / name, quality=70, method=4
        )
    said = picture.alt if len(picture.alt) > 20 else "The figure is drawn anew for each position."
    alt = html.unescape(f"At {position}: {said}")
    return {
        "picture": name,
        "alt": alt,
        "width": width,
        "height": height,
        "numbers": picture.numbers,
        "rows": picture.rows,
    }

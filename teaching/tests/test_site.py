"""The web site: what its pages say, where its links lead, what they do in a browser, and for readers of all kinds."""

import ast
import csv
import filecmp
import html
import io
import json
import re
import shutil
import struct
import time
import tomllib
from html.parser import HTMLParser

import nbformat
import pytest
import yaml

from lessonkit.course import Code, Exercise, Question, Text
from teaching import material
from teaching.site import colab, explorables, figures, landing, links, pages, stage
from teaching.site.__main__ import build
from teaching.site.markdown import box, code, fold, prose
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed, toy_lesson

ROOT = material.ROOT
CHARTS = {"lines", "panels", "bars", "hist", "heat", "images", "cubes"}  # of lessonkit.plot; not diagrams


@pytest.fixture(scope="module")
def lessons():
    return [material.read(stem) for stem in [*material.alone(), *material.stems()]]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, a folder, and the seconds of processor time that it took."""
    work = tmp_path_factory.mktemp("site")
    start = time.process_time()
    assert build(work / "site", work / "work", repository="owner/name") == []  # no warning, no broken link
    return work / "site", time.process_time() - start


class Visible(HTMLParser):
    """The text of a page that is seen before any fold is opened, and the text in folds."""

    def __init__(self, text):
        super().__init__()
        self.depth, self.summary, self.seen, self.folded, self.skip = 0, 0, [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.depth += tag == "details"
        self.summary += tag == "summary"
        self.skip += tag in ("script", "style")
        if tag == "details":
            assert "open" not in dict(attrs), "a fold is open from the start"

    def handle_endtag(self, tag):
        self.depth -= tag == "details"
        self.summary -= tag == "summary"
        self.skip -= tag in ("script", "style")

    def handle_data(self, text):
        if not self.skip:
            (self.folded if self.depth and not self.summary else self.seen).append(text)


def page_of(site, lesson):
    return (site[0] / f"{lesson.stem}.html").read_text(encoding="utf-8")


def test_it_is_small_and_quick(site):
    folder, seconds = site
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < 25e6
    assert seconds < 120


def test_each_lesson_is_a_page_in_its_part(site, lessons):
    start = (site[0] / "index.html").read_text(encoding="utf-8")
    for lesson in lessons:
        assert f'href="{lesson.stem}.html"' in start
        assert f"{lesson.number} · {lesson.name}" in start
    places = [start.index(f"<h3>{part}") for part in landing.PARTS]
    assert places == sorted(places)


def test_every_lesson_has_a_card_with_a_line_and_a_picture_of_its_own(site, lessons):
    cards = re.findall(r'<a class="card".*?</a>', (site[0] / "index.html").read_text(encoding="utf-8"))
    assert [lesson.stem.partition("_")[2] for lesson in lessons] == list(landing.CARDS)
    lines = [landing.line(lesson) for lesson in lessons]
    files = [(site[0] / landing.picture_file(lesson)).read_bytes() for lesson in lessons]
    assert len(set(lines)) == len(set(files)) == len(cards) == len(lessons)
    for lesson, card in zip(lessons, cards, strict=True):
        assert html.escape(landing.line(lesson)) in card and landing.picture_file(lesson) in card


def test_the_start_page_says_how_to_begin_with_and_without_a_repository(lessons, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    alone, shared = (landing.page(lessons, readme, repository) for repository in ("", "owner/name"))
    for text in (alone, shared):
        assert 'href="00_in_one_sitting.html">Begin' in text and 'href="01_why_normalize.html">Begin' in text
        assert "```bash" in text and "\nmake lab\n" in text
        assert "You need Python, tensors" in text and "- write LayerNorm so that" in text
    assert (
        "github" not in alone
        and "colab" not in alone
        and 'href="#How-to-start">Run it' in alone
        and "Slides" not in alone
    )
    assert (
        "git clone https://github.com/owner/name && cd name\n" in shared
        and "/github/owner/name/blob/colab/00_in_one_sitting.ipynb" in shared
    )
    assert 'href="slides/01_why_normalize.html">Slides' in landing.page(lessons, readme, "", tmp_path)
    with pytest.raises(ValueError, match="README.md has no section"):
        landing.page(lessons, "# A course")


def test_every_page_has_a_description_and_a_link_to_it_a_picture(site, lessons):
    for lesson in lessons:
        head = html.unescape(page_of(site, lesson).partition("</head>")[0])
        assert f'<meta name="description" content="{landing.line(lesson)}">' in head
    head = (site[0] / "index.html").read_text(encoding="utf-8")
    assert "from scratch in PyTorch" in re.search(r'<meta name="description" content="([^"]+)">', head)[1]
    picture = re.search(r'"og:image" content="https://owner.github.io/name/([^"]+)"', head)[1]
    width, height = struct.unpack(">II", (site[0] / picture).read_bytes()[16:24])
    assert (width, height) == (1200, 630)
    assert "not set" not in head and 'The authors of "LayerNorm from scratch"' in html.unescape(head)


def test_what_is_for_notebooks_only_stays_off_the_site():
    outputs = [
        "layer_norm: the course's own, from lesson 4.\n3 rows\n",
        "normalize: the course's own, from lesson 3.\n",
    ]
    items = [
        Text("# 6 · Toy"),
        Text("Press Shift+Enter.", ["no-site"]),
        Code("c1", "setting_up()", ["1\n"], False, ["no-site"]),
        Code("c2", "print(3)", outputs, False),
        Code("c3", "print(4)", outputs, True),
    ]
    notebook = pages.page(toy_lesson(*items), "", None)
    text = str(notebook)
    assert "Shift+Enter" not in text and "setting_up" not in text and "course's own" not in text
    assert [cell.outputs[0].text for cell in notebook.cells if cell.source == "print(3)"] == ["3 rows\n"]
    assert code("3 rows\n", "text") in [cell.source for cell in notebook.cells]


def test_no_solution_hint_or_outcome_is_seen_before_its_fold_is_opened(site, lessons):
    for lesson in lessons:
        text = page_of(site, lesson)
        visible = Visible(text)
        seen, folded = squeezed("".join(visible.seen)), squeezed("".join(visible.folded))
        exercises = [item for item in lesson.items if isinstance(item, Exercise)]
        assert text.count("Solution of exercise") == len(exercises) > 2
        own = own_lines(lesson)  # a line that is only in the solution
        for exercise in exercises:
            assert f'id="ex-{exercise.number.replace(".", "-")}"' in text
            assert exercise.checks or "Right." in exercise.outputs[0]  # lesson 0 has its checks in the same cell
            assert all("Right:" in check.text for check in exercise.checks[:1])
            if line := own.get(exercise.number):
                assert line in folded, f"{lesson.stem}, {exercise.number}: the solution is not on the page"
                assert line not in seen, f"{lesson.stem}, {exercise.number}: the solution is seen"
        assert len(own) > len(exercises) / 2


def test_every_prediction_has_its_options_as_folds(site, lessons):
    for lesson in lessons:
        text = page_of(site, lesson)
        questions = [item for item in lesson.items if isinstance(item, Question)]
        boxes = re.findall(r'<div class="[^"]*\b(?:predict|recall) admonition', text)
        assert len(boxes) == len(questions) > 2
        assert len(re.findall(r'<details class="[^"]*\boption\b', text)) == sum(len(q.options) for q in questions)
        assert text.count("<strong>Yes.</strong>") == text.count("fold option right") == len(questions)


def test_what_happens_after_a_prediction_is_folded(lessons):
    items = [
        Text("# 6 · Toy"),
        Question("Predict", "6.1", "what?", [{"text": "a", "reason": "b", "right": True}] * 2),
        Text("A word before it."),
        Code("c1", "print(1)", ["one\n"], False),
        Code("c2", "plot.lines()", [material.Figure(b"png", "In words.", "A caption.", 700)], True),
        Text("So it is.\n\n## Next"),
        Code("c3", "print(2)", ["two\n"], False),
    ]
    notebook = pages.page(toy_lesson(*items), "", lambda png: "figures/toy.png")
    texts = [cell.source for cell in notebook.cells]
    first = next(cell for cell in notebook.cells if cell.source == "print(1)")
    last = next(cell for cell in notebook.cells if cell.source == "print(2)")
    assert not first.outputs and last.outputs[0].text == "two\n"
    outcomes = [text for text in texts if "Show what happens" in text]
    assert len(outcomes) == 2 and "one" in outcomes[0] and "figures/toy.png" in outcomes[1]
    assert [text for text in texts if "So it is." in text] == [fold("Read what it means", "So it is.", "outcome")]
    assert "## Next" in texts


@needs_chromium
def test_an_explorable_of_a_notebook_lives_on_its_page(tmp_path):
    stored = {"image/svg+xml": explorables.still("row"), "text/plain": "explore.row"}
    about = {"image/svg+xml": {"explore": "row", "state": {"x": [1.0, 2.0, 4.0]}}}
    cell = {"outputs": [{"output_type": "display_data", "data": stored, "metadata": about}]}
    [output] = material._outputs(cell)
    assert output == material.Explorable("row", {"x": [1.0, 2.0, 4.0]})
    item = Code("c1", "explore.row([1, 2, 4])", [output], False)
    assert not item.figures and not item.text
    notebook = pages.page(toy_lesson(Text("# 6 · Toy"), item), "", None)
    [place] = [cell.source for cell in notebook.cells if "data-explore" in cell.source]
    assert 'data-explore="row"' in place and "[1.0, 2.0, 4.0]" in html.unescape(place) and "<title>" in place
    explorables.bundle("row", tmp_path)
    (tmp_path / "index.html").write_text(f'<script defer src="explore.js"></script>{place}', encoding="utf-8")
    shutil.copy(ROOT / "teaching/site/sphinx/_static/explore.js", tmp_path)
    with served(tmp_path) as address, chromium() as browser:
        page = browser.new_page()
        page.route("**/_static/explore/*", lambda route: route.fulfill(path=tmp_path / "row.js"))
        page.goto(f"{address}/index.html")
        page.locator(".ln-row [type=range]").first.wait_for(state="attached")
        assert "4.00" in page.locator(".ln-row").inner_text()


def test_cells_that_only_assert_share_one_fold():
    items = [Text("# 6 · Toy"), *[Code(f"c{k}", f"assert {k}", [], True) for k in (1, 2)]]
    notebook = pages.page(toy_lesson(*items), "", None)
    folds = [cell.source for cell in notebook.cells if "Show the code" in cell.source]
    assert len(folds) == 1 and "assert 1" in folds[0] and "assert 2" in folds[0]


def test_every_figure_has_its_description_and_every_chart_its_numbers(site, lessons):
    for lesson in lessons:
        text = page_of(site, lesson)
        drawn = [(item, figure) for item in lesson.items if isinstance(item, Code) for figure in item.figures]
        assert len(re.findall(r'<img[^>]*class="[^"]*\bdrawn\b', text)) == len(drawn)
        for item, figure in drawn:
            assert len(figure.alt) > 20, f"{lesson.stem}, {item.id}"
            if not lesson.number:  # it draws without lessonkit.plot, which has captions and numbers
                continue
            assert figure.caption, f"{lesson.stem}, {item.id}"
            names = {
                node.func.attr
                for node in ast.walk(ast.parse(item.source))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            }
            if names & CHARTS:
                rows = list(csv.reader(io.StringIO(figure.numbers)))
                assert len(rows) > 1 and len({len(row) for row in rows}) == 1, (
                    f"{lesson.stem}, {item.id} has no numbers"
                )
        assert text.count('class="description"') == len(drawn)


def test_a_table_says_how_much_of_it_is_shown():
    table = figures.table('curve,"x, in m"\na,1\na,<2\n', 2)
    assert "(2 rows)" in table and '<th scope="col">x, in m</th>' in table and "<td>&lt;2</td>" in table
    assert "(2 of 500 rows, evenly spaced)" in figures.table("curve,x\na,1\na,2\n", 500)


def test_the_description_says_kind_range_and_where_each_curve_goes():
    assert figures.summary("curve,step,loss\na,0,3\na,5,1.5\nchance,all,2.3\nb,0,\n") == [
        "Curves",
        "step: from 0 to 5",
        "loss: from 1.5 to 3",
        "a: 3 at 0, 1.5 at 5",
    ]
    assert figures.summary("panel,curve,step,loss\nleft,a,0,3\nleft,a,5,1\n")[-1] == "left, a: 3 at 0, 1 at 5"
    assert figures.summary('"from (down), to (across)",c,d\nr,1,2\n')[0] == "Values by row and column"


def test_glossary_and_index_hold_the_terms_of_the_references_table(site):
    glossary = (site[0] / "glossary.html").read_text(encoding="utf-8")
    index = (site[0] / "genindex.html").read_text(encoding="utf-8")
    terms = [name for section in material.read(*material.references()).sections for name in _terms(section)]
    assert len(terms) > 60
    for term in terms:
        assert f"term-{re.sub(r'[^A-Za-z0-9.]+', '-', term).strip('-')}" in glossary.replace("_", "-"), term
        assert term.partition(" ")[0] in index


def _terms(section):
    rows = stage.TERM.findall("\n".join(section.texts)) if section.title == "Glossary" else []
    return [name for names, *_ in rows for name in names.split(", ")]


def test_both_editions_can_be_downloaded(site):
    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks/solutions").glob("*.ipynb")]:
        assert filecmp.cmp(path, site[0] / path.relative_to(ROOT), shallow=False)


def test_one_setting_makes_the_links_to_the_repository_and_to_binder(site, lessons):
    batchnorm = next(lesson for lesson in lessons if lesson.module == "batchnorm")
    text = page_of(site, batchnorm)
    assert "https://mybinder.org/v2/gh/owner/name/HEAD?urlpath=lab/tree/notebooks/06_batchnorm.ipynb" in text
    assert 'href="https://github.com/owner/name/blob/HEAD/notebooks/solutions/06_batchnorm.ipynb"' in text
    assert 'href="https://colab.research.google.com/github/owner/name/blob/colab/06_batchnorm.ipynb"' in text
    without = stage._links(batchnorm, "", None)
    assert "Binder" not in without and "http" not in without


def test_a_copy_for_colab_installs_the_course_once_folds_and_leads_on(site, lessons):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wheel = f'"{project["name"]}[{",".join(project["optional-dependencies"])}] @ git+https://github.com/owner/name"'
    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    copies = {path.name: nbformat.read(path, as_version=4) for path in (site[0] / "colab").iterdir()}
    assert copies.keys() == names >= {f"{lesson.stem}.ipynb" for lesson in lessons}
    for name, notebook in copies.items():
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        installs = [n for n, cell in enumerate(code) if f"%pip install --quiet {wheel}" in cell.source]
        assert installs == [0] * any("lessonkit" in cell.source for cell in code), name
        for cell in code:
            folded = cell.id == "install" or cell.metadata.get("jupyter", {}).get("source_hidden", False)
            assert (cell.metadata.get("cellView") == "form") == cell.source.startswith("#@title ") == folded
        prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        for target in re.findall(r"\]\((\S+?)\)", prose):
            shared = target.removeprefix("https://colab.research.google.com/github/owner/name/blob/colab/")
            file = target.removeprefix("https://github.com/owner/name/blob/HEAD/")
            assert shared in names or (ROOT / file).is_file() or target.startswith(("http", "#")), (name, target)
    for lesson in lessons:
        copy = squeezed("\n".join(cell.source for cell in copies[f"{lesson.stem}.ipynb"].cells))
        assert not [number for number, line in own_lines(lesson).items() if line in copy], lesson.stem


def test_links_finds_what_is_broken(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.html").write_text('<p id="here"><a href="../two.html#there">', encoding="utf-8")
    (tmp_path / "two.html").write_text(
        '<a href="#nowhere"><a href="three.html"><a href="https://example.org/"><img src="https://example.org/x.png">'
        '<a href="a/one.html#here"><link href="//example.org/y.css"><img src="data:image/png;base64,AA==">',
        encoding="utf-8",
    )
    assert links.broken(tmp_path) == [
        "a/one.html links to ../two.html#there, and two.html has no such anchor",
        "two.html links to #nowhere, and two.html has no such anchor",
        "two.html links to three.html, and there is no such file",
        "two.html loads https://example.org/x.png from another server",
        "two.html loads //example.org/y.css from another server",
    ]


def test_prose_links_to_the_sites_own_data():
    assert prose("[bench](../data/bench.csv)") == "[bench](data/bench.csv)"
    fetched = '<a href="notebooks/inventory_a.ipynb" download>form A</a>'
    assert prose("Take [form A](inventory_a.ipynb).") == f"Take {fetched}."
    unnamed = prose("| | |\n|---|---|\n| 1 | |")
    assert unnamed.count("visually-hidden") == 2 and unnamed.endswith("|\n|---|---|\n| 1 | |")


def test_fences_are_longer_than_those_they_hold():
    inner = box("dropdown", "b", code("```\nx\n```"))
    outer = box("admonition", "a", inner)
    assert inner.startswith(":::{dropdown}") and outer.startswith("::::{admonition}") and "````python" in outer


def test_an_older_build_is_named(tmp_path):
    (tmp_path / "notebooks/solutions").mkdir(parents=True)
    shutil.copytree(ROOT / "lessons_src/lessonkit/course", tmp_path / "lessons_src/lessonkit/course")
    built = json.loads((ROOT / "notebooks/solutions/02_statistics.ipynb").read_text(encoding="utf-8"))
    next(cell for cell in built["cells"] if cell["cell_type"] == "code")["id"] = "another"
    (tmp_path / "notebooks/solutions/02_statistics.ipynb").write_text(json.dumps(built), encoding="utf-8")
    with pytest.raises(ValueError, match="02_statistics was built from an older source. Run `make notebooks`"):
        material.read("02_statistics", tmp_path)


def test_the_workflow_publishes_what_make_site_builds():
    flow = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8"))
    steps = flow["jobs"]["build"]["steps"]
    *commands, push = [step["run"] for step in steps if "run" in step]
    assert commands == ["make slides", "make site"]
    assert [step["with"]["path"] for step in steps if "pages" in step.get("uses", "")] == ["build/site"]
    assert steps[-1]["working-directory"] == "build/site/colab" and push.endswith(f" {colab.BRANCH}\n")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{command.removeprefix('make ')}:", makefile, re.MULTILINE) for command in commands)


AXE = "axe.run(document, {resultTypes: ['violations'], ...%s})"
# All folds are opened. Of what is alike many times (a formula's strokes, rows, words of code) a part is enough.
OPENED = """() => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  const alike = ".scrolls tbody tr:nth-child(n + 4), .highlight pre > span:nth-of-type(n + 60)";
  document.querySelectorAll(alike).forEach((repeat) => repeat.remove());
  document.querySelectorAll("mjx-container").forEach((formula) => formula.replaceChildren("x"));
}"""


@needs_chromium
def test_in_a_browser_every_page_is_sound_in_light_in_dark_and_on_a_phone(site):
    """No request to another server, no error, nothing that axe-core finds, nothing that scrolls sideways."""
    axe = (material.PACKAGES / "axe-core/axe.min.js").read_text(encoding="utf-8")
    names = sorted(path.name for path in site[0].glob("*.html"))
    problems = []
    with served(site[0]) as address, chromium() as browser:
        for name in names:
            page = browser.new_page(
                viewport={"width": 390, "height": 844}, color_scheme="light", reduced_motion="reduce"
            )
            faults = listen(page)
            page.goto(f"{address}/{name}")
            page.evaluate("window.MathJax?.startup?.promise")
            for opened in (False, True):
                page.evaluate(
                    "open => document.querySelectorAll('details').forEach(fold => { fold.open = open })", opened
                )
                wide = page.evaluate("document.documentElement.scrollWidth")
                problems += [(name, "is wide on a phone", wide)] * (wide > 390)
            page.set_viewport_size({"width": 1440, "height": 900})
            page.evaluate(OPENED)
            page.evaluate(axe)
            violations = page.evaluate(AXE % "{}")["violations"]
            page.emulate_media(color_scheme="dark")
            page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
            page.wait_for_timeout(300)
            violations += page.evaluate(AXE % "{runOnly: ['color-contrast']}")["violations"]
            problems += [(name, rule["id"], node["html"][:200]) for rule in violations for node in rule["nodes"]]
            problems += [(name, fault) for fault in faults]
            page.close()
    assert not problems


LOADED = """() => {
  const load = (picture) => { picture.loading = "eager"; return picture.decode(); };
  return Promise.all([window.MathJax?.startup?.promise, ...[...document.images].map(load)]);
}"""


@needs_chromium
def test_a_page_loads_little(site):
    """With all its pictures: less than a megabyte for the start page, two and a half for a lesson's."""
    with served(site[0]) as address, chromium() as browser:
        for path in site[0].glob("*.html"):
            page = browser.new_page()
            asked = set()
            page.on("request", lambda request, asked=asked: asked.add(request.url.partition("?")[0]))
            page.goto(f"{address}/{path.name}")
            page.evaluate(LOADED)
            page.wait_for_load_state("networkidle")
            files = [site[0] / url.removeprefix(f"{address}/") for url in asked if url.startswith(address)]
            sizes = {file.name: file.stat().st_size for file in files}
            assert len(files) > 20
            assert sum(sizes.values()) < (1.0e6 if path.name == "index.html" else 2.5e6), (path.name, sizes)
            page.close()


@needs_chromium
def test_search_finds_a_term_and_the_dark_button_works(site):
    with served(site[0]) as address, chromium() as browser:
        page = browser.new_page(color_scheme="light")
        page.goto(f"{address}/search.html?q=Welford")
        page.locator("#search-results li a").first.wait_for()
        assert "03_epsilon.html" in " ".join(
            page.locator("#search-results a").evaluate_all("all => all.map(a => a.href)")
        )
        page.goto(f"{address}/06_batchnorm.html")
        page.locator(".theme-switch-button").first.click()
        page.locator(".theme-change-button[data-mode=dark]").first.click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@needs_chromium
def test_the_start_page_lives_without_a_kernel_and_from_a_disk(site):
    """The sphere answers to a slider and keeps its width; headings are the smaller, the deeper they stand."""
    with served(site[0]) as address, chromium() as browser:
        for start in (f"{address}/index.html", (site[0] / "index.html").as_uri()):
            page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
            faults = [] if start.startswith("file") else listen(page)
            page.goto(start)
            image = page.locator(".explorable tr[data-key=hat] output").first
            before = image.inner_text()
            page.get_by_label("x of feature 1").focus()
            page.keyboard.press("ArrowLeft")
            page.wait_for_function(
                "before => document.querySelector('tr[data-key=hat] output').innerText !== before", arg=before
            )
            wide = page.evaluate("document.querySelector('.explorable').getBoundingClientRect().right")
            buttons = page.locator(".explorable button").evaluate_all(
                "all => all.map(b => b.getBoundingClientRect().right)"
            )
            assert max(buttons) <= wide + 0.5
            assert not faults
            page.close()
        page = browser.new_page()
        page.goto(f"{address}/06_batchnorm.html")
        sizes = [
            page.locator(f"article {heading}").first.evaluate("node => parseFloat(getComputedStyle(node).fontSize)")
            for heading in ("h1", "h2", "h3", "p")
        ]
        assert sizes == sorted(set(sizes), reverse=True)


@needs_chromium
def test_search_shows_words_and_no_tex(site):
    with served(site[0]) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/search.html?q=epsilon")
        page.locator("#search-results li p.context").first.wait_for()
        page.wait_for_timeout(1000)
        results = page.locator("#search-results li").all_inner_texts()
        assert len(results) > 3 and any("ε" in text for text in results)
        assert not any("Light Dark" in " ".join(text.split()) for text in results)  # the theme's buttons
        assert not [text for text in results if re.search(r"\\[A-Za-z(\[{]", text)]
        assert page.evaluate(r"wordsOfTex(String.raw`\(\hat{x} = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}\)`)") == (
            "x\u0302 = (x - μ)/(√(σ^2 + ε))"
        )

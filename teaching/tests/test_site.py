"""The web site: what its pages say, where its links lead, what they do in a browser, and for readers of all kinds."""

import html
import re
import time
import tomllib
from dataclasses import replace

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from PIL import Image

from lessonkit.course import Code, Question, Text
from teaching import material
from teaching.site import colab, figures, landing, links, pages, stage
from teaching.site.__main__ import build
from teaching.site.markdown import code, fold
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed, toy_lesson

ROOT = material.ROOT


@pytest.fixture(scope="module")
def lessons():
    return [material.read(stem) for stem in material.every()]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, a folder."""
    work = tmp_path_factory.mktemp("site")
    start = time.process_time()
    assert build(work / "site", work / "work", repository="owner/name") == []  # no warning, no broken link
    assert time.process_time() - start < 120
    assert sum(path.stat().st_size for path in (work / "site").rglob("*") if path.is_file()) < 25e6
    return work / "site"


def page_of(site, stem):
    return (site / f"{stem}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def toy(*items):
    """Return the cells of the page of a lesson with these items; its pictures lie at figures/toy.png."""
    return pages.page(toy_lesson(Text("# 6 · Toy"), *items), "", lambda png: "figures/toy.png").cells


def test_every_lesson_has_a_card_in_its_part_with_a_line_and_a_picture_of_its_own(site, lessons):
    start = page_of(site, "index")
    cards = re.findall(r'<a class="card" href="(\S+)\.html".*?src="(\S+)".*?<strong>(.*?)</strong><span>(.*?)<', start)
    labels = [html.unescape(" ".join((stem, label))) for stem, _, label, _ in cards]
    assert labels == [f"{lesson.stem} {lesson.label}" for lesson in lessons]
    assert len({line for *_, line in cards}) == len({(site / card[1]).read_bytes() for card in cards}) == len(cards)
    for lesson in lessons:
        about = f'<meta name="description" content="{landing.line(lesson)}">'
        assert about in html.unescape(page_of(site, lesson.stem))


def test_the_start_page_shows_where_it_leads_in_what_a_lesson_printed(site, lessons):
    (leading,) = [lesson for lesson in lessons if landing.leads(lesson)]
    told, *printed = landing.leads(leading)
    start = BeautifulSoup(page_of(site, "index"), "html.parser").get_text()
    assert told.partition("'")[0] in start
    assert len(printed) > 1 and all(line in start for block in printed for line in block.splitlines()[1:-1])
    with pytest.raises(ValueError, match=f"{leading.stem} prints nothing with the words"):
        landing.leads(replace(leading, sections=[]))


def test_one_setting_makes_the_links_to_the_repository_to_binder_and_to_colab(site, lessons, readme, tmp_path):
    alone, shared = (landing.page(lessons, readme, repository) for repository in ("", "owner/name"))
    for text in (alone, shared):
        for words in ('html">Begin: one hour<', 'html">Begin: lesson 1<', "\nmake lab\n", "You need Python, tensors"):
            assert words in text
    assert not re.search("github|colab|Slides", alone) and 'href="#How-to-start">Run it' in alone
    assert "git clone https://github.com/owner/name && cd name\n" in shared
    assert "/github/owner/name/blob/colab/00_in_one_sitting.ipynb" in shared
    assert 'href="slides/01_why_normalize.html">Slides' in landing.page(lessons, readme, "", tmp_path)
    with pytest.raises(ValueError, match="README.md has no section"):
        landing.page(lessons, "# A course")
    text = page_of(site, lessons[6].stem)
    assert "https://mybinder.org/v2/gh/owner/name/HEAD?urlpath=lab/tree/notebooks/06_batchnorm.ipynb" in text
    assert 'href="https://github.com/owner/name/blob/HEAD/notebooks/solutions/06_batchnorm.ipynb"' in text
    assert 'href="https://colab.research.google.com/github/owner/name/blob/colab/06_batchnorm.ipynb"' in text
    assert not re.search("Binder|http", stage._links(lessons[6], "", None))
    head = html.unescape(page_of(site, "index"))
    picture = re.search(r'"og:image" content="https://owner.github.io/name/([^"]+)"', head)[1]
    assert Image.open(site / picture).size == (1200, 630)


def test_what_is_for_notebooks_only_stays_off_the_site_and_cells_that_only_assert_share_one_fold():
    cells = toy(
        Text("Press Shift+Enter.", ["no-site"]),
        Code("c1", "setting_up()", ["1\n"], False, ["no-site"]),
        Code("c2", "print(3)", ["3 rows\n"], False),
        *[Code(f"f{k}", f"assert {k}", [], True) for k in (1, 2)],
        Code("c3", "print(4)", ["3 rows\n"], True),
    )
    assert not re.search("Shift|setting_up", str(cells))
    shown, folded, last = cells[1:]
    assert shown.outputs[0].text == "3 rows\n" and last.source == code("3 rows\n", "text")
    assert re.findall(r"assert \d|print\(4\)", folded.source) == ["assert 1", "assert 2", "print(4)"]


def test_no_solution_hint_or_reason_is_seen_before_its_fold_is_opened(site, lessons):
    for lesson in lessons:
        page, questions = BeautifulSoup(page_of(site, lesson.stem), "html.parser"), lesson.questions
        assert not page.select("details[open]")
        assert len(page.select("details.option")) == sum(len(question.options) for question in questions)
        right = [fold for fold in page.select("details.option.right") if fold.find("strong", string="Yes.")]
        assert len(right) == page.get_text().count("Yes.") == len(questions) > 2
        folded = squeezed("".join(fold.extract().get_text() for fold in page.select("details > :not(summary)")))
        seen = squeezed(page.get_text())
        assert not re.search(r"\w+:thecourse'sown,fromlesson", seen + folded), "this is for a learner's kernel"
        assert seen.count("Solutionofexercise") == len(lesson.exercises) > 2
        own = own_lines(lesson)  # a line that is only in the solution
        for exercise in lesson.exercises:
            assert page.find(id=f"ex-{exercise.number.replace('.', '-')}")
            assert "Right" in (exercise.checks[0].text if exercise.checks else exercise.outputs[0])  # lesson 0: as well
        assert [number for number, line in own.items() if line not in folded or line in seen] == [], lesson.stem
        assert len(own) > len(lesson.exercises) / 2


def test_what_happens_after_a_prediction_is_folded():
    cells = toy(
        Question("Predict", "6.1", "what?", [{"text": "a", "reason": "b", "right": True}] * 2),
        Text("A word before it."),
        Code("c1", "print(1)", ["one\n"], False),
        Code("c2", "plot.lines()", [material.Figure(b"png", "In words.", "A caption.", 700)], True),
        Text("So it is.\n\n## Next"),
        Code("c3", "print(2)", ["two\n"], False),
    )
    first, last = (cell for cell in cells if cell.cell_type == "code")
    assert not first.outputs and last.outputs[0].text == "two\n"
    texts = [cell.source for cell in cells]
    outcomes = [text for text in texts if "Show what happens" in text]
    assert len(outcomes) == 2 and "one" in outcomes[0] and "figures/toy.png" in outcomes[1]
    assert fold("Read what it means", "So it is.", "outcome") in texts and "## Next" in texts


def test_every_figure_has_its_description(site, lessons):
    for lesson in lessons:
        text = page_of(site, lesson.stem)
        drawn = [picture for picture in material.pictures(lesson) if isinstance(picture, material.Figure)]
        assert len(re.findall(r'<img[^>]*class="[^"]*\bdrawn\b', text)) == len(drawn)
        assert text.count('class="description"') == len(drawn) and all(len(picture.alt) > 20 for picture in drawn)
        assert lesson.stem not in material.stems() or all(picture.caption for picture in drawn), lesson.stem


def test_a_table_says_how_much_of_it_is_shown():
    table = figures.table('curve,"x, in m"\na,1\na,<2\n', 2)
    assert "(2 rows)" in table and '<th scope="col">x, in m</th>' in table and "<td>&lt;2</td>" in table
    assert "(2 of 500 rows, evenly spaced)" in figures.table("curve,x\na,1\na,2\n", 500)


def test_glossary_and_index_hold_the_terms_of_the_references_table(site):
    glossary, index = page_of(site, "glossary"), page_of(site, "genindex")
    tables = [part.texts for part in material.read(*material.references()).sections if part.title == "Glossary"]
    terms = [name for names, *_ in stage.TERM.findall("\n".join(*tables)) for name in names.split(", ")]
    assert len(terms) > 60
    for term in terms:
        assert f"term-{re.sub(r'[^A-Za-z0-9.]+', '-', term).strip('-')}" in glossary.replace("_", "-"), term
        assert term.partition(" ")[0] in index


def test_a_copy_for_colab_installs_the_course_once_folds_and_leads_on(site):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wheel = f'"{project["name"]}[{",".join(project["optional-dependencies"])}] @ git+https://github.com/owner/name"'
    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    copies = {path.name: nbformat.read(path, as_version=4) for path in (site / "colab").iterdir()}
    assert copies.keys() == names  # those of solutions/ lack the inventory
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
            path = target.replace("https://colab.research.google.com/github/owner/name/blob/colab", "notebooks")
            path = path.removeprefix("https://github.com/owner/name/blob/HEAD/")
            assert (ROOT / path).is_file() or re.match("#|https?://(?!.*owner/name)", target), (name, target)


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


def test_an_older_build_is_named(tmp_path, monkeypatch):
    name = "notebooks/solutions/02_statistics.ipynb"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text('{"cells": []}', encoding="utf-8")
    monkeypatch.setattr(material, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="02_statistics was built from an older source. Run `make notebooks`"):
        material.read("02_statistics")


def test_the_workflow_publishes_what_make_site_builds():
    flow = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8"))
    *_, published, push = flow["jobs"]["build"]["steps"]
    assert published["with"]["path"] == "build/site"
    assert push["working-directory"] == "build/site/colab" and push["run"].endswith(f" {colab.BRANCH}\n")


AXE = "axe.run(document, {resultTypes: ['violations'], ...%s})"
# All folds are opened. Of what is alike many times (a formula's strokes, rows, words of code) a part is enough.
OPENED = """() => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  const alike = ".scrolls tbody tr:nth-child(n + 4), .highlight pre > span:nth-of-type(n + 60)";
  document.querySelectorAll(alike).forEach((repeat) => repeat.remove());
  document.querySelectorAll("mjx-container").forEach((formula) => formula.replaceChildren("x"));
}"""


LOADED = """async () => {
  const load = (picture) => { picture.loading = "eager"; return picture.decode(); };
  await Promise.all([window.MathJax?.startup?.promise, ...[...document.images].map(load)]);
  return performance.getEntries().reduce((bytes, entry) => bytes + (entry.decodedBodySize ?? 0), 0);
}"""


@needs_chromium
def test_in_a_browser_every_page_is_small_and_sound_in_light_in_dark_and_on_a_phone(site):
    """No request to another server, no error, nothing that axe-core finds, nothing that scrolls sideways.

    With all its pictures the start page has less than a megabyte, a lesson's less than two and a half.
    """
    axe = (material.PACKAGES / "axe-core/axe.min.js").read_text(encoding="utf-8")
    problems = []
    with served(site) as address, chromium() as browser:
        for name in sorted(path.name for path in site.glob("*.html")):
            page = browser.new_page(
                viewport={"width": 390, "height": 844}, color_scheme="light", reduced_motion="reduce"
            )
            faults = listen(page)
            page.goto(f"{address}/{name}")
            size = page.evaluate(LOADED)
            problems += [(name, "has bytes", size)] * (not 2e5 < size < (1.0e6 if name == "index.html" else 2.5e6))
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


@needs_chromium
def test_search_finds_a_term_shows_words_and_no_tex_and_the_dark_button_works(site):
    with served(site) as address, chromium() as browser:
        page = browser.new_page(color_scheme="light")
        page.goto(f"{address}/search.html?q=Welford")
        page.locator("#search-results li a[href*='03_epsilon.html']").first.wait_for()
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
        page.goto(f"{address}/06_batchnorm.html")
        page.locator(".theme-switch-button").first.click()
        page.locator(".theme-change-button[data-mode=dark]").first.click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@needs_chromium
def test_the_start_page_lives_without_a_kernel_and_from_a_disk(site):
    """The sphere answers to a slider and keeps its width, a lesson's explorable begins as its cell says.

    Headings are the smaller, the deeper they stand.
    """
    assert re.search('data-explore="row"[^>]*><svg', page_of(site, "04_affine_and_module"))
    with served(site) as address, chromium() as browser:
        for start in (f"{address}/index.html", (site / "index.html").as_uri()):
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
            right = "all => Math.max(...all.map(b => b.getBoundingClientRect().right))"
            wide, buttons = (page.locator(f".explorable{part}").evaluate_all(right) for part in ("", " button"))
            assert buttons <= wide + 0.5
            assert not faults
            page.close()
        page = browser.new_page()
        page.goto(f"{address}/04_affine_and_module.html")
        row = page.locator(".ln-row")
        row.locator("[type=range]").first.wait_for(state="attached")
        assert "−2.00" in row.inner_text(), "a number of the lesson's own row"
        sizes = [
            page.locator(f"article {heading}").first.evaluate("node => parseFloat(getComputedStyle(node).fontSize)")
            for heading in ("h1", "h2", "h3", "p")
        ]
        assert sizes == sorted(set(sizes), reverse=True)

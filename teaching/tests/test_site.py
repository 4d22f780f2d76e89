"""The web site: what its pages say, where its links lead, what they do in a browser, and for readers of all kinds."""

import re
from posixpath import normpath
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup

from lessonkit.course import Code, Question, Text
from teaching import material
from teaching.material import ROOT, Figure
from teaching.site import landing, pages, stage
from teaching.site.__main__ import build
from teaching.tests.browser import chromium, listen, needs_chromium, own_lines, served, squeezed, toy_lesson

LESSONS = [material.read(stem) for stem in material.every()]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, a folder."""
    work = tmp_path_factory.mktemp("site")
    assert build(work / "site", work / "work", repository="owner/name"), "Sphinx has warned"
    assert sum(path.stat().st_size for path in (work / "site").rglob("*") if path.is_file()) < 25e6
    return work / "site"


@pytest.fixture(scope="module")
def soups(site):
    """{name of a page: the page, as BeautifulSoup}."""
    return {path.name: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in site.glob("*.html")}


def lost(site, soups):
    """Yield (page, target) for each link, picture and anchor that is not there, and each load from another server."""
    ids = {name: {tag.get("id") or tag.get("name") for tag in page.find_all(True)} for name, page in soups.items()}
    for name, page in soups.items():
        for tag in page.select("[href], [src]"):
            target = urlsplit(tag.get("href") or tag.get("src"))
            path, anchor = normpath(unquote(target.path) or name), unquote(target.fragment)
            if target.scheme or target.netloc:
                there = tag.name == "a" or target.scheme == "data" or tag.get("property")
            else:
                there = (site / path).is_file() and (not anchor or path not in ids or anchor in ids[path])
            if not there:
                yield name, target.geturl()


def test_every_link_and_anchor_is_found_and_nothing_is_loaded_from_another_server(site, soups):
    assert list(lost(site, soups)) == []


def test_the_start_page_has_a_card_of_its_own_for_every_lesson(site, soups):
    cards = soups["index.html"].select("a.card")
    labels = [(lesson.stem + ".html", lesson.label) for lesson in LESSONS]
    assert [(card["href"], card.strong.get_text()) for card in cards] == labels
    icons = [(ROOT / "lessons_src/lessons" / lesson.stem / "icon.svg").exists() for lesson in LESSONS]
    assert len({str(card.svg) for card in cards}) == sum(icons) + (not all(icons)), "without an icon: a written page"


def test_without_a_repository_no_link_leads_to_one():
    alone = landing.page(LESSONS) + str(stage._places(LESSONS[-1], "", None))
    assert not re.search("github|colab|binder", alone, re.IGNORECASE) and 'href="#Run-it">Run it' in alone


def test_a_page_leaves_out_what_is_for_a_kernel_and_folds_what_happens_after_a_prediction():
    cells = pages.page(
        toy_lesson(
            Text("# 6 · Toy"),
            Text("Press Shift+Enter.", ["no-site"]),
            Code("c2", "print(3)", ["3 rows\n"]),
            Question("Predict", "6.1", "what?", [{"text": "a", "reason": "b", "right": True}]),
            Text("A word before it."),
            Code("c3", "print(1)", ["one\n"]),
            Code("c4", "draw()", [Figure(b"", "In words.", "A caption.", 700, 'c,"x, in m"\na,<2\n', 5)], True),
            Text("So it is.\n\n## Next"),
            Code("c5", "print(2)", ["two\n"]),
        ),
        "",
        lambda png: "figures/toy.png",
    ).cells
    assert "Shift" not in str(cells)
    code = {cell.source: [out.text for out in cell.outputs] for cell in cells if cell.cell_type == "code"}
    assert code == {"print(3)": ["3 rows\n"], "print(1)": [], "print(2)": ["two\n"]}
    folds = re.findall(r"^:+\{dropdown\} (.+)", "\n".join(cell.source for cell in cells), re.MULTILINE)
    happens, means = "Show what happens", "Read what it means"
    assert folds == ["a. a", happens, "Show the code", happens, "Description and numbers", means]
    table = "".join(cell.source for cell in cells)
    assert "(1 of 5 rows, evenly spaced)" in table and '<th scope="col">x, in m</th>' in table and "&lt;2" in table


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_lesson_s_page_has_all_of_it_and_no_answer_is_seen_before_its_fold_is_opened(site, lesson):
    page = BeautifulSoup((site / f"{lesson.stem}.html").read_text(encoding="utf-8"), "html.parser")
    drawn = [picture for picture in material.pictures(lesson) if isinstance(picture, Figure)]
    assert len(page.select("img.drawn")) == len(page.select(".description")) == len(drawn)
    assert not page.select("details[open]") and len(page.select(".admonition.exercise")) == len(lesson.exercises) > 0
    assert len(page.select("details.option")) == sum(len(question.options) for question in lesson.questions)
    assert page.get_text().count("Yes.") == len(page.select("details.option.right")) == len(lesson.questions) > 0
    folded = squeezed("".join(fold.extract().get_text() for fold in page.select("details > :not(summary)")))
    seen, own = squeezed(page.get_text()), own_lines(lesson)
    assert not re.search(r"\w+:thecourse'sown,fromlesson", seen + folded), "this is for a learner's kernel"
    assert [number for number, line in own.items() if line not in folded or line in seen] == []
    assert len(own) > len(lesson.exercises) / 2


def test_the_glossary_holds_the_terms_of_the_reference_s_table(soups):
    (reference,) = material.references()
    rows = soups[f"{reference}.html"].find(id="Glossary").find_parent("section").table.find_all("tr")[1:]
    terms = soups["glossary.html"].select("dl.glossary dt")
    assert len(terms) == sum(row.td.get_text().count(",") + 1 for row in rows)


def test_a_copy_for_colab_installs_the_course_once_folds_and_leads_on(site):
    copies = {path.name: nbformat.read(path, as_version=4) for path in (site / "colab").iterdir()}
    for name, notebook in copies.items():
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        installs = [n for n, cell in enumerate(code) if "[all] @ git+https://github.com/owner/name" in cell.source]
        assert installs == [0] * any("lessonkit" in cell.source for cell in code), name
        prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        for target in re.findall(r"\]\((\S+?)\)", prose):
            path = target.replace("https://colab.research.google.com/github/owner/name/blob/colab", "notebooks")
            path = path.removeprefix("https://github.com/owner/name/blob/HEAD/")
            assert (ROOT / path).is_file() or re.match("#|https?://(?!.*owner/name)", target), (name, target)


AXE, COLORS = "axe.run(document, {resultTypes: ['violations'], %s})", "runOnly: ['color-contrast']"
# Of what is alike many times (a formula's strokes, rows, words of code) a part is enough, once all folds are opened.
ALIKE = """() => {
  const alike = ".scrolls tbody tr:nth-child(n + 4), .highlight pre > span:nth-of-type(n + 60)";
  document.querySelectorAll(alike).forEach((repeat) => repeat.remove());
  const wide = (formula) => formula.hasAttribute("display") && formula.scrollWidth > formula.clientWidth;
  const formulas = [...document.querySelectorAll("mjx-container")].filter((formula) => !wide(formula));
  formulas.forEach((formula) => formula.replaceChildren("x"));
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
    axe, problems = (material.PACKAGES / "axe-core/axe.min.js").read_text(encoding="utf-8"), []
    phone = {"viewport": {"width": 390, "height": 664}, "color_scheme": "light", "reduced_motion": "reduce"}
    with served(site) as address, chromium() as browser:
        for name in sorted(path.name for path in site.glob("*.html")):
            page = browser.new_page(**phone)
            faults = listen(page)
            page.goto(f"{address}/{name}")
            size = page.evaluate(LOADED)
            if not 2e5 < size < (1.0e6 if name == "index.html" else 2.5e6):
                faults.append(f"has {size} bytes")
            page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
            page.wait_for_timeout(300)  # what is too wide has been found
            page.evaluate(ALIKE)
            if page.evaluate("document.documentElement.scrollWidth") > 390:
                faults.append("is wide on a phone")
            page.evaluate(axe)
            violations = []
            for width, scheme, rules in (
                (390, "light", ""),
                (390, "dark", COLORS),
                (1440, "dark", COLORS),
                (1440, "light", ""),
            ):
                page.set_viewport_size({"width": width, "height": 664})
                page.emulate_media(color_scheme=scheme)
                page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
                page.wait_for_timeout(300)
                violations += page.evaluate(AXE % rules)["violations"]
            faults += [f"{rule['id']}: {node['html'][:200]}" for rule in violations for node in rule["nodes"]]
            problems += [(name, fault) for fault in faults]
            page.close()
    assert not problems


@needs_chromium
def test_a_key_on_an_option_answers_and_opens_what_happens_and_paper_shows_all_folds_but_code(site):
    with served(site) as address, chromium() as browser:
        page = browser.new_page()
        faults = listen(page)
        page.goto(f"{address}/09_cnn.html")
        box, outcome = page.locator("#predict-9-1"), page.locator("details.after-predict-9-1")
        box.locator("summary").nth(1).press("Enter")
        page.locator("details.after-predict-9-1[open]").first.wait_for()
        box.locator("summary").nth(0).click()  # reads another reason
        assert box.get_by_role("status").inner_text() == "Your answer is b." and outcome.count() > 1
        assert page.locator("details[open]").count() == outcome.count() + 2 and not faults
        page.emulate_media(media="print")
        seen = "folds => folds.filter((fold) => fold.lastElementChild.checkVisibility()).length"
        for kind, shown in (".solution", True), (".option", True), (".code", False), (".numbers", False):
            folds = page.locator(f"details.fold{kind}")
            assert folds.evaluate_all(seen) == (folds.count() if shown else 0) and folds.count()


@needs_chromium
def test_explorables_live_without_a_kernel_also_from_a_disk_and_search_shows_words_and_no_tex(site):
    with served(site) as address, chromium() as browser:
        page = browser.new_page()
        for start in (f"{address}/index.html", (site / "index.html").as_uri()):
            page.goto(start)
            image = page.locator(".explorable tr[data-key=hat] output").first
            before = image.inner_text()
            page.get_by_label("x of feature 1").focus()
            page.keyboard.press("ArrowLeft")
            changed = "before => document.querySelector('tr[data-key=hat] output').innerText !== before"
            page.wait_for_function(changed, arg=before)
        page.goto(f"{address}/04_affine_and_module.html")
        row = page.locator(".ln-row")
        row.locator("[type=range]").first.wait_for(state="attached")
        assert "−2.00" in row.inner_text(), "it does not begin with the lesson's own row"
        page.goto(f"{address}/search.html?q=epsilon")
        page.locator("#search-results li p.context").first.wait_for()
        page.wait_for_timeout(1000)
        results = page.locator("#search-results li").all_inner_texts()
        assert len(results) > 3
        assert not re.search(r"\\[A-Za-z(\[{]|Light\s+Dark", " ".join(results)), "TeX, or the theme's buttons"

"""Explorables in a browser, on a page without a kernel: as the site hosts them, for hands, keys and screen readers."""

import shutil
from pathlib import Path

import pytest

from teaching.site import explorables
from teaching.tests.browser import chromium, listen, needs_chromium, served

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where the explorables are served, each at its name."""
    folder = tmp_path_factory.mktemp("explore")
    for module in explorables.MODULES.glob("*.mjs"):
        shutil.copy(module, folder)
    shutil.copy(Path(__file__).with_name("explore.html"), folder)
    with served(folder) as root:
        yield f"{root}/explore.html?name="


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def opened(address, browser):
    """Open an explorable: opened(name, options of a page) is the page. What it should not do fails the test."""
    pages = []

    def open_page(name, **options):
        page = browser.new_page(**({"viewport": {"width": 1000, "height": 900}, "reduced_motion": "reduce"} | options))
        pages.append((page, listen(page)))
        page.set_default_timeout(20_000)
        page.goto(address + name)
        page.wait_for_function("!!window.remove")
        page.wait_for_timeout(150)
        return page

    yield open_page
    for page, faults in pages:
        page.close()
        assert not faults


def drag(page, selector, right, down):
    """Take what the selector finds at a point near its corner, and move the mouse."""
    box = page.locator(selector).first.bounding_box()
    x, y = box["x"] + 22, box["y"] + 22
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right, y + down, steps=4)
    page.mouse.up()


# Every control that Tab should reach gets a number; of a group of radios that is the checked one, or the first.
NUMBERED = """() => {
  const all = [...document.querySelectorAll("#here :is(button, input, [tabindex='0']):not([tabindex='-1'])")];
  const first = (node, other) => other.name === node.name && (other.checked || all.indexOf(other) < all.indexOf(node));
  const stop = (node) => node.type !== "radio" || node.checked || !all.some((other) => first(node, other));
  const stops = all.filter((node) => !node.disabled && node.checkVisibility() && stop(node));
  stops.forEach((node, i) => { node.dataset.stop = i; });
  return stops.length }"""


@pytest.mark.parametrize("name", explorables.NAMES)
def test_keys_and_clicks_reach_every_control_words_say_what_is_shown_and_nothing_stays_behind(name, opened):
    page = opened(name)
    stops = page.evaluate(NUMBERED)
    assert 2 < stops <= 8
    reached = []
    for _ in range(stops):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.dataset.stop"))
    assert reached == [str(i) for i in range(stops)]
    page.evaluate("heard_keys.length = 0")
    for keys in ("b", "Control+m"):
        page.keyboard.press(keys)
    assert page.evaluate("heard_keys.join()") == "Control,m", "a letter stays inside, a shortcut does not"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
    for button in page.locator("#here [data-act]:enabled:visible").all():
        page.evaluate("model.saved = 0")
        button.click()
        page.wait_for_function("model.saved > 0")
    for slider in page.locator("#here [type=range]:enabled:visible").all():
        before = slider.input_value()
        page.evaluate("model.saved = 0")
        slider.press("ArrowLeft" if before == slider.get_attribute("max") else "ArrowRight")
        page.wait_for_function("model.saved > 0")
        assert slider.input_value() != before
    page.wait_for_function("document.querySelector('[role=status]').innerText.length > 20")  # once the hand rests
    status = page.locator("[role=status]").first.inner_text()
    assert "NaN" not in status and "undefined" not in status
    # What it learns at first is drawn as it comes, and what was set going ends: then it asks for no more frames.
    page.wait_for_function("[window.asked, window.asked = frames_asked][0] === frames_asked", polling=400)
    page.evaluate("remove()")
    assert page.evaluate("document.getElementById('here').childElementCount") == 0
    assert page.evaluate("signals.length > 0 && signals.every((signal) => signal?.aborted)")


def test_a_second_explorable_on_the_page_leaves_the_look_of_the_first(opened):
    page = opened("sphere")
    look = "['margin', 'minHeight'].map((key) => getComputedStyle(document.querySelector('.say'))[key]).join()"
    before = page.evaluate(look)
    page.evaluate(
        """async () => {
          const { start, default: { render } } = await import("./row.mjs");
          const el = document.querySelector("main").appendChild(document.createElement("div"));
          render({ model: { ...start }, el });
        }"""
    )
    assert page.evaluate(look) == before != page.evaluate(look.replace("'.say'", "'.ln-row .say'"))


def test_depth_begins_with_the_digit_on_its_way(opened):
    page = opened("depth", reduced_motion="no-preference")
    there = "document.querySelector('.stage').textContent.includes('layer 50')"
    page.wait_for_function(f"!{there}")
    page.wait_for_function(there)


def test_row_is_dragged_by_a_finger_and_the_page_scrolls_elsewhere(opened):
    page = opened("row", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    finger = page.context.new_cdp_session(page)

    def swipe(x, y):
        for kind, moved in (("touchStart", 0), ("touchMove", -20), ("touchMove", -38), ("touchEnd", None)):
            points = [] if moved is None else [{"x": x, "y": y + moved}]
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_timeout(300)
        return page.evaluate("model.get('x')")

    box = page.locator(".grip").first.bounding_box()
    after = swipe(box["x"] + 22, box["y"] + 22)
    assert after[0] > 7
    stage = page.locator(".stage").bounding_box()
    assert swipe(stage["x"] + stage["width"] / 2 + 30, stage["y"] + 180) == after  # below the bars


SAYS = "document.querySelector('.say').textContent.includes"
BLUE = "document.querySelectorAll(`[data-cell][fill='var(--accent)']`).length"
MOVED, TURNED = (f"before.{key} !== String(model.get('{key}'))" for key in ("x", "camera"))
HAT = "document.querySelector('tr[data-key=hat]')?.textContent"
UNSEEN, SEEN = (f"{MOVED} && before.hat {sign} {HAT}" for sign in ("===", "!=="))
STORIES = {  # what a hand does, as methods of a page with their arguments, and the state that each step leads to
    "stream": [
        ([drag, ".slot", 0, 190], "model.get('place') === 'pre'"),
        (["press", "[value=pre]", "ArrowLeft"], "model.get('place') === 'peri'"),
        (["click", "[value=post]"], f"model.get('place') === 'post' && {SAYS}('no better than guessing')"),
        (["fill", "[data-key=blocks]", "8"], f"!{SAYS}('guessing') && {SAYS}('to 0.1')"),
        (["dblclick", "svg"], f"model.get('blocks') === 24 && {SAYS}('guessing')"),
    ],
    "row": [([drag, ".grip", 0, -38], "model.get('x').join() === '9,1,-1,4,1,2'")],  # 190 pixels are 20 units
    "block": [
        (["click", "[data-cell='1,2,3']"], f"model.get('cell').join() === '1,2,3' && {BLUE} === 4"),
        ([drag, "[data-cell='0,0,0']", 0, -30], f"{SAYS}('stands still') && model.get('cell').join() === '1,2,3'"),
        ([drag, "[data-cell='1,2,1']", 0, -30], f"{SAYS}('result moves from')"),
        (["press", ".stage", "Enter"], "model.get('cell').join() === '1,2,1'"),
        (["press", ".stage", "ArrowRight"], f"{SAYS}('becomes') && model.get('cell').join() === '1,2,1'"),
        (["press", ".stage", "+"], f"{SAYS}('A neighbor went from')"),
        (["check", "[value=BatchNorm]"], f"{SAYS}('BatchNorm takes 4 means') && {BLUE} === 6"),
        (["uncheck", "[value=T]"], "document.querySelector('code').textContent.startsWith('x.mean(0, keepdim=True)')"),
    ],
    "backward": [
        ([drag, "[data-bar=x] .grip", 30, 0], MOVED),
        ([drag, "[data-bar=dy] .grip", 0, -19], "model.get('dy')[0] > 0"),
        (["click", ".path:has([value=mean])"], f"{SAYS}('5 of 5') && model.get('paths').length === 2"),
        (["dispatch_event", "[data-path=variance]", "click"], "model.get('paths').join() === 'straight'"),
        (["dblclick", "[data-bar=x]"], "model.get('paths').length === 3 && model.get('dy')[0] === -0.6"),
        (["press", "[data-bar=dy] input", "ArrowDown"], "document.activeElement.dataset.i === '1'"),
    ],
    "depth": [
        (["click", "[data-act=play]"], "model.get('layer') === 50"),
        (["click", ".stage"], "Math.abs(model.get('layer') - 24) <= 2"),
        (["check", "[value=before]"], f"{SAYS}('signal has rms 0.7')"),
        (["dblclick", ".stage"], f"model.get('norm') === 'none' && {SAYS}('less than float16 holds')"),
    ],
    "sphere": [
        (["press", ".grip.x", "ArrowUp"], UNSEEN),
        ([drag, ".grip.x", 40, 90], UNSEEN),
        ([drag, ".grip.x", -220, 0], f"{SEEN} && {SAYS}('changed sides')"),
        (["press", ".grip.hat", "ArrowRight"], SEEN),
        ([drag, ".grip.hat", 60, 20], SEEN),
        (["press", "[data-key=gain][data-i='0']", "ArrowDown"], "document.activeElement.dataset.i === '1'"),
        (["press", ".stage", "ArrowRight"], TURNED),
        ([drag, ".stage", 30, 10], TURNED),
        (["dblclick", ".stage"], "model.get('x').join() === '1.9,0.5,1.5'"),
    ],
}


@pytest.mark.parametrize("name", STORIES)
def test_a_hand_does_what_a_lesson_asks_for(name, opened):
    page = opened(name)
    for (act, *arguments), leads_to in STORIES[name]:
        page.evaluate(
            f"window.before = {{ x: String(model.get('x')), camera: String(model.get('camera')), hat: {HAT} }}"
        )
        act(page, *arguments) if callable(act) else getattr(page, act)(*arguments)
        page.wait_for_function(leads_to)


def test_sphere_plays_itself_until_it_is_touched(opened):
    page = opened("sphere", reduced_motion="no-preference")
    before = page.evaluate(HAT)
    page.wait_for_function(f"{SAYS}('Shift')")
    page.press(".grip.hat", "Shift")
    touched, shown = page.evaluate("model.get('x')"), page.evaluate(HAT)
    page.wait_for_timeout(300)
    assert page.evaluate("model.get('x')") == touched != [1.9, 0.5, 1.5] and shown == before

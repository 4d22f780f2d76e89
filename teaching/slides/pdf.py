"""Print pages as PDF with a Chromium; of a deck a page a slide, without notes."""

import contextlib
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync".split()
)


def browser_path():
    """Return the path of a Chromium, None if there is none on the PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def chromium():
    """Yield a headless Chromium. Raises FileNotFoundError where none is on the PATH."""
    program = browser_path()
    if program is None:
        raise FileNotFoundError(
            f"A PDF needs Chromium or Chrome, and none of {', '.join(NAMES)} is on the PATH. Install one, or open the "
            "HTML in your browser, a deck with ?print-pdf at the end of its address, and print it."
        )
    from playwright.sync_api import sync_playwright  # is in .venv-teaching only, and plans are checked in .venv

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def show(page, address):
    """Open a deck or a sheet, and wait until it says that it is ready."""
    page.goto(address)
    page.wait_for_function("document.body.dataset.ready === 'yes'", timeout=180_000)


def print_pages(pages):
    """Write NAME.pdf beside each NAME.html of a list; return the paths."""
    written = [path.with_suffix(".pdf") for path in pages]
    with chromium() as browser:
        for path, pdf in zip(pages, written, strict=True):
            page = browser.new_page()
            show(page, f"{path.resolve().as_uri()}?print-pdf")
            page.pdf(path=pdf, prefer_css_page_size=True, print_background=True)
            page.close()
    return written

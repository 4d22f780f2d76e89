"""Print pages as PDF with a Chromium; of a deck a page a slide, without notes."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync".split()
)


def browser_path():
    """Return the path of a Chromium, None if there is none on the PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def print_pages(pages):
    """Write NAME.pdf beside each NAME.html of a list, once the page says that it is ready; return the paths.

    Raises FileNotFoundError where no Chromium is on the PATH.
    """
    chromium = browser_path()
    if chromium is None:
        raise FileNotFoundError(
            f"A PDF needs Chromium or Chrome, and none of {', '.join(NAMES)} is on the PATH. Install one, or open the "
            "HTML in your browser, a deck with ?print-pdf at the end of its address, and print it."
        )
    from playwright.sync_api import sync_playwright  # is in .venv-teaching only, and plans are checked in .venv

    written = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for path in pages:
            page = browser.new_page()
            page.goto(f"{path.resolve().as_uri()}?print-pdf")
            page.wait_for_function("document.body.dataset.ready === 'yes'", timeout=120_000)
            written.append(path.with_suffix(".pdf"))
            page.pdf(path=written[-1], prefer_css_page_size=True, print_background=True)
            page.close()
        browser.close()
    return written

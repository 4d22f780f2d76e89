"""Build the web site from the notebooks: build/site. No kernel runs.

make site                              (make site REPOSITORY=owner/name: with links to it, Binder and Colab)
"""

import os
import re
import shutil
import sys

from sphinx.cmd.build import build_main

from teaching.material import ROOT
from teaching.site.stage import stage


def build(out, work, repository="", slides=None):
    """Write the site to a folder, with another one to work in. Returns False where Sphinx has warned."""
    stage(work / "source", repository, slides)
    shutil.rmtree(out, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(work / "doctrees")]
    if build_main([*options, str(work / "source"), str(out)]):
        return False
    _without_icons(out)
    return True


def _without_icons(out):
    """Take out the icons that no page shows: a script, whose work the theme's fonts do, and their names in CSS."""
    (out / "_static/scripts/fontawesome.js").write_text("")
    shown = set(re.findall(r"fa-[\w-]+", "".join(path.read_text(encoding="utf-8") for path in out.glob("*.html"))))
    style = out / "_static/styles/pydata-sphinx-theme.css"
    named = re.compile(r'(?:\.(fa-[\w-]+),?)+\{--fa:"[^"]*"\}')
    style.write_text(named.sub(lambda rule: rule[0] if rule[1] in shown else "", style.read_text(encoding="utf-8")))


def main():
    repository = os.environ.get("REPOSITORY") or os.environ.get("GITHUB_REPOSITORY") or ""
    out, slides = ROOT / "build/site", ROOT / "build/slides"
    if not build(out, ROOT / "build/site-work", repository, slides if slides.exists() else None):
        return 1
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    print(f"{out.relative_to(ROOT)}/index.html: {len(list(out.glob('*.html')))} pages, {size:.0f} MB")
    if not repository:
        print("Without links to a repository, to Binder and to Colab. With them: make site REPOSITORY=owner/name")
    return 0


if __name__ == "__main__":
    sys.exit(main())

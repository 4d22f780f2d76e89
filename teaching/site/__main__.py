"""Build the web site from the notebooks: build/site. No kernel runs.

make site                              (make site REPOSITORY=owner/name: with links to it, Binder and Colab)
"""

import os
import re
import shutil
import sys

from sphinx.cmd.build import build_main

from teaching.material import ROOT
from teaching.site import links
from teaching.site.stage import stage

# An icon of Font Awesome by its name, which the theme's style sheet has for all two thousand.
ICON = re.compile(r'(?:\.fa-[\w-]+,?)+\{--fa:"[^"]*"\}')

# What the themes ship and no page asks for: templates with links to nowhere, maps for who debugs them, catalogues.
LEFTOVERS = ("**/*webpack-macros.html", "**/*.map", "locales/**/*.?o")


def build(out, work, repository="", slides=None):
    """Write the site to a folder, with another one to work in. Returns a line for each thing that is wrong."""
    stage(work / "source", repository, slides)
    shutil.rmtree(out, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(work / "doctrees")]
    if build_main([*options, str(work / "source"), str(out)]):
        return ["Sphinx has warned, see above."]
    _lighten(out)
    for pattern in LEFTOVERS:
        for leftover in out.glob(f"_static/{pattern}"):
            leftover.unlink()
    return links.broken(out)


def _lighten(out):
    """Take the icons out that no page shows: 1.5 MB of script, whose work the theme's fonts do, and their names."""
    (out / "_static/scripts/fontawesome.js").write_text("")
    shown = set(re.findall(r"fa-[\w-]+", "".join(path.read_text(encoding="utf-8") for path in out.glob("*.html"))))
    style = out / "_static/styles/pydata-sphinx-theme.css"
    named = ICON.sub(lambda rule: rule[0] * bool(shown & set(re.findall(r"fa-[\w-]+", rule[0]))), style.read_text())
    style.write_text(named)


def main():
    repository = os.environ.get("REPOSITORY") or os.environ.get("GITHUB_REPOSITORY") or ""
    out, slides = ROOT / "build/site", ROOT / "build/slides"
    wrong = build(out, ROOT / "build/site-work", repository, slides if slides.exists() else None)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    if not wrong:
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
        print(f"{out.relative_to(ROOT)}/index.html: {len(list(out.glob('*.html')))} pages, {size:.0f} MB")
        if not repository:
            print("Without links to a repository, to Binder and to Colab. With them: make site REPOSITORY=owner/name")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

"""Sphinx's configuration of the site. teaching.site copies it to the source and adds what depends on a setting."""

import json
from pathlib import Path

import yaml

from teaching.material import ROOT

about = json.loads(Path("about.json").read_text(encoding="utf-8"))  # written by teaching.site.stage
cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
repository = about["repository"]

project = html_title = cited["title"]
author = ", ".join(person["name"] for person in cited["authors"])
copyright = f"2026, {author}. Code: MIT. Text and figures: CC BY 4.0"
extensions = ["myst_nb", "sphinx_design", "sphinx_copybutton", "sphinx.ext.githubpages"]
exclude_patterns = ["_extra", "README.md"]  # index.md includes a part of the second
nb_execution_mode = "off"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4
myst_heading_slug_func = "teaching.site.markdown.slug"
mathjax_path = "mathjax/startup.js"
mathjax3_config = {  # parts in place of a bundle, without its menu
    "loader": {"load": ["core", "input/tex-base", "[tex]/ams", "output/chtml", "a11y/assistive-mml"]},
    "tex": {"packages": ["base", "ams"]},
    "options": {"enableMenu": False},
}

html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,
    "back_to_top_button": False,  # it would cover what stands below it
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "home_page_in_toc": False,
    "logo": {"text": html_title},
    "navbar_start": [],  # else there is a second search bar
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "footer_content_items": ["copyright.html"],  # names the author, too
}
owner, _, name = repository.partition("/")
html_context = {
    "default_mode": "auto",
    "description": cited["abstract"],
    "descriptions": about["descriptions"],
    "social": f"https://{owner.lower()}.github.io/{name}/" if repository else "",  # a picture needs its full address
}
templates_path = ["_templates"]
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["site.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("theme.js", "predict.js", "search.js")]
html_copy_source = html_show_sourcelink = False
html_scaled_image_link = False
html_domain_indices = False

"""Sphinx's configuration of the site. teaching.site copies it to the source and adds what depends on a setting."""

project = html_title = "LayerNorm from scratch"
extensions = ["myst_nb", "sphinx_design", "sphinx_copybutton", "sphinx.ext.githubpages"]
exclude_patterns = ["_extra"]
nb_execution_mode = "off"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4
myst_heading_slug_func = "teaching.site.anchors.slug"
mathjax_path = "mathjax/tex-svg.js"

html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "home_page_in_toc": False,
    "logo": {"text": html_title},
    "navbar_start": [],  # else there is a second search bar
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
}
html_context = {"default_mode": "auto"}
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["site.css"]
html_js_files = [("twin.js", {"defer": "defer"}), ("theme.js", {"defer": "defer"})]
html_copy_source = html_show_sourcelink = False
html_scaled_image_link = False
html_domain_indices = False

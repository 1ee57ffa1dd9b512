"""Settings of the site: `make docs` builds it, `make docs-test` checks what was built."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
import gallery  # noqa: E402 - it lies in `_ext`

os.environ.setdefault("MPLBACKEND", "agg")

project = "Plica"
author = "The Plica authors"
copyright = "The Plica authors, Apache-2.0"  # noqa: A001 - the name that Sphinx reads
release = version = version_of("plica")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx.ext.githubpages",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
    "links",
    "measured",
    "gallery",
    "inventories",
    "reference",
    "versions",
]
exclude_patterns = ["_build", "_ext", "tests", "gallery/backreferences", "gallery/*.ipynb", "**/.ipynb_checkpoints"]
html_static_path = ["_static"]
default_role = "py:obj"
nitpicky = False
suppress_warnings = ["config.cache", "myst-nb.lexer"]  # cells that were not run have no lexer

# Pages in Markdown

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = os.environ.get("PLICA_DOCS_NOTEBOOKS", "cache")
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The reference

autosummary_generate = False  # `reference` writes the pages
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Shapes", "params_style"), "Values", "Assumes", "Source"]

# The gallery

sphinx_gallery_conf = gallery.settings()
if os.environ.get("PLICA_DOCS_GALLERY") == "off":  # pages without what the programs print and draw
    sphinx_gallery_conf["plot_gallery"] = "False"

# How it looks: no font, script or style of another host

html_theme = "pydata_sphinx_theme"
html_title = "Plica"
html_css_files = ["plica.css"]
html_show_sourcelink = False
html_copy_source = False
html_domain_indices = False
html_use_index = False  # tables of modules and the search list all names
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher", "version-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "navigation_depth": 2,
    "collapse_navigation": True,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "show_prev_next": False,
    "search_as_you_type": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "switcher": {
        "json_url": "_static/switcher.json",
        "version_match": os.environ.get("PLICA_DOCS_VERSION", "latest"),
    },
    "check_switcher": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

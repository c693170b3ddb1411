"""Sphinx: ``sphinx-build -W --keep-going -b html docs docs/_build``. Needs the extra ``docs`` and no network."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "bigsmic"
author = "the bigsmic developers"
release = version = metadata.version("bigsmic")
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "mathml",
]
exclude_patterns = ["_build", "jupyter_execute", "**.ipynb_checkpoints"]
templates_path = ["_templates"]

# pages
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"  # notebooks are stored without output
nb_execution_raise_on_error = True
nb_execution_timeout = 1800
nb_merge_streams = True
nb_output_stderr = "remove"  # the progress of a fit

# formulas become MathML, which browsers render without a script
math_numfig = False
html_math_renderer = "mathml"

# reference
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc's sections have the types, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()

# theme
html_theme = "pydata_sphinx_theme"
html_title = f"bigsmic {release}"
html_static_path = ["_static"]
html_css_files = ["bigsmic.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "changelog": []}
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "auto"}

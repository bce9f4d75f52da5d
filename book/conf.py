"""Sphinx's settings for the book."""

project = "rules-lab"
html_title = "Rules on streams"
extensions = ["myst_nb"]
nb_execution_mode = "off"
nb_merge_streams = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["ref.python", "myst.header", "misc.highlighting_failure"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["widgets-figure.css", "widgets-lab.css", "book.css"]
html_js_files = [("plottext.js", {"defer": "defer"}), ("book.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
python_use_unqualified_type_names = True
add_module_names = False
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
# a summary asks for the page, which a browser refuses when the book is opened from disk
html_show_search_summary = False

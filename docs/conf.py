"""Settings of the documentation site, which `make site` builds without a network."""

import ast
import inspect
import re
from dataclasses import is_dataclass
from pathlib import PurePosixPath

from numpy.typing import ArrayLike
from sphinx.util.typing import stringify_annotation

import rue

project = "rue"
release = version = rue.__version__
html_title = f"rue {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["data", "_build"]
source_suffix = {".md": "markdown"}
highlight_language = "text"

myst_heading_anchors = 4  # links to headings, with the names that code hosts give them

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Letters of fonts that have the lines of boxes, too, so that drawings in text keep their shape.
FIXED = 'SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace'
html_theme_options = {"light_css_variables": {"font-stack--monospace": FIXED}}
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # only what is typed is copied
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
default_role = "code"  # docstrings write `code` as Markdown does

# Files outside docs/ that are pages of the site, too: links to them lead to those pages.
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
COMMENT = re.compile(r"  # (.*)$")


def lead_to_pages(app, docname, source):
    """Replace links to files outside docs/ by links to the pages that include them."""
    up = "../" * len(PurePosixPath(docname).parts)
    for name, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({up}{name}", f"]({up[3:]}{page}")


def list_fields(app, what, name, thing, options, lines):
    """Add the fields of a record to its docstring, with the comments that its source has beside them."""
    if what != "class" or not (is_dataclass(thing) or hasattr(thing, "_fields")):
        return
    source = inspect.getsource(thing)
    lines_of_source = source.splitlines()
    fields = []
    for node in ast.parse(source).body[0].body:
        if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            found = COMMENT.search(lines_of_source[node.lineno - 1])
            fields.append((node.target.id, found[1] if found else ""))
    if any(comment for _, comment in fields):
        lines += ["", *(f":param {name}: {escaped(comment)}" for name, comment in fields), ""]


def shorten_types(app, what, name, thing, options, signature, returns):
    """Write types by their names, not by their definitions, and what is made anew for each record as `...`."""
    long = stringify_annotation(ArrayLike, "smart", short_literals=True)
    names = {long: "ArrayLike", "~numpy.": "", "<factory>": "..."}
    for written, short in names.items():
        signature, returns = (text and text.replace(written, short) for text in (signature, returns))
    return signature, returns


def escaped(text):
    """Return a comment as reStructuredText: only `code` keeps its meaning."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*|_\\])", r"\\\1", part) for part in parts)


def setup(app):
    """Connect the functions above."""
    app.connect("source-read", lead_to_pages)
    app.connect("autodoc-process-docstring", list_fields)
    app.connect("autodoc-process-signature", shorten_types)

"""Turn a template of this folder into a page. Templates escape all that is not `Markup`."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rue.experiments.provenance import versions


def environment() -> Environment:
    """Return where the templates are, and how they are read."""
    options: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "extensions": ["jinja2.ext.do"]}
    return Environment(loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True, **options)


def render(template: str, where: Environment | None = None, **values: Any) -> str:
    """Return a page, from a template of the environment or of a plain one."""
    page = (where or environment()).get_template(template)
    return page.render(version=versions().get("rue", "unknown"), **values)

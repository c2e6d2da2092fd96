"""Turn a template of this folder into a page. Templates escape all that is not `Markup`."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rue.experiments.provenance import versions


def environment(*folders: Path) -> Environment:
    """Return how templates are read: from these folders, and from this one."""
    options: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "extensions": ["jinja2.ext.do"]}
    loader = FileSystemLoader([*folders, Path(__file__).parent])
    return Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, **options)


def render(template: str, where: Environment, **values: Any) -> str:
    """Return a page."""
    return where.get_template(template).render(version=versions().get("rue", "unknown"), **values)

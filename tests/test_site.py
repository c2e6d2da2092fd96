"""The documentation as a site: it builds without warnings, its links lead somewhere, and it needs no network."""

import importlib
import posixpath
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browsing import WIDTHS

import rue

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
KINDS = (
    "index", "quickstart", "tutorials/health", "guide", "commands", "formats", "api/models", "benchmarks",
    "reproduction", "architecture", "changelog",
)  # fmt: skip
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
# What a page loads, by tag; other addresses are only followed by readers.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}


class Page(HTMLParser):
    """The links, the anchors and the loaded files of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.update(value for name, value in attrs if name in ("id", "name") and value)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("furo", reason="the extra `docs` is not installed: pip install 'rue[docs]'")
    pytest.importorskip("myst_parser", reason="the extra `docs` is not installed: pip install 'rue[docs]'")
    folder = tmp_path_factory.mktemp("site")
    flags = ["--fail-on-warning", "--keep-going", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *flags, "-d", folder / "trees", DOCS, folder / "html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme in ("http", "https", "mailto"):
                continue
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(address.path)))
                if address.path
                else name
            )
            if not (site / target).is_file():
                broken.append(f"{name}: {link}")
            elif address.fragment and target in pages and unquote(address.fragment) not in pages[target].anchors:
                broken.append(f"{name}: {link}: no such heading")
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_work_for_readers_of_the_repository(page):
    """Relative links name files, and headings by the names that code hosts give them."""
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        path, _, heading = link.partition("#")
        if urlsplit(path).scheme:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not heading or heading in headings(target), link


def without_code(page):
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def headings(page):
    """Return the headings of a page as code hosts name them: in small letters, without signs, with hyphens."""
    found = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for name, page in pages.items():
        assert [file for file in page.loaded if urlsplit(file).scheme or file.startswith("//")] == [], name
        assert all((site / posixpath.dirname(name) / urlsplit(file).path).is_file() for file in page.loaded), name
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "@import" not in text and "url(http" not in text and "url(//" not in text, sheet.name


def test_every_page_of_the_folder_is_in_the_navigation(site, pages):
    """Each Markdown file is a page, and the sidebar of the first page leads to it or to the page above it."""
    sources = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    assert sources <= set(pages)
    assert sources - {"index.html"} <= {urlsplit(link).path for link in pages["index.html"].links}


@pytest.mark.parametrize(
    "module", ["rue", "rue.formats", "rue.domains", "rue.report", "rue.experiments", "rue.explorer"]
)
def test_every_public_name_is_in_the_reference(site, pages, module):
    anchors = set().union(*(page.anchors for name, page in pages.items() if name.startswith("api/")))
    modules = {"domains", "theory"}  # modules, with a part of a page each
    for name in importlib.import_module(module).__all__:
        assert f"{module}.{name}" in anchors or f"rue.{name}" in anchors or name in modules, f"{module}.{name}"


def test_the_version_is_the_same_everywhere(site):
    assert f"rue {rue.__version__}" in (site / "index.html").read_text(encoding="utf-8")
    for name, line in (
        ("CITATION.cff", "version: {}\n"),
        ("docs/cite.md", "version = {{{}}}"),
        ("CHANGELOG.md", "\n## {}"),
    ):
        assert line.format(rue.__version__) in (ROOT / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", KINDS)
def test_pages_fit_the_screen_and_ask_for_nothing_else(view, site, name, width):
    address = view.open((site / f"{name}.html").as_uri(), width)
    assert view.run("return document.documentElement.scrollWidth") <= width
    assert view.run("return [...document.images].every(image => image.naturalWidth > 0 || image.loading == 'lazy')")
    assert view.browser.get_log("browser") == []
    assert [url for url in view.asked(address) if not url.startswith(("file:", "data:"))] == []


def test_the_search_finds_a_page_without_a_server(view, site):
    view.open(f"{(site / 'search.html').as_uri()}?q=infeasible")
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(view.browser, 60).until(lambda _: view.run("return document.querySelector('#search-results li')"))

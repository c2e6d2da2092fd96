"""The page in a real browser: Debian's Chromium without a screen. Where there is none these tests are skipped, unless
RUE_REQUIRE_BROWSER=1 says that there must be one."""

import json
import os
import shutil

import pytest
from test_page import METHODS, make_page, record, small_comparison, small_page

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (400, 1400)
PAGES = {"experiment": small_page, "comparison": small_comparison}


def missing(reason):
    if os.environ.get("RUE_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{reason}, and RUE_REQUIRE_BROWSER=1 asks for it")
    pytest.skip(f"{reason}; the page is not tested in a browser")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        from selenium import webdriver
    except ImportError:
        missing("selenium is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        missing("there is no Chromium, or no chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


class View:
    """A page as a reader has it before them."""

    def __init__(self, browser, folder):
        self.browser, self.folder = browser, folder

    def show(self, text, width=1400, scheme="light", media="screen"):
        path = self.folder / "page.html"
        path.write_text(text, encoding="utf-8")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        # Without motion, so that nothing is on its way to another place when it is clicked.
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        look = {"media": media, "features": [{"name": name, "value": value} for name, value in features.items()]}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", look)
        self.browser.get_log("browser"), self.browser.get_log("performance")
        self.browser.get(path.as_uri())
        return path.as_uri()

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def open_all(self):
        self.run("for (const part of document.querySelectorAll('details')) part.open = true")

    def column(self, selector, number):
        script = "return [...document.querySelector(arguments[0]).tBodies[0].rows].map(r => r.cells[arguments[1]].%s)"
        values = self.run(script % "dataset.value", selector, number)
        return values if values[0] is not None else self.run(script % "textContent", selector, number)


@pytest.fixture
def view(browser, tmp_path):
    return View(browser, tmp_path)


def numbers(values):
    return [float(value) if value else None for value in values]


@pytest.mark.parametrize("name", PAGES)
def test_it_loads_without_errors_and_asks_for_nothing(view, name):
    address = view.show(PAGES[name]())
    view.open_all()
    view.run("for (const image of document.images) image.loading = 'eager'")
    view.run("return Promise.all([...document.images].map(image => image.decode()))")
    assert view.run("return [...document.images].every(image => image.naturalWidth > 100)")
    assert view.browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in view.browser.get_log("performance")]
    requests = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    asked = [one["request"]["url"] for one in requests if one["documentURL"] == address]  # not by the browser itself
    assert address in asked and all(url == address or url.startswith("data:") for url in asked)


def press(view, column, keys):
    button = view.find(f"#results table thead th:nth-child({column + 1}) button")
    if keys is None:
        button.click()
    else:
        button.send_keys(keys)


@pytest.mark.parametrize("keys", [None, "\n", " "], ids=["click", "enter", "space"])
def test_tables_sort_both_ways(view, keys):
    view.show(small_page())
    head = "return document.querySelector('#results table').tHead.rows[0].cells[arguments[0]].ariaSort"
    before = view.column("#results table", 2)
    assert view.run(head, 2) == "none" and sorted(before) != before
    press(view, 2, keys)
    assert numbers(view.column("#results table", 2)) == sorted(numbers(before))
    assert view.run(head, 2) == "ascending"
    press(view, 2, keys)
    assert numbers(view.column("#results table", 2)) == sorted(numbers(before), reverse=True)
    assert view.run(head, 2) == "descending"
    press(view, 0, keys)
    assert view.column("#results table", 0) == sorted(METHODS)
    assert view.run(head, 2) == "none" and view.run(head, 0) == "ascending"


def test_infinity_is_above_numbers_and_what_is_missing_comes_last(view):
    regrets = {
        "reg-d1": [9.0],
        "average": ["inf"],
        "best": [10.0],
        "robust": None,
        "mixture": [0.5],
        "adaptive": [-0.0],
    }
    view.show(make_page([record("a:seed=1", name, regret) for name, regret in regrets.items()]))
    view.open_all()
    button = view.find(".problem table th:nth-child(2) button")
    for expected in (["0", "0.5", "9", "10", "∞", "–"], ["∞", "10", "9", "0.5", "0", "–"]):
        button.click()
        shown = view.run(
            "return [...document.querySelectorAll('.problem tbody tr')].map(r => r.cells[1].innerText.trim())"
        )
        assert [text.replace("-0", "0") for text in shown] == expected


def test_problems_open_by_mouse_and_keyboard(view):
    view.show(small_page())
    is_open = "return document.getElementById('problem-1').open"
    view.run("document.querySelector('.size').open = true")
    summary = view.find("#problem-1 > summary")
    assert not view.run(is_open) and not view.find("#problem-1 table").is_displayed()
    summary.click()
    assert view.run(is_open) and view.find("#problem-1 table").is_displayed()
    summary.send_keys("\n")
    assert not view.run(is_open)
    summary.send_keys(" ")
    assert view.run(is_open)


def test_a_link_opens_the_problem_it_names(view):
    view.show(small_page())
    view.find("#runs a[href^='#problem-']").click()
    assert view.run("return document.querySelector(location.hash).checkVisibility({contentVisibilityAuto: true})")


def test_one_policy_is_shown_and_it_can_be_chosen(view):
    from selenium.webdriver.support.select import Select

    view.show(small_comparison())
    select = Select(view.find(".chooser select"))
    shown = "return [...document.querySelectorAll('.policy')].filter(p => !p.hidden).map(p => p.dataset.name)"
    names = [option.text for option in select.options]
    assert sorted(names) == sorted(METHODS) and view.run(shown) == names[:1]
    select.select_by_visible_text("average")
    assert view.run(shown) == ["average"]


def test_maps_are_drawn_when_they_are_opened(view):
    from selenium.webdriver.support.ui import WebDriverWait

    view.show(small_page())
    waiting = "return [...document.images].filter(image => image.loading === 'lazy').length"
    assert view.run(waiting) == len(METHODS)
    view.run("document.querySelector('.size').open = true")
    view.find("#problem-1 > summary").send_keys("\n")
    # The page is told a moment later what was opened.
    WebDriverWait(view.browser, 30, 0.05).until(lambda _: view.run(waiting) < len(METHODS))
    view.run("return document.querySelector('.policy:not([hidden]) img').decode()")
    assert view.run(waiting) == len(METHODS) - 1


# What a reader could not read: text beyond the page, cut off by its own element, or outside of its figure. What scrolls
# in a box of its own may go beyond that.
UNREADABLE = """
const found = [], scrolls = (e) => e.closest(".box, pre, nav > ul");
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement;
  if (!node.data.trim() || parent.closest("script") || !parent.checkVisibility({contentVisibilityAuto: true})) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const place = range.getBoundingClientRect(), figure = parent.closest("svg");
  const frame = figure && figure.getBoundingClientRect();
  if (frame && (place.left < frame.left - 1 || place.right > frame.right + 1 ||
                place.top < frame.top - 1 || place.bottom > frame.bottom + 1))
    found.push(["outside its figure", node.data]);
  if (!scrolls(parent) && (place.left < 0 || place.right > innerWidth)) found.push(["beyond the page", node.data]);
  for (let e = parent; e && !figure; e = e.parentElement)
    if (["hidden", "clip"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1)
      found.push(["cut off", node.data]);
}
for (const cell of document.querySelectorAll("th, td, summary, button, dd, option"))
  if (cell.checkVisibility() && cell.clientWidth && cell.scrollWidth > cell.clientWidth + 1)
    found.push(["too narrow", cell.textContent]);
return found;
"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_no_text_overflows(view, name, width):
    view.show(PAGES[name](), width)
    for opened in (False, True):
        if opened:
            view.open_all()
        assert view.run("return document.documentElement.scrollWidth") <= view.run("return innerWidth") == width
        assert view.run(UNREADABLE) == []


def test_long_names_do_not_overflow(view):
    long = "a" * 300
    records = [record(f"{long}:seed=1", m, [1.0, rank], group=long, size=long) for rank, m in enumerate(METHODS)]
    records.append(record("b", "average", None, group=long, size=long, error=long))
    for width in WIDTHS:
        view.show(make_page(records, load_solution=lambda key: None, title=long, spec=long), width)
        view.open_all()
        assert view.run("return document.documentElement.scrollWidth") <= width
        assert view.run(UNREADABLE) == []


# The least contrast between letters and the page, outside of figures, as the WCAG defines it.
CONTRAST = """
const linear = (c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
const light = (colour) => {
  const part = colour.match(/[\\d.]+/g).slice(0, 3).map((c) => linear(c / 255));
  return .2126 * part[0] + .7152 * part[1] + .0722 * part[2];
};
const ground = light(getComputedStyle(document.documentElement).backgroundColor);
const ratios = [...document.body.querySelectorAll(":not(svg *):not(script)")]
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((e) => light(getComputedStyle(e).color)).map((l) => (Math.max(l, ground) + .05) / (Math.min(l, ground) + .05));
return [Math.min(...ratios), ground];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_can_be_read_in_light_and_dark(view, scheme):
    view.show(small_page(), scheme=scheme)
    view.open_all()
    contrast, ground = view.run(CONTRAST)
    assert contrast >= 4.5
    assert ground < 0.05 if scheme == "dark" else ground > 0.9


def test_paper_is_white(view):
    view.show(small_page(), scheme="dark", media="print")
    assert view.run(CONTRAST)[1] == pytest.approx(1.0)


def test_all_that_can_be_used_can_be_reached_by_keyboard(view):
    view.show(small_page())
    reached = "return [...document.querySelectorAll('a, button, summary, select, .box')].every(e => e.tabIndex === 0)"
    assert view.run(reached)

"""Pages in a real browser: Debian's Chromium without a screen."""

import json
import os
import shutil

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (400, 1400)


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
        return self.open(path.as_uri(), width, scheme, media)

    def open(self, address, width=1400, scheme="light", media="screen"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        # Without motion, so that nothing is on its way to another place when it is clicked.
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        look = {"media": media, "features": [{"name": name, "value": value} for name, value in features.items()]}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", look)
        self.browser.get_log("browser"), self.browser.get_log("performance")
        self.browser.get(address)
        return address

    def asked(self, address):
        """Return what the page at an address asked for, but not what the browser did by itself."""
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        requests = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in requests if one["documentURL"] == address]

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

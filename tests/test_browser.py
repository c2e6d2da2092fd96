"""The page in a real browser: Debian's Chromium without a screen. Where there is none these tests are skipped, unless
RUE_REQUIRE_BROWSER=1 says that there must be one."""

import pytest
from browsing import CONTRAST, UNREADABLE, WIDTHS
from test_page import METHODS, make_page, record, small_comparison, small_page

PAGES = {"experiment": small_page, "comparison": small_comparison}


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
    asked = view.asked(address)
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


def test_what_is_wider_than_its_box_says_so(view):
    hints = """return [...document.querySelectorAll(".box")].filter((box) => box.checkVisibility()).map((box) =>
      [box.scrollWidth > box.clientWidth + 1, getComputedStyle(box, "::before").content.includes("scrolls")])"""
    for width in WIDTHS:
        view.show(small_comparison(), width)
        view.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shown = view.run(hints)
        assert all(wide == told for wide, told in shown)
    view.show(small_comparison(), 400)
    view.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert any(told for _, told in view.run(hints))

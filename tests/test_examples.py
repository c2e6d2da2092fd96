"""The examples in the docstrings of public names, and on the pages of the reference, do what they show."""

import doctest
import inspect
from pathlib import Path

import numpy as np
import pytest
from pages import BLOCK, run_page

import rue

API = Path(__file__).parent.parent / "docs" / "api"


def public_objects():
    """Yield each public class and function of rue with its name."""
    for name in rue.__all__:
        thing = getattr(rue, name)
        if not inspect.ismodule(thing):
            yield name, thing


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name, thing in public_objects():
        for test in finder.find(thing, f"rue.{name}", globs={"rue": rue, "np": np}):
            if test.examples:
                yield pytest.param(test, id=test.name)


@pytest.mark.parametrize("example", list(examples()))
def test_an_example_prints_what_it_shows(example):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_every_public_function_has_an_example():
    """In its docstring, or on the page of the reference that shows it."""
    pages = "".join(code for path in API.glob("*.md") for code, *_ in BLOCK.findall(path.read_text(encoding="utf-8")))
    functions = [name for name, thing in public_objects() if inspect.isfunction(thing)]
    assert [name for name in functions if ">>>" not in getattr(rue, name).__doc__ and f"rue.{name}(" not in pages] == []


@pytest.mark.parametrize("page", ["models", "files"])
def test_the_examples_of_a_page_print_what_they_show(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page((API / f"{page}.md").read_text(encoding="utf-8"), monkeypatch, capsys)

"""POMDPX and Cassandra's files are read in blocks by numpy: the same as word by word, with the same messages."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import rue
from rue.formats import cassandra_tables, text_table, xml_tree
from tests import test_cassandra, test_pomdpx
from tests.foreign import assert_same, named_models, refusal, written


@settings(max_examples=30)
@given(model=named_models())
def test_blocks_and_single_words_give_the_same(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for ending in (".pomdp", ".pomdpx"):
        rue.save(folder / f"m{ending}", model)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(xml_tree, "SMALL", 0)
            patch.setattr(xml_tree, "BLOCK", 200)
            patch.setattr(text_table, "CHUNK", 150)
            assert_same(model, rue.load(folder / f"m{ending}"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cassandra_tables.Tables, "_take_run", lambda *_: False)
            assert_same(model, rue.load(folder / f"m{ending}"))


@pytest.mark.parametrize("name", test_pomdpx.WRONG)
def test_messages_are_the_same_for_tables_that_are_left_out(name, tmp_path, monkeypatch):
    text, told = test_pomdpx.WRONG[name]
    monkeypatch.setattr(xml_tree, "SMALL", 0)
    assert told in refusal(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")


def test_tables_that_are_left_out_are_read_with_all_that_others_write(tmp_path, monkeypatch):
    monkeypatch.setattr(xml_tree, "SMALL", 0)
    for text in (test_pomdpx.DOOR, test_pomdpx.DOOR.replace("<Entry><Inst", "<Entry>\n<!-- why --><Inst", 3)):
        model = rue.load(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
        assert test_pomdpx.reward_values(model) == pytest.approx([test_pomdpx.KNOWN] * 2, abs=1e-6)


def test_tables_in_comments_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr(xml_tree, "SMALL", 0)
    entry = "<Entry><Instance>red out red -</Instance><ProbTable>1 0</ProbTable></Entry>"
    table = f'<Parameter type="TBL">\n{entry}\n'
    for comment in (f"<!-- {table}</Parameter> -->", f"<!-- {entry}</Parameter></CondProb><CondProb>{table} -->"):
        text = test_pomdpx.DOOR.replace(entry[:37], comment + entry[:37])
        assert comment in text
        model = rue.load(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
        assert test_pomdpx.reward_values(model) == pytest.approx([test_pomdpx.KNOWN] * 2, abs=1e-6)


def test_numbers_are_none_if_there_is_anything_else(monkeypatch):
    assert text_table.plain_numbers(b"1 2\n3").tolist() == [1, 2, 3]
    assert text_table.plain_numbers(b"1 2 3 e").size == 0

    def as_older_numpy(text, sep):
        warnings.warn("it could not be read to its end", DeprecationWarning, stacklevel=2)
        return np.ones(3)

    monkeypatch.setattr(np, "fromstring", as_older_numpy)
    assert text_table.plain_numbers(b"1 2 3 e").size == 0


def test_rows_of_numbers_and_lines_of_one_number(tmp_path, monkeypatch):
    text = test_cassandra.DOOR.replace("T: *\nidentity", "T: *\n1 0 0\n0 1 0\n\n0 0 1 # stay")
    for size in (1 << 20, 40):
        monkeypatch.setattr(text_table, "CHUNK", size)
        model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
        assert test_cassandra.reward_values(model) == pytest.approx([test_cassandra.KNOWN] * 2, abs=1e-6)

"""Random models for round trips through foreign formats, and what must come back; files laid out by hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

import rue
from tests.models import Shape, umdps

NAMES = ('the "old" mill', "brücke, südlich", "家", "go\twest", "it's a risk", "a:b", "[0]", "%41", "-", "*", "", " x ",
         "0", "<&>", "s 1", "//c", "#d", "1=2", "(3)", "'", "\\n", "é" * 30)  # fmt: skip


@st.composite
def named_models(draw: st.DrawFn) -> rue.UMDP:
    """Random models, with names, weights and units or without."""
    model = draw(umdps(Shape(states=4)))
    graph, states, samples = model.graph, model.graph.states, model.samples
    fields: dict = {}
    if draw(st.booleans()):
        fields["state_label"] = draw(st.permutations(NAMES))[:states]
    if draw(st.booleans()):
        fields["action_label"] = draw(st.permutations(NAMES))[
            : int(graph.action.max(initial=0)) + 1 + draw(st.integers(0, 1))
        ]
    names = draw(st.permutations(NAMES))[:samples] if draw(st.booleans()) else None
    weight = [draw(st.integers(0, 3)) + float(k == 0) for k in range(samples)] if draw(st.booleans()) else None
    number = st.sampled_from((0.0, 0.1, 2.5))
    units = rue.Units(draw(st.booleans()), draw(number), draw(number), draw(number))
    return rue.UMDP(dataclasses.replace(graph, **fields), model.prob, model.cost, names, weight=weight, units=units)


def assert_same(model: rue.UMDP, other: object, *, names: bool = True) -> None:
    assert type(other) is rue.UMDP
    graph, back = model.graph, other.graph
    for name in ("choice_ptr", "action", "trans_ptr", "successor"):
        assert getattr(graph, name).tolist() == getattr(back, name).tolist(), name
    assert graph.initial == back.initial
    assert model.units == other.units
    assert np.allclose(model.prob, other.prob, rtol=0, atol=1e-12)
    assert np.allclose(model.cost, other.cost, rtol=1e-12, atol=1e-12)
    if names:
        assert graph.state_label == back.state_label
        assert graph.action_label == back.action_label
        assert model.sample_label == other.sample_label
        assert np.allclose(model.weight, other.weight, rtol=0, atol=1e-12)


def written(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files as they are given, and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def refusal(path: object, **options: object) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(rue.BadInput) as refused:
        rue.load(path, **options)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


def values(model: rue.UMDP) -> list[float]:
    """The optimal value of the initial state in each sample, to nine digits."""
    return np.round(rue.optimal_values(model).value[model.graph.initial], 9).tolist()

"""Pictures of episodes and of small policies: what is drawn is what the paths and the policy hold."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from test_agent import HALL, WALK, two_attics
from test_cli import run  # noqa: F401
from test_figures import words

import rue
from rue.report import draw_belief, draw_graph, draw_trajectory, save_figure

WARD = rue.domains.Medical(seed=1).sample(12, seed=1)
GRID = rue.domains.Disaster(width=4, height=3, seed=1).sample(3, seed=1)
SURE = rue.Policy.from_choices(WARD.graph, WARD.graph.choice_ptr[:-1])


def paths_of(model, policy, episodes, sample=1):
    return rue.simulate(model, policy, sample=sample, episodes=episodes, seed=3, paths=True).paths


@pytest.mark.parametrize("episodes", [1, 6])
def test_beliefs_are_stacked_with_the_true_sample_below(episodes):
    paths = paths_of(WARD, SURE, episodes)
    figure = draw_belief(paths)
    (axes,) = figure.axes
    (line,) = axes.lines
    length = np.diff(paths.episode_ptr)
    own = [paths.belief[first:end, 1] for first, end in zip(paths.episode_ptr[:-1], paths.episode_ptr[1:], strict=True)]
    padded = [np.append(one, np.full(length.max() - one.size, one[-1])) for one in own]
    assert line.get_ydata() == pytest.approx(np.mean(padded, axis=0))
    top = axes.collections[-1].get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(1.0) and len(axes.collections) == 8
    assert "sample 1 (true)" in words(figure) and "5 others" in words(figure)
    assert ("one episode" if episodes == 1 else "mean of 6 episodes") in words(figure)


def test_beliefs_of_few_samples_have_their_names():
    figure = draw_belief(paths_of(HALL, WALK, 5))
    assert "locked (true)" in words(figure) and "open" in words(figure) and "others" not in words(figure)


def test_trajectories_are_on_the_map_of_a_grid():
    policy = rue.solve(GRID, rue.Average()).policy
    paths = paths_of(GRID, policy, 4)
    axes = draw_trajectory(paths).axes[0]
    drawn = [line for line in axes.lines if line.get_xdata().size > 2]
    assert len(drawn) == 4 and "sample 1: 4 episodes" in axes.get_title(loc="left")
    for line, first, end in zip(drawn, paths.episode_ptr[:-1], paths.episode_ptr[1:], strict=True):
        row, column = np.divmod(paths.state[first:end], 4)
        assert np.abs(line.get_xdata() - column).max() < 0.2 and np.abs(line.get_ydata() - row).max() < 0.2


def test_trajectories_without_a_grid_are_over_time():
    paths = paths_of(HALL, WALK, 1)
    figure = draw_trajectory(paths)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    line = axes.lines[0]
    assert [names[int(y)] for y in line.get_ydata()] == [HALL.graph.state_name(s) for s in paths.state]
    assert "locked: 1 episode" in words(figure)


def test_a_graph_has_a_box_for_each_node_and_an_arrow_for_each_outcome():
    figure = draw_graph(HALL, WALK)
    boxes, arrows = (figure.findobj(kind) for kind in (FancyBboxPatch, FancyArrowPatch))
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert texts == {"hall\nwalk", "door\npush", "out"} and len(boxes) == 3  # nothing leads to the attic
    assert len(arrows) == 4  # from the hall to itself and to the door, from the door to the hall and out
    mixed = rue.Policy.from_weights(HALL.graph, [0.25, 0.75, 1.0, 0.0, 1.0])
    assert "hall\nwalk 25%\ncall 75%" in words(draw_graph(HALL, mixed))
    assert len(draw_graph(HALL, two_attics()).findobj(FancyBboxPatch)) == 3
    room = rue.Builder().add("s", "go", {"t": 1.0}).add("t", "stay", {"t": 0.5, "end": 0.5}).goal("end").build()
    rows = ("0,s,go,0.5,1,1", "0,s,go,0.5,2,1", "1,t,stay,1,2 3,0", "2,t,stay,1,1 3,0", "3,end,,,,0")
    text = "\n".join(["node,state,action,probability,next,start", *rows])
    assert "s\ngo |" in words(draw_graph(room, rue.Policy.from_csv(text, room)))  # two entries of one action


def test_a_large_policy_is_no_graph():
    with pytest.raises(
        rue.BadInput, match=r"the policy has 141 nodes, and more than 40 are reached; expected at most 40"
    ):
        draw_graph(WARD, SURE)
    with pytest.raises(rue.BadInput, match="the policy is for another graph"):
        draw_graph(GRID, SURE)


@pytest.mark.parametrize("draw", [draw_belief, draw_trajectory])
def test_other_things_are_refused(draw):
    with pytest.raises(rue.BadInput, match=r"the paths are a Simulation; expected those of rue\.simulate"):
        draw(rue.simulate(HALL, WALK, sample=0, episodes=2, seed=1))


def test_figures_on_the_command_line(run):  # noqa: F811
    rue.save("hall.rue", HALL)
    rue.save("walk.csv", WALK)
    for kind in ("belief", "trajectory"):
        words = ("plot", "hall.rue", "walk.csv", "--kind", kind, "--seed", 1)
        assert run(*words, "--samples", 1, "--episodes", 3, "-o", "x.png").out == f"x.png: {kind}\n"
        assert run(*words, "-o", "x.svg").out == f"x.svg: {kind}\n"
    assert run("plot", "hall.rue", "walk.csv", "--kind", "graph", "-o", "x.pdf").out == "x.pdf: graph\n"
    for words, line in {
        ("--kind", "belief"): "the seed of a belief or a trajectory is missing; expected --seed 1",
        ("--kind", "belief", "--seed", 1, "--samples", "0,1"): "there are 2 samples; expected one, the true one",
        ("--kind", "trajectory", "--seed", 1, "--samples", 9): "sample 9 is out of range",
        ("--kind", "graph", "--seed", 1): "episodes or a seed are given for a picture of graph",
        ("--kind", "graph", "--samples", 1): "samples or steps are given for a picture of graph",
        ("walk.csv", "--kind", "graph"): "2 policies are given; expected one for a graph",
    }.items():
        done = run("plot", "hall.rue", "walk.csv", *words, "-o", "x.png", status=2)
        assert line in done.err and len(done.err.splitlines()) == 1


def test_equal_figures_are_equal_files(tmp_path):
    for name in ("a.svg", "b.svg"):
        save_figure(draw_graph(HALL, WALK), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert mpl.rcParams["svg.hashsalt"] is None  # the settings of the caller are left alone

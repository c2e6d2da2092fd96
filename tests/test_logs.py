"""Logs: what people's CSV files look like, what is wrong with some of them, and what the posterior makes of them."""

import csv
import io
import math
import re
import shlex
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import test_cli
from hypothesis import given, settings
from hypothesis import strategies as st

import rue
from rue.formats.logs import Log, read_log

run = test_cli.run  # the command line, in an empty folder

ROWS = [
    ("new", "run", 1.5, "worn"),
    ("worn", "run", 2.0, "worn"),
    ("worn", "replace", 10.0, "retired"),
    ("new", "run", 0.5, "retired"),
]
PLAIN = "state,action,cost,next_state\nnew,run,1.5,worn\nworn,run,2,worn\nworn,replace,10,retired\nnew,run,.5,retired\n"


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "log.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.rstrip("\n"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        "\n \n" + PLAIN.replace("worn,run", "\n\nworn,run"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", ";").replace("1.5", "1,5").replace(".5", "0,5"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace(",", " , ").replace("worn", "  worn\u00a0"),
        PLAIN.replace("worn", '"worn"').replace("state,", '"state",', 1),
        PLAIN.replace("\n", ",\n"),  # a comma too many in every line
        "note;x,y;cost;next_state;action;state\n"
        "a, b;1,2;1.5;worn;run;new\n;;2;worn;run;worn\n;;1e1;retired;replace;worn\n;;0.5;retired;run;new\n",
        'note,state,action,cost,next_state\n"two\nlines",new,run,1.5,worn\n"a ""b"" c",worn,run,2,worn\n'
        ",worn,replace,10,retired\n,new,run,.5,retired\n",
    ],
)
def test_a_log_is_read_however_it_is_written(write, text):
    log = read_log(write(text))
    assert list(log) == ROWS
    assert list(log) == ROWS  # and again: it is not used up


def test_another_encoding_has_to_be_named(write):
    path = write(PLAIN.replace("worn", "müde").encode("cp1252"))
    assert next(iter(read_log(path, encoding="cp1252")))[3] == "müde"


def test_columns_of_any_name_and_several_that_make_up_one(write):
    path = write("pump,health,do,eur,to,then\nA,worn,run,3,A,bad\nA,bad,swap,9,gone,\nB/C,x\\,run,1,gone, \n")
    log = read_log(path, state=("pump", "health"), action="do", cost="eur", next_state=["to", "then"])
    assert list(log) == [
        ("A/worn", "run", 3.0, "A/bad"),
        ("A/bad", "swap", 9.0, "gone"),
        ("B\\/C/x\\\\", "run", 1.0, "gone"),
    ]
    assert "columns: pump, health" in repr(log)


@given(st.lists(st.tuples(st.sampled_from(["a", "/", "\\", "a/", "\\/"]), st.sampled_from(["b", "", "/", "\\"]))))
def test_different_cells_make_different_names(tmp_path_factory, pairs):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([("x", "y", "action", "cost", "next_state"), *((x, y, "go", 1, "end") for x, y in pairs)])
    path = tmp_path_factory.mktemp("joined") / "log.csv"
    path.write_text(text.getvalue(), newline="")
    names = [row[0] for row in read_log(path, state=("x", "y"))] if pairs else []
    assert len(set(names)) == len(set(pairs))


EPISODES = [("a", "go", 1.0, "b"), ("b", "go", 2.0, "end"), ("a", "wait", 3.0, "end")]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("who,state,action,cost\n1,a,go,1\n1,b,go,2\n2,a,wait,3\n", {"end": "end"}),
        ("who,state,action,cost\n1,a,go,1\n2,a,wait,3\n1,b,go,2\n", {"end": "end"}),  # they alternate
        ("who,state,action,cost\n1,a,go,1\n1,b,go,2\n1,end,,\n2,a,wait,3\n2,end,,\n", {}),  # closing rows
        ("who,state,action,cost,next_state\n1,a,go,1,\n1,b,go,2,end\n2,a,wait,3,end\n", {}),
        ("who,state,action,cost,then\n1,a,go,1,b\n1,b,go,2,end\n2,a,wait,3,end\n", {"next_state": "then"}),
        ("who,state,action,cost\n1,a,go,1\n1,b,go,2\n1,end,,\n2,a,wait,3\n2,end,,\n3,a,go,7\n", {"unfinished": "drop"}),
        ("who,state,action,cost\n1,a,go,1\n1,b,go,2\n1,end,,\n2,a,wait,3\n2,end,,\n2,end,,\n", {}),
    ],
)
def test_the_next_state_may_be_in_the_next_row_of_the_episode(write, text, options):
    assert Counter(read_log(write(text), episode="who", **options)) == Counter(EPISODES)


def _read(path: Path, **options: object) -> list:
    return list(read_log(path, **options))


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("", {}, ("log.csv: the file is empty", "expected a header with state, action")),
        (" \n\n", {}, ("the file is empty",)),
        ("state,action,cost,next_state\n", {}, ("there is a header and no row",)),
        (PLAIN.replace("cost", "costs"), {}, ("unknown column 'cost'; did you mean 'costs'?", "known: action, costs")),
        (PLAIN.replace(",next_state", ",next"), {}, ("unknown column 'next_state'", "episode= if the next row has it")),
        (PLAIN, {"episode": "who"}, ("unknown column 'who'",)),
        (PLAIN, {"episode": "state", "next_state": "then"}, ("unknown column 'then'",)),
        (PLAIN, {"state": ""}, ("expected names from the header",)),
        (PLAIN, {"cost": None}, ("cost is None; expected text",)),
        ("state,state,action,cost,next_state\na,b,c,1,d\n", {}, ("column 'state' is there 2 times",)),
        (PLAIN.replace("1.5", "much"), {}, ("line 2: cost is 'much'; expected a number", "1 line is so in all")),
        (PLAIN.replace("1.5", "n/a").replace(",2,", ",inf,"), {}, ("line 2: cost is 'n/a'", "2 lines are so in all")),
        (PLAIN.replace("1.5", ""), {}, ("line 2: cost is empty",)),
        (PLAIN.replace("1.5", "1_5"), {}, ("cost is '1_5'",)),
        (PLAIN.replace("1.5", "nan"), {}, ("cost is 'nan'",)),
        (PLAIN.replace("1.5", '"1,5"'), {}, ("cost is '1,5'",)),  # a decimal comma only with semicolons
        (PLAIN.replace("1.5", "1,5"), {}, ("line 2: there are 5 cells; expected 4",)),
        (PLAIN.replace(",", ";").replace("1.5", "1.000,5"), {}, ("cost is '1.000,5'",)),
        (PLAIN.replace("new,run,1.5,worn", "new,run"), {}, ("line 2: there are 2 cells; expected 4",)),
        (PLAIN.replace("worn,run", " ,run"), {}, ("line 3: the cell of state is empty; expected a name",)),
        (PLAIN.replace("worn,run", "worn,"), {}, ("line 3: the cell of action is empty",)),
        (PLAIN.replace("10,retired", "10,"), {}, ("line 4: the cell of next_state is empty",)),
        (PLAIN.replace("worn", "müde").encode("cp1252"), {}, ("not text in utf-8", '"cp1252"')),
        (PLAIN, {"encoding": "klingon"}, ("unknown encoding 'klingon'",)),
        (PLAIN, {"unfinished": "guess"}, ("unknown way with unfinished episodes 'guess'",)),
        ("a,b,action,cost,next_state\n,x,go,1,end\n", {"state": ("a", "b")}, ("the cell of a, b is empty",)),
        ("state,action,cost,next_state\n" + "x" * 140_000 + ",go,1,end\n", {}, ("no table of text",)),
        ("x" * 3_000_000, {}, ("no table of text (a line has more than 1000000 characters)",)),
        (
            "s0,b,2.198,s1\ns1,b,1,end\n",
            {},
            ("the first line looks like data (s0, b, 2.198, s1)", "expected a header with state, action, next_state"),
        ),
        ("who,state,action,cost\n1,a,go,1\n2,a,go,1\n", {"episode": "who"}, ("line 2: episode '1' ends", "2 episodes")),
        ("who,state,action,cost\n,a,go,1\n", {"episode": "who", "end": "x"}, ("line 2: the cell of who is empty",)),
        ("who,state,action,cost\n1,a,,1\n", {"episode": "who", "end": "x"}, ("line 2: the cell of action is empty",)),
        ("who,state,action,cost\n1,a,go,\n", {"episode": "who", "end": "x"}, ("line 2: cost is empty",)),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, text, options, parts):
    with pytest.raises(rue.BadInput) as refusal:
        _read(write(text), **options)
    message = str(refusal.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_a_file_that_is_not_there_or_none(tmp_path):
    with pytest.raises(rue.BadInput, match=r"none\.csv: there is no such file"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(rue.BadInput, match="cannot be read"):
        read_log(tmp_path)


def test_rows_are_not_kept(write):
    """Rows come while the file is read: the first is there before the bad last line is seen."""
    rows = iter(read_log(write(PLAIN + "new,run,bad,worn\n")))
    assert [next(rows) for _ in ROWS] == ROWS
    with pytest.raises(rue.BadInput, match="line 6"):
        next(rows)


# Names without the surrounding blanks that a reader takes away, in any script, with all that needs quotes.
names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).map(str.strip).filter(bool)
awkward = names | st.sampled_from(["a,b", "a;b", 'a "b" c', "a\tb", "a|b", "a\nb", "'", "\\", "state", "é", "1", "0"])


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[str, str, float, str]]:
    states = draw(st.lists(awkward, min_size=1, max_size=4, unique=True))
    actions = draw(st.lists(awkward, min_size=1, max_size=3, unique=True))
    cost = st.integers(0, 10**6).map(lambda cents: cents / 100)
    row = st.tuples(st.sampled_from(states), st.sampled_from(actions), cost, st.sampled_from([*states, "the end"]))
    return draw(st.lists(row, min_size=1, max_size=30))


def _as_text(table: list[tuple], delimiter: str, quoting: int, decimal: str, newline: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=newline)
    for row in table:
        writer.writerow([str(cell).replace(".", decimal) if isinstance(cell, float) else cell for cell in row])
    return text.getvalue()


@settings(max_examples=150)
@given(
    logs(), st.sampled_from(",;\t|"), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.booleans(), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_what_was_written_is_what_is_counted(tmp_path_factory, rows, delimiter, quoting, mark, comma, by_episode):
    table = [("state", "action", "cost", "next_state"), *rows]
    options = {}
    if by_episode:  # each row an episode of its own, with a closing row
        table = [("id", "state", "action", "cost")]
        for number, (state, action, cost, following) in enumerate(rows):
            table += [(number, state, action, cost), (number, following, "", "")]
        options = {"episode": "id"}
    decimal = "," if comma and delimiter == ";" else "."
    text = _as_text(table, delimiter, quoting, decimal, "\r\n" if mark else "\n")
    path = tmp_path_factory.mktemp("round") / "log.csv"
    path.write_text(text, newline="", encoding="utf-8-sig" if mark else "utf-8")
    log = read_log(path, **options)
    assert list(log) == rows
    settings_ = {"initial": rows[0][0], "goals": ["the end"], "unvisited": "dead end"}
    ours, theirs = rue.count_transitions(log, **settings_), rue.count_transitions(rows, **settings_)
    for name in ("choice_ptr", "action", "trans_ptr", "successor", "count", "cost", "cost_spread"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.state_label == theirs.state_label and ours.action_label == theirs.action_label


def _sure(rows: list, goal: str) -> set:
    """States from which some policy reaches the goal with probability one, by the definition: the largest set that can
    keep to itself and from all of which the goal can be reached."""
    outcomes: dict = {}
    for s, a, _, t in rows:
        outcomes.setdefault((s, a), set()).add(t)
    alive = {goal, *(s for s, _ in outcomes)}
    while True:
        inside = {(s, a): after for (s, a), after in outcomes.items() if s in alive and after <= alive}
        reached = {goal}
        while more := {s for (s, _), after in inside.items() if after & reached} - reached:
            reached |= more
        if reached == alive:
            return alive
        alive = reached


def _outcomes(model: rue.UMDP, states: int) -> dict:
    graph = model.graph
    return {
        (graph.state_name(s), graph.action_name(graph.action[c])): {
            graph.state_name(t) for t in graph.successor[graph.trans_ptr[c] : graph.trans_ptr[c + 1]] if t < states
        }
        for c, s in enumerate(graph.choice_state)
    }


@settings(max_examples=150)
@given(logs())
def test_shared_outcomes_are_those_of_the_state(rows):
    rows = [row for row in rows if row[0] != "the end"] or [("a", "go", 1.0, "the end")]
    options = {"samples": 2, "seed": 1, "initial": rows[0][0], "goals": ["the end"], "unvisited": "dead end"}
    counts = rue.count_transitions(rows, initial=rows[0][0], goals=["the end"], unvisited="dead end")
    tried = Counter((s, a) for s, a, _, _ in rows)
    assert sorted(counts.tried)[-len(tried) :] == sorted(tried.values())
    states = len(counts.state_label)
    seen, after = {}, {}
    for s, a, _, t in rows:
        seen.setdefault((s, a), set()).add(t)
        after.setdefault(s, set()).add(t)
    stuck = {(s, "stuck"): {s} for s in counts.state_label if s not in after and s != "the end"}
    discounted = rue.from_transitions(rows, **options, discount=0.9)
    assert _outcomes(discounted, states) == {key: after[key[0]] for key in seen} | stuck
    try:
        observed = rue.from_transitions(rows, **options, support="observed")
    except rue.BadInput as error:
        assert "no policy reaches a goal" in str(error)
        return
    assert _outcomes(observed, states) == seen | stuck
    model = rue.from_transitions(rows, **options)  # whoever had a way round dead ends still has one
    sure = _sure(rows, "the end")
    assert _outcomes(model, states) == {key: seen[key] | after[key[0]] & sure for key in seen} | stuck


def test_a_dead_end_is_not_shared():
    rows = [("a", "risk", 0.0, "lost"), ("a", "risk", 0.0, "end"), ("a", "safe", 5.0, "end"), ("a", "safe", 5.0, "a")]
    model = rue.from_transitions(rows, samples=3, seed=1, initial="a", goals=["end"], unvisited="dead end")
    found = _outcomes(model, model.graph.states)
    assert found["a", "safe"] == {"end", "a"} and found["a", "risk"] == {"lost", "end", "a"}


def test_the_posterior_has_the_mean_and_spread_of_its_dirichlet(write):
    """With a_i = n_i + α and A their sum, a Dirichlet has mean a_i / A, variance m_i (1 − m_i) / (A + 1) and
    covariance − m_i m_j / (A + 1)."""
    lines = ["a,go,1,b"] * 5 + ["a,go,2,end"] * 2 + ["a,wait,1,a"] * 3 + ["b,go,1,end"]
    seen = Counter(tuple(line.split(",")[i] for i in (0, 1, 3)) for line in lines)
    log = read_log(write("\n".join(["state,action,cost,next_state", *lines])))
    alpha, samples = 0.5, 40_000
    for support in ("observed", "state"):
        model = rue.from_transitions(
            log, samples=samples, seed=3, prior=alpha, initial="a", goals=["end"], support=support
        )
        graph = model.graph
        for choice, state in enumerate(graph.choice_state):
            part = slice(graph.trans_ptr[choice], graph.trans_ptr[choice + 1])
            key = graph.state_name(state), graph.action_name(graph.action[choice])
            weight = np.array([seen[*key, graph.state_name(t)] + alpha for t in graph.successor[part]])
            mean, total = weight / weight.sum(), weight.sum()
            covariance = (np.diag(mean) - np.outer(mean, mean)) / (total + 1)
            drawn = model.prob[part]
            np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=5 / np.sqrt(samples) * 0.5)
            np.testing.assert_allclose(np.cov(drawn).reshape(covariance.shape), covariance, atol=3e-3)
            if key == ("a", "wait"):  # tried three times and seen to stay each time
                assert (drawn.std(axis=1).min() > 0.05) == (support == "state")


@given(logs())
def test_costs_are_the_mean_of_the_log_and_its_standard_error(rows):
    """One price alone has the spread that its action has elsewhere, pooled over states; nothing is kept of the rows."""
    rows = [row for row in rows if row[0] != "the end"] or [("a", "go", 1.0, "the end")]
    counts = rue.count_transitions(iter(rows), initial=rows[0][0], goals=["the end"], unvisited="dead end")
    paid: dict = {}
    for s, a, cost, _ in rows:
        paid.setdefault((s, a), []).append(cost)
    for choice, (action, mean, error) in enumerate(zip(counts.action, counts.cost, counts.cost_spread, strict=True)):
        state = int(np.searchsorted(counts.choice_ptr, choice, side="right")) - 1
        key = counts.state_label[state], counts.action_label[action]
        costs = paid.get(key, [0.0])  # nothing is paid in a dead end
        alike = [other for (_, a), other in paid.items() if a == key[1] and len(other) > 1]
        freedom = sum(len(other) - 1 for other in alike)
        squares = sum((len(other) - 1) * statistics.variance(other) for other in alike)
        usual = squares / freedom if freedom else 0.0
        variance = statistics.variance(costs) if len(costs) > 1 else usual
        assert mean == pytest.approx(statistics.fmean(costs), rel=1e-12)
        assert error == pytest.approx(math.sqrt(variance / len(costs)), rel=1e-9, abs=1e-6)


def test_the_cost_of_a_choice_has_its_standard_error(write):
    lines = ["a,go,1,end", "a,go,3,end", "a,go,8,end"]
    log = read_log(write("\n".join(["state,action,cost,next_state", *lines])))
    model = rue.from_transitions(log, samples=40_000, seed=1, initial="a", goals=["end"], cost_noise=1.0)
    error = np.std([1, 3, 8], ddof=1) / np.sqrt(3)
    clipped = np.maximum(4 + error * np.random.default_rng(0).standard_normal(40_000), 0)
    assert model.cost.mean() == pytest.approx(clipped.mean(), abs=0.05)
    assert model.cost.std() == pytest.approx(clipped.std(), abs=0.05)


LEARN = ("learn", "log.csv", "--initial", "new", "--goal", "retired", "--samples", 30, "--seed", 4, "-o", "m.rue")


def test_rows_after_a_goal_are_counted_as_such(run, write):
    log = write(PLAIN + "retired,run,1,new\nretired,run,1,retired\n")
    counts = rue.count_transitions(read_log(log), initial="new", goals=["retired"])
    assert (counts.after_goal, counts.tried.sum()) == (2, 4)
    assert "log.csv: 6 rows (2 of them left out, after a goal), 3 states" in run(*LEARN).words
    assert run(*LEARN, "--json").json["after_goal"] == 2


def test_learn_draws_what_the_library_draws(run, write):
    log = read_log(write(PLAIN))
    words = run(*LEARN).words
    assert "log.csv: 4 rows, 3 states, 3 choices, 3 of them tried fewer than 10 times m.rue: UMDP(3 states" in words
    options = {"samples": 30, "seed": 4, "initial": "new", "goals": ["retired"]}
    model = rue.from_transitions(log, **options)
    learnt = rue.load("m.rue")
    np.testing.assert_array_equal(learnt.prob, model.prob)
    np.testing.assert_array_equal(learnt.cost, model.cost)
    assert learnt.graph.state_label == model.graph.state_label
    more = ("--prior", 0.5, "--support", "observed", "--cost-noise", 2, "--discount", 0.9)
    facts = run(*LEARN, *more, "--select", 5, "--by", "random", "--json").json
    assert (facts["rows"], facts["seldom_tried"], facts["file"], facts["samples"]) == (4, 3, "m.rue", 5)
    model = rue.from_transitions(log, **options, prior=0.5, support="observed", cost_noise=2.0, discount=0.9)
    np.testing.assert_array_equal(rue.load("m.rue").prob, rue.select(model, 5, by="random", seed=4).prob)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (PLAIN.replace("new", "neu").encode("cp1252"), ("--initial", "neu", "--encoding", "cp1252")),
        (
            "pump;health;do;eur;to;then\nA;new;run;1,5;A;worn\nA;worn;run;2;retired;\n",
            (
                "--state",
                "pump,health",
                "--action",
                "do",
                "--cost",
                "eur",
                "--next-state",
                "to, then",
                "--initial",
                "A/new",
            ),
        ),
        ("id,state,action,cost\n1,new,run,1\n1,worn,run,1\n", ("--episode", "id", "--end", "retired")),
        ("id,state,action,cost\n1,new,run,1\n1,retired,,\n2,new,run,1\n", ("--episode", "id", "--drop-unfinished")),
        (PLAIN + "worn,run,2,lost\n", ("--dead-ends",)),
        (PLAIN + "worn,run,2,sold off\n", ("--goal", "sold off")),
    ],
)
def test_learn_reads_other_logs_too(run, write, text, options):
    write(text)
    run(*LEARN, *options)
    assert rue.load("m.rue").samples == 30


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (
            ("--initial", "nwe"),
            "the log never leaves the initial state 'nwe'; expected one with rows of its own, such as 'new'",
        ),
        (("--cost", "costs"), "unknown column 'costs'; did you mean 'cost'?"),
        (("--support", "all"), "expected 'observed' or 'state'"),
        (("--support", "obsreved"), "unknown support 'obsreved'; did you mean 'observed'?"),
        (("--select", 31), "31 samples are asked for; expected 1 to 30"),
        (("--select", 3, "--by", "chance"), "unknown way to select samples 'chance'"),
        (("--prior", 0), "prior is 0.0"),
        (("--samples", 0), "samples is 0"),
        (("--discount", 2), "discount is 2.0"),
    ],
)
def test_learn_says_what_is_wrong_in_one_line(run, write, options, part):
    write(PLAIN)
    done = run(*LEARN, *options, status=2)
    assert done.out == "" and len(done.err.splitlines()) == 1
    assert part in done.err
    assert not Path("m.rue").exists()


UNFINISHED = PLAIN.replace("next_state", "who").replace("worn\n", "1\n").replace("retired", "2")


@pytest.mark.parametrize(
    ("text", "options", "library", "part"),
    [
        (
            PLAIN.replace("worn", "müde").encode("cp1252"), ("--goal", "retired"),
            'another encoding= such as "cp1252"', "expected that, or another --encoding such as cp1252",
        ),
        (
            UNFINISHED, ("--goal", "retired"),
            "episode= if the next row has it", "expected it, or --episode if the next row has it",
        ),
        (
            UNFINISHED, ("--goal", "retired", "--episode", "who"),
            'end=, or unfinished="drop"', "neither action nor cost, --end, or --drop-unfinished; 2 episodes",
        ),
        (
            PLAIN, (),
            'it in goals, or unvisited="dead end"',
            "never leaves state 'retired', which is no goal; expected it as a --goal, or --dead-ends; 1 state is so",
        ),
        (
            PLAIN.replace("10", "-10"), ("--goal", "retired"),
            "pass discount= to from_dense or Builder", "for rewards with a discount give a --discount",
        ),
        (PLAIN, ("--goal", "retired", "--cost-noise", -1), "cost_noise is", "rue: --cost-noise is -1.0; expected 0"),
    ],
)  # fmt: skip
def test_learn_names_flags_where_the_library_names_arguments(run, write, text, options, library, part):
    path = write(text)
    done = run("learn", "log.csv", "--initial", "new", "--seed", 1, "-o", "m.rue", *options, status=2)
    assert part in done.err and library not in done.err
    assert len(done.err.splitlines()) == 1
    given = dict(zip(options[::2], options[1::2], strict=True))
    goals = [given["--goal"]] if "--goal" in given else []
    with pytest.raises(rue.BadInput) as refusal:
        log = read_log(path, episode=given.get("--episode"))
        noise = float(given.get("--cost-noise", 0))
        rue.from_transitions(log, samples=2, seed=1, initial="new", goals=goals, cost_noise=noise)
    assert library in str(refusal.value)


def test_rows_are_counted_while_they_are_read(monkeypatch):
    from rue.cli.models import CountedRows

    reports = []
    rows = CountedRows([ROWS[0]] * 25_000, reports.append)
    assert sum(1 for _ in rows) == rows.count == 25_000
    assert [report.stage for report in reports] == ["10000 rows read", "20000 rows read"]


def test_the_log_of_the_documentation_is_what_its_script_makes(tmp_path):
    import runpy

    root = Path(__file__).parent.parent
    script = runpy.run_path(str(root / "docs" / "data" / "make_log.py"))
    script["write"](tmp_path / "again.csv")
    kept = root / "docs" / "data" / "tickets.csv"
    assert (tmp_path / "again.csv").read_bytes() == kept.read_bytes()
    assert kept.stat().st_size < 300_000
    log = read_log(kept)
    assert isinstance(log, Log) and len(list(log)) == 5001
    # Each episode can as well be read from its states alone.
    assert Counter(read_log(kept, episode="ticket")) == Counter(log)


def test_the_example_in_the_documentation_prints_what_it_shows(monkeypatch, capsys):
    """Words are the same. A method with many optimal policies may find another on another machine, and `adaptive` stops
    anywhere within five percent of the best, so that numbers on fresh samples agree roughly."""
    root = Path(__file__).parent.parent
    monkeypatch.chdir(root)
    pairs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", (root / "docs" / "logs.md").read_text(), re.DOTALL)
    assert len(pairs) == 6
    scope: dict = {}
    for code, shown in pairs:
        exec(compile(code, "logs.md", "exec"), scope)
        printed = capsys.readouterr().out
        assert len(printed.splitlines()) == len(shown.splitlines())
        for was, now in zip(shown.splitlines(), printed.splitlines(), strict=True):
            if "adaptive " in was or "steps " in was:
                # What a policy with memory does when something has failed may differ where costs tie.
                assert now.split()[:2] == was.split()[:2]
            else:
                assert re.sub(r"[\d.]+", "#", now).split() == re.sub(r"[\d.]+", "#", was).split()
            for number, other in zip(re.findall(r"\d[\d.]*", was), re.findall(r"\d[\d.]*", now), strict=True):
                assert float(other) == pytest.approx(float(number), rel=0.25, abs=0.02)


def test_the_commands_in_the_documentation_run(run, tmp_path):
    docs = Path(__file__).parent.parent / "docs"
    (tmp_path / "docs").symlink_to(docs)
    block = re.search(r"```sh\n(.*?)```", (docs / "logs.md").read_text(), re.DOTALL)[1]
    lines = block.replace("\\\n", " ").splitlines()
    assert [shlex.split(line)[:2] for line in lines] == [
        ["rue", command] for command in ("learn", "learn", "compare", "solve", "evaluate", "convert")
    ]
    printed = {}
    for line in lines:
        _, command, *arguments = shlex.split(line)
        printed[command] = run(command, *arguments).words
    assert "5001 rows, 34 states, 95 choices, 41 of them tried fewer than 10 times" in printed["learn"]
    assert "1000 samples, none of which the methods have seen" in printed["compare"]
    assert "with a probability of at most 0.3 %" in printed["evaluate"]
    assert (tmp_path / "policy.csv").read_text().startswith("node,state,action,probability,next,start\n")

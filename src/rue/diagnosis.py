"""Explain why a regret is infinite, and what could be done: exact answers, found on the graph.

`diagnose(model, policy)` says of a policy in which samples it may miss the goal, and where: it may enter a dead end (a
state from which no policy reaches a goal with probability one in that sample), or it enters a state from which it never
reaches a goal though others do.

It says of a model whether one policy reaches a goal with probability one in every sample:

- one that depends on the state alone does: `structure.jointly_proper`, which is sound;
- one that remembers its observations does, or none does. Outcomes that are impossible in a sample rule it out. So the
  model is unfolded into pairs (state, samples that are still possible), on which `jointly_proper` is exact: there, a
  state is reached in exactly those samples that are possible in it. There may be exponentially many pairs; beyond
  `MOST_TRANSITIONS` the answer is "unknown".

Where none does, samples clash: a set of samples is named for which there is no policy, and none of which can be left
out; and a state to which safe actions lead and where these samples want different things. Such a state exists: if at
every pair the actions that are safe in all its samples reached a goal in each of them, taking all of these would be
proper.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from rue._arrays import Array
from rue._check import index_array
from rue._text import listed, quoted
from rue.model import UMDP, Graph, check_model, check_same_graph
from rue.policy import Policy, check_policy
from rue.structure import jointly_proper, proper_in, reaching_goal, robustly_proper, visited_states

# Most transitions of an unfolded model.
MOST_TRANSITIONS = 200_000
# Most names that a line lists.
MOST_NAMES = 6

Proper = Literal["state", "memory", "none", "unknown"]


class Lost(NamedTuple):
    """Where a policy is lost in some samples: by an action that may end in a dead end, or by going on for ever."""

    samples: tuple[int, ...]
    state: int
    actions: tuple[int, ...]  # what it may do there
    dead_end: int | None  # where that may lead; None: it is no dead end, but this policy never reaches a goal from it
    safe: tuple[int, ...]  # actions that never lead from there into a dead end of one of these samples


class Clash(NamedTuple):
    """Samples for which there is no common policy, none of which can be left out, and a state where they clash."""

    samples: tuple[int, ...]
    state: int
    possible: tuple[int, ...]  # those of the samples that are not ruled out when the state is reached
    deadly: tuple[tuple[int, tuple[int, ...]], ...]  # actions, and the samples in which they may end in a dead end
    safe: tuple[int, ...]  # the other actions
    stuck: tuple[int, ...]  # the samples in which these never reach a goal


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What keeps a policy, and all policies, from reaching a goal with probability one in every sample."""

    model: UMDP
    lost: tuple[Lost, ...]
    slow: tuple[int, ...]  # samples in which it reaches a goal, but so late that its cost cannot be told from infinite
    proper: Proper  # what a policy must depend on to reach a goal in every sample: the state, its memory; or none does
    switching: bool  # whether some policy reaches a goal even if the sample changes at every step
    clash: Clash | None

    def lines(self) -> list[str]:
        """Return what is wrong and what could be done, in sentences."""
        return [*self.about_policy(), *self.about_model()]

    def about_policy(self) -> list[str]:
        """Return where the policy is lost, in sentences."""
        lines = [self._lost_in_words(lost) for lost in self.lost]
        if self.slow:
            lines.append(
                f"In {self._listed_samples(self.slow)} the policy reaches a goal with probability one, but so late "
                "that its cost cannot be told from infinite."
            )
        return lines

    def about_model(self) -> list[str]:
        """Return what other policies can do, in sentences."""
        if self.clash is not None:
            return self._clash_in_words(self.clash)
        lines = []
        if self.proper == "memory":
            lines.append(
                "A policy that remembers what it has seen reaches a goal with probability one in every sample: "
                "adaptive searches among those."
            )
        elif self.proper == "unknown":
            lines.append(
                "Whether one policy reaches a goal in every sample is not known: there is too much to remember."
            )
        elif self.lost:
            lines.append("A policy that looks at the state alone reaches a goal in every sample: milp searches for it.")
        if not self.switching:
            lines.append(
                "No policy reaches a goal if the sample may change at every step, as reg, cemr and robust assume."
            )
        return lines

    def facts(self) -> dict[str, Any]:
        """Return the same with names, as a JSON object."""
        return {
            "lines": self.lines(),
            "proper": self.proper,
            "switching": self.switching,
            "slow": self._samples(self.slow),
            "lost": [self._names(lost) for lost in self.lost],
            "clash": None if self.clash is None else self._names(self.clash),
        }

    def _names(self, found: Lost | Clash) -> dict[str, Any]:
        """Return the fields with names in place of numbers."""
        graph = self.model.graph
        names: dict[str, Any] = found._asdict()
        for field, value in names.items():
            if field in ("state", "dead_end"):
                names[field] = None if value is None else graph.state_name(value)
            elif field in ("actions", "safe"):
                names[field] = [graph.action_name(action) for action in value]
            elif field == "deadly":
                names[field] = {graph.action_name(action): self._samples(samples) for action, samples in value}
            else:
                names[field] = self._samples(value)
        return names

    def _samples(self, samples: Iterable[int]) -> list[str]:
        return [self.model.sample_name(k) for k in samples]

    def _listed_samples(self, samples: Sequence[int]) -> str:
        return f"sample{'' if len(samples) == 1 else 's'} {listed([*map(quoted, self._samples(samples))], MOST_NAMES)}"

    def _lost_in_words(self, lost: Lost) -> str:
        names = self._names(lost)
        state, does = names["state"], listed(names["actions"], MOST_NAMES)
        begin = f"In {self._listed_samples(lost.samples)} the policy"
        if lost.dead_end is None:
            return f"{begin} never reaches a goal from state {state} on, where it takes {does}."
        end, safe = names["dead_end"], listed(names["safe"], MOST_NAMES) or "no action"
        return f"{begin} may enter the dead end {end}: it takes {does} in state {state}. Safe there: {safe}."

    def _clash_in_words(self, clash: Clash) -> list[str]:
        names = self._names(clash)
        state, safe, clashing = names["state"], listed(names["safe"], MOST_NAMES), self._listed_samples(clash.samples)
        wrong = [
            f"{self.model.graph.action_name(action)} may lead into a dead end in {self._listed_samples(samples)}"
            for action, samples in clash.deadly
        ]
        if safe:
            wrong.append(f"{safe} never reaches a goal in {self._listed_samples(clash.stuck)}")
        return [
            f"No policy of any kind reaches a goal with probability one in every sample: {clashing} clash.",
            f"In state {state}, where {self._listed_samples(clash.possible)} are possible: {'; '.join(wrong)}.",
            f"What would end this clash: one of {clashing} left out, or an action in state {state} that reaches a "
            "goal safely in all of them.",
        ]


def diagnose(model: UMDP, policy: Policy | None = None, *, infinite: Iterable[int] = ()) -> Diagnosis:
    """Return what keeps a policy, if one is given, and all policies from reaching a goal in every sample of a model.

    `infinite` are the samples in which the judge found an infinite cost, if that is known.

    >>> builder = rue.Builder(samples=2).goal("home")
    >>> builder = builder.add("yard", "left", {"home": [0, 1], "pit": [1, 0]}, cost=1.0)
    >>> builder = builder.add("yard", "right", {"home": [1, 0], "pit": [0, 1]}, cost=1.0).initial("yard")
    >>> model = builder.add("pit", "stay", {"pit": 1.0}, cost=1.0).build()
    >>> print(rue.diagnose(model).lines()[0])
    No policy of any kind reaches a goal with probability one in every sample: samples 0 and 1 clash.
    """
    check_model(model)
    unbounded = index_array(
        "sample", list(infinite) if isinstance(infinite, tuple | list | set) else infinite, model.samples
    )
    lost: tuple[Lost, ...] = ()
    if policy is not None:
        check_same_graph(model, check_policy(policy).graph)
        lost = _where_lost(model, policy)
    switching, proper, clash = model.remember("diagnosis", lambda: _of_all_policies(model))
    slow = sorted(set(unbounded.tolist()) - {k for place in lost for k in place.samples})
    return Diagnosis(model, lost, tuple(slow), proper, switching, clash)


def _of_all_policies(model: UMDP) -> tuple[bool, Proper, Clash | None]:
    initial = model.graph.initial
    switching = bool(model.graph.goal[initial] or initial in robustly_proper(model, randomised=True)[0])
    proper = _proper(model)
    clash = None if proper in ("state", "memory") else _find_clash(model)
    return switching, "none" if clash is not None else proper, clash


def _proper(model: UMDP) -> Proper:
    """Return what a policy must depend on to reach a goal with probability one in every sample."""
    if jointly_proper(model)[0][model.graph.initial]:
        return "state"
    unfolded = Unfolded.of(model)
    if unfolded is None:
        return "unknown"
    return "memory" if jointly_proper(unfolded.model)[0][0] else "none"


def _find_clash(model: UMDP) -> Clash | None:
    """Return samples that clash, and where; None if none are found before the unfolded models become too large.

    Samples are added one by one until there is no policy: the last one belongs to the clash. Then the same is done
    with those before it, beginning with the samples that are known to belong to the clash.
    """
    core: list[int] = []
    rest = list(range(model.samples))
    while not core or _proper(model.subset(core)) != "none":
        for place, sample in enumerate(rest):
            answer = _proper(model.subset([*core, *rest[: place + 1]]))
            if answer == "unknown":
                return None
            if answer == "none":
                core.append(sample)
                rest = rest[:place]
                break
        else:
            return None
    core.sort()
    unfolded = Unfolded.of(model.subset(core))
    return None if unfolded is None else unfolded.clash(core)


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A model whose states also say which samples are possible after what was seen."""

    original: UMDP
    model: UMDP
    state: Array  # [N] of the original
    possible: Array  # [N, K]
    choice: Array  # the original's choice behind each choice
    transition: Array  # the original's transition behind each transition

    @classmethod
    def of(cls, model: UMDP) -> "Unfolded | None":
        """Unfold a model; None if that is too large."""
        graph = model.graph
        choice_ptr, trans_ptr, successor = (a.tolist() for a in (graph.choice_ptr, graph.trans_ptr, graph.successor))
        packed = np.packbits(model.prob > 0, axis=1, bitorder="little")
        live = [int.from_bytes(row.tobytes(), "little") for row in packed]  # bit k: possible in sample k
        pairs = [(graph.initial, (1 << model.samples) - 1)]
        number = {pairs[0]: 0}
        choices: list[int] = []
        transitions: list[int] = []
        targets: list[int] = []
        ends, counts = [0], [0]
        for at, possible in pairs:  # grows as it is read
            for choice in range(choice_ptr[at], choice_ptr[at + 1]):
                for t in range(trans_ptr[choice], trans_ptr[choice + 1]):
                    left = live[t] & possible
                    if not left:
                        continue
                    pair = (successor[t], left)
                    targets.append(number.setdefault(pair, len(pairs)))
                    transitions.append(t)
                    if targets[-1] == len(pairs):
                        pairs.append(pair)
                choices.append(choice)
                ends.append(len(transitions))
            counts.append(len(choices))
            if len(transitions) > MOST_TRANSITIONS:
                return None
        sets = b"".join(left.to_bytes(packed.shape[1], "little") for _, left in pairs)
        bits = np.frombuffer(sets, np.uint8).reshape(len(pairs), -1)
        is_possible: Array = np.unpackbits(bits, axis=1, count=model.samples, bitorder="little").astype(bool)
        # A pair is never reached in the other samples; they get the numbers of its first sample.
        stand_in = np.where(is_possible, np.arange(model.samples), is_possible.argmax(axis=1)[:, None])
        owner = np.repeat(np.arange(len(pairs)), np.diff(counts))
        unfolded = Graph(np.array(counts), graph.action[choices], np.array(ends), np.array(targets), initial=0)
        prob = np.take_along_axis(model.prob[transitions], stand_in[owner[unfolded.trans_choice]], axis=1)
        cost = np.take_along_axis(model.cost[choices], stand_in[owner], axis=1)
        state = np.array([state for state, _ in pairs])
        pairs_model = UMDP(unfolded, prob, cost, weight=model.weight)
        return cls(model, pairs_model, state, is_possible, np.array(choices), np.array(transitions))

    def clash(self, names: Sequence[int]) -> Clash:
        """Return the nearest place where the choices that are safe in all possible samples miss the goal in one.

        `names` are the numbers of the samples in a larger model. There is no policy that is proper in all of them.
        """
        graph, samples = self.model.graph, self.model.samples
        owner = graph.choice_state[graph.trans_choice]
        alive = np.column_stack([proper_in(self.original, k)[0] for k in range(samples)])
        live = (self.model.prob > 0) & self.possible[owner]
        enters = live & ~alive[self.state[graph.successor]]
        deadly = np.zeros((graph.choices, samples), bool)
        np.logical_or.at(deadly, graph.trans_choice, enters)
        allowed: Array = ~np.asarray(deadly.any(axis=1))
        order = visited_states(graph, np.ones(graph.transitions, bool), allowed)
        stuck = self.possible.copy()
        for k in range(samples):
            stuck[reaching_goal(graph, live[:, k], allowed), k] = False
        place = int(next(node for node in order if stuck[node].any()))

        def named(flags: Array) -> tuple[int, ...]:
            return tuple(names[int(k)] for k in np.flatnonzero(flags))

        here = range(graph.choice_ptr[place], graph.choice_ptr[place + 1])
        return Clash(
            samples=tuple(names),
            state=int(self.state[place]),
            possible=named(self.possible[place]),
            deadly=tuple((int(graph.action[c]), named(deadly[c])) for c in here if not allowed[c]),
            safe=tuple(int(graph.action[c]) for c in here if allowed[c]),
            stuck=named(stuck[place]),
        )


def _where_lost(model: UMDP, policy: Policy) -> tuple[Lost, ...]:
    """Return where a policy is lost; samples in which it is lost at the same place are grouped."""
    places: dict[tuple[int, tuple[int, ...], int | None], list[int]] = {}
    for k in range(model.samples):
        place = _first_loss(model, policy, k)
        if place is not None:
            places.setdefault(place, []).append(k)
    graph, found = model.graph, []
    for (state, actions, dead_end), samples in places.items():
        safe = np.logical_and.reduce([proper_in(model, k)[1] for k in samples])
        here = range(graph.choice_ptr[state], graph.choice_ptr[state + 1])
        safe_actions = tuple(int(graph.action[c]) for c in here if safe[c])
        found.append(Lost(tuple(samples), state, actions, dead_end, safe_actions))
    return tuple(found)


def _first_loss(model: UMDP, policy: Policy, sample: int) -> tuple[int, tuple[int, ...], int | None] | None:
    """Return the nearest place where a policy is lost in a sample: state, actions, and the dead end if any."""
    graph, length = model.graph, np.diff(policy.next_ptr)
    live = np.flatnonzero(model.prob[policy.transition, sample] > 0)
    entry = np.repeat(np.arange(policy.choice.size), length)[live]
    source = policy.entry_node[entry]
    target = policy.next_node[live]
    order, before = _spread(policy.nodes, policy.start_node[policy.start_weight > 0], source, target)
    ends, _ = _spread(policy.nodes, np.flatnonzero(graph.goal[policy.node_state]), target, source)
    endless = order[~np.isin(order, ends)]
    if not endless.size:
        return None
    dead = ~proper_in(model, sample)[0][policy.node_state]
    entered = order[dead[order]]
    if entered.size:
        node = int(entered[0])
        choice = policy.choice[entry[np.flatnonzero((source == before[node]) & (target == node))[0]]]
        return int(graph.choice_state[choice]), (int(graph.action[choice]),), int(policy.node_state[node])
    node = int(endless[0])
    taken = policy.choice[policy.entry_ptr[node] : policy.entry_ptr[node + 1]]
    return int(policy.node_state[node]), tuple(int(a) for a in graph.action[taken]), None


def _spread(nodes: int, start: Array, source: Array, target: Array) -> tuple[Array, Array]:
    """Return the nodes that are reached from some others, the nearest first, and the node before each."""
    from scipy.sparse import coo_array  # seldom needed, and slow to import
    from scipy.sparse.csgraph import breadth_first_order

    first = np.full(start.size, nodes)  # a node before all others
    ends = np.concatenate([source, first]), np.concatenate([target, start])
    edges = coo_array((np.ones(ends[0].size, np.int8), ends), shape=(nodes + 1, nodes + 1)).tocsr()
    edges.data[:] = 1  # several ways from one node to another are one
    order, before = breadth_first_order(edges, nodes)
    return order[1:], before

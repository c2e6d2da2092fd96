"""Run a policy in a sample, step by step.

Every step pays the expected cost C̄_k of the choice, so the mean over episodes estimates the value that the judge
computes. Each confidence interval is Student's t at the stated level.

*Paths.* `Paths` has all episodes, one row for each visit of a node; the last row of an episode is where it ended. The
belief of a row is what the states up to it say about the samples, beginning with their weights, as that of an agent.
"""

import csv
from dataclasses import dataclass
from functools import cached_property
from io import StringIO

import numpy as np

from rue._arrays import Array, pointers, ranges, read_only
from rue._check import check_memory, flag, one_index, whole_number
from rue._check import seed as check_seed
from rue.errors import argument
from rue.model import UMDP, check_same_graph
from rue.policy import Policy, check_policy
from rue.simulation_kernels import ControllerArrays, Record, SampleArrays, simulate_episodes

LEVEL = 0.95
MOST_STEPS = 2**62


@dataclass(frozen=True, eq=False)
class Paths:
    """What happened in each episode. R rows, one for each visit of a node; the last one of an episode has no action."""

    model: UMDP
    policy: Policy
    sample: int
    episode_ptr: Array  # [episodes+1] the rows of an episode
    node: Array  # [R]
    entry: Array  # [R] what the node did, an index of the policy's `choice`; -1 at the end
    transition: Array  # [R] the transition that followed; -1 at the end

    @property
    def episode(self) -> Array:  # [R]
        """The episode of each row."""
        return np.repeat(np.arange(self.episode_ptr.size - 1), np.diff(self.episode_ptr))

    @property
    def step(self) -> Array:  # [R]
        """The number of steps before each row in its episode."""
        return np.asarray(ranges(np.zeros(self.episode_ptr.size - 1, np.int64), np.diff(self.episode_ptr)))

    @property
    def state(self) -> Array:  # [R]
        """The number of the state."""
        return np.asarray(self.policy.node_state[self.node])

    @property
    def choice(self) -> Array:  # [R]
        """The choice that was taken; -1 at the end."""
        return self._of_entries(self.policy.choice)

    @property
    def action(self) -> Array:  # [R]
        """The number of the action that was taken; -1 at the end."""
        return self._of_entries(self.model.graph.action[self.policy.choice])

    @property
    def cost(self) -> Array:  # [R]
        """What the action cost, or its reward (`UMDP.units`); 0 at the end."""
        cost, acts = np.zeros(self.entry.size), self.entry >= 0
        cost[acts] = self.model.units.step(self.model.cost[self.choice[acts], self.sample])
        return cost

    @cached_property
    def belief(self) -> Array:  # [R, K]
        """The probability of each sample after what was seen up to the row."""
        check_memory(f"the beliefs of {self.node.size} visits", 32.0 * self.node.size * self.model.samples)
        with np.errstate(divide="ignore"):
            prior = np.log(self.model.weight)
            seen = np.vstack([np.zeros(self.model.samples), np.log(self._likelihood())])
        number = np.unique(self._taken, return_inverse=True)[1] + 1
        log = np.empty((self.node.size, self.model.samples))
        passed = 0
        for first, end in zip(self.episode_ptr[:-1], self.episode_ptr[1:], strict=True):
            steps = number[passed : passed + end - first - 1]
            log[first:end] = np.cumsum(seen[np.append(0, steps)], axis=0)
            passed += steps.size
        weighted = log + prior
        # If only samples of weight 0 are left, what was seen decides alone.
        log = np.where(weighted.max(axis=1, keepdims=True) > -np.inf, weighted, log)
        belief = np.exp(log - log.max(axis=1, keepdims=True))
        return read_only(belief / belief.sum(axis=1, keepdims=True))

    def to_csv(self) -> str:
        """Return a table with a row for each visit: names, costs, and the belief in each sample."""
        graph, text = self.model.graph, StringIO()
        writer = csv.writer(text, lineterminator="\n")
        beliefs = [f"belief {self.model.sample_name(k)}" for k in range(self.model.samples)]
        writer.writerow(["episode", "step", "node", "state", "action", self.model.units.name, *beliefs])
        columns = (self.episode, self.step, self.node, self.state, self.action, self.cost)
        for row, belief in zip(zip(*(column.tolist() for column in columns), strict=True), self.belief, strict=True):
            episode, step, node, state, action, cost = row
            name, does = graph.state_name(state), "" if action < 0 else graph.action_name(action)
            writer.writerow([episode, step, node, name, does, cost, *(f"{chance:.6g}" for chance in belief)])
        return text.getvalue()

    def _of_entries(self, values: Array) -> Array:
        found = np.full(self.entry.size, -1)
        found[self.entry >= 0] = values[self.entry[self.entry >= 0]]
        return found

    @property
    def _taken(self) -> Array:  # [steps]
        """The place of each step in the policy's `next_node`."""
        step = self.entry >= 0
        entry = self.entry[step]
        first = self.model.graph.trans_ptr[self.policy.choice[entry]]
        return np.asarray(self.policy.next_ptr[entry] + self.transition[step] - first)

    def _likelihood(self) -> Array:  # [steps that differ, K]
        """Return the probability in each sample of the state that a step leads to, by all outcomes that lead there.

        If the policy distinguishes these outcomes, return the probability of the outcome alone.
        """
        graph, policy, found = self.model.graph, self.policy, []
        for place in np.unique(self._taken).tolist():
            entry = int(np.searchsorted(policy.next_ptr, place, "right")) - 1
            first, end = graph.trans_ptr[policy.choice[entry] : policy.choice[entry] + 2]
            own = first + place - policy.next_ptr[entry]
            alike = np.flatnonzero(graph.successor[first:end] == graph.successor[own])
            if np.unique(policy.next_node[policy.next_ptr[entry] + alike]).size > 1:
                alike = np.array([own - first])
            found.append(self.model.prob[first + alike].sum(axis=0))
        return np.array(found).reshape(len(found), self.model.samples)


@dataclass(frozen=True, eq=False)
class Simulation:
    """The cost and length of each episode, and an estimate of the expected cost."""

    cost: Array  # [episodes]
    steps: Array  # [episodes]
    reached: Array  # [episodes] whether the goal was reached before the step limit
    level: float = LEVEL
    paths: "Paths | None" = None  # if they were asked for
    reward: bool = False  # whether `cost` holds rewards, if the model was made of them

    @property
    def mean(self) -> float:
        """Mean cost or reward; infinite if some episode was cut off, as the mean then says too little."""
        return float(self.cost.mean()) if self.reached.all() else (-np.inf if self.reward else np.inf)

    @property
    def interval(self) -> tuple[float, float]:
        """A confidence interval for the expected cost or reward. Cut-off episodes leave only one end of it."""
        from scipy.special import stdtrit  # slow to import, and needed here alone

        episodes = self.cost.size
        if episodes < 2:
            return (-np.inf, np.inf)
        spread = float(self.cost.std(ddof=1)) / np.sqrt(episodes)
        half = float(stdtrit(episodes - 1, 0.5 + 0.5 * self.level)) * spread
        centre = float(self.cost.mean())
        if self.reached.all():
            return (centre - half, centre + half)
        return (-np.inf, centre + half) if self.reward else (centre - half, np.inf)

    def __repr__(self) -> str:
        low, high = self.interval
        figure = "reward" if self.reward else "cost"
        return (
            f"Simulation({self.cost.size} episodes, mean {figure} {self.mean:.6g}, {self.level:.0%} interval "
            f"[{low:.6g}, {high:.6g}], {int((~self.reached).sum())} cut off)"
        )


def simulate(
    model: UMDP,
    policy: Policy,
    *,
    sample: int,
    episodes: int = 1000,
    seed: int,
    max_steps: int = 1_000_000,
    paths: bool = False,
) -> Simulation:
    """Run `episodes` of a policy in one sample. Episodes longer than `max_steps` are cut off and say so.

    With `paths`, the result has all of them step by step: states, actions, nodes, costs and beliefs.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> policy = rue.solve(model, rue.Regret()).policy
    >>> episodes = rue.simulate(model, policy, sample=3, episodes=1000, seed=0)
    >>> bool(abs(episodes.mean - rue.evaluate(model, policy).value[3]) < 0.1)
    True
    """
    check_same_graph(model, check_policy(policy).graph)
    sample = one_index("sample", sample, model.samples)
    episodes = whole_number("episodes", episodes, 1)
    max_steps = min(whole_number("max_steps", max_steps, 1), MOST_STEPS)
    flag("paths", paths)
    check_memory(f"{episodes} episodes", 25 * episodes)
    generator = np.random.default_rng(check_seed(seed))
    before = generator.bit_generator.state
    controller = ControllerArrays(
        policy.entry_ptr, policy.choice, policy.weight, policy.next_ptr, policy.next_node,
        policy.start_node, policy.start_weight, model.graph.goal[policy.node_state],
    )  # fmt: skip
    numbers = SampleArrays(model.graph.trans_ptr, model.prob[:, sample].copy(), model.cost[:, sample].copy())
    cost, steps, reached = np.empty(episodes), np.empty(episodes, np.int64), np.empty(episodes, bool)
    start = np.empty(episodes, np.int64)

    def run(taken: Array) -> None:
        simulate_episodes(generator, controller, numbers, max_steps, cost, steps, reached, Record(start, taken))

    run(np.empty(0, np.int64))
    if not paths:
        return Simulation(model.units.episode(cost, steps), steps, reached, reward=model.units.reward)
    total = int(steps.sum())
    check_memory(f"the paths of {total} steps", 64 * total, argument("max_steps= or episodes= with a smaller number"))
    generator.bit_generator.state = before  # the same episodes again, now that their lengths are known
    taken = np.empty(total, np.int64)
    run(taken)
    found = _paths(model, policy, sample, steps, Record(start, taken))
    return Simulation(model.units.episode(cost, steps), steps, reached, paths=found, reward=model.units.reward)


def _paths(model: UMDP, policy: Policy, sample: int, steps: Array, record: Record) -> Paths:
    ptr = pointers(steps + 1)
    entry, transition = np.full((2, ptr[-1]), -1)
    node = np.empty(ptr[-1], np.int64)
    begins, acts = np.zeros(ptr[-1], bool), np.ones(ptr[-1], bool)
    begins[ptr[:-1]], acts[ptr[1:] - 1] = True, False
    taken_entry = np.searchsorted(policy.next_ptr, record.taken, "right") - 1
    entry[acts] = taken_entry
    transition[acts] = model.graph.trans_ptr[policy.choice[taken_entry]] + record.taken - policy.next_ptr[taken_entry]
    node[begins], node[~begins] = record.start, policy.next_node[record.taken]
    return Paths(model, policy, sample, *map(read_only, (ptr, node, entry, transition)))

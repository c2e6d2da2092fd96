"""Run a policy in a sample, step by step.

Every step pays the expected cost C̄_k of the choice, so the mean over episodes estimates the value that the judge
computes. Each confidence interval is Student's t at the stated level.
"""

from dataclasses import dataclass

import numpy as np

from rue._arrays import Array
from rue._check import check_memory, one_index, whole_number
from rue._check import seed as check_seed
from rue.model import UMDP, check_same_graph
from rue.policy import Policy, check_policy
from rue.simulation_kernels import ControllerArrays, SampleArrays, simulate_episodes

LEVEL = 0.95
MOST_STEPS = 2**62


@dataclass(frozen=True, eq=False)
class Simulation:
    """The cost and length of each episode, and an estimate of the expected cost."""

    cost: Array  # [episodes]
    steps: Array  # [episodes]
    reached: Array  # [episodes] whether the goal was reached before the step limit
    level: float = LEVEL

    @property
    def mean(self) -> float:
        """Mean cost; infinite if some episode was cut off, as the mean then says too little."""
        return float(self.cost.mean()) if self.reached.all() else np.inf

    @property
    def interval(self) -> tuple[float, float]:
        """A confidence interval for the expected cost. Cut-off episodes leave only its lower end."""
        from scipy.special import stdtrit  # slow to import, and needed here alone

        episodes = self.cost.size
        if episodes < 2:
            return (-np.inf, np.inf)
        spread = float(self.cost.std(ddof=1)) / np.sqrt(episodes)
        half = float(stdtrit(episodes - 1, 0.5 + 0.5 * self.level)) * spread
        centre = float(self.cost.mean())
        return (centre - half, centre + half if self.reached.all() else np.inf)

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Simulation({self.cost.size} episodes, mean cost {self.mean:.6g}, {self.level:.0%} interval "
            f"[{low:.6g}, {high:.6g}], {int((~self.reached).sum())} cut off)"
        )


def simulate(
    model: UMDP, policy: Policy, *, sample: int, episodes: int = 1000, seed: int, max_steps: int = 1_000_000
) -> Simulation:
    """Run `episodes` of a policy in one sample. Episodes longer than `max_steps` are cut off and say so."""
    check_same_graph(model, check_policy(policy).graph)
    sample = one_index("sample", sample, model.samples)
    episodes = whole_number("episodes", episodes, 1)
    max_steps = min(whole_number("max_steps", max_steps, 1), MOST_STEPS)
    check_memory(f"{episodes} episodes", 17 * episodes)
    rng = np.random.default_rng(check_seed(seed))
    controller = ControllerArrays(
        policy.entry_ptr, policy.choice, policy.weight, policy.next_ptr, policy.next_node,
        policy.start_node, policy.start_weight, model.graph.goal[policy.node_state],
    )  # fmt: skip
    numbers = SampleArrays(model.graph.trans_ptr, model.prob[:, sample].copy(), model.cost[:, sample].copy())
    found = Simulation(np.empty(episodes), np.empty(episodes, np.int64), np.empty(episodes, bool))
    simulate_episodes(rng, controller, numbers, max_steps, found.cost, found.steps, found.reached)
    return found

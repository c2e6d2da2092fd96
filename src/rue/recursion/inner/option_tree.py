"""The unfolding of options of n steps: the model as they see it, where they begin, and the slots that they may visit.

Only kept choices and possible transitions matter, and all goals are one state. Options begin at the initial state and
wherever others may end: after multiples of n steps. All classes of options, in kernels and in HiGHS, build on this.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rue._arrays import Array, members, members_with_owner, places, pointers
from rue.errors import BadInput
from rue.model import UMDP, Graph
from rue.recursion.inner.node_kernels import GraphView
from rue.recursion.inner.option_tree_kernels import HUGE, OptionArrays, SlotLayers, lay_out

# Counts of histories are cut off here: enough to refuse them, and still integers.
LARGEST_COUNT = 1e18


@dataclass(frozen=True, eq=False)
class OptionTree:
    """The options of N roots, with the way back to the graph."""

    model: OptionArrays
    layers: SlotLayers
    choice_id: Array  # the choice of the graph behind each of the option model's
    number: Array  # [C] and back; -1 for choices that are not kept
    transition: Array  # the transition of the graph behind each of the option model's
    plan_size: Array  # [N] the most histories that a pure tree of each option visits

    @classmethod
    def build(cls, model: UMDP, gap: Array, kept: Array, steps: int, order: Array | None, safe: Array) -> "OptionTree":
        """Unfold all options; `kept[C]` says which choices they may take, `order` which roots come first.

        Options begin only at `safe[S]` states. A state must have a choice, so all are kept where none is.
        """
        graph = model.graph
        has_one = np.bincount(graph.choice_state[kept], minlength=graph.states) > 0
        view = _View.of(model, kept | ~has_one[graph.choice_state])
        roots = view.roots(graph.initial, steps)
        roots = roots[safe[roots]]
        if order is not None:
            rank = places(order, graph.states, order.size)
            roots = roots[np.argsort(rank[roots], kind="stable")]
        return cls._unfold(model, gap, steps, view, roots)

    @classmethod
    def at(cls, model: UMDP, gap: Array, kept: Array | None, steps: int, root: int) -> "OptionTree":
        """Unfold the option of one root alone; `kept` is a mask over the choices, None for all."""
        view = _View.of(model, np.ones(model.graph.choices, bool) if kept is None else kept)
        root = view.goal if model.graph.goal[root] else root
        return cls._unfold(model, gap, steps, view, np.array([root], np.int32))

    @classmethod
    def _unfold(cls, model: UMDP, gap: Array, steps: int, view: "_View", roots: Array) -> "OptionTree":
        sizes = count_histories(steps, *view.arrays)
        tree_size, choice_size, plan_size = (np.minimum(size, LARGEST_COUNT).astype(np.int64) for size in sizes)
        number = places(view.choice_id, model.graph.choices).astype(np.int32)
        prob, finite = _noticeable(model.prob[view.transition], steps), np.minimum(gap[view.choice_id], HUGE)
        return cls(
            OptionArrays(steps, view.goal, *view.arrays, prob, finite, tree_size, choice_size),
            SlotLayers(steps, roots, *lay_out(roots, steps, view.goal, *view.arrays)),
            view.choice_id,
            number,
            view.transition,
            plan_size[steps, roots],
        )

    def with_numbers(self, gap: Array, prob: Array) -> "OptionTree":
        """Return the same tree with other gaps and probabilities, positive where the present ones are."""
        finite = np.minimum(gap[self.choice_id], HUGE)
        prob = _noticeable(prob[self.transition], self.model.steps)
        return replace(self, model=self.model._replace(gap=finite, prob=prob))

    @property
    def size(self) -> int:
        """N, the number of options."""
        return int(self.layers.root.size)

    @property
    def samples(self) -> int:
        """K, the number of samples."""
        return int(self.model.prob.shape[1])

    def histories(self) -> Array:  # [N]
        """Return how many histories the tree of each option has; at most `LARGEST_COUNT`."""
        return np.asarray(self.model.tree_size[-1, self.layers.root])

    def graph_view(self, graph: Graph) -> GraphView:
        """Return the graph as kernels that make controllers take it."""
        return GraphView(self.choice_id, self.transition, graph.trans_ptr, graph.successor)

    def layer(self, i: int, time: int) -> Array:
        """Return the states that option i may visit at a time."""
        at = i * (self.model.steps + 1) + time
        return np.asarray(self.layers.state[self.layers.ptr[at] : self.layers.ptr[at + 1]])

    @cached_property
    def _last(self) -> Array:  # [N]
        """The layer of the ends of each option."""
        return np.asarray(np.arange(self.size) * (self.model.steps + 1) + self.model.steps)

    @cached_property
    def end_ptr(self) -> Array:  # [N+1]
        """Where the ends of each option begin in `end_state`."""
        return pointers(np.diff(self.layers.ptr)[self._last])

    @cached_property
    def end_slot(self) -> Array:
        """The slot of each end."""
        return members(self.layers.ptr, self._last)

    @cached_property
    def end_state(self) -> Array:
        """The state of each end."""
        return np.asarray(self.layers.state[self.end_slot])

    def ends(self, i: int) -> slice:
        """Return the place of the ends of option i in `end_state`."""
        return slice(int(self.end_ptr[i]), int(self.end_ptr[i + 1]))

    @cached_property
    def widest(self) -> int:
        """The most slots in a layer."""
        return int(np.diff(self.layers.ptr).max(initial=1))

    @property
    def operations(self) -> int:
        """A bound on the number of operations, one after the other, behind any number of a row or of a bound on it."""
        widest = int(np.diff(self.model.trans_ptr).max(initial=1)) + int(np.diff(self.model.choice_ptr).max(initial=1))
        return int(self.model.steps * (4 * widest + 2 * self.samples + self.widest + 16))

    def refuse_if(self, too_large: bool, what: str, wanted: str) -> None:
        """Refuse options whose histories are too many, before anything is done with them."""
        if too_large:
            most = float(self.histories().max())
            raise BadInput(
                f"options of {self.model.steps} steps have {most:.3g} histories at state "
                f"{int(self.layers.root[self.histories().argmax()])} alone{what}; expected {wanted}: lower steps, or "
                "prune if the solver does not"
            )


@dataclass(frozen=True, eq=False)
class _View:
    """Kept choices and possible transitions, all goals as one."""

    goal: int
    choice_id: Array
    transition: Array
    choice_ptr: Array
    trans_ptr: Array
    successor: Array

    @classmethod
    def of(cls, model: UMDP, kept: Array) -> "_View":
        graph = model.graph
        goal = int(np.flatnonzero(graph.goal)[0])
        choice_id = np.flatnonzero(kept).astype(np.int32)
        possible = model.prob.max(axis=1) > 0
        transition, owner = members_with_owner(graph.trans_ptr, choice_id)
        owner, transition = owner[possible[transition]], transition[possible[transition]]
        after = graph.successor[transition]
        return cls(
            goal,
            choice_id,
            transition,
            pointers(np.bincount(graph.choice_state[choice_id], minlength=graph.states)),
            pointers(np.bincount(owner, minlength=choice_id.size)),
            np.where(graph.goal[after], goal, after).astype(np.int32),
        )

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        return self.choice_ptr, self.trans_ptr, self.successor

    def roots(self, initial: int, steps: int) -> Array:
        """Return all states at which an option may begin: reached in multiples of n steps from the initial one."""
        is_new = np.ones(self.choice_ptr.size - 1, bool)
        is_new[[self.goal, initial]] = False
        fresh = np.array([initial], np.int32)
        found = [fresh]
        while fresh.size:
            ptr, state = lay_out(fresh, steps, self.goal, *self.arrays)
            last = np.arange(fresh.size) * (steps + 1) + steps
            ends = state[members(ptr, last)]
            ends = ends[is_new[ends]]
            fresh = ends[np.sort(np.unique(ends, return_index=True)[1])]
            is_new[fresh] = False
            found.append(fresh)
        return np.concatenate(found)


def count_histories(steps: int, choice_ptr: Array, trans_ptr: Array, successor: Array) -> tuple[Array, Array, Array]:
    """Return `tree_size` and `choice_size` of `OptionArrays`, and the most histories that a pure tree visits.

    They are floats, since they may be enormous.
    """
    states, choices = choice_ptr.size - 1, trans_ptr.size - 1
    acting = np.flatnonzero(np.diff(choice_ptr))
    tree_size, plan_size = np.zeros((2, steps + 1, states))
    choice_size = np.zeros((steps + 1, choices))
    for left in range(1, steps + 1):
        choice_size[left] = np.add.reduceat(tree_size[left - 1][successor], trans_ptr[:-1])
        visited = np.add.reduceat(plan_size[left - 1][successor], trans_ptr[:-1])
        tree_size[left, acting] = 1.0 + np.add.reduceat(choice_size[left], choice_ptr[acting])
        plan_size[left, acting] = 1.0 + np.maximum.reduceat(visited, choice_ptr[acting])
    return tree_size, choice_size, plan_size


def _noticeable(prob: Array, steps: int) -> Array:
    """Return probabilities that are 0 or large enough for `HUGE` to remain huge after n steps.

    Those that are raised are far below rounding. Without it, times `HUGE` they might vanish, and an infinite cost with
    them.
    """
    return np.ascontiguousarray(np.where(prob > 0, np.maximum(prob, 10 ** (-180 / steps)), 0.0))

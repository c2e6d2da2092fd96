"""A UMDP at a fixed belief as a POMDPX file, for solvers of partially observable MDPs such as SARSOP.

The state of the file has two parts: the model's state, which is observed, and the sample, which is hidden and never
changes. The sample is drawn from the belief.

*Rewards.* A policy that maximises rewards −C̄_k(s,a) minimises Σ_k b_k V_k(π). With a potential h, one number for each
state and sample and zero at goals, the reward is −(C̄_k(s,a) + Σ T_k(s,a,s') h_k(s') − h_k(s)), and the value of the
file is that of the costs with Σ_k b_k h_k at the initial state added. With h = V* its negative is the least weighted
regret itself. The best policies are the same for every h.

*Discount.* Such solvers need one below 1. Where each choice of each sample ends in a goal with probability 1 − γ or
more, as after `UMDP.with_discount`, γ is the discount of the file, the rest of each row is divided by it, and nothing
is lost. Where some choice need not end, the discount is the one given, and the file is near the model, not equal to it.

*Actions.* Each state of the file has every action. One that the model does not have there does what the first one does.
"""

from collections.abc import Callable, Iterable, Iterator
from xml.sax.saxutils import escape

import numpy as np

from rue._arrays import Array
from rue.model import UMDP

# The discount of models that need not end.
ALMOST_ONE = 0.999999
STATES = 1 << 12  # that are written at a time


def discount_of(model: UMDP, otherwise: float = ALMOST_ONE) -> float:
    """Return γ where each choice of each sample ends with probability 1 − γ or more, and γ < 1; else `otherwise`."""
    return 1.0 - float(_ending(model).min()) if _ends(model) else otherwise


def rewards(model: UMDP, potential: Array | None = None) -> Array:  # [C, K]
    """Return the reward of each choice in each sample."""
    if potential is None:
        return -model.cost
    graph = model.graph
    if not np.isfinite(potential).all():
        raise ValueError("the potential is infinite at some state; expected a model whose goal is in reach everywhere")
    ahead = np.add.reduceat(model.prob * potential[graph.successor], graph.trans_ptr[:-1], axis=0)
    return np.asarray(potential[graph.choice_state] - model.cost - ahead)


def pomdpx(
    model: UMDP,
    belief: Array,
    potential: Array | None = None,
    otherwise: float = ALMOST_ONE,
    description: str = "A UMDP at a fixed belief",
    keep: bool = False,
) -> str:
    """Return the text of the file (see `pomdpx_pieces`)."""
    return "".join(pomdpx_pieces(model, belief, potential, otherwise, description, keep))


def pomdpx_pieces(
    model: UMDP,
    belief: Array,
    potential: Array | None = None,
    otherwise: float = ALMOST_ONE,
    description: str = "A UMDP at a fixed belief",
    keep: bool = False,
) -> Iterator[str]:
    """Yield the text of the file in pieces; `keep` its rows also where a discount could stand for a part."""
    graph = model.graph
    actions = int(graph.action.max(initial=0)) + 1
    discount = otherwise if keep else discount_of(model, otherwise)
    prob, reward = model.prob if keep else probabilities(model), rewards(model, potential)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<pomdpx version="1.0" id="rue">\n'
    yield f"<Description>{escape(description)}</Description>\n<Discount>{discount!r}</Discount>\n<Variable>\n"
    yield _state_variable("state", graph.states, observed=True)
    yield _state_variable("sample", model.samples, observed=False)
    yield f'<ActionVar vname="action"><NumValues>{actions}</NumValues></ActionVar>\n<RewardVar vname="reward"/>\n'
    yield "</Variable>\n<InitialStateBelief>\n"
    yield from _table("state_0", "null", [_entry(f"s{graph.initial}", ["1"])])
    yield from _table("sample_0", "null", [_entry("-", _numbers(belief / belief.sum()))])
    yield "</InitialStateBelief>\n<StateTransitionFunction>\n"
    yield from _table("state_1", "action state_0 sample_0", _blocks(model, _transitions(model, actions, prob)))
    yield from _table("sample_1", "sample_0", [_entry("- -", ["identity"])])
    yield "</StateTransitionFunction>\n<RewardFunction>\n"
    yield from _table("reward", "action state_0 sample_0", _blocks(model, _rewards(model, reward, actions)), "Func")
    yield "</RewardFunction>\n</pomdpx>\n"


def _blocks(model: UMDP, entries: Callable[[range], Iterator[str]]) -> Iterator[str]:
    """Yield the entries of some states at a time."""
    for first in range(0, model.graph.states, STATES):
        yield "".join(entries(range(first, min(first + STATES, model.graph.states))))


def _ending(model: UMDP) -> Array:  # [C, K]
    """Return the probability of each choice to end in a goal."""
    graph = model.graph
    if graph.choices == 0:
        return np.zeros((0, model.samples))
    return np.add.reduceat(model.prob * graph.goal[graph.successor][:, None], graph.trans_ptr[:-1], axis=0)


def _ends(model: UMDP) -> bool:
    """Return whether each choice of each sample may end, and some does not surely end."""
    least = float(_ending(model).min(initial=1.0))
    return 0.0 < least < 1.0


def probabilities(model: UMDP) -> Array:  # [T, K]
    """Return the probabilities of the file: without what its discount stands for."""
    if not _ends(model):
        return model.prob
    graph, ending = model.graph, _ending(model)
    least = ending.min()
    goal = graph.goal[graph.successor]
    part = np.where(goal[:, None], (ending - least)[graph.trans_choice] / ending[graph.trans_choice], 1.0)
    return np.asarray(model.prob * part / (1.0 - least))


def _transitions(model: UMDP, actions: int, prob: Array) -> Callable[[range], Iterator[str]]:
    """Return what yields an entry for each action and transition of some states, with a number for each sample."""
    graph = model.graph

    def entries(states: range) -> Iterator[str]:
        first, last = graph.choice_ptr[[states.start, states.stop]]
        begin, end = graph.trans_ptr[[first, last]]
        target, number = graph.successor[begin:end].tolist(), prob[begin:end].tolist()
        ptr = (graph.trans_ptr[first : last + 1] - begin).tolist()
        for state, own in choices_of_actions(model, actions, states):
            if not own:
                yield _entry(f"* s{state} * s{state}", ["1"])
            for action, choice in enumerate(own):
                rows = slice(ptr[choice - first], ptr[choice - first + 1])
                for successor, row in _merged(target[rows], number[rows]):
                    yield _entry(f"a{action} s{state} - s{successor}", map(repr, row))

    return entries


def _merged(target: list[int], prob: list[list[float]]) -> list[tuple[int, list[float]]]:
    """Return the successors of a choice and the probabilities of each, which may come more than once in the model."""
    found: dict[int, list[float]] = {}
    for successor, row in zip(target, prob, strict=True):
        found[successor] = [a + b for a, b in zip(found[successor], row, strict=True)] if successor in found else row
    return sorted((successor, row) for successor, row in found.items() if any(row))


def _rewards(model: UMDP, reward: Array, actions: int) -> Callable[[range], Iterator[str]]:
    """Return what yields an entry for each action of some states, with a number for each sample."""
    ptr = model.graph.choice_ptr

    def entries(states: range) -> Iterator[str]:
        first, last = ptr[[states.start, states.stop]]
        number = reward[first:last].tolist()
        for state, own in choices_of_actions(model, actions, states):
            for action, choice in enumerate(own):
                yield _entry(f"a{action} s{state} -", map(repr, number[choice - first]), "ValueTable")

    return entries


def choices_of_actions(model: UMDP, actions: int, states: range) -> Iterator[tuple[int, list[int]]]:
    """Yield some states, and the choice that each action stands for there; none at goals."""
    graph = model.graph
    ptr = graph.choice_ptr[states.start : states.stop + 1].tolist()
    action = graph.action[ptr[0] : ptr[-1]].tolist()
    for i, state in enumerate(states):
        first, last = ptr[i], ptr[i + 1]
        if last - first in (0, actions):
            yield state, list(range(first, last))
        else:
            choice = {action[c - ptr[0]]: c for c in range(first, last)}
            yield state, [choice.get(one, first) for one in range(actions)]


def _state_variable(name: str, values: int, observed: bool) -> str:
    names = f'vnamePrev="{name}_0" vnameCurr="{name}_1" fullyObs="{str(observed).lower()}"'
    return f"<StateVar {names}><NumValues>{values}</NumValues></StateVar>\n"


def _table(name: str, parents: str, entries: Iterable[str], kind: str = "CondProb") -> Iterator[str]:
    yield f'<{kind}><Var>{name}</Var><Parent>{parents}</Parent><Parameter type="TBL">\n'
    yield from entries
    yield f"</Parameter></{kind}>\n"


def _entry(instance: str, numbers: Iterable[str], kind: str = "ProbTable") -> str:
    return f"<Entry><Instance>{instance}</Instance><{kind}>{' '.join(numbers)}</{kind}></Entry>\n"


def _numbers(values: Array) -> list[str]:
    return [repr(float(value)) for value in values]

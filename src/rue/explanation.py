"""Explain a policy: which samples matter, where they disagree, what tells them apart, and what its regret is paid for.

*Regret paid.* The gap of a choice c in sample k is what it costs above the best choice of its state,

    g_k(c) = C̄_k(c) + Σ T_k(c,s') V*_k(s') − V*_k(s)                                                 c a choice of s

A policy that takes the choice n_k(c) times on average, and reaches a goal with probability one in sample k, has

    reg_k(π) = Σ_c n_k(c) g_k(c)

since the V* of all steps but the first cancel. So each choice has its share of the regret, and the shares sum to it.

*Samples that matter.* The certificate of a solution has a belief b over the samples, and proves its bound with samples
of positive belief alone: no policy has less regret even if the others did not exist.

*Disagreement.* Samples disagree at a state if no choice there is the best one in all of them. The loss is that of the
choice with the smallest largest gap: what must be paid there in some sample, for one visit.

*Evidence.* An outcome with probability T_k in sample k and T̄ = Σ_k b_k T_k on average moves the log-weight of sample k
by log(T_k / T̄). Outcomes are ranked by Σ_k b_k n_k |log(T_k / T̄)|, with n_k how often the policy sees them in sample k.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rue._arrays import Array
from rue._check import whole_number
from rue._text import bound_text, listed, number_text, one_line, quoted
from rue.certificate import model_fingerprint
from rue.diagnosis import MOST_NAMES, Diagnosis, diagnose
from rue.errors import BadInput
from rue.judge import Evaluation, judge
from rue.model import UMDP, check_model, check_same_graph
from rue.policy import Policy, check_policy
from rue.solution import Cache, Hook, Limits, Run, Solution, check_cache, check_limits, policy_of
from rue.values import OPTIMAL_TIE, optimal_values
from rue.visits import expected_visits

# Samples that are looked at: those of the belief, then those with the largest regret.
MOST_SAMPLES = 30
# The samples that matter have this part of the belief together.
MOST_OF_BELIEF = 0.999
# Entries of each list, unless told otherwise, and samples that are named with their belief.
USUAL_ENTRIES, MOST_BELIEVED = 5, 12
# States that are visited less often than this are left out of disagreements.
LEAST_VISITS = 1e-6
# Parts of a regret that are smaller than this part of the largest one are rounding.
ROUNDING = 1e-9


class Paid(NamedTuple):
    """A choice, and the part of the regret of a sample that is paid there."""

    sample: int
    state: int
    action: int
    regret: float  # visits × gap
    visits: float  # how often it is taken
    gap: float  # what it costs above the best choice, each time
    best: int  # the best action there in this sample
    other: int | None  # a sample in which that action costs more than the one taken; None if there is none
    saved: float  # how much more


class Dispute(NamedTuple):
    """A state where no action is the best in all samples."""

    state: int
    visits: float  # mean, by the belief
    best: tuple[tuple[int, tuple[int, ...]], ...]  # actions, and the samples in which each is a best one
    compromise: int  # the action with the smallest largest gap
    loss: float  # that gap
    worst: int  # the sample that has it


class Evidence(NamedTuple):
    """An outcome that the samples disagree about most."""

    state: int
    action: int
    outcome: int  # the next state
    seen: float  # how often, on average by the belief
    likely: int  # the sample in which it is most likely
    unlikely: int
    probability: tuple[float, float]  # in these two
    log_ratio: float  # of the two; infinite if it rules the second out


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a policy has its regret. J samples are looked at."""

    model: UMDP
    verdict: Evaluation
    belief: Array | None  # [K] under which no policy does better than the bound; None if nothing is proved
    bound: float
    sample: Array  # [J]
    weight: Array  # [J] of each in the means: the belief, or the weights of the model
    flow: Array  # [C, J] how often each choice is taken; nothing in samples where the regret is infinite
    gap: Array  # [C, J] what it costs above the best choice of its state
    paid: Array  # [C, J] the regret that is paid there; sums to the regret of the sample
    disputes: tuple[Dispute, ...]
    evidence: tuple[Evidence, ...]
    diagnosis: Diagnosis | None  # if a regret is infinite
    entries: int
    left_out: int = 0  # samples for which there was no time, of those that would be looked at

    def most_paid(self, sample: int | None = None) -> tuple[Paid, ...]:
        """Return the choices at which most of the regret of a sample is paid; by default of the worst finite one."""
        place = self._place(sample)
        if place is None:
            return ()
        order = np.argsort(-self.paid[:, place], kind="stable")[: self.entries]
        return tuple(self._paid(int(c), place) for c in order if self._pays[c, place])

    @property
    def _pays(self) -> Array:  # [C, J]
        """Whether what is paid there is more than rounding."""
        more: Array = self.paid > ROUNDING * self.paid.max(axis=0, initial=0.0)
        return more

    def sections(self) -> dict[str, list[str]]:
        """Return the explanation in sentences, by title."""
        paid, diagnosis = self._paid_in_words(), self.diagnosis
        sections = {
            "Samples that matter": self._belief_in_words(),
            "Where samples disagree": self._disputes_in_words(),
            "What tells samples apart": self._evidence_in_words(),
            **({"What the regret is paid for": paid} if paid else {}),
            **({"Why the regret is infinite": diagnosis.lines()} if diagnosis else {}),
        }
        return sections

    def lines(self) -> list[str]:
        """Return all sentences."""
        return [line for lines in self.sections().values() for line in lines]

    def facts(self) -> dict[str, Any]:
        """Return the same with names, as a JSON object."""
        name, belief = self.model.sample_name, self.belief
        known = None if belief is None else {name(k): float(belief[k]) for k in np.flatnonzero(belief).tolist()}
        return {
            "max_regret": self.verdict.max_regret,
            "worst_sample": name(self.verdict.worst_sample),
            "bound": self.bound,
            "belief": known,
            "samples": [name(k) for k in self.sample.tolist()],
            "regret": {name(k): float(self.verdict.regret[k]) for k in self.sample.tolist()},
            "disagreements": [
                {**self._named(one), "best": {self._action(a): [name(k) for k in ks] for a, ks in one.best}}
                for one in self.disputes
            ],
            "evidence": [self._named(one) for one in self.evidence],
            "paid": {
                name(k): [self._named(one) for one in self.most_paid(k)]
                for k in self.sample.tolist()
                if self._place(k) is not None
            },
            "diagnosis": None if self.diagnosis is None else self.diagnosis.facts(),
            "left_out": self.left_out,
            "sections": self.sections(),
        }

    def _place(self, sample: int | None) -> int | None:
        """Return where a sample is among those that are looked at; None if its regret is infinite."""
        regret = self.verdict.regret[self.sample]
        finite = np.flatnonzero(np.isfinite(regret))
        if sample is None:
            return int(finite[regret[finite].argmax()]) if finite.size else None
        places = np.flatnonzero(self.sample == whole_number("sample", sample, 0, self.model.samples - 1))
        if not places.size:
            raise BadInput(
                f"sample {sample} was not looked at; expected one of {listed(self._names(self.sample), MOST_NAMES)}"
            )
        return int(places[0]) if np.isfinite(regret[places[0]]) else None

    def _paid(self, choice: int, place: int) -> Paid:
        graph, sample = self.model.graph, int(self.sample[place])
        state = int(graph.choice_state[choice])
        own = slice(int(graph.choice_ptr[state]), int(graph.choice_ptr[state + 1]))
        best = own.start + int(self.gap[own, place].argmin())
        with np.errstate(invalid="ignore"):
            more = np.nan_to_num(self.gap[best] - self.gap[choice], nan=0.0, posinf=np.inf)
        other, saved = int(more.argmax()), float(more.max())
        return Paid(
            sample, state, int(graph.action[choice]), float(self.paid[choice, place]), float(self.flow[choice, place]),
            float(self.gap[choice, place]), int(graph.action[best]), int(self.sample[other]) if saved > 0 else None,
            max(saved, 0.0),
        )  # fmt: skip

    def _named(self, found: Paid | Dispute | Evidence) -> dict[str, Any]:
        """Return the fields with names in place of numbers."""
        named: dict[str, Any] = found._asdict()
        for field, value in named.items():
            if field in ("state", "outcome"):
                named[field] = self.model.graph.state_name(value)
            elif field in ("action", "compromise") or (field == "best" and isinstance(value, int)):
                named[field] = self.model.graph.action_name(value)
            elif field in ("sample", "other", "worst", "likely", "unlikely"):
                named[field] = None if value is None else self.model.sample_name(value)
        return named

    def _state(self, state: int) -> str:
        return one_line(self.model.graph.state_name(state))

    def _action(self, action: int) -> str:
        return one_line(self.model.graph.action_name(action))

    def _names(self, samples: Sequence[int] | Array) -> list[str]:
        return [quoted(one_line(self.model.sample_name(int(k)))) for k in samples]

    def _samples(self, samples: Sequence[int] | Array) -> str:
        return f"sample{'' if len(samples) == 1 else 's'} {listed(self._names(samples), MOST_NAMES)}"

    @property
    def _why_not_compared(self) -> str:
        """Why nothing can be said about differences between samples, if so."""
        if self.sample.size <= 1 < self.model.samples:
            return "Too few samples were looked at to compare them."
        if np.isinf(self.verdict.regret[self.sample]).all():
            return "The regret is infinite in each sample that was looked at, so visits are not known."
        return ""

    def _looked_at(self, every: str) -> str:
        """Return the samples that were looked at in words; if these are all, with `every` for an article."""
        number = self.sample.size
        return f"{every} samples" if number == self.model.samples else f"the {number} samples that were looked at"

    def _belief_in_words(self) -> list[str]:
        verdict = self.verdict
        worst = self._samples([verdict.worst_sample])
        lines = [f"The max regret is {number_text(verdict.max_regret)}, in {worst}."]
        if not verdict.complete:
            lines = ["Time ran out before the policy was judged in all samples: its max regret is not known."]
        elif self.left_out:
            lines.append(f"Time ran out: {self.left_out} of {self.left_out + self.sample.size} samples were left out.")
        if self.belief is None:
            return [*lines, "Nothing is proved about other policies, so it is not known which samples matter."]
        order = np.argsort(-self.belief, kind="stable")
        core = order[: int(np.searchsorted(np.cumsum(self.belief[order]), MOST_OF_BELIEF)) + 1]
        shown = [f"{self._names([k])[0]} ({self.belief[k]:.2g})" for k in core[:MOST_BELIEVED].tolist()]
        more = f" and {core.size - len(shown)} more" if core.size > len(shown) else ""
        lines.append(
            f"No policy has a max regret below {bound_text(self.bound)}. The proof is a belief over "
            f"{core.size} of {self.model.samples} samples: {', '.join(shown)}{more}."
        )
        rest = order[core.size :]
        most = float(self.belief[rest].max(initial=0.0))
        if rest.size:
            why = "do not matter for the bound: it holds without them" if most == 0 else "hardly matter for the bound"
            which = "no belief" if most == 0 else f"a belief of {most:.2g} or less"
            lines.append(f"Samples with {which} {why} ({rest.size} of {self.model.samples}).")
        return lines

    def _disputes_in_words(self) -> list[str]:
        if self._why_not_compared:
            return [self._why_not_compared]
        if not self.disputes:
            return [f"In every state that the policy visits, one action is the best in {self._looked_at('all')}."]
        lines = []
        for one in self.disputes:
            groups = "; ".join(f"{self._action(action)} in {self._samples(samples)}" for action, samples in one.best)
            lines.append(
                f"State {self._state(one.state)} ({number_text(one.visits)} visits in an episode): best is {groups}. "
                f"Any action costs {number_text(one.loss)} or more in some sample: {self._action(one.compromise)} does "
                f"in {self._samples([one.worst])}."
            )
        return lines

    def _evidence_in_words(self) -> list[str]:
        if self._why_not_compared:
            return [self._why_not_compared]
        if not self.evidence:
            which = self._looked_at("the")
            return [f"No outcome that the policy sees tells {which} apart: all have the same probabilities."]
        lines = []
        for one in self.evidence:
            high, low = one.probability
            likely, unlikely = self._samples([one.likely]), self._samples([one.unlikely])
            ratio = (
                f"it is impossible in {unlikely}, which it rules out" if low == 0 else
                f"{number_text(high / low)} times as likely in {likely} ({number_text(high)}) as in {unlikely} "
                f"({number_text(low)})"
            )  # fmt: skip
            begin = f"{self._action(one.action)} in state {self._state(one.state)} leads to {self._state(one.outcome)}"
            lines.append(f"{begin} (seen {number_text(one.seen)} times in an episode): {ratio}.")
        return lines

    def _paid_in_words(self) -> list[str]:
        paid = self.most_paid()
        place = self._place(None)
        if place is None:
            return []
        regret = float(self.verdict.regret[self.sample[place]])
        if not paid:
            return [f"In {self._samples([int(self.sample[place])])} there is no regret to be paid."]
        lines = [f"In {self._samples([paid[0].sample])} the regret of {number_text(regret)} is the sum of:"]
        for one in paid:
            lines.append(
                f"{number_text(one.regret)} ({_percent(one.regret / regret)}) in state {self._state(one.state)}: "
                f"{self._action(one.action)}, {number_text(one.visits)} times, costs {number_text(one.gap)} more than "
                f"{self._action(one.best)}. {self._reason(one)}"
            )
        payers = int(self._pays[:, place].sum())
        if payers > len(paid):
            rest = regret - math.fsum(one.regret for one in paid)
            lines.append(
                f"{number_text(max(rest, 0.0))} ({_percent(max(rest, 0.0) / regret)}) at {payers - len(paid)} others."
            )
        return lines

    def _reason(self, one: Paid) -> str:
        if one.other is None:
            return "No sample speaks for it by itself: it is taken for what follows."
        best, other = self._action(one.best), self._samples([one.other])
        if math.isinf(one.saved):
            return f"But {best} may lead into a dead end in {other}."
        return f"But {best} costs {number_text(one.saved)} more in {other}."


def explain(
    model: UMDP,
    solution: Solution | Policy,
    *,
    entries: int = USUAL_ENTRIES,
    limits: Limits | None = None,
    cache: Cache | None = None,
    progress: Hook | None = None,
) -> Explanation:
    """Return why a policy has its regret: which samples matter, where they disagree, and what is paid for.

    What a solution proves is used if it is about this model. At most 30 samples are looked at: those of the belief of
    the proof, then those with the largest regret. Each list has at most `entries` entries. A limit of seconds, or
    Ctrl-C, leaves out the samples for which there was no time (`left_out`); the first one is always looked at.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> why = rue.explain(model, rue.solve(model, rue.Adaptive(gap=0.01)))
    >>> round(float(why.paid.sum(axis=0).max()), 3)  # of all choices together: the max regret
    0.024
    """
    check_model(model)
    policy = check_policy(policy_of(solution))
    check_same_graph(model, policy.graph)
    whole_number("entries", entries, 1)
    run = Run(check_limits(limits), progress, check_cache(cache))
    with run.catching_interrupts():
        return _explained(model, solution, policy, entries, run)


def _explained(model: UMDP, solution: Solution | Policy, policy: Policy, entries: int, run: Run) -> Explanation:
    """Explain within a run. What was not judged in time has no regret, and is not looked at."""
    verdict = judge(model, policy, run.afterwards()).in_figures(model.units)
    belief, bound = proved_belief(model, solution) or (None, 0.0)
    infinite = np.flatnonzero(np.isinf(verdict.regret)).tolist() if verdict.complete else []
    diagnosis = diagnose(model, policy, infinite=infinite) if infinite else None

    first = np.zeros(model.samples) if belief is None else belief
    wanted = np.lexsort((-verdict.regret, -first))
    wanted = (wanted if verdict.complete else wanted[np.isfinite(verdict.regret[wanted])])[:MOST_SAMPLES]
    seen, flow = _flows(model, policy, verdict, wanted, run)
    order = np.argsort(wanted[:seen])
    sample, flow = wanted[order], flow[:, order]
    weight = first[sample] if first[sample].any() else model.weight[sample]
    weight = weight / weight.sum() if weight.any() else np.full(sample.size, 1 / max(sample.size, 1))
    gap = choice_gaps(model, optimal_values(model, run=run.afterwards()).value[:, sample], sample)
    paid = np.multiply(flow, gap, out=np.zeros_like(flow), where=flow > 0)
    disputes = _disputes(model, sample, weight, gap, flow)[:entries] if sample.size else ()
    evidence = _evidence(model, sample, weight, flow, entries) if sample.size else ()
    return Explanation(
        model=model, verdict=verdict, belief=belief, bound=bound, sample=sample, weight=weight, flow=flow, gap=gap,
        paid=paid, disputes=disputes, evidence=evidence, diagnosis=diagnosis, entries=entries,
        left_out=min(MOST_SAMPLES, model.samples) - sample.size,
    )  # fmt: skip


def proved_belief(model: UMDP, solution: Solution | Policy) -> tuple[Array, float] | None:
    """Return the belief over all samples under which no policy does better than a bound, and the bound.

    None unless a solution proves one about this model. Its proof may be about a part of the samples.
    """
    proofs = (solution.regret_certificate, solution.certificate) if isinstance(solution, Solution) else ()
    for proof in proofs:
        if proof is None or not proof.is_of_max_regret or proof.sample.max(initial=0) >= model.samples:
            continue
        part = model.subset(proof.sample) if proof.sample.size else model
        if proof.fingerprint == model_fingerprint(part):
            belief = np.zeros(model.samples)
            belief[proof.sample if proof.sample.size else slice(None)] = proof.belief
            return belief, proof.bound
    return None


def choice_gaps(model: UMDP, value: Array, sample: Array) -> Array:  # [C, J]
    """Return g_k(c); infinite where a choice may lead into a dead end."""
    graph, prob = model.graph, model.prob[:, sample]
    ahead = np.multiply(prob, value[graph.successor], out=np.zeros_like(prob), where=prob > 0)
    total = np.zeros((graph.choices, sample.size))
    np.add.at(total, graph.trans_choice, ahead)
    here = value[graph.choice_state]
    reach = np.isfinite(total) & np.isfinite(here)
    gap = np.where(reach, model.cost[:, sample] + total - np.where(np.isfinite(here), here, 0.0), np.inf)
    return np.maximum(gap, 0.0)


def _flows(model: UMDP, policy: Policy, verdict: Evaluation, sample: Array, run: Run) -> tuple[int, Array]:
    """Return for how many of the samples there was time, and how often each choice is taken in each of these.

    Nothing is taken where the regret is infinite. The first sample has its time always.
    """
    flow = np.zeros((model.graph.choices, sample.size))
    node = policy.entry_node
    for place, k in enumerate(sample.tolist()):
        if place and run.out_of_time():
            return place, flow
        if np.isfinite(verdict.regret[k]):
            visits = expected_visits(model, policy, k)
            flow[:, place] = np.bincount(policy.choice, policy.weight * visits[node], model.graph.choices)
        run.report(f"explain: {place + 1} of {sample.size} samples")
    return sample.size, flow


def _disputes(model: UMDP, sample: Array, weight: Array, gap: Array, flow: Array) -> tuple[Dispute, ...]:
    """Return the visited states where no choice is best in all samples, those with the largest loss in sum first."""
    graph = model.graph
    mean = flow @ weight
    visits = np.bincount(graph.choice_state, mean, graph.states)
    tie = OPTIMAL_TIE * max(float(np.where(np.isfinite(gap), gap, 0.0).max(initial=0.0)), 1.0)
    largest = gap.max(axis=1)
    found = []
    for state in np.flatnonzero((visits > LEAST_VISITS) & ~graph.goal).tolist():
        own = slice(int(graph.choice_ptr[state]), int(graph.choice_ptr[state + 1]))
        compromise = own.start + int(largest[own].argmin())
        if largest[compromise] <= tie:
            continue
        best = [
            (int(graph.action[c]), tuple(sample[gap[c] <= tie].tolist()))
            for c in range(own.start, own.stop) if (gap[c] <= tie).any()
        ]  # fmt: skip
        worst = int(sample[int(gap[compromise].argmax())])
        action, loss = int(graph.action[compromise]), float(largest[compromise])
        found.append(Dispute(state, float(visits[state]), tuple(best), action, loss, worst))
    return tuple(sorted(found, key=lambda one: (-one.visits * one.loss, one.state)))


def _evidence(model: UMDP, sample: Array, weight: Array, flow: Array, entries: int) -> tuple[Evidence, ...]:
    """Return the outcomes that move the weights of samples most along the policy's own visits."""
    graph, prob = model.graph, model.prob[:, sample]
    taken = flow[graph.trans_choice] * prob
    mean = (prob @ weight)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.abs(np.log(prob / mean))
    score = np.multiply(taken, shift, out=np.zeros_like(taken), where=(taken > 0) & (mean > 0)) @ weight
    counted = weight > 0
    order = np.argsort(-score, kind="stable")[:entries]
    found = []
    for t in order[score[order] > 1e-9].tolist():
        own = np.where(counted, prob[t], np.nan)
        high, low = int(np.nanargmax(own)), int(np.nanargmin(own))
        both = float(prob[t, high]), float(prob[t, low])
        ratio = math.log(both[0] / both[1]) if both[1] > 0 else math.inf
        choice = int(graph.trans_choice[t])
        found.append(Evidence(
            int(graph.choice_state[choice]), int(graph.action[choice]), int(graph.successor[t]),
            float(taken[t] @ weight), int(sample[high]), int(sample[low]), both, ratio,
        ))  # fmt: skip
    return tuple(found)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

"""Write down what the lower bound of the root follows from, as a certificate.

Links are followed to their ends, and only the points at the ends are stored.
"""

import numpy as np

from rue._jit import declare
from rue.adaptive.belief_kernels import HUGE, LOWER, NONE, SAFE, _best_action, _dot, _one_step, helper, kernel
from rue.certificate_kernels import Claims, _proved


class Draft(Claims):
    """Claims that can still be lowered."""


declare(Draft, "i1 f2 f1 i1 l1 l1 i1 f1")

# Rounds in which claims are lowered to what follows from them.
ROUNDS = 50
# The longest chain of links: a node may link to one that got its own link before it was expanded. A link may prove
# less than a bound by this fraction. The parts left out of a proof stay below their limit by the same fraction.
LONGEST_CHAIN, SHORT = 64, 1e-9


@kernel("BeliefNodes i1 i1 i1")
def list_proof(graph, points, number, follow):
    """List the nodes that the root's lower bound follows from, and for each of their outcomes the one that bounds it.

    Bounds of outcomes that are not needed for an action to cost at least the node's lower bound are left out. `number`
    is NONE everywhere, and becomes the place of each node in the list. Return how many nodes are listed.
    """
    points[0] = 0
    number[0] = 0
    count = 1
    i = 0
    at = 0
    while i < count:
        row = graph.node[points[i]]
        for a in range(row.actions):
            action = graph.action[row.first_action + a]
            first = action.first_edge
            spare = action.step - row.lower / SAFE
            for j in range(action.outcomes):
                if first != NONE and graph.child[first + j] != NONE:
                    spare += graph.share[first + j] * graph.node[graph.child[first + j]].lower
            for j in range(action.outcomes):
                follow[at + j] = NONE
                if first == NONE or graph.child[first + j] == NONE:
                    continue
                child = graph.child[first + j]
                worth = graph.share[first + j] * graph.node[child].lower
                # What is large, as where all policies are lost, may hide in rounding that it is needed.
                if worth <= spare * (1.0 - SHORT):
                    spare -= worth
                    continue
                other = _proving_node(graph, child)
                if other == NONE:
                    continue
                if number[other] == NONE:
                    number[other] = count
                    points[count] = other
                    count += 1
                follow[at + j] = number[other]
            at += action.outcomes
        i += 1
    return count


@helper
def _proving_node(graph, node):
    """Return the expanded node that proves a node's lower bound: itself, or along its links; NONE if one step does."""
    for _ in range(LONGEST_CHAIN):
        row = graph.node[node]
        own = -1.0
        if row.first_action != NONE:
            _, best = _best_action(graph, node, LOWER)
            own = SAFE * best
        linked = row.link_share * graph.node[row.link].lower if row.link != NONE else -1.0
        if row.link == NONE or own >= linked:
            return node if row.first_action != NONE else NONE
        # A node that is not expanded also has the bound of one step, which may be the better one.
        if row.first_action == NONE and linked < row.lower * (1.0 - SHORT):
            return NONE
        node = row.link
    return NONE


@kernel("GapModel Draft float")
def lower_claims(model, claims, safe):
    """Lower the values that do not follow from the others, in rounds, until all do.

    The same inequality as in `rue.certificate`, which checks the result.
    """
    weight = claims.weight
    value = claims.value
    samples = weight.shape[1]
    ahead = np.empty(samples)
    for _ in range(ROUNDS):
        lowered = False
        for i in range(value.size - 1, -1, -1):
            s = claims.state[i]
            begin = model.trans_ptr[model.choice_ptr[s]]
            best = np.inf
            for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
                total = _dot(weight[i], model.gap[c])
                for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                    if total >= best:
                        break
                    for k in range(samples):
                        ahead[k] = weight[i, k] * model.prob[t, k]
                    j = claims.follow[claims.follow_ptr[i] + t - begin]
                    if j == NONE:
                        total += _one_step(model, model.successor[t], ahead)
                    else:
                        total += min(_proved(claims, ahead, j), HUGE)
                if total < best and not (value[i] > safe * total and _keeps_level(model, claims, i, c, safe)):
                    best = total
            if value[i] > safe * best:
                value[i] = safe * best
                lowered = True
        if not lowered:
            break


@helper
def _keeps_level(model, claims, i, c, safe):
    """Return whether a claim follows for a choice with the same probabilities in all samples that have weight.

    By differences, as in `rue.certificate`: else a claim on a free circle would be lowered in each round, and what
    follows from it could never catch up.
    """
    weight = claims.weight[i]
    own = claims.value[i]
    up = safe * _dot(weight, model.gap[c])
    down = 0.0
    first = claims.follow_ptr[i] - model.trans_ptr[model.choice_ptr[claims.state[i]]]
    for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
        prob = -1.0
        for k in range(weight.size):
            if weight[k] > 0.0:
                if prob >= 0.0 and model.prob[t, k] != prob:
                    return False
                prob = model.prob[t, k]
        j = claims.follow[first + t]
        if j == i:
            continue
        if j == NONE:
            rise = safe * _one_step(model, model.successor[t], weight) - own
        else:
            rise = safe * min(_proved(claims, weight, j), HUGE) - own
        if rise > 0.0:
            up += safe * prob * rise
        else:
            down -= prob * rise
    return safe * up >= down

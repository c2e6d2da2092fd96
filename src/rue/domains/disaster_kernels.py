"""Fill in the numbers of the disaster domain."""

from rue._jit import kernel


@kernel("i3 b3 b2 f2 f1 float f2 f2")
def fill(target, possible, obstacle, entry, chance, onto_obstacle, prob, cost):
    """Fill in probabilities and costs of all transitions, in order: the three aims of each action, then staying.

    `target` and `possible` are [S, 8, 4], `obstacle` and `entry` (the cost of entering a square) [S, K]. The last
    square is the goal and has no actions.
    """
    squares, actions, _ = target.shape
    samples = entry.shape[1]
    t = 0
    for s in range(squares - 1):
        for a in range(actions):
            c = s * actions + a
            first = t
            for k in range(samples):
                cost[c, k] = 1.0  # the probability to stay, for now
            for aim in range(3):
                if possible[s, a, aim]:
                    to = target[s, a, aim]
                    for k in range(samples):
                        prob[t, k] = onto_obstacle if obstacle[to, k] else chance[aim]
                        cost[c, k] -= prob[t, k]
                    t += 1
            for k in range(samples):
                stay = cost[c, k] if cost[c, k] > 1e-9 else 0.0  # 1 − 0.8 − 0.1 − 0.1 is not quite zero
                if possible[s, a, 3]:
                    prob[t, k] = stay
                cost[c, k] = stay * entry[s, k]
            u = first
            for aim in range(3):
                if possible[s, a, aim]:
                    to = target[s, a, aim]
                    for k in range(samples):
                        cost[c, k] += prob[u, k] * entry[to, k]
                    u += 1
            if possible[s, a, 3]:
                t += 1

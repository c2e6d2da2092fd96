"""Episodes of a policy in one sample, step by step."""

from rue._jit import kernel


@kernel("generator L1 I1 F1 L1 I1 I1 F1 L1 f1 f1 b1 int f1 l1 b1")
def walk(
    rng, entry_ptr, choice, weight, next_ptr, next_node, start_node, start_weight, trans_ptr, prob, cost,
    goal_node, max_steps, total, steps, reached,
):  # fmt: skip
    """Run one episode for each entry of `total`; `prob[T]` and `cost[C]` are one sample's."""
    for episode in range(total.size):
        draw = rng.random()
        node = start_node[start_node.size - 1]
        for i in range(start_node.size):
            draw -= start_weight[i]
            if draw < 0.0:
                node = start_node[i]
                break
        paid = 0.0
        count = 0
        while not goal_node[node] and count < max_steps:
            draw = rng.random()
            entry = entry_ptr[node + 1] - 1
            for e in range(entry_ptr[node], entry_ptr[node + 1]):
                draw -= weight[e]
                if draw < 0.0:
                    entry = e
                    break
            paid += cost[choice[entry]]
            count += 1
            first = trans_ptr[choice[entry]]
            draw = rng.random()
            taken = -1
            for j in range(next_ptr[entry], next_ptr[entry + 1]):
                p = prob[first + j - next_ptr[entry]]
                if p > 0.0:
                    taken = j
                    draw -= p
                    if draw < 0.0:
                        break
            node = next_node[taken]
        total[episode] = paid
        steps[episode] = count
        reached[episode] = goal_node[node]

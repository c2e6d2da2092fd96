"""The check of a certificate's points, for `rue.certificate`: plain sums in the order written, nothing reassociated."""

import numpy as np

from rue._jit import helper, kernel


@kernel("L1 L1 I1 F2 f2 I1 F2 F1 I1 l1 float int int b1")
def check_points(
    choice_ptr, trans_ptr, successor, prob, gap, state, weight, value, follow, follow_ptr, keep, first, last, follows
):
    """Whether each point of a range claims no more than the fraction `keep` of what follows from the others.

    A point follows if each choice of its state costs that much. Terms are never negative, so a sum that is large enough
    is not taken further. Different ranges may be checked at the same time.
    """
    samples = weight.shape[1]
    ahead = np.empty(samples)
    for i in range(first, last):
        s = state[i]
        begin = trans_ptr[choice_ptr[s]]
        follows[i] = choice_ptr[s] < choice_ptr[s + 1] or value[i] <= 0.0
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            total = 0.0
            for k in range(samples):
                total += weight[i, k] * gap[c, k]
            t = trans_ptr[c]
            while t < trans_ptr[c + 1] and not total * keep >= value[i]:
                for k in range(samples):
                    ahead[k] = weight[i, k] * prob[t, k]
                total += _follower(
                    choice_ptr, gap, successor[t], weight, value, follow[follow_ptr[i] + t - begin], ahead
                )
                t += 1
            if not total * keep >= value[i]:
                follows[i] = False
                break


@helper
def _follower(choice_ptr, gap, s, weight, value, point, ahead):
    """What a point, or without one a single step, proves for weights that arrive at a state."""
    samples = ahead.size
    least = np.inf
    if point >= 0:
        for k in range(samples):
            if weight[point, k] > 0.0:
                least = min(least, ahead[k] / weight[point, k])
        return least * value[point]
    for c in range(choice_ptr[s], choice_ptr[s + 1]):
        total = 0.0
        for k in range(samples):
            total += ahead[k] * gap[c, k]
        least = min(least, total)
    return least if choice_ptr[s] < choice_ptr[s + 1] else 0.0

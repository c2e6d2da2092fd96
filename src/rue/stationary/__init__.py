"""The best stationary deterministic policy, by branch and bound."""

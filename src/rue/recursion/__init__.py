"""Minimax regret by recursion over options of n steps: reg, cemr and robust."""

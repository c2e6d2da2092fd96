"""The least max regret over all policies, by search on a graph of beliefs, with proved bounds from both sides."""

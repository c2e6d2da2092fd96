"""Numba loops over flat arrays: no checks, no allocation inside loops, each file a closed call graph.

Numba's on-disk cache does not see edits in other files, so no kernel calls a kernel of another file.
Arrays of a model are read-only and scratch arrays are not; each parameter is always one or the other,
so that every kernel is compiled once.
"""

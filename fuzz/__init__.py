"""The fuzzer: awkward random models and mutated files, against exact arithmetic and against each other.

`make fuzz SECONDS=600` runs it. Each case is made from one whole number, its seed, so that it can be repeated. What
fails is made as small as possible and written into `fuzz/corpus/`, which `make test` replays (`tests/test_corpus.py`).
`docs/testing.md` says what is checked.
"""

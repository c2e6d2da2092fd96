"""The inner problem: the best option of n steps from each root, for several classes of options.

`option_tree.py` unfolds options, for all classes. A class of options is an `OptionSet`:

| options                       | class                 | how                                      | answer        |
|-------------------------------|-----------------------|------------------------------------------|---------------|
| deterministic, (s,t)          | `DeterministicTables` | branch and bound                         | exact         |
| stochastic, (s,t)             | `MixedTables`         | alternation                              | local optimum |
| randomised, history-dependent | `TreeMixtures`        | column generation                        | exact         |
| of a program                  | `Programs`            | a program in HiGHS for each root         | see below     |

Programs, `program(tree, place).solve(value, seconds)`, each with a kept model in HiGHS:

| options                       | program               | how                                      | answer        |
|-------------------------------|-----------------------|------------------------------------------|---------------|
| deterministic, (s,t)          | `Table1`              | the paper's Table 1 as a MILP            | exact         |
| randomised, history-dependent | `SequenceForm`        | one linear program                       | exact         |
| stochastic, (s,t)             | `Separable`           | the paper's separable programming        | heuristic     |

History-dependent options contain the two other classes, so their value bounds theirs from below.

To add one: write its class in a file here (its kernels in another), and add it to `OPTION_KINDS` in `n_step.py`.
"""

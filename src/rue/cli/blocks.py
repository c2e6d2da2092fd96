"""Evaluation of a policy in many samples, which come in blocks: a summary instead of a row for each sample."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import rue
from rue._text import one_line
from rue.cli.facts import (
    average_facts,
    diagnosis_facts,
    diagnosis_of_policy,
    sample_facts,
    say_diagnosis,
    spread_facts,
    spread_words,
)
from rue.cli.printing import average_in_words, complain, number, print_facts, print_json, print_table
from rue.cli.progress import ProgressBar
from rue.judge import Evaluation
from rue.policy import Policy
from rue.risk import USUAL_TAIL
from rue.workers import open_executor
from rue.worlds import Source

WORST = 20  # samples that are listed
LEVELS = (0.5, 0.9, 0.99, 0.999)  # of quantiles


def evaluate_source(
    source: Source, policy: Policy, names: Mapping[str, str], jobs: int | None, scheduler: str | None, as_json: bool
) -> int:
    """Print the regret of a policy in all samples of a source. Return the exit status.

    `names` are the words for the model and the policy. After Ctrl-C the figures are of the samples judged by then.
    """
    with open_executor(jobs, scheduler) as executor, ProgressBar(as_json, math.inf) as progress:
        verdict = rue.evaluate(source, policy, executor=executor, progress=progress)
    judged = np.flatnonzero(verdict.judged)
    status = 0 if verdict.complete else 130
    if judged.size == 0:
        complain("nothing was judged before the command was stopped")
        return status
    known = verdict.subset(judged)
    facts = {**names, **_facts(source, policy, verdict, known, judged)}
    if as_json:
        print_json(facts)
    else:
        _print_summary(source, facts, known, judged)
    if not verdict.complete:
        complain(f"stopped: {judged.size} of {source.samples} samples were judged")
    return status


def _facts(
    source: Source, policy: Policy, verdict: Evaluation, known: Evaluation, judged: np.ndarray
) -> dict[str, Any]:
    """Return an evaluation as `--json` prints it; what sums up is of the samples that were judged."""
    diagnosis = diagnosis_of_policy(source, policy, np.where(verdict.judged, verdict.regret, 0.0).tolist())
    return {
        "blocks": source.blocks,
        "complete": verdict.complete,
        "judged": int(judged.size),
        "max_regret": known.max_regret,
        **spread_facts(known, USUAL_TAIL, LEVELS),
        "worst_sample": int(judged[known.worst_sample]),
        "error": verdict.error,
        **average_facts(source, float(known.average_error.max())),
        **sample_facts(source, verdict),
        "diagnosis": diagnosis_facts(diagnosis),
    }


def _print_summary(source: Source, facts: Mapping[str, Any], known: Evaluation, judged: np.ndarray) -> None:
    worst = np.argsort(-known.regret, kind="stable")[:WORST]
    names = [one_line(source.sample_name(int(judged[k]))) for k in worst]
    figures = [(known.value[k], known.optimal[k], known.regret[k]) for k in worst]
    rows = [[name, *map(number, row)] for name, row in zip(names, figures, strict=True)]
    print_table(("sample", source.units.value_name, "optimal", "regret"), rows)
    print_facts({
        "samples": f"{judged.size} in {source.blocks} blocks; the {len(worst)} worst are listed",
        "max regret": f"{number(known.max_regret)} in sample {one_line(facts['samples'][facts['worst_sample']])}",
        "mean regret": f"{number(known.mean_regret)}, {spread_words(facts)[0]}",
        "quantiles": ", ".join(
            f"{100 * level:g} % have at most {number(known.quantile(level))}" for level in LEVELS
        ),
        **({"exact to": f"{facts['error']:.1e}"} if facts["complete"] else {}),
        **({"average": average_in_words(facts["average"])} if "average" in facts else {}),
    })  # fmt: skip
    say_diagnosis(facts["diagnosis"])

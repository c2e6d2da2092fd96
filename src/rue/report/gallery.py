"""Pictures of single problems, as many as there is room for.

Maps are many and large, so a page has only so many: of each size the first problems, of each problem the best methods,
until the room is used.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rue.errors import BadInput, RueError
from rue.judge import evaluate
from rue.model import UMDP
from rue.policy import Policy
from rue.report.cases import Case, Record
from rue.report.drawings import map_drawing, regret_drawing
from rue.report.sheets import policy_sheet
from rue.report.style import number_text
from rue.report.views import PolicyView, ProblemView
from rue.solution import Solution

REMEMBERED = 32  # models
# Of a regret, and of the largest value that it is a difference of: more than what another machine rounds otherwise.
SAME_REGRET, ROUNDING = 1e-6, 1e-9

Progress = Callable[[int, int], None]  # how many policies are done, and of how many


def policy_view(model: UMDP, name: str, policy: Policy, *, with_map: bool = True) -> PolicyView:
    """A policy with its map, if the model is a grid."""
    return PolicyView(name, policy_sheet(name, policy), map_drawing(model, name, policy) if with_map else None)


def bytes_of(view: PolicyView) -> int:
    """About how much of the page a policy takes."""
    return sum(len(cell.text) for row in view.table.rows for cell in row) + (len(view.map.body) if view.map else 0)


@dataclass(eq=False)
class Gallery:
    """Fills the views of problems with the policies that were kept."""

    load_model: Callable[[str], UMDP]
    load_solution: Callable[[str], Solution | None]
    room: int  # bytes

    def __post_init__(self) -> None:
        self.load_model = lru_cache(REMEMBERED)(self.load_model)

    def fill(self, cases: Sequence[Case], views: Sequence[ProblemView], progress: Progress | None) -> None:
        """First come the first problem of each size and its best method, then its next best."""
        wanted: list[tuple[int, int, int, str]] = []
        before: Counter[tuple[str, str]] = Counter()
        for number, case in enumerate(cases):
            wanted += [(before[case.place], rank, number, name) for rank, name in enumerate(case.done)]
            before[case.place] += 1
        for done, (_, _, number, name) in enumerate(sorted(wanted)):
            if self.room <= 0:
                break
            if progress is not None:
                progress(done, len(wanted))
            self._add_policy(cases[number], name, views[number])

    def _add_policy(self, case: Case, name: str, view: ProblemView) -> None:
        """The policy of one method, if it was kept, and with the first one the regrets of all."""
        try:
            solution = self.load_solution(case.done[name]["key"])
            if solution is None:
                return
            model = self.load_model(case.first["problem"])
            _check_unchanged(model, solution.policy, case.done[name])
            policy = policy_view(model, name, solution.policy)
            if not view.figures:
                regrets = {method: list(map(float, record["regret"])) for method, record in case.done.items()}
                view.figures.append(regret_drawing(model, regrets, case.bound, case.id))
                self.room -= len(view.figures[0].body)
        except RueError as error:
            # A file that is no longer there, or is another by now, must not cost the rest of the page.
            view.troubles.append(f"The policy of {name} cannot be shown: {error}.")
            return
        view.policies.append(policy)
        self.room -= bytes_of(policy)


def _check_unchanged(model: UMDP, policy: Policy, record: Record) -> None:
    """A model that is another by now has no place beside figures of the old one: its regrets must be the record's."""
    verdict = evaluate(model, policy)
    then = np.array(record["regret"], float)
    rounding = ROUNDING * float(verdict.value[np.isfinite(verdict.value)].max(initial=0.0))
    if then.shape == verdict.regret.shape and np.allclose(verdict.regret, then, rtol=SAME_REGRET, atol=rounding):
        return
    raise BadInput(
        f"{record['problem']} has changed since: its max regret there is {number_text(verdict.max_regret)} now and "
        f"{number_text(float(record['max_regret'][1]))} in the record"
    )

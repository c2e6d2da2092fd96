"""Draw `docs/regret.png`, the picture of the README: regrets of three policies in fifteen samples."""

from pathlib import Path

import rue

model = rue.domains.Disaster(width=8, height=8, seed=1).sample(15, seed=1)
solvers = {"average": rue.Average(), "reg-h3": rue.Regret(3, "history"), "adaptive": rue.Adaptive()}
solutions = {name: rue.solve(model, solver) for name, solver in solvers.items()}
bound = max(solution.max_regret.lower for solution in solutions.values())
figure = rue.report.draw_regrets(model, {name: found.regret for name, found in solutions.items()}, bound=bound)
figure.set_size_inches(7.0, 3.6)  # narrow, so that a telephone shows it
figure.savefig(Path(__file__).parent.parent / "regret.png", dpi=220)

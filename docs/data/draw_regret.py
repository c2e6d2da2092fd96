"""Draw docs/logs.svg from the verdicts that the blocks of docs/logs.md come to.

    python docs/data/draw_regret.py

Needs matplotlib; run from the root of the repository.
"""

import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

PAGE = Path(__file__).parent.parent / "logs.md"
# Okabe and Ito's colours, and dashes for those who see none.
STYLE = {
    "average": ("#000000", "-"),
    "robust": ("#E69F00", "--"),
    "reg": ("#56B4E9", "-."),
    "reg, 3 steps": ("#0072B2", "-"),
    "mixture": ("#CC79A7", ":"),
    "adaptive": ("#D55E00", "-"),
}

names: dict = {}
for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
    exec(compile(block, PAGE.name, "exec"), names)

matplotlib.rcParams["svg.hashsalt"] = "rue"
figure, axes = plt.subplots(figsize=(7.5, 4))
for name, verdict in names["verdicts"].items():
    regret = np.sort(verdict.regret)
    more = 1 - np.arange(regret.size) / regret.size  # the share of samples with so much regret or more
    colour, dash = STYLE[name]
    axes.step(regret, more, dash, color=colour, label=name, linewidth=1.6, where="pre")
axes.set(xscale="log", yscale="log", xlim=(50, 1500), ylim=(8e-4, 1.1))
axes.set_xlabel("regret on a fresh sample, euros a ticket")
axes.set_ylabel("share of samples with as much or more")
axes.set_xticks([50, 100, 200, 500, 1000], ["50", "100", "200", "500", "1000"])
axes.set_yticks([1, 0.1, 0.01, 0.001], ["100 %", "10 %", "1 %", "0.1 %"])
axes.minorticks_off()
axes.grid(color="#dddddd", linewidth=0.6)
axes.legend(frameon=False, loc="lower left")
figure.tight_layout()
figure.savefig(PAGE.with_name("logs.svg"), metadata={"Date": None})

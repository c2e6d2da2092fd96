"""The log of docs/logs.md: repair tickets of a pump fleet, drawn from a truth that is written down here.

    python docs/data/make_log.py docs/data/tickets.csv

The log is synthetic. A ticket is opened when a pump is reported out of order and closed when it is in service again.
At the site a crew sees a symptom and its severity, 1 to 4; the pump can also be brought to a workshop. Each row is one
day's action, what it cost in euros including the pump's downtime, and what was found afterwards. The crews have habits:
light faults are adjusted, others get a new part, bad ones go to the workshop. A retrofit kit was bought for a trial and
used now and then. So the habits are well known from the log, and everything else is known from a few attempts.
"""

import csv
import sys
from pathlib import Path

import numpy as np

import rue

TICKETS = 1500
SEED = 20
REPORTED, DONE = "reported", "in service"
SYMPTOMS = {"leak": 0.35, "vibration": 0.3, "heat": 0.2, "trips": 0.15}
SEVERITY = (0.25, 0.35, 0.25, 0.15)
# Chances that the pump is in service, milder, or worse after the action at severity 1, and what each further degree of
# severity takes away from the first and adds to the last. The rest of the chances: nothing has changed.
TRUTH = {
    ("leak", "adjust"): (0.45, 0.15, 0.10, 0.10),
    ("leak", "part"): (0.65, 0.20, 0.03, 0.10),
    ("leak", "retrofit"): (0.90, 0.05, 0.01, 0.06),
    ("vibration", "adjust"): (0.40, 0.20, 0.15, 0.10),
    ("vibration", "part"): (0.60, 0.15, 0.05, 0.12),
    ("vibration", "retrofit"): (0.35, 0.10, 0.30, 0.08),
    ("heat", "adjust"): (0.55, 0.15, 0.05, 0.07),
    ("heat", "part"): (0.55, 0.15, 0.05, 0.12),
    ("heat", "retrofit"): (0.70, 0.10, 0.05, 0.12),
    ("trips", "adjust"): (0.30, 0.10, 0.05, 0.05),
    ("trips", "part"): (0.50, 0.10, 0.02, 0.08),
    ("trips", "retrofit"): (0.40, 0.10, 0.10, 0.08),
}
PRICE = {
    "send crew": 150,
    "adjust": 90,
    "part": 480,
    "retrofit": 620,
    "to workshop": 900,
    "repair": 700,
    "overhaul": 1900,
}
DOWNTIME = (150, 250, 400, 600)  # a day at each severity
# In the workshop: in service, milder, worse; an overhaul always ends well, on the same day or a later one.
WORKSHOP = {"repair": (0.55, 0.20, 0.05), "overhaul": (0.90, 0.0, 0.0)}
# What the crews do at each severity, and how often they try something else.
HABIT = {"site": ("adjust", "part", "part", "to workshop"), "workshop": ("repair", "repair", "overhaul", "overhaul")}
ACTIONS = {"site": ("adjust", "part", "retrofit", "to workshop"), "workshop": ("repair", "overhaul")}
OTHERWISE = 0.2


def name(symptom: str, severity: int, place: str) -> str:
    """A state as the log has it."""
    return f"{symptom} {severity}" if place == "site" else f"{symptom} {severity} workshop"


def states() -> dict[str, tuple[str, int, str]]:
    """Every state between the first and the last."""
    keys = [(symptom, severity, place) for place in ACTIONS for symptom in SYMPTOMS for severity in (1, 2, 3, 4)]
    return {name(*key): key for key in keys}


def outcomes(state: str, action: str) -> dict[str, float]:
    """The hidden truth: the chance of each next state."""
    if state == REPORTED:
        return {
            name(symptom, severity, "site"): often * share
            for symptom, often in SYMPTOMS.items()
            for severity, share in enumerate(SEVERITY, 1)
        }
    symptom, severity, place = states()[state]
    if action == "to workshop":
        return {name(symptom, severity, "workshop"): 1.0}
    if place == "workshop":
        done, milder, worse = WORKSHOP[action]
    else:
        done, milder, worse, slope = TRUTH[symptom, action]
        done, worse = max(done - slope * (severity - 1), 0.05), worse + slope / 2 * (severity - 1)
    milder, worse = milder * (severity > 1), worse * (severity < 4)
    chances = {
        DONE: done,
        name(symptom, max(severity - 1, 1), place): milder,
        name(symptom, min(severity + 1, 4), place): worse,
    }
    chances[state] = 1.0 - done - milder - worse
    return {following: chance for following, chance in chances.items() if chance > 1e-12}


def mean_cost(state: str, action: str) -> float:
    """The hidden truth: the expected cost of an action, downtime included."""
    return PRICE[action] + (0 if state == REPORTED else DOWNTIME[states()[state][1] - 1])


def choices(state: str) -> tuple[str, ...]:
    """The actions of a state."""
    return ("send crew",) if state == REPORTED else ACTIONS[states()[state][2]]


def habit(state: str, rng: np.random.Generator) -> str:
    """What the crew does."""
    known = choices(state)
    if len(known) == 1 or rng.random() >= OTHERWISE:
        return known[0] if len(known) == 1 else HABIT[states()[state][2]][states()[state][1] - 1]
    return str(rng.choice(known))


def truth(graph: rue.Graph) -> rue.UMDP:
    """The hidden truth as a model of one sample. What its graph has no transition for, since it was never seen, is
    left out, and the other chances are scaled to one."""
    prob, cost = [], []
    for choice in range(graph.choices):
        state = graph.state_name(graph.choice_state[choice])
        action = graph.action_name(graph.action[choice])
        chances = outcomes(state, action)
        targets = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]]
        row = np.array([chances.get(graph.state_name(target), 0.0) for target in targets])
        prob.append(row / row.sum())
        cost.append(mean_cost(state, action))
    return rue.UMDP(graph, np.concatenate(prob)[:, None], np.array(cost)[:, None])


def tickets(count: int = TICKETS, seed: int = SEED) -> list[tuple[int, int, str, str, float, str]]:
    """Rows (ticket, day, state, action, cost, next state)."""
    rng = np.random.default_rng(seed)
    rows = []
    for ticket in range(1, count + 1):
        state, day = REPORTED, 0
        while state != DONE:
            action = habit(state, rng)
            chances = outcomes(state, action)
            following = str(rng.choice(list(chances), p=list(chances.values())))
            cost = mean_cost(state, action) * rng.gamma(25.0, 1 / 25.0)  # give or take twenty percent
            rows.append((ticket, day, state, action, round(cost, 2), following))
            state, day = following, day + 1
    return rows


def write(path: str | Path) -> None:
    """The log as a CSV file."""
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("ticket", "day", "state", "action", "cost", "next_state"))
        writer.writerows(tickets())


if __name__ == "__main__":
    write(sys.argv[1])

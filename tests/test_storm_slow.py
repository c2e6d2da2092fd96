"""Storm reads what rue writes and finds the same optimal value in every sample, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings

import rue
from tests.foreign import values
from tests.models import Shape, umdps
from tests.test_round_trips import model_of

pytest.importorskip("stormpy", reason="stormpy is not installed (the extra interop)")

SCRIPT = """
import json, sys
import stormpy
from stormpy.environments import sound
question = stormpy.parse_properties('Rmin=? [F "goal"]')[0]
found = []
for line in sys.stdin.read().splitlines():
    files = json.loads(line)
    if files[0].endswith(".drn"):
        model = stormpy.build_model_from_drn(files[0])
    elif files[0].endswith(".umb"):
        model = stormpy.build_model_from_umb(files[0])
    else:
        model = stormpy.build_model_from_explicit(files[0], files[1], transition_rewards=files[2])
    environment = sound()
    environment.solver().min_max().precision = stormpy.Rational("1e-8")
    result = stormpy.model_checking(model, question, environment=environment)
    found.append(result.get_value(model.initial_states[0]))
print("values", json.dumps(found))
"""


def ask_storm(files: list[list[Path]]) -> list[float]:
    lines = "\n".join(json.dumps([str(file) for file in group]) for group in files)
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("values ")]
    return [float(value) for value in json.loads(line.removeprefix("values "))]


def check(model: rue.UMDP, folder: Path) -> None:
    files = []
    for k in range(model.samples):
        for ending in (".drn", ".umb"):
            files.append([folder / f"{k}{ending}"])
            rue.save(files[-1][0], model.subset([k]))
        path = folder / f"{k}.storm.tra"
        rue.save(path, model.subset([k]))
        files.append([path, path.with_suffix(".lab"), path.with_suffix(".trew")])
    files.append([folder / "all.umb"])  # which Storm takes for the mean of the samples
    rue.save(files[-1][0], model)
    mean = rue.UMDP(model.graph, (model.prob @ model.weight)[:, None], (model.cost @ model.weight)[:, None])
    expected = [value for value in values(model) for _ in range(3)] + values(mean)
    assert ask_storm(files) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "domain", [rue.domains.Disaster(width=5, height=4, seed=3), rue.domains.Medical(seed=2)], ids=str
)
def test_storm_finds_our_values_in_the_domains(domain, tmp_path):
    check(domain.sample(4, seed=2), tmp_path)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=umdps(Shape(states=4)))
def test_storm_finds_our_values_in_random_models(model, tmp_path_factory):
    assume((model.cost.max(axis=0) > 0).all())  # Storm refuses to ask for rewards if all are zero
    check(model, tmp_path_factory.mktemp("storm"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_storm_finds_our_values_in_models_with_numbers_of_all_sizes(seed, tmp_path):
    check(model_of(seed, ends=0.05), tmp_path)

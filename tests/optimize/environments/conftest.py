from dataclasses import replace

import pytest

from jaxsim.simulation.pushes import push
from optimize.environments.environment import as_env
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES
from optimize.scenarios.find import scenario


def pushed_planar():
    """The planar human, pushed, on floors of different friction; episodes of six actions."""
    human = scenario("planar_human", {"world.dt": 0.002})
    pushed = push(human.model, "pelvis", (200.0, 0.0, 0.0), start=0.02, duration=0.1)
    problem = Problem(
        replace(human, forces=pushed),
        {},
        OBJECTIVES["stand"],
        trials=4,
        sample={"model.friction": (0.4, 0.9), "forces.direction": (0.0, 3.1)},
    )
    return as_env(
        problem,
        observation=("joint_angles", "joint_rates", "root", "contacts", "feet", "command", "phase"),
        reward={"alive": 1.0, "speed": 1.0, "effort": -1.0, "gait": 0.5},
        command={"speed": (0.8, 1.2)},
        done=("fallen", "tilted"),
        rate=50.0,
        seconds=0.12,
    )


@pytest.fixture(scope="session")
def planar():
    """In float32."""
    return pushed_planar()


@pytest.fixture(scope="module")
def planar64(x64_module):
    """In float64."""
    return pushed_planar()

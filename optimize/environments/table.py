"""Environment of the ``[environment]`` table of a scenario file."""

from typing import Any

import numpy as np

from controllers.policy.actions import action_of
from controllers.policy.observations import OBSERVATIONS
from jaxsim.characters.registry import start
from jaxsim.io.motion_file import MotionFileError, load_motion
from jaxsim.io.toml_table import Table, is_number, suggestion
from jaxsim.mocap.errors import ClipError
from jaxsim.model import ModelError, State
from optimize.environments.environment import OBJECTIVE, OBSERVATION, Environment, as_env
from optimize.environments.rewards import REWARDS
from optimize.environments.terminations import TERMINATIONS
from optimize.problems.problem import Problem
from optimize.problems.starts import ANGLE, RATE
from optimize.running.objectives import OBJECTIVES, objective
from optimize.scenarios.scenario import Scenario

TRIALS = 64  # beginnings that episodes draw from


def environment_of(scenario: Scenario, seed: int = 0) -> Environment:
    """Environment of a scenario's table; seed: of the starts and the numbers that vary in them.

    Raises ValueError for a scenario without a table, WorldError that names the key at fault.
    """
    source = scenario.environment
    if source is None:
        raise ValueError(
            f"{scenario.name}: nothing says what a policy observes and is paid for here; give the"
            " file an [environment] (docs/guides/learning.md), or use as_env in Python"
        )
    table = Table(source.file, source.where, source.values())
    rewards = _numbers(table, "reward")
    judge = table.choice("objective", tuple(OBJECTIVES), "stand")
    problem = Problem(
        scenario,
        {},
        objective(judge),
        trials=table.whole("trials", TRIALS, least=1),
        spread=_pair(table.vector("spread", (ANGLE, RATE), size=2)),
        sample=_ranges(table, "drawn"),
        seed=seed,
    )
    options: dict[str, Any] = {
        "observation": _names(table, "observation", OBSERVATION, OBSERVATIONS),
        "action": _action(table),
        "reward": rewards or None,
        "done": _names(table, "done", ("fallen",), TERMINATIONS),
        "command": _ranges(table, "command"),
        "rate": table.number("rate", None, above=0.0),
        "seconds": table.number("seconds", scenario.seconds, above=0.0),
        "clip": _clip(table, scenario),
        "stands": _stands(table, scenario),
        "states": _states(table, scenario),
    }
    table.done()
    for name in rewards:
        if name not in REWARDS and name != OBJECTIVE:
            raise table.error(f"there are: {', '.join((*REWARDS, OBJECTIVE))}", f"reward.{name}")
    try:
        return as_env(problem, **options)
    except (KeyError, ValueError) as error:
        raise table.error(str(error.args[0])) from error


def default_command(env: Environment) -> dict[str, float]:
    """Commands by name, in the middle of their ranges."""
    return {name: (low + high) / 2 for name, (low, high) in env.command.items()}


def _clip(table: Table, scenario: Scenario) -> Any:
    """Reference of ``[environment.clip]``."""
    table.take("clip", None)
    try:
        return None if scenario.clip is None else scenario.clip()
    except (ClipError, ModelError) as error:
        raise table.error(str(error), "clip.file") from error


def _stands(table: Table, scenario: Scenario) -> State | None:
    """Standing state of the pose that the table names."""
    name = table.text("pose", None)
    try:
        return None if name is None else start(scenario.model, name)
    except ModelError as error:
        raise table.error(str(error), "pose") from error


def _states(table: Table, scenario: Scenario) -> State | None:
    """States of the motion that ``starts`` names."""
    name = table.text("starts", None)
    if name is None:
        return None
    try:
        motion = load_motion(scenario.folder / name)
    except (OSError, MotionFileError) as error:
        raise table.error(str(error), "starts") from error
    names, start_state = scenario.model.topology.actuated_dof_names, scenario.state
    sizes = (
        motion.q.shape[1:] == start_state.q.shape and motion.qd.shape[1:] == start_state.qd.shape
    )
    if motion.joint_names != names or not sizes:
        raise table.error(
            f"{name} is of another body: it has {motion.q.shape[1]} coordinates and the joints"
            f" {', '.join(motion.joint_names)}; here there are {len(start_state.q)}, and"
            f" {', '.join(names)}",
            "starts",
        )
    if not motion.n_frames or not (np.isfinite(motion.q).all() and np.isfinite(motion.qd).all()):
        raise table.error(f"{name} has no states, or some that are not finite", "starts")
    dtype = start_state.q.dtype
    return start_state.replace(q=motion.q.astype(dtype), qd=motion.qd.astype(dtype))


def _pair(values: Any) -> tuple[float, float]:
    angle, rate = values
    return angle, rate


def _action(table: Table) -> Any:
    name, scale = table.text("action", "offsets"), table.number("scale", None, above=0.0)
    if name == "numbers":
        raise table.error("numbers of a controller are for as_env in Python", "action")
    try:
        return action_of(name, scale)
    except KeyError as error:
        raise table.error(error.args[0], "action") from error


def _names(table: Table, key: str, default: tuple, known: dict) -> tuple[str, ...]:
    """List of names, each a known one."""
    value = table.take(key, list(default))
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise table.error('give names in brackets, as ["root"]', key)
    for name in value:
        if name not in known:
            hint = suggestion(name, list(known))
            raise table.error(f"there is no {name!r}{hint}; there are: {', '.join(known)}", key)
    return tuple(value)


def _numbers(table: Table, key: str) -> dict[str, float]:
    """Table of numbers by name."""
    value = table.take(key, {})
    if not isinstance(value, dict) or not all(map(is_number, value.values())):
        raise table.error("give numbers by name, as { alive = 1.0 }", key)
    return {name: float(number) for name, number in value.items()}


def _ranges(table: Table, key: str) -> dict[str, tuple[float, float]]:
    """Table of ranges by name; a single number is a range of no width."""
    value = table.take(key, {})
    if not isinstance(value, dict):
        raise table.error("give ranges by name, as { speed = [0.8, 1.2] }", key)
    found = {}
    for name, given in value.items():
        pair = [given, given] if is_number(given) else given
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair))):
            raise table.error("give [lower, upper]", f"{key}.{name}")
        found[name] = (float(pair[0]), float(pair[1]))
    return found

"""Environment of the ``[environment]`` table of a scenario file."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from controllers.policy.actions import action_of
from controllers.policy.observations import OBSERVATIONS
from controllers.tracking.followed import EnvironmentClipKeys
from jaxsim.characters.registry import start
from jaxsim.io.keys import Keys
from jaxsim.io.motion_file import MotionFileError, load_motion
from jaxsim.io.toml_table import Table
from jaxsim.mocap.errors import ClipError
from jaxsim.model import ModelError, State
from jaxsim.options import option
from optimize.environments.environment import OBJECTIVE, OBSERVATION, Environment, as_env
from optimize.environments.rewards import REWARDS
from optimize.environments.terminations import TERMINATIONS
from optimize.problems.problem import Problem
from optimize.problems.starts import ANGLE, RATE
from optimize.running.objectives import OBJECTIVES, objective
from optimize.scenarios.scenario import Scenario

TRIALS = 64  # starts from which episodes are sampled


@dataclass(frozen=True, kw_only=True)
class EnvironmentKeys(Keys):
    """Observations, actions, rewards and terminations of a policy."""

    objective: str = option(
        "stand",
        "objective whose decrease is the reward `objective`, see `jaxsim tune --help`",
        choices=OBJECTIVES,
    )
    trials: int = option(TRIALS, "number of starts from which episodes are sampled", least=1)
    spread: tuple = option(
        (ANGLE, RATE),
        "standard deviations of joint angles and rates over the starts; the first start has none",
        unit="rad, rad/s",
        size=2,
    )
    sample: dict[str, tuple[float, float]] = option(
        None,
        '`{ "model.friction" = [0.4, 0.9] }`: ranges of numbers that each start samples, by path or'
        " label",
        kind=dict,
        entries=tuple,
        was="drawn",
    )
    observation: tuple[str, ...] = option(
        OBSERVATION,
        "names, in the order of the policy's inputs",
        kind=list,
        entries=str,
        choices=OBSERVATIONS,
    )
    action: str = option(
        "offsets",
        "`offsets` of PD targets from the pose, `targets` within the joints' limits, `torques`;"
        " `clip_offsets` from the clip",
    )
    scale: float | None = option(
        None,
        "value of an action of 1",
        unit="rad, m, 1",
        shown="0.5 of `offsets`, else 1",
        kind=float,
        above=0.0,
    )
    reward: dict[str, float] = option(
        None,
        "`{ alive = 1.0, effort = -0.5 }`: weights by name",
        shown="the fall of the objective",
        kind=dict,
        entries=float,
    )
    done: tuple[str, ...] = option(
        ("fallen",),
        "terminations of an episode",
        kind=list,
        entries=str,
        choices=TERMINATIONS,
    )
    command: dict[str, tuple[float, float]] = option(
        None,
        "`{ speed = [0.5, 1.2] }`: ranges of commands that each episode samples and the policy"
        " observes",
        kind=dict,
        entries=tuple,
    )
    rate: float | None = option(
        None, "number of actions a second", unit="1/s", shown="50", kind=float, above=0.0
    )
    seconds: float | None = option(
        None,
        "duration after which an episode is truncated",
        unit="s",
        shown="the world's",
        kind=float,
        above=0.0,
    )
    pose: str | None = option(
        None,
        "name of a start, as `standing`: reference of observed angles and heights",
        shown="the start, or the clip's first pose",
        kind=str,
    )
    starts: str | None = option(
        None, "motion (`trajectory.npz`) whose states start half of the episodes", kind=str
    )
    clip: EnvironmentClipKeys | None = option(
        None, "motion to follow", kind=dict, entries=EnvironmentClipKeys
    )


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
    keys = EnvironmentKeys.read(table)
    table.done()
    for name in keys.reward:
        if name not in REWARDS and name != OBJECTIVE:
            raise table.error(f"there are: {', '.join((*REWARDS, OBJECTIVE))}", f"reward.{name}")
    angle, rate = keys.spread
    problem = Problem(
        scenario,
        {},
        objective(keys.objective),
        trials=keys.trials,
        spread=(angle, rate),
        sample=keys.sample,
        seed=seed,
    )
    options: dict[str, Any] = {
        "observation": keys.observation,
        "action": _action(keys),
        "reward": keys.reward or None,
        "done": keys.done,
        "command": keys.command,
        "rate": keys.rate,
        "seconds": keys.seconds or scenario.seconds,
        "clip": _clip(table, scenario),
        "stands": _stands(keys, scenario),
        "states": _states(keys, scenario),
    }
    try:
        return as_env(problem, **options)
    except (KeyError, ValueError) as error:
        raise table.error(str(error.args[0])) from error


def default_command(env: Environment) -> dict[str, float]:
    """Commands by name, in the middle of their ranges."""
    return {name: (low + high) / 2 for name, (low, high) in env.command.items()}


def _clip(table: Table, scenario: Scenario) -> Any:
    """Reference of ``[environment.clip]``."""
    try:
        return None if scenario.clip is None else scenario.clip()
    except (ClipError, ModelError) as error:
        raise table.error(str(error), "clip.file") from error


def _stands(keys: EnvironmentKeys, scenario: Scenario) -> State | None:
    """Standing state of the pose that the table names."""
    name = keys.pose
    try:
        return None if name is None else start(scenario.model, name)
    except ModelError as error:
        raise keys.table.error(str(error), "pose") from error


def _states(keys: EnvironmentKeys, scenario: Scenario) -> State | None:
    """States of the motion that ``starts`` names."""
    table, name = keys.table, keys.starts
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


def _action(keys: EnvironmentKeys) -> Any:
    if keys.action == "numbers":
        raise keys.table.error("numbers of a controller are for as_env in Python", "action")
    try:
        return action_of(keys.action, keys.scale)
    except KeyError as error:
        raise keys.table.error(error.args[0], "action") from error

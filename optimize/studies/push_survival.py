"""Who is still standing after a push: a batch of characters, each with its own start and push."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.fused import choose_backend, fuse
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import begin
from jaxsim.tree_paths import written
from optimize.problems.problem import WIDEST
from optimize.problems.survival import Outcome, outlast
from optimize.running.batch import batched
from optimize.scenarios.scenario import Scenario

PUSHED_AT = 0.5  # [s], until which a start has settled


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trial:
    """One member: a start and a horizontal push."""

    start: State
    force: Array | np.ndarray  # () [N]
    direction: Array | np.ndarray  # () [rad]: 0 forward, pi / 2 to the left
    duration: Array | np.ndarray  # () [s]
    numbers: Mapping[str, Array | np.ndarray] = field(default_factory=dict)  # path -> () value


def trial_push(
    model: Model, trial: Trial, begins: float = PUSHED_AT, link: str = "pelvis"
) -> Pushes:
    """The push of one trial, at the centre of mass of a link, from ``begins`` [s]."""
    index = model.topology.part(link)
    force, angle = jnp.asarray(trial.force), jnp.asarray(trial.direction)
    way = jnp.stack([jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)])
    return Pushes(
        link=jnp.array([index]),
        point=model.com[index][None],
        force=(force * way)[None],
        start=jnp.full_like(force, begins)[None],
        duration=jnp.asarray(trial.duration)[None],
    )


def survival(
    scenario: Scenario,
    seconds: float,
    members: int,
    backend: str | None = None,
    link: str = "pelvis",
) -> tuple[Callable[[Trial], Outcome], int]:
    """``run(trials)`` -> Outcome, both with a leading axis, for ``seconds`` after a push's onset;
    and how many trials to give a call.

    members: of the largest batch that there will be. link: which is pushed. backend: "fused", all
    frames of a trial as one kernel, or "xla"; None takes ``fastest_backend``. XLA computes some
    trials at once, fills fewer up, and compiles anew for more.
    """
    frames = round((PUSHED_AT + seconds) / float(scenario.scheme.dt))
    chunk = min(WIDEST, -(-members // len(jax.devices())))
    shared = scenario.model, scenario.scheme, scenario.controller
    width = chunk * len(jax.devices())

    def own(trial: Trial, shared):
        tree = dict(zip(("model", "scheme", "controller"), shared))
        for path, value in trial.numbers.items():
            tree = written(tree, path, value)
        return tree["model"], tree["scheme"], tree["controller"]

    def begun(trial: Trial, shared) -> tuple[State, Any]:
        model, scheme, controller = own(trial, shared)
        return begin(model, controller, scheme, trial.start)

    def outcome(trial: Trial, first, shared) -> Outcome:
        model, scheme, controller = own(trial, shared)
        pushes = trial_push(model, trial, link=link)
        return outlast(model, controller, scheme, first, pushes, frames)[0]

    if choose_backend(backend or fastest_backend()) == "fused":
        first = batched(begun, chunk)
        kernel = fuse(lambda trial, first: outcome(trial, first, shared))

        def run(trials: Trial) -> Outcome:
            """Starts so many at once that one program does, however many there are."""
            parts = [
                first(jax.tree.map(lambda x: x[at : at + width], trials), shared)  # noqa: B023
                for at in range(0, len(trials.force), width)
            ]
            whole = jax.tree.map(lambda *x: np.concatenate(x), *parts)
            return jax.tree.map(np.asarray, kernel(trials, whole))

        return run, members

    every = batched(lambda trial, shared: outcome(trial, begun(trial, shared), shared), chunk)
    return (lambda trials: every(trials, shared)), width


def fastest_backend() -> str:
    """On a GPU a kernel of a whole trial takes too long to compile."""
    return "fused" if jax.default_backend() == "cpu" else "xla"

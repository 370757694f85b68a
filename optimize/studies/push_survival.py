"""Who is still standing after a push: a batch of characters, each with its own start and push."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.balance import Gait, Step, no_step
from controllers.goals.controller import GoalController
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.fused import choose_backend, fuse
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import advance, begin
from jaxsim.solvers.status import Status
from optimize.running.batch import batched
from optimize.running.synthesis_run import FALLEN
from optimize.scenarios.synthesis_setting import Setting

LINK = "pelvis"
PUSHED_AT = 0.5  # [s], until which a start has settled
ANGLE, RATE = 0.02, 0.1  # deviations of a start's joints [rad], [rad/s]
WIDEST = 32  # characters that are computed together on a device: all wait for the slowest QP


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trial:
    """One member: a start, a horizontal push, and the numbers of its controller."""

    start: State
    force: Array | np.ndarray  # () [N]
    direction: Array | np.ndarray  # () [rad]: 0 forward, pi / 2 to the left
    duration: Array | np.ndarray  # () [s]
    weights: Array | np.ndarray  # (ns, ng) of the machine
    gait: Gait


class Outcome(NamedTuple):
    """Of one trial, or arrays of many."""

    stood: Array  # () bool: to the end, and finite
    finite: Array  # () bool
    lasted: Array  # () part of the time that it stood, 0 to 1
    unsolved: Array | int = 0  # () frames while it stood whose optimisation was not solved
    root_residual: Array | float = 0.0  # () largest while it stood, see SynthesisInfo [N]


def start_states(model: Model, standing: State, count: int, seed: int) -> State:
    """``count`` starts, with a leading axis: ``standing`` first, then with small normal deviations
    of all joints, within their limits, and of their velocities; the lowest point on the ground."""
    top = model.topology
    root = np.isin(np.asarray(top.dof_joint), top.joint("root"))
    key = jax.random.split(jax.random.key(seed), 2)
    shape, dtype = (count, top.nv), model.mass.dtype
    some = jnp.where((jnp.arange(count) > 0)[:, None] & ~root, 1.0, 0.0).astype(dtype)
    hinges = np.array([j for j in top.limited_joints if top.joint_kinds[j] in ("hinge", "slide")])
    at = np.array(top.q_start)[hinges]
    turn = ANGLE * some * jax.random.normal(key[0], shape, dtype)
    rate = RATE * some * jax.random.normal(key[1], shape, dtype)

    def one(turn, rate):
        q = integrate(model, standing.q, turn, jnp.ones((), dtype))
        bounds = model.joint_lower[hinges], model.joint_upper[hinges]
        q = q.at[at].set(jnp.clip(q[at], *bounds))
        low = lowest_point(model, forward_kinematics(model, q, rate))
        return standing.replace(q=q.at[top.q_start[top.joint("root")] + 2].add(-low), qd=rate)

    return jax.jit(jax.vmap(one))(turn, rate)


def trial_push(model: Model, trial: Trial, begins: float) -> Pushes:
    """The push of one trial, at the centre of mass of the pelvis, from ``begins`` [s]."""
    link = model.topology.link(LINK)
    force, angle = jnp.asarray(trial.force), jnp.asarray(trial.direction)
    way = jnp.stack([jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)])
    return Pushes(
        link=jnp.array([link]),
        point=model.com[link][None],
        force=(force * way)[None],
        start=jnp.full_like(force, begins)[None],
        duration=jnp.asarray(trial.duration)[None],
    )


def trial_begin(trial: Trial, setting: Setting) -> tuple[State, Any]:
    """Where a trial begins: the state, and the controller's memory."""
    return begin(setting.model, own_controller(trial, setting), setting.scheme, trial.start)


def trial_outcome(trial: Trial, first: tuple[State, Any], setting: Setting, frames: int) -> Outcome:
    """Outcome of ``frames`` frames from ``trial_begin`` on. It stands while its centre of mass is
    above ``FALLEN`` of its height at the start.

    Who fell waits in its start unpushed: its last gasps would cost the others of its batch time.
    """
    model, controller = setting.model, own_controller(trial, setting)
    pushes = trial_push(model, trial, PUSHED_AT)

    def one(carry, _):
        now, height, stands, finite, unsolved, worst = carry
        felt = replace(pushes, force=jnp.where(stands, pushes.force, 0.0))
        after, sample = advance(model, controller, setting.scheme, now[0], now[1], felt)
        com = sample.seen.view.com[2]
        height = jnp.where(jnp.isnan(height), com, height)
        whole = jnp.isfinite(after.q).all() & jnp.isfinite(after.qd).all()
        finite = finite & (whole | ~stands)
        counts = stands & whole
        unsolved = unsolved + jnp.where(counts & (sample.info.status != Status.OK), 1, 0)
        worst = jnp.where(counts, jnp.maximum(worst, sample.info.root_residual), worst)
        stands = stands & whole & (com > FALLEN * height)
        then = after, sample.memory
        now = jax.tree.map(lambda new, old: jnp.where(stands, new, old), then, first)
        return (now, height, stands, finite, unsolved, worst), stands

    yes = jnp.asarray(True)
    zero = jnp.zeros_like(trial.force)
    begun = first, zero + jnp.nan, yes, yes, jnp.zeros((), jnp.int32), zero
    end, stands = jax.lax.scan(one, begun, None, length=frames)
    _, _, stood, finite, unsolved, worst = end
    return Outcome(stood, finite, jnp.mean(jnp.where(stands, 1.0, 0.0)), unsolved, worst)


def own_controller(trial: Trial, setting: Setting) -> GoalController:
    """The controller with the numbers of a trial."""
    weights = jnp.asarray(trial.weights)
    return replace(setting.controller, weights=weights, notes=no_step(trial.gait))


def survival(
    setting: Setting,
    seconds: float,
    members: int,
    backend: str | None = None,
) -> tuple[Callable[[Trial], Outcome], int]:
    """``run(trials)`` -> Outcome, both with a leading axis, for ``seconds`` after a push's onset;
    and how many trials to give a call.

    members: of the largest batch that there will be. backend: "fused", all frames of a trial as
    one kernel, or "xla"; None takes ``fastest_backend``. XLA computes some trials at once, fills
    fewer up, and compiles anew for more.

    Machines without steps of balance have no gait: ValueError.
    """
    if not isinstance(setting.machine.notes, Step):
        raise ValueError("pushes are for the balance controller; this scene has another one")
    frames = round((PUSHED_AT + seconds) / float(setting.scheme.dt))
    chunk = min(WIDEST, -(-members // len(jax.devices())))
    shared = setting.model, setting.scheme, setting.controller

    def of(shared) -> Setting:
        return setting._replace(model=shared[0], scheme=shared[1], controller=shared[2])

    if choose_backend(backend or fastest_backend()) == "fused":
        first = batched(lambda trial, shared: trial_begin(trial, of(shared)), chunk)
        kernel = fuse(lambda trial, first: trial_outcome(trial, first, setting, frames))
        width = chunk * len(jax.devices())

        def begun(trials: Trial) -> tuple[State, Any]:
            """So many at once that one program does, however many there are."""
            pieces = range(0, len(trials.force), width)
            parts = [
                first(jax.tree.map(lambda x: x[at : at + width], trials), shared)  # noqa: B023
                for at in pieces
            ]
            return jax.tree.map(lambda *x: np.concatenate(x), *parts)

        def run(trials: Trial) -> Outcome:
            return jax.tree.map(np.asarray, kernel(trials, begun(trials)))

        return run, members

    def one(trial: Trial, shared) -> Outcome:
        own = of(shared)
        return trial_outcome(trial, trial_begin(trial, own), own, frames)

    every = batched(one, chunk)
    return (lambda trials: every(trials, shared)), chunk * len(jax.devices())


def fastest_backend() -> str:
    """On a GPU a kernel of a whole trial takes too long to compile."""
    return "fused" if jax.default_backend() == "cpu" else "xla"

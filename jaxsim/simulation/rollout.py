"""Rollout: many steps under one controller, as a scan that folds measures.

Memory does not grow with the length of the rollout unless a record of every n-th step is asked
for. One function simulates one character; batches are ``jax.vmap`` of it, and with the fused back
end a whole batch is one kernel.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.compilation import listen
from jaxsim.fused import choose_backend, fuse_one
from jaxsim.math.varying import alike
from jaxsim.model import Model, State
from jaxsim.programs import run_compiled
from jaxsim.simulation import checks
from jaxsim.simulation.health import Health, initial_health
from jaxsim.simulation.measures import Measure, Sample
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout_checks import check_folding, check_record, check_update, fold_measure
from jaxsim.simulation.scheme import Scheme
from jaxsim.solvers.status import Status

# Largest residual for which the implicit derivative holds, see docs/explanation/gradients.md [m/s].
SOLVED = 1e-3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RolloutResult:
    """Final state, measures, record and health of a rollout; under vmap with a batch axis."""

    state: State
    memory: Any
    measures: dict[str, Any]
    record: Any  # stacked records, one every ``record_every`` steps; None without a record
    finite: Array  # () bool: the state stayed finite; of a batch, see ``failed_members``
    health: Health  # first divergence of the motion and its time; see ``failures``
    # () largest ``StepInfo.residual``, for the implicit derivative; else None
    residual: Array | None = None


def rollout(
    model: Model,
    controller: Any,
    state: State,
    config: Scheme,
    steps: int,
    measures: Mapping[str, Measure] | None = None,
    record: Callable[[Sample], Any] | None = None,
    record_every: int = 1,
    backend: str = "fused",
    pushes: Pushes | None = None,
    health: Health | None = None,
) -> RolloutResult:
    """Simulate ``steps`` steps of one character, with external forces from ``pushes``.

    config: the scheme, ``TimeStepping`` (velocities, one solve a step) or ``EventDriven``
    (accelerations, impacts, parts of a step). controller: see controllers.controller; measures by
    name, numbers or arrays of the shape of their initial value; record(sample) is kept for the
    first of every ``record_every`` steps, which must divide ``steps``. A member of a batch that
    becomes non-finite stays so and does not affect the others. Every step is checked for divergence
    (energy, speed, depth, see ``simulation.health``); ``failures(result.health)`` names members,
    reasons and times. health: of the rollout that this one continues.

    Raises ModelError, ValueError or TypeError, before anything is computed, for arguments that do
    not fit the model or one another (see ``simulation.checks``), a batch among them.

    backend: "fused" runs all steps, under ``vmap`` of all members, as one kernel (see
    ``jaxsim.fused``; numbers of the model that are known when it is traced become constants), "xla"
    as a scan. They agree to rounding. Forward-mode derivatives need "xla". Raises FuseError where
    the controller, a measure or the record cannot be fused.
    """
    measures = {} if measures is None else measures
    _check(model, controller, state, config, steps, measures, record, record_every, pushes)
    measures = dict(measures)

    def simulate(controller, state, config, pushes, health):
        return _simulate(
            model, controller, state, config, pushes, health, steps, measures, record, record_every
        )

    simulate, arrays = _of_arrays(simulate, controller, state, config, pushes, health)
    if choose_backend(backend) == "fused":
        result = fuse_one(lambda arrays: simulate(*arrays))(arrays)
    else:
        result = run_compiled(simulate, arrays)
    if result.residual is not None and checks.has_values(result.residual):
        _warn_of_residual(result, SOLVED, stacklevel=3)
    return result


def _check(model, controller, state, config, steps, measures, record, record_every, pushes) -> None:
    """Check the arguments of ``rollout``, once when it is called or traced."""
    listen()
    checks.check_model(model, values=True)
    checks.check_scheme(model, config)
    checks.check_state_fits(model, state, values=True)
    checks.check_controller(model, controller)
    checks.check_pushes(model, pushes, values=True)
    checks.check_precision(model)
    check_folding(steps, measures, Measure, record, record_every)


def _of_arrays(simulate, *arguments) -> tuple[Callable, list[Array]]:
    """``simulate`` as a function of its array arguments, and these arrays.

    Python numbers, such as a fixed time step, become constants.
    """
    leaves, tree = jax.tree.flatten(arguments)
    arrays = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]

    def rollout_of_arrays(*values):
        full = list(leaves)
        for k, array in zip(arrays, values):
            full[k] = array
        return simulate(*jax.tree.unflatten(tree, full))

    return rollout_of_arrays, [jnp.asarray(leaves[k]) for k in arrays]


def _simulate(
    model, controller, state, config, pushes, health, steps, measures, record, record_every
) -> RolloutResult:
    """Run a rollout in plain JAX; arguments as of ``rollout``."""
    state, memory = begin(model, controller, config, state)
    health = initial_health(state) if health is None else health
    now = SimulationCarry(state, memory, initial_folds(measures, state.q.dtype), health)

    def step_once(carry):
        now, worst = carry
        now, sample = take_step(model, controller, config, now, measures, pushes)
        if config.tells_residual:
            worst = jnp.maximum(worst, jax.lax.stop_gradient(sample.info.residual))
        return (now, worst), sample

    def recorded(carry, _):
        carry, sample = step_once(carry)
        return carry, check_record(record(sample))

    def several(carry, _):
        """Do ``record_every`` steps and return the record of the first."""

        def next_one(both, index):
            carry, frames = both
            carry, sample = step_once(carry)
            frames = jax.lax.cond(index == 0, lambda _: record(sample), lambda old: old, frames)
            return (carry, frames), None

        shapes = jax.eval_shape(lambda c: recorded(c, None)[1], carry)
        empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        (carry, frames), _ = jax.lax.scan(next_one, (carry, empty), jnp.arange(record_every))
        return carry, frames

    worst = jnp.zeros_like(state.time) if config.tells_residual else None
    carry = alike((now, worst), model, controller, config, pushes)
    if record is None:
        carry, frames = jax.lax.scan(lambda c, _: (step_once(c)[0], None), carry, length=steps)
    elif record_every == 1:
        carry, frames = jax.lax.scan(recorded, carry, length=steps)
    else:
        carry, frames = jax.lax.scan(several, carry, length=steps // record_every)
    now, worst = carry
    state = now.state
    finite = jnp.isfinite(state.q).all() & jnp.isfinite(state.qd).all()
    return RolloutResult(state, now.memory, now.folded, frames, finite, health=now.health,
                         residual=worst)  # fmt: skip


@jax.jit  # as a whole, so that an observation that the controller ignores costs nothing
def begin(model: Model, controller: Any, config: Scheme, state: State) -> tuple[State, Any]:
    """Start of a rollout: the state with the scheme's memory, and the controller's memory."""
    state = config.init(model, state)
    return state, controller.init(model, state, config.observe(model, state))


def advance(
    model: Model,
    controller: Any,
    config: Scheme,
    state: State,
    memory: Any,
    forces: Pushes | None = None,
) -> tuple[State, Sample]:
    """Advance by one step: observe, update the controller, step.

    ``sample.memory`` is the controller's memory after it. state, memory: those of ``begin``, or of
    an earlier step.
    """
    obs = config.observe(model, state)
    memory, command = check_update(memory, controller.update(memory, model, state, obs, config.dt))
    after, info = config.step(model, state, obs, command, forces)
    return after, Sample(model, state, obs, memory, command, info, jnp.asarray(config.dt))


# ---- steps with measures folded over them, for rollouts, searches, verdicts and environments


class SimulationCarry(NamedTuple):
    """Simulation between two steps: state, controller memory, folded measures, health."""

    state: State
    memory: Any  # of the controller
    folded: dict[str, Any]  # value of each measure so far
    health: Any = None  # Health; None: divergence is not watched


def initial_folds(measures: Mapping[str, Measure], dtype: Any) -> dict[str, Any]:
    """Initial values of measures; floats take the precision ``dtype`` of the state."""

    def typed(x: Any) -> Array:
        array = jnp.asarray(x)
        return array.astype(dtype if jnp.issubdtype(array.dtype, jnp.floating) else array.dtype)

    return {name: jax.tree.map(typed, measure.initial) for name, measure in measures.items()}


def take_step(
    model: Model,
    controller: Any,
    config: Scheme,
    now: SimulationCarry,
    measures: Mapping[str, Measure],
    pushes: Pushes | None = None,
) -> tuple[SimulationCarry, Sample]:
    """Advance by one step, fold the measures, and watch for divergence."""
    after, sample = advance(model, controller, config, now.state, now.memory, pushes)
    folded = {
        name: fold_measure(name, now.folded[name], measure.update(now.folded[name], sample))
        for name, measure in measures.items()
    }
    health = now.health
    if health is not None:
        health = config.watch(health, model, now.state, sample.obs, after, sample.info)
    return SimulationCarry(after, sample.memory, folded, health), sample


def take_steps(
    model: Model,
    controller: Any,
    config: Scheme,
    start: SimulationCarry,
    steps: int,
    measures: Mapping[str, Measure],
    pushes: Pushes | None = None,
    lasts: Callable[[dict[str, Any]], Array] | None = None,
) -> SimulationCarry:
    """Take ``steps`` steps from ``start``, or with ``lasts`` as many as the simulation lasts.

    lasts: folded measures -> () bool, False where a trial ends early (early stopping); a trial ends
    when its motion diverges, too. Measures and health stay as they were then; state and memory are
    reset to the start, without pushes, so that the member does not slow the rest of its batch.
    """
    if lasts is None:

        def one(now: SimulationCarry, _: Any) -> tuple[SimulationCarry, None]:
            return take_step(model, controller, config, now, measures, pushes)[0], None

        return jax.lax.scan(one, start, length=steps)[0]

    def step_while_it_lasts(carry):
        step, now, going = carry
        felt = pushes
        if pushes is not None:
            felt = replace(pushes, force=jnp.where(going, pushes.force, 0.0))
        after, _ = take_step(model, controller, config, now, measures, felt)
        health = _where(going, after.health, now.health)
        counts = going & (health.status == Status.OK)
        folded = _where(counts, after.folded, now.folded)
        going = counts & lasts(folded)
        state, memory = _where(going, after[:2], start[:2])
        return step + 1, SimulationCarry(state, memory, folded, health), going

    first = jnp.zeros((), jnp.int32), start, jnp.asarray(True)
    end = jax.lax.while_loop(lambda c: goes_on(c[0], steps, c[2]), step_while_it_lasts, first)
    return end[1]


def goes_on(step: Array, steps: int, going: Array) -> Array:
    """True () bool while a trial has steps left and has not ended early."""
    return (step < steps) & going


def _where(condition: Array, new: Any, old: Any) -> Any:
    """Tree ``new`` where the condition holds, else ``old``."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def failed_members(result: RolloutResult) -> list[int]:
    """Indices of members of a batch with a non-finite state; ``failures`` has all divergence."""
    finite = jax.device_get(result.finite).reshape(-1)
    return [i for i, ok in enumerate(finite) if not ok]


def warn_of_residual(result: RolloutResult, tolerance: float = SOLVED) -> None:
    """Warn where ``derivative="implicit"`` is not the derivative of the simulated motion.

    It is that of a solved contact problem; a residual above the tolerance [m/s] at some step means
    that the sweeps left it unsolved. For the host: a rollout that is not traced calls it itself.
    For a gradient, let the function return the result too, as in ``jax.value_and_grad(loss,
    has_aux=True)``, and call it with that.
    """
    _warn_of_residual(result, tolerance, stacklevel=3)


def _warn_of_residual(result: RolloutResult, tolerance: float, stacklevel: int) -> None:
    if result.residual is None:
        return
    residual = np.atleast_1d(jax.device_get(result.residual))
    unsolved = ~(residual <= tolerance)
    if unsolved.any():
        worst = int(np.argmax(np.where(unsolved, np.nan_to_num(residual, nan=np.inf), -1)))
        who = f"{unsolved.sum()} of {residual.size} members" if residual.size > 1 else "the rollout"
        warnings.warn(
            f'derivative="implicit": {who} left contact problems unsolved, by up to'
            f" {residual.flat[worst]:.2g} m/s where {tolerance:g} is little; the derivative is not"
            " that of the motion. More sweeps (TimeStepping(sweeps=...)), smaller steps, or"
            ' derivative="iteration"',
            stacklevel=stacklevel,
        )

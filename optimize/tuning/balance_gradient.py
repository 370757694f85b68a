"""Tuning of the balance controller along a gradient, through the steps of the synthesis.

The loss looks at a short horizon, ``HORIZON`` after the push: the mean squared distance of the
capture point from the middle of the feet [m^2]. A character that brings its feet there stands.

The passes of a step that let contacts break are a loop without a fixed end, which has no reverse
mode, so the derivative is taken forward, one direction for each number: few numbers, many steps.
The machine's choice of states is discrete; within a choice the loss is smooth, and where a number
only moves the moment of a choice (a margin, a load) the derivative is zero although the loss may
jump. So it is for the time that a step takes, in part: the comparison with finite differences shows
which derivatives can be trusted.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from tqdm import tqdm

from controllers.goals.balance import FEET, com_ahead
from jaxsim.io.archive import ArchiveError, read_arrays
from jaxsim.simulation.rollout import Sample, rollout
from optimize.interrupts import holding
from optimize.running.batch import batched
from optimize.scenarios.synthesis_setting import Setting
from optimize.studies.push_report import write_arrays
from optimize.studies.push_survival import Trial, own_controller, trial_push
from optimize.tuning.checkpoint import damaged_state

PUSHED_AT = 0.05  # [s], as soon as it stands
HORIZON = 0.5  # [s]
STATE = "gradient.npz"
RATE = 0.2  # of Adam, in step sizes of CMA-ES
CHECKED = 4  # numbers whose derivative is compared with finite differences
DIFFERENCE = {"float64": 1e-4, "float32": 1e-2}  # of a logarithm


def strayed(sample: Sample) -> Array:
    """() squared distance of the capture point from the middle of the feet [m^2]."""
    senses = sample.seen
    middle = sum(senses.place(jnp.asarray(senses.group(name)))[:2] for name in FEET) / len(FEET)
    return jnp.sum((com_ahead(senses) - middle) ** 2)


def short_loss(setting: Setting, trial: Trial, frames: int) -> Array:
    """() [m^2], of one trial over some frames."""
    controller, scheme = own_controller(trial, setting), setting.scheme
    pushes = trial_push(setting.model, trial, PUSHED_AT)
    result = rollout(
        setting.model,
        controller,
        trial.start,
        scheme,
        frames,
        record=strayed,
        backend="xla",
        pushes=pushes,
    )
    return jnp.mean(result.record)


def programs(setting: Setting, numbers, trials, count: int):
    """value(x) and value_and_slope(x), x (n,): the mean loss over ``count`` pushes, and its
    derivative (n,)."""
    n, frames = len(numbers.names), round((PUSHED_AT + HORIZON) / float(setting.scheme.dt))

    def at(x, trial: Trial, around) -> Array:
        weights, gait = numbers.control(x)
        model, scheme = around
        own = setting._replace(model=model, scheme=scheme)
        return short_loss(own, replace(trial, weights=weights, gait=gait), frames)

    def slopes(member, around):
        x, trial = member

        def along(direction):
            return jax.jvp(lambda x: at(x, trial, around), (x,), (direction,))

        return jax.vmap(along, out_axes=(None, 0))(jnp.eye(n, dtype=x.dtype))

    chunk = -(-count // len(jax.devices()))
    sloped = batched(slopes, chunk)
    valued = batched(lambda member, around: at(member[0], member[1], around), chunk)
    pushes, around = trials(np.zeros((1, n))), (setting.model, setting.scheme)

    def members(x):
        return np.broadcast_to(x.astype(pushes.force.dtype), (count, n)), pushes

    def value(x):
        return valued(members(x), around).mean()

    def value_and_slope(x):
        values, rows = sloped(members(x), around)
        return values.mean(), rows.mean(axis=0)

    return value, value_and_slope


def descend(setting: Setting, numbers, trials, options, folder, resume: bool, progress: bool):
    """Adam over x. Best x (n,), lines of the report, and whether it was interrupted."""
    n = len(numbers.names)
    value, value_and_slope = programs(setting, numbers, trials, options.pushes)
    adam = optax.adam(RATE * options.sigma)
    x, seen, lines = np.zeros(n), np.zeros((0, n + 1)), []
    state = adam.init(jnp.asarray(x))
    if resume and (folder / STATE).is_file():
        x, seen, state, lines = _kept(folder, state)
    interrupted = False
    bar = tqdm(total=options.generations + 1, initial=len(seen), unit="step", disable=not progress)
    try:
        with holding() as check, bar:
            while len(seen) <= options.generations:
                loss, slope = value_and_slope(x)
                lines = lines or compared(numbers.names, x, slope, value)
                if not (np.isfinite(loss) and np.isfinite(slope).all()):
                    lines.append(f"step {len(seen)}: loss or derivative is not finite; stopped")
                    break
                seen = np.vstack([seen, [loss, *x]])
                update, state = adam.update(jnp.asarray(slope), state)
                x = x + np.asarray(update)
                leaves = {f"state_{k}": leaf for k, leaf in enumerate(jax.tree.leaves(state))}
                kept = {"x": x, "seen": seen, "lines": np.array(lines), **leaves}
                write_arrays(folder / STATE, kept)
                bar.set_postfix_str(f"loss {loss:.5f} m^2", refresh=False)
                bar.update()
                check()
    except KeyboardInterrupt:
        interrupted = True
    if not len(seen):
        raise KeyboardInterrupt if interrupted else FloatingPointError("; ".join(lines))
    best = int(np.argmin(seen[:, 0]))
    head = [
        f"gradient, {len(seen) - 1} steps, {options.pushes} pushes, for {HORIZON:g} s",
        f"loss [m^2]: {seen[0, 0]:.6f} before, {seen[best, 0]:.6f} after step {best}",
    ]
    return seen[best, 1:], [*head, "", *lines], interrupted


def compared(names, x: np.ndarray, slope: np.ndarray, value) -> list[str]:
    """The derivatives by the largest numbers, beside central differences of the loss."""
    step = DIFFERENCE[str(slope.dtype)]
    lines = [f"derivative of the loss [m^2], and its central difference over +-{step:g}:"]
    for k in np.argsort(-np.abs(slope))[:CHECKED]:
        move = step * np.eye(len(x))[k]
        measured = (value(x + move) - value(x - move)) / (2 * step)
        lines.append(f"  {names[k]:<22} {slope[k]: .6e}  {measured: .6e}")
    return lines


def _kept(folder, state):
    """Where the descent stands. Raises CheckpointError where the file is damaged."""
    path, example = folder / STATE, jax.tree.leaves(state)
    try:
        held = read_arrays(path)
        leaves = [held[f"state_{k}"] for k in range(len(example))]
        x, seen, lines = held["x"], held["seen"], held["lines"]
        n = len(example[1])
        good = x.shape == (n,) and seen.ndim == 2 and seen.shape[1] == n + 1
        same = [a.shape == np.shape(b) and a.dtype == b.dtype for a, b in zip(leaves, example)]
        if not (good and all(same) and lines.ndim == 1):
            raise ArchiveError(f"{path} holds arrays of other shapes than this run's")
    except (ArchiveError, KeyError, IndexError) as error:
        raise damaged_state(path, error) from error
    state = jax.tree.unflatten(jax.tree.structure(state), [jnp.asarray(leaf) for leaf in leaves])
    return x, seen, state, [str(line) for line in lines]

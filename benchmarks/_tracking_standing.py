"""Pushes and kicks of a human that stands on feet that are kept from toppling, without a clip."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import table
from controllers.tracking.topple_free import ToppleFree
from jaxsim import TimeStepping, final, rollout, start
from jaxsim.fused import fuse
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes
from optimize.problems.starts import start_states
from optimize.results.intervals import wilson

DIRECTIONS = (
    "forward", "forward left", "left", "back left", "back", "back right", "right", "forward right"
)  # fmt: skip
SIZES = (50.0, 100.0, 150.0, 200.0, 250.0, 300.0)  # of pushes [N]
BEGINS, PUSH, SECONDS = 1.0, 0.2, 5.0  # [s]
KICK = 0.1  # how long a kick takes [s]
FASTEST, HALVINGS = 4.0, 7  # kicks are searched between 0 and this [m/s], to 3 cm/s
UPRIGHT = 0.8  # the centre of mass is higher than this at the end [m]


def ways() -> np.ndarray:
    """(8, 3) of the directions."""
    angle = np.arange(8) * np.pi / 4
    return np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)


def stands(model: Model, args, duration: float) -> Callable:
    """upright(states, forces (m, nl, 3)) -> (m,) bool, the forces on the links for a duration."""
    standing = start(model, "standing")
    given = ToppleFree.of(model, pose=standing.q, balance=args.balance, help=args.help_by)
    links = np.arange(model.topology.n_links)
    scheme, steps = TimeStepping(dt=args.dt, contacts=args.contacts), int(SECONDS / args.dt)
    height = {"height": final(lambda sample: sample.obs.com[2])}

    def one(state: State, force):
        every = jnp.ones(len(links), force.dtype)
        times = BEGINS * every, duration * every
        pushes = Pushes(jnp.asarray(links), model.com, force, *times, direction=0 * every)
        result = rollout(model, given, state, scheme, steps, height, pushes=pushes, backend="xla")
        return result.measures["height"]

    batch = fuse(one, backend=args.backend)

    def upright(states: State, forces: np.ndarray) -> np.ndarray:
        return np.asarray(batch(states, jnp.asarray(forces, model.mass.dtype))) > UPRIGHT

    return upright


def starts(model: Model, count: int, times: int, seed: int) -> State:
    """``count`` slightly different ones, the first as it is, each so many times in a row."""
    some = start_states(model, start(model, "standing"), count, seed)
    return jax.tree.map(lambda x: jnp.repeat(x, times, axis=0), some)


def stand(model: Model, args) -> str:
    """The table of pushes at the chest, of sizes by directions."""
    chest = np.arange(model.topology.n_links) == model.topology.part("chest")
    force = np.array(SIZES)[:, None, None] * ways()  # (6, 8, 3)
    force = force.reshape(-1, 1, 3) * chest[:, None]
    upright = stands(model, args, PUSH)
    some = starts(model, args.starts, len(force), args.seed)
    found = upright(some, np.tile(force, (args.starts, 1, 1)))
    found = found.reshape(args.starts, len(SIZES), 8)
    rows = []
    for k, size in enumerate(SIZES):
        good, of = found[:, k].sum(), found[:, k].size
        low, high = wilson(good, of)
        rows.append([
            f"{size:g}", *[f"{n}" for n in found[:, k].sum(axis=0)],
            f"{100 * good / of:.0f}", f"{100 * low:.0f} to {100 * high:.0f}",
        ])  # fmt: skip
    head = ["force [N]", *DIRECTIONS, "stood [%]", "interval [%]"]
    four = found[0, :, ::2]
    return (
        f"{table(head, rows)}\n\nOf {args.starts} starts in each direction. From four sides and the"
        f" start as it is: {four.sum()} of {four.size} pushes of {PUSH:g} s survived."
    )


def kick_forces(model: Model, velocity: np.ndarray) -> np.ndarray:
    """(m, nl, 3) that give the whole body velocities (m, 3) [m/s] in ``KICK``."""
    return np.asarray(model.mass)[:, None] * velocity[:, None, :] / KICK


def kicks(model: Model, args) -> str:
    """The table of the largest change of the whole body's velocity that is survived, found for
    each start and direction by halving: all links are pushed alike by their mass."""
    count = args.starts if args.starts > 1 else 64
    states = starts(model, count + 1, 8, args.seed)
    states = jax.tree.map(lambda x: x[8:], states)  # without the start as it is
    way = np.tile(ways(), (count, 1))
    upright = stands(model, args, KICK)
    low, high = np.zeros(8 * count), np.full(8 * count, FASTEST)
    for done in range(HALVINGS):
        middle = (low + high) / 2
        good = upright(states, kick_forces(model, middle[:, None] * way))
        low, high = np.where(good, middle, low), np.where(good, high, middle)
        print(f"kicks: {done + 1} of {HALVINGS} halvings", flush=True)
    speed = ((low + high) / 2).reshape(count, 8)
    rows = [
        [f"{45 * k}", *[f"{x:.2f}" for x in np.quantile(speed[:, k], (0.5, 0.1, 0.9))]]
        for k in range(8)
    ]
    rows.append(["all", *[f"{x:.2f}" for x in np.quantile(speed, (0.5, 0.1, 0.9))]])
    head = ["direction [deg]", "median [m/s]", "a tenth below", "a tenth above"]
    return f"{table(head, rows)}\n\nOf {count} starts, help by {args.help_by}."

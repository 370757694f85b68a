"""Clips that are followed, many runs at once: what the benchmarks of tracking share."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks._machine import ROOT
from controllers.tracking.balance import Balance
from controllers.tracking.parts import Parts, parts
from controllers.tracking.reference import Reference, reference
from controllers.tracking.topple_free import ToppleFree
from jaxsim import Measure, TimeStepping, push, rollout
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from jaxsim.math.rotation import matrix_to_quat, quat_conjugate, quat_log, quat_multiply
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget
from jaxsim.model import Model, State
from optimize.problems.starts import start_states

CLIPS = {
    "idle_65": "snu_wd2_idle_65__stand_idle.bvh",
    "fair1": "fair1_wave_hello__wave_zup.bvh",
    "n_kick": "snu_wd2_n_kick__kick.bvh",
    "02_05": "cmu_02_05__punch.amc",
    "02_06": "cmu_02_06__squat_reach.amc",
    "12_01": "cmu_12_01__walk.bvh",
    "walk_left_90": "snu_walk_left_90degree__walk_turn.bvh",
    "143_35": "cmu_143_35__dance_macarena.amc",
}
MOST = 10.7  # seconds of a clip that are followed
NEVER = 1e6
TRUNK = ("pelvis", "abdomen", "chest", "head", "leftThigh", "rightThigh")  # are not to touch
SIDES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))  # and unpushed, the first


def clips_folder() -> Path:
    """Where the clips lie. Raises SystemExit where they do not."""
    folder = Path(os.environ.get("JAXSIM_MOCAP") or ROOT.parent / "shared" / "mocap")
    if not folder.is_dir():
        raise SystemExit(f"no clips at {folder}; JAXSIM_MOCAP names their folder")
    return folder


@dataclass(frozen=True, eq=False)
class Shelf:
    """n clips as one reference, one after the other: a run has its clip's rate and begins where
    that begins."""

    model: Model
    parts: Parts
    names: tuple[str, ...]
    all: Reference  # (of all frames)
    rate: np.ndarray  # (n,) [Hz]
    begin: np.ndarray  # (n,) in the time of the whole at the clip's rate [s]
    seconds: np.ndarray  # (n,) how long each is

    @cache  # noqa: B019, shelves are few and live as long as the program
    def starts(self, count: int, seed: int) -> State:
        """``count`` slightly different starts of each clip, the reference's own first: (n, count)
        as leading axes."""

        def of(rate, begin, seed):
            ref = dataclasses.replace(self.all, rate=rate)
            return start_states(self.model, ref.state(self.model, begin), count, seed)

        dtype, seeds = self.all.q.dtype, seed + jnp.arange(len(self.names))
        rate, begin = jnp.asarray(self.rate, dtype), jnp.asarray(self.begin, dtype)
        return jax.jit(jax.vmap(of))(rate, begin, seeds)


def shelf(
    model: Model,
    pin: bool = False,
    mirror: bool = False,
    names: Sequence[str] = tuple(CLIPS),
    more: Mapping[str, tuple] | None = None,
) -> Shelf:
    """Clips on a model, with ``mirror`` then all again, left for right. pin: standing feet stay in
    place; more: further motions, as for ``shelved``."""
    folder, motions = clips_folder(), {}
    for name in names:
        file = CLIPS[name]
        clip = read_clip(folder / file, rate=120.0 if file.endswith(".amc") else None)
        motion = retarget(clip, model, pin=pin)
        frames = min(len(motion.q), int(MOST * motion.rate) + 1)
        motions[name] = motion.q[:frames], motion.stance[:frames], motion.rate
    if mirror:
        for name, (q, stance, rate) in list(motions.items()):
            motions[f"{name} mirrored"] = mirrored(model, q), stance[:, ::-1], rate
    return shelved(model, {**motions, **(more or {})})


def shelved(model: Model, motions: Mapping[str, tuple]) -> Shelf:
    """Motions by name: q (T, nq), stance (T, 2) bool, rate [Hz]."""
    own = parts(model)
    found = [reference(model, q, rate, stance, own) for q, stance, rate in motions.values()]
    rate = np.array([float(each.rate) for each in found])
    frames = np.array([each.frames for each in found])
    together = {
        field.name: jnp.concatenate([getattr(each, field.name) for each in found])
        for field in dataclasses.fields(Reference)
        if field.name not in ("rate", "moves")
    }
    return Shelf(
        model=model,
        parts=own,
        names=tuple(motions),
        all=Reference(rate=found[0].rate, **together),
        rate=rate,
        begin=(np.cumsum(frames) - frames) / rate,
        seconds=(frames - 1) / rate,
    )


def mirrored(model: Model, q: np.ndarray) -> np.ndarray:
    """Poses (T, nq) with left and right changed, of a body whose joints are balls."""
    top = model.topology
    found = np.array(q)
    names = list(top.joint_names)
    for joint, name in enumerate(names):
        other = name.replace("left", "*").replace("right", "left").replace("*", "right")
        kind, to = top.joint_kinds[joint], top.q_start[joint]
        at = top.q_start[names.index(other)]
        if kind == "free":
            found[:, to : to + 3] = q[:, at : at + 3] * [1.0, -1.0, 1.0]
            at, to = at + 3, to + 3
        elif kind != "ball":
            raise SystemExit(f"a mirrored clip needs joints that are balls; {name} is a {kind}")
        found[:, to : to + 4] = q[:, at : at + 4] * [1.0, -1.0, 1.0, -1.0]
    return found


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Runs:
    """Runs, with a leading axis: which clip, from where, and what is otherwise than planned."""

    start: State
    rate: Any  # of the clip [Hz]
    begin: Any  # [s]
    seconds: Any
    force: Any  # (3,) of a push at the chest [N]
    pushed_at: Any  # [s]
    mass: Any  # of the body, in that which the controller takes it for
    friction: Any  # of the ground and the body
    balance: Balance

    @property
    def count(self) -> int:
        """How many."""
        return len(self.rate)


def runs(
    shelf: Shelf,
    balance: Balance,
    force: float = 100.0,
    starts: int = 1,
    seed: int = 1,
    pushed_at: float = 1.0,
    turn: float = 0.0,
    mass: float = 1.0,
    friction: float = 1.0,
    clips: Sequence[int] | None = None,
) -> Runs:
    """Each clip (all, or those of the indices) unpushed and pushed from four sides, which are
    turned by ``turn`` [rad], from each of its starts: clip by side by start."""
    clips = range(len(shelf.names)) if clips is None else clips
    chosen, dtype = np.array(clips), shelf.all.q.dtype
    turned = np.array([[np.cos(turn), np.sin(turn), 0.0], [-np.sin(turn), np.cos(turn), 0.0]])
    sides = np.repeat(force * np.array(SIDES) @ turned, starts, axis=0)

    def states(x):
        x = jnp.repeat(x[chosen][:, None], len(SIDES), axis=1)  # (clip, side, start, ...)
        return x.reshape(-1, *x.shape[3:])

    def each(x):
        """(runs,) of a number of each clip, or of one."""
        x = np.broadcast_to(x, chosen.shape)
        return jnp.asarray(np.repeat(x, len(sides)), dtype)

    return Runs(
        start=jax.tree.map(states, shelf.starts(starts, seed)),
        rate=each(shelf.rate[chosen]),
        begin=each(shelf.begin[chosen]),
        seconds=each(shelf.seconds[chosen]),
        force=jnp.asarray(np.tile(sides, (len(chosen), 1)), dtype),
        pushed_at=each(pushed_at),
        mass=each(mass),
        friction=each(friction),
        balance=jax.tree.map(each, balance),
    )


def together(several: Sequence[Runs]) -> Runs:
    """One after the other."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *several)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mistaken:
    """A controller that takes the body for another one: ``model``."""

    inner: ToppleFree
    model: Model

    def init(self, model, state, obs):
        """As of the model that it believes in."""
        return self.inner.init(self.model, state, obs)

    def update(self, memory, model, state, obs, dt):
        """As of the model that it believes in."""
        return self.inner.update(memory, self.model, state, obs, dt)


def heavier(model: Model, factor: Any) -> Model:
    """With all masses and inertias times a factor."""
    return model.replace(mass=factor * model.mass, inertia=factor * model.inertia)


def runner(
    shelf: Shelf,
    help: str,
    dt: float,
    contacts: int,
    backend: str = "fused",
    seconds: float | None = None,
) -> Callable[[Runs], dict[str, np.ndarray]]:
    """run(runs) -> when each failed [s] (``NEVER``), and means over the time until then or until
    its clip's end; NaN where it failed at once. seconds: of simulation, by default those of the
    longest clip."""
    model, own = shelf.model, shelf.parts
    pushes = push(model, "chest", (1.0, 0.0, 0.0), duration=0.2)
    seconds = float(shelf.seconds.max()) + dt if seconds is None else seconds
    scheme, steps = TimeStepping(dt=dt, contacts=contacts), int(seconds / dt)
    given = ToppleFree.of(model, shelf.all, balance=Balance(), help=help)

    def one(run: Runs, frames: Reference):
        ref = dataclasses.replace(frames, rate=run.rate)
        follows = dataclasses.replace(given, reference=ref, begin=run.begin, balance=run.balance)
        body = heavier(model, run.mass).replace(friction=run.friction * model.friction)
        pushed = dataclasses.replace(pushes, force=run.force[None], start=run.pushed_at[None])
        return rollout(
            body, Mistaken(follows, model), run.start, scheme, steps,
            {"run": followed(model, own, ref, run)}, pushes=pushed, backend="xla",
        ).measures["run"]  # fmt: skip

    batch = fuse(one, (0, None), backend)

    def run(runs: Runs) -> dict[str, np.ndarray]:
        found = jax.device_get(batch(runs, shelf.all))
        lasted = np.where(found["lasted"] > 0, found["lasted"], np.nan)
        means = {k: found[k] / lasted for k in ("error", "helped", "help")}
        return {**found, **means}

    return run


def followed(model: Model, own: Parts, ref: Reference, run: Any) -> Measure:
    """Totals of a run until it fails or its clip ends, and when it failed; of a run its ``begin``
    and ``seconds`` are asked for.

    A dict: failed [s] (``NEVER``), lasted [s], error [m s], helped [s], help [N m s], and torque,
    the largest [N m].
    """
    touches = np.isin(model.topology.link_names, TRUNK)
    root = model.topology.link_names.index("pelvis")

    def fails(sample, planned):
        chest = matrix_to_quat(sample.obs.kin.link_rot[own.trunk])
        turn = jnp.linalg.norm(quat_log(quat_multiply(quat_conjugate(planned.trunk), chest)))
        low = jnp.abs(sample.state.q[2] - planned.q[2]) > 0.3
        lost = (turn > np.pi / 3) | low | ~jnp.isfinite(turn)
        return lost | jnp.any(sample.obs.link_touching & touches)

    def error(sample, planned):
        here = sample.obs.kin.link_pos
        there = forward_kinematics(model, planned.q, jnp.zeros_like(planned.qd)).link_pos
        apart = (here - here[root]) - (there - there[root])
        return jnp.mean(jnp.sqrt(jnp.sum(apart**2, axis=-1) + 1e-12))

    def update(totals, sample):
        time = sample.state.time
        planned = ref.at(model, time + run.begin)
        within = (time < run.seconds) & (totals["failed"] == NEVER)
        failing = within & fails(sample, planned)
        live = within & ~failing
        help = jnp.sum(jnp.linalg.norm(sample.memory.help, axis=-1))
        rates = {
            "lasted": 1.0,
            "error": error(sample, planned),
            "helped": jnp.where(help > 0, 1.0, 0.0),
            "help": help,
        }
        sums = {k: totals[k] + jnp.where(live, sample.dt * x, 0.0) for k, x in rates.items()}
        torque = jnp.where(live, jnp.max(sample.memory.foot_torque), 0.0)
        return {
            **sums,
            "failed": jnp.where(failing, time, totals["failed"]),
            "torque": jnp.maximum(totals["torque"], torque),
        }

    zero = jnp.zeros((), model.mass.dtype)
    totals = dict.fromkeys(("lasted", "error", "helped", "help", "torque"), zero)
    return Measure({**totals, "failed": zero + NEVER}, update)


def of_runs(found: dict[str, Array], clips: int) -> dict[str, np.ndarray]:
    """The numbers of runs as (clip, side, start)."""
    return {k: np.reshape(v, (clips, len(SIDES), -1)) for k, v in found.items()}

"""Motion capture on feet that are kept from toppling: the tables of docs/results/tracking.md.

    python benchmarks/tracking.py                          eight clips, unpushed and pushed
    python benchmarks/tracking.py --help-by capacity       another kind of help
    python benchmarks/tracking.py --dt 0.002 --set com_p=400
    python benchmarks/tracking.py --standing               pushes of a human that stands, no clip

Clips lie in the folder that JAXSIM_MOCAP names. A run has failed when the chest is 60 degrees from
the reference's, the pelvis 0.3 m from its height, or when pelvis, trunk, head or thighs touch.
"""

import argparse
import dataclasses
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from controllers.tracking.balance import Balance
from controllers.tracking.parts import parts
from controllers.tracking.reference import Reference, reference
from controllers.tracking.topple_free import HELP, ToppleFree
from jaxsim import (
    Measure,
    TimeStepping,
    articulated_human,
    ball_joint_human,
    final,
    largest,
    push,
    rollout,
    start,
    total,
)
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from jaxsim.math.rotation import matrix_to_quat, quat_conjugate, quat_log, quat_multiply
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget

ROOT = Path(__file__).resolve().parents[1]
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
SIDES = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]
NEVER = 1e6
MODELS = {"ball_joint_human": ball_joint_human, "articulated_human": articulated_human}
TRUNK = ("pelvis", "abdomen", "chest", "head", "leftThigh", "rightThigh")  # are not to touch


def references(model, own, folder: Path, pin: bool) -> tuple[Reference, np.ndarray]:
    """All clips with as many frames, the last one repeated; and how long each is [s]."""
    found = []
    for file in CLIPS.values():
        clip = read_clip(folder / file, rate=120.0 if file.endswith(".amc") else None)
        motion = retarget(clip, model, pin=pin)
        frames = min(len(motion.q), int(MOST * motion.rate) + 1)
        found.append(reference(model, motion.q[:frames], motion.rate, motion.stance[:frames], own))
    most = max(each.frames for each in found)

    def padded(x):
        return jnp.concatenate([x, jnp.repeat(x[-1:], most - len(x), axis=0)]) if x.ndim else x

    seconds = np.array([float(each.duration()) for each in found])
    return jax.tree.map(lambda *x: jnp.stack(x), *[jax.tree.map(padded, r) for r in found]), seconds


def measures(model, own, ref: Reference, seconds) -> dict[str, Measure]:
    """When it failed [s], and what of it is told, over the time of the clip."""
    touches = np.isin(model.topology.link_names, TRUNK)
    root = model.topology.link_names.index("pelvis")

    def failed(sample):
        now, kin = ref.at(model, sample.state.time), sample.obs.kin
        chest = matrix_to_quat(kin.link_rot[own.trunk])
        turn = jnp.linalg.norm(quat_log(quat_multiply(quat_conjugate(now.trunk), chest)))
        low = jnp.abs(sample.state.q[2] - now.q[2]) > 0.3
        lost = (turn > np.pi / 3) | low | ~jnp.isfinite(turn)
        return (sample.state.time < seconds) & (lost | jnp.any(sample.obs.link_touching & touches))

    def error(sample):
        now, here = ref.at(model, sample.state.time), sample.obs.kin.link_pos
        there = forward_kinematics(model, now.q, jnp.zeros_like(now.qd)).link_pos
        apart = (here - here[root]) - (there - there[root])
        return jnp.mean(jnp.sqrt(jnp.sum(apart**2, axis=-1) + 1e-12))

    def help(sample):
        return jnp.sum(jnp.linalg.norm(sample.memory.help, axis=-1))

    def live(value):
        return lambda sample: jnp.where(sample.state.time < seconds, value(sample), 0.0)

    first = Measure(
        jnp.asarray(NEVER),
        lambda old, s: jnp.where(failed(s) & (old == NEVER), s.state.time, old),
    )
    return {
        "failed": first,
        "error": total(live(error)),
        "helped": total(live(lambda sample: jnp.where(help(sample) > 0, 1.0, 0.0))),
        "help": total(live(help)),
        "torque": largest(live(lambda sample: jnp.max(sample.memory.foot_torque))),
    }


def follow(model, args) -> str:
    """The table of the clips."""
    own = parts(model)
    ref, seconds = references(model, own, args.folder, args.pin)
    given = ToppleFree.of(
        model, jax.tree.map(lambda x: x[0], ref), balance=args.balance, help=args.help_by
    )
    scheme = TimeStepping(dt=args.dt, contacts=args.contacts)

    def one(ref, seconds, force):
        pushes = push(model, "chest", (1.0, 0.0, 0.0), start=1.0, duration=0.2)
        pushes = dataclasses.replace(pushes, force=force[None])
        controller = dataclasses.replace(given, reference=ref)
        steps = int(MOST / args.dt)
        return rollout(
            model, controller, ref.state(model), scheme, steps,
            measures(model, own, ref, seconds), pushes=pushes, backend="xla",
        ).measures  # fmt: skip

    sides = np.array([(args.force * x, args.force * y, 0.0) for x, y in SIDES])
    spans = jnp.repeat(jnp.asarray(seconds), len(sides))
    refs = jax.tree.map(lambda x: jnp.repeat(x, len(sides), axis=0), ref)
    forces = jnp.tile(jnp.asarray(sides), (len(CLIPS), 1))
    found = jax.device_get(fuse(one)(refs, spans, forces))
    found = {k: v.reshape(len(CLIPS), len(sides)) for k, v in found.items()}
    rows = []
    for k, name in enumerate(CLIPS):
        good = found["failed"][k] == NEVER
        alone = {key: found[key][k, 0] / seconds[k] for key in ("error", "helped", "help")}
        rows.append([
            name, f"{seconds[k]:.1f}", f"{good.sum()} of {good.size}",
            f"{1e3 * alone['error']:.1f}", f"{100 * alone['helped']:.0f}",
            f"{alone['help']:.1f}", f"{found['torque'][k, 0]:.0f}",
            ", ".join(f"{t:.1f}" for t in found["failed"][k][~good]) or "-",
        ])  # fmt: skip
    good = (found["failed"] == NEVER).sum()
    head = [
        "clip",
        "s",
        "followed",
        "error [mm]",
        "helped [%]",
        "help [N m]",
        "most [N m]",
        "failed at [s]",
    ]
    return f"{table(head, rows)}\n\n{good} of {found['failed'].size} runs followed to their end."


def stand(model, args) -> str:
    """The table of pushes of a body that stands in its start pose."""
    state = start(model, "standing")
    controller = ToppleFree.of(model, pose=state.q, balance=args.balance, help=args.help_by)
    scheme = TimeStepping(dt=args.dt, contacts=args.contacts)

    def one(force):
        pushes = push(model, "chest", (1.0, 0.0, 0.0), start=1.0, duration=0.2)
        pushes = dataclasses.replace(pushes, force=force[None])
        height = {"height": final(lambda sample: sample.obs.com[2])}
        steps = int(5.0 / args.dt)
        result = rollout(
            model, controller, state, scheme, steps, height, pushes=pushes, backend="xla"
        )
        return result.measures["height"]

    sizes = (50.0, 100.0, 150.0, 200.0, 250.0, 300.0)
    forces = [(f * x, f * y, 0.0) for f in sizes for x, y in SIDES[1:]]
    stands = np.asarray(fuse(one)(jnp.asarray(forces))).reshape(len(sizes), 4) > 0.8
    head = ["force [N]", "forward", "left", "back", "right"]
    rows = [[f"{f:g}", *["stands" if x else "falls" for x in row]] for f, row in zip(sizes, stands)]
    return f"{table(head, rows)}\n\n{stands.sum()} of {stands.size} pushes of 0.2 s survived."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=tuple(MODELS), default="ball_joint_human")
    parser.add_argument("--help-by", choices=HELP, default=HELP[0])
    parser.add_argument("--dt", type=float, default=0.001, help="[s]")
    parser.add_argument("--force", type=float, default=100.0, help="of the pushes [N]")
    parser.add_argument("--contacts", type=int, default=16, help="solved for, at most")
    parser.add_argument("--pin", action="store_true", help="pin standing feet when retargeting")
    parser.add_argument("--standing", action="store_true", help="no clip, pushes of 50 to 300 N")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=X", help="numbers of Balance")
    args = parser.parse_args()
    args.folder = Path(os.environ.get("JAXSIM_MOCAP") or ROOT.parent / "shared" / "mocap")
    changes = dict(pair.split("=") for pair in args.set)
    args.balance = dataclasses.replace(Balance(), **{k: float(v) for k, v in changes.items()})
    model = MODELS[args.model]()
    shown = stand(model, args) if args.standing else follow(model, args)
    print(f"{today()}, {machine()}, commit {commit()}; {versions(jax)}\n\n{shown}")


if __name__ == "__main__":
    main()

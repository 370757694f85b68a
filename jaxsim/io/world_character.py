"""Character of a world: its model, its start, and the poses that it follows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxsim.characters.bearing import bearing
from jaxsim.characters.default_gains import with_default_gains
from jaxsim.characters.registry import CHARACTERS, start
from jaxsim.characters.standing import rise_to_ground
from jaxsim.collision.contacts import overlapping_pairs
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.joint_angles import posed_q
from jaxsim.io.model_file import load_model
from jaxsim.io.toml_table import WorldError, suggestion
from jaxsim.io.world import CharacterSpec, KeyPose, World
from jaxsim.math.rotation import quat_multiply, rotation_matrix
from jaxsim.model import Model, ModelBuilder, ModelError, State
from jaxsim.model.adopt import add_model

MODEL_FILES = (".xml", ".mjcf", ".urdf")
NO_SHAPES = "no link has a shape, so it touches nothing; spheres, capsules and boxes can be given"
BETWEEN = 24  # straight lines between two keys

# Compiled as a whole: one operation after the other, each would be compiled by itself.
_rise = jax.jit(lambda model, q, qd: rise_to_ground(model, forward_kinematics(model, q, qd)))


class PosePath(NamedTuple):
    """Poses at times, with straight lines between them; the first is the start."""

    time: np.ndarray  # (n,) [s]
    q: np.ndarray  # (n, nq)


def built_in(model: str) -> bool:
    """True for the name of a built-in character, False for a model file.

    Raises WorldError for any other name.
    """
    if model in CHARACTERS:
        return True
    if model.lower().endswith(MODEL_FILES):
        return False
    raise WorldError(
        f"there is no character {model!r}{suggestion(model, list(CHARACTERS))}; give one of "
        f"{', '.join(CHARACTERS)}, or a file that ends in {', '.join(MODEL_FILES)}"
    )


@dataclass(frozen=True)
class Placed:
    """A character without its surroundings, at its start."""

    model: Model
    state: State


def load_character(world: World, spec: CharacterSpec, notes: list[str]) -> Placed:
    placed = _loaded(world, spec, notes)
    if not spec.bears:
        return placed
    try:
        return replace(placed, model=bearing(placed.model, spec.bears))
    except ModelError as error:
        raise WorldError(f"{world.name}: [character]: {error}") from None


def _loaded(world: World, spec: CharacterSpec, notes: list[str]) -> Placed:
    if built_in(spec.model):
        try:
            model = CHARACTERS[spec.model].build(**spec.options)
        except TypeError:
            raise WorldError(
                f"{world.name}: [character]: {spec.model} has none of these: "
                f"{', '.join(spec.options)}; leave them out"
            ) from None
        state = start(model, spec.start or CHARACTERS[spec.model].starts[0])
        state = state.replace(q=posed_q(world.name, model, state.q, spec.pose))
        return Placed(model, _on_ground(model, state) if spec.pose else state)
    if spec.options:
        raise WorldError(
            f"{world.name}: [character]: {', '.join(spec.options)} belong to built-in characters;"
            " a model file has its own"
        )
    file = world.folder / spec.model
    imported = load_model(file, strict=False, self_collision=spec.self_collision is not False)
    if imported.report():
        notes.append(imported.report())
    model, joints = with_default_gains(imported.model)
    if joints:
        notes.append(
            f"gains of a human of this size for motors without their own: {', '.join(joints)}"
        )
    starts = dict(imported.keyframes)
    if max(model.topology.shape_link, default=-1) < 0:
        notes.append(NO_SHAPES)
    elif model.topology.roles.standing:
        starts.setdefault("standing", start(model, "standing"))
    if spec.start is not None and spec.start not in starts:
        raise WorldError(
            f"{world.name}: [character], key 'start': {spec.model} has no key frame "
            f"{spec.start!r}{suggestion(spec.start, list(starts))}; it has: "
            + (", ".join(starts) or "none")
        )
    state = imported.state if spec.start is None else starts[spec.start]
    return Placed(model, state.replace(q=posed_q(world.name, model, state.q, spec.pose)))


def overlaps(mover: Placed) -> tuple[tuple[str, str], ...]:
    """Pairs of shapes of the character that overlap in its start pose."""
    builder = ModelBuilder()
    add_model(builder, mover.model, world_shapes=False)
    builder.add_self_collision()
    return overlapping_pairs(builder.build(), mover.state.q)


def _on_ground(model: Model, state: State) -> State:
    """State with the root raised or lowered until the lowest point is on the ground."""
    top = model.topology
    if top.planar or top.root_height is None:
        return state
    rise = float(_rise(model, state.q, state.qd))
    return state.replace(q=state.q.at[top.root_height].add(rise))


def place_root(world: World, top: Any, q: np.ndarray, qd: np.ndarray) -> None:
    spec = world.character
    assert spec is not None
    root = next((j for j, kind in enumerate(top.joint_kinds) if kind == "free"), None)
    placed = any((*spec.pos, *spec.velocity, *spec.angular_velocity)) or abs(spec.quat[0]) < 1
    if root is None:
        slides = _planar_root(top)
        if slides is not None and not any((*spec.angular_velocity, spec.pos[1], spec.velocity[1])):
            for joint, axis in slides:
                q[top.q_start[joint]] += spec.pos[axis]
                qd[top.v_start[joint]] += spec.velocity[axis]
            placed = abs(spec.quat[0]) < 1
        if placed:
            raise WorldError(
                f"{world.name}: [character]: {spec.model} has no free root, so that pos, turn_deg,"
                " velocity and angular_velocity do not apply; leave them out"
            )
        return
    at, dof = top.q_start[root], top.v_start[root]
    turn = rotation_matrix(spec.quat)
    q[at : at + 3] = turn @ q[at : at + 3] + np.array(spec.pos)
    q[at + 3 : at + 7] = quat_multiply(np.array(spec.quat), q[at + 3 : at + 7])
    qd[dof : dof + 3] += np.array(spec.velocity)
    qd[dof + 3 : dof + 6] += rotation_matrix(q[at + 3 : at + 7]).T @ np.array(spec.angular_velocity)


def _planar_root(top: Any) -> list[tuple[int, int]] | None:
    """Slides along x and z of a planar character's root, with their axes.

    None for other characters.
    """
    if not top.planar:
        return None
    slides = [j for j, kind in enumerate(top.joint_kinds) if kind == "slide"][:2]
    return list(zip(slides, (0, 2)))


def keys_of(world: World, model: Model, state: State, keys: Sequence[KeyPose]) -> PosePath:
    """Poses that are reached at their times, in their order.

    Between two keys joints go 10 u^3 - 15 u^4 + 6 u^5 of the way, at rest at both (the motion of
    least jerk, Flash and Hogan 1985).
    """
    first, time, q = np.asarray(state.q), [0.0], [np.asarray(state.q)]
    for key in keys:
        goal = np.asarray(posed_q(world.name, model, q[-1], key.pose))
        u = np.arange(1, BETWEEN + 1) / BETWEEN
        part = u**3 * (10 + u * (6 * u - 15))
        time += (time[-1] + (key.time - time[-1]) * u).tolist()
        q += _between(model, q[-1], goal, part)
    return PosePath(np.array(time), np.stack(q, dtype=first.dtype))


def _between(model: Model, begin: np.ndarray, goal: np.ndarray, part: np.ndarray) -> list:
    """Poses (nq,) at the given shares of the way."""
    poses = begin + part[:, None] * (goal - begin)
    for joint, kind in enumerate(model.topology.joint_kinds):
        if kind == "ball":  # the shorter way round, at an even speed
            at = slice(model.topology.q_start[joint], model.topology.q_start[joint] + 4)
            p, q = begin[at], goal[at] * (1.0 if begin[at] @ goal[at] >= 0 else -1.0)
            angle = np.arccos(np.clip(p @ q, -1.0, 1.0))
            near, far = (np.sinc(x * angle / np.pi) * x for x in (1 - part, part))
            poses[:, at] = (near[:, None] * p + far[:, None] * q) / np.sinc(angle / np.pi)
    return list(poses)

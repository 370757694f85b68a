"""From a World to the Model, State and forces that a simulation takes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.characters.human import articulated_human, ball_joint_human
from jaxsim.characters.planar_human import planar_human
from jaxsim.characters.poses import MIRROR, SIDES, sided
from jaxsim.characters.starts import start as start_pose
from jaxsim.collision.contacts import lowest_point, overlapping_pairs
from jaxsim.constraints.rows import row_layout
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.model_file import load_model
from jaxsim.io.solids import solid
from jaxsim.io.toml_table import WorldError, suggestion
from jaxsim.io.world import Body, CharacterSpec, Grip, World
from jaxsim.model import Model, ModelBuilder, State, free, neutral_state
from jaxsim.model.adopt import add_model
from jaxsim.model.checks import rotation
from jaxsim.model.joints import Q_SIZE
from jaxsim.simulation.pushes import Pushes, push, pushes_together

BUILT_IN = {
    "articulated_human": articulated_human,
    "ball_joint_human": ball_joint_human,
    "planar_human": planar_human,
}
MODEL_FILES = (".xml", ".mjcf", ".urdf")
BETWEEN = 24  # straight lines between two keys
THROW_TIME = 0.05  # in which a held body gets the velocity it is thrown with [s]
EARLY = 0.0005  # begins and ends between two steps, whose times are rounded [s]


# Compiled as wholes: one operation after the other, each would be compiled by itself.
_begun = jax.jit(start_pose, static_argnames="name")
_kinematics = jax.jit(forward_kinematics)
_low = jax.jit(lambda model, q, qd: lowest_point(model, forward_kinematics(model, q, qd)))


class Keys(NamedTuple):
    """What a character follows: poses with straight lines between them, the first at the start."""

    time: np.ndarray  # (n,) [s]
    q: np.ndarray  # (n, nq)


@dataclass(frozen=True)
class WorldModel:
    """What a simulation of a world takes; all numbers are arrays of the model from here on."""

    model: Model
    state: State
    pushes: Pushes | None
    grip_close: np.ndarray  # (ng,) [s]
    grip_open: np.ndarray  # (ng,) [s]
    roles: tuple[str, ...]  # (nl,) "character", "prop" or "driven"
    keys: Keys
    notes: tuple[str, ...]  # what a user should know


def built_in(model: str) -> bool:
    """Whether a character's name is that of a built-in one; WorldError if it is no file either."""
    if model in BUILT_IN:
        return True
    if model.lower().endswith(MODEL_FILES):
        return False
    raise WorldError(
        f"there is no character {model!r}{suggestion(model, list(BUILT_IN))}; give one of "
        f"{', '.join(BUILT_IN)}, or a file that ends in {', '.join(MODEL_FILES)}"
    )


def build_world(world: World) -> WorldModel:
    """Model, start state and forces of a world, in JAX's default float precision.

    Links are in the order character, bodies, driven bodies; all that moves may touch all else that
    moves and all that is fixed. The character's links touch one another only if it says
    ``self_collision``; then shapes that overlap at the start never do.

    Raises WorldError or ModelError, naming the place, for what does not fit together.
    """
    if world.character is None and not world.bodies:
        raise WorldError(f"{world.name}: nothing moves in it; give a [character] or a [[body]]")
    notes: list[str] = []
    mover = None if world.character is None else _character(world, world.character, notes)
    builder = _builder(world, mover)
    if mover is not None and world.character is not None and world.character.self_collision:
        builder.add_self_collision(mover.model.topology.link_names)
        for pair in _overlaps(mover):
            builder.exclude_pair(*pair)
    grips = [*world.grips, *_hands(world)]
    _add_grips(world, builder, mover, grips)
    model = builder.build()
    state = _start(world, model, mover)
    top = model.topology
    if not world.fixed and -1 not in top.shape_link:
        notes.append("there is no ground; a [[fixed]] table of a world file can give one")
    kinds = {body.name: "prop" for body in world.bodies}
    kinds |= {body.name: "driven" for body in world.driven}
    own = len(top.link_names) - sum(1 for name in top.link_names if name in kinds)
    roles = ["character"] * own + [kinds[name] for name in top.link_names[own:]]
    return WorldModel(
        model=model,
        state=state,
        pushes=_pushes(world, model),
        grip_close=np.array([grip.close for grip in grips]),
        grip_open=np.array([grip.open for grip in grips]),
        roles=tuple(roles),
        keys=_keys(world, model, state),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Character:
    """The character by itself."""

    model: Model
    state: State


def _character(world: World, spec: CharacterSpec, notes: list[str]) -> _Character:
    if built_in(spec.model):
        try:
            model = BUILT_IN[spec.model](**spec.options)
        except TypeError:
            raise WorldError(
                f"{world.name}: [character]: {spec.model} has none of these: "
                f"{', '.join(spec.options)}; leave them out"
            ) from None
        state = _begun(model, name=spec.start or "standing")
        state = state.replace(q=_posed(world, model, state.q, spec.pose))
        return _Character(model, _on_ground(model, state) if spec.pose else state)
    if spec.options:
        raise WorldError(
            f"{world.name}: [character]: {', '.join(spec.options)} belong to built-in characters;"
            " a model file has its own"
        )
    imported = load_model(world.folder / spec.model, strict=False)
    if imported.report():
        notes.append(imported.report())
    state = imported.state
    if spec.start is not None:
        if spec.start not in imported.keyframes:
            known = list(imported.keyframes)
            raise WorldError(
                f"{world.name}: [character], key 'start': {spec.model} has no key frame "
                f"{spec.start!r}{suggestion(spec.start, known)}; it has: "
                + (", ".join(known) or "none")
            )
        state = imported.keyframes[spec.start]
    return _Character(
        imported.model, state.replace(q=_posed(world, imported.model, state.q, spec.pose))
    )


def _overlaps(mover: _Character) -> tuple[tuple[str, str], ...]:
    """Shapes of the character that overlap in its start pose."""
    builder = ModelBuilder()
    add_model(builder, mover.model, world_shapes=False)
    builder.add_self_collision()
    return overlapping_pairs(builder.build(), mover.state.q)


def _on_ground(model: Model, state: State) -> State:
    """The root lifted or lowered until the lowest point is at height 0."""
    root = next((j for j, kind in enumerate(model.topology.joint_kinds) if kind == "free"), None)
    if root is None:
        return state
    low = float(_low(model, state.q, state.qd))
    return state.replace(q=state.q.at[model.topology.q_start[root] + 2].add(-low))


def _posed(world: World, model: Model, q: Any, pose: dict[str, Any]) -> Any:
    """q with the joints of a pose set; a name without its side sets both joints."""
    top = model.topology
    q = np.array(q, float)
    for name, angle in pose.items():
        both = [sided(side, name) for side in SIDES]
        names = [name] if name in top.joint_names else [n for n in both if n in top.joint_names]
        if not names:
            movable = [n for n, kind in zip(top.joint_names, top.joint_kinds) if Q_SIZE[kind] < 7]
            raise WorldError(
                f"{world.name}: pose: there is no joint {name!r}{suggestion(name, movable)}; "
                f"the joints are: {', '.join(movable)}"
            )
        for joint, sign in zip(names, (np.ones(3), MIRROR)):
            index = top.joint(joint)
            kind, at = top.joint_kinds[index], top.q_start[index]
            if kind == "ball":
                turn = np.deg2rad(np.broadcast_to(np.asarray(angle, float), (3,))) * sign
                half = np.linalg.norm(turn) / 2
                q[at : at + 4] = [np.cos(half), *(0.5 * np.sinc(half / np.pi) * turn)]
            elif kind in ("hinge", "slide") and np.ndim(angle) == 0:
                q[at] = np.deg2rad(angle) if kind == "hinge" else angle
            else:
                raise WorldError(
                    f"{world.name}: pose: joint {joint!r} is a {kind}; hinges and slides take a "
                    "number, balls three"
                )
    return jnp.asarray(q, model.mass.dtype)


# ---- the model


def _builder(world: World, mover: _Character | None) -> ModelBuilder:
    builder = ModelBuilder(world.gravity)
    groups: list[list[str]] = []  # shapes of what moves together
    if mover is not None:
        # A model file by itself keeps its ground.
        alone = not world.fixed
        add_model(builder, mover.model, world_shapes=alone)
        top = mover.model.topology
        groups.append([n for n, link in zip(top.shape_names, top.shape_link) if link >= 0])
    for body in world.bodies:
        com, inertia = solid(body.shape, body.mass)
        builder.add_link(
            body.name, "world", joints=[free(body.name)], mass=body.mass, com=com, inertia=inertia
        )
        groups.append([builder.add_shape(body.name, body.shape)])
    for driven in world.driven:
        com, inertia = solid(driven.shape, 1.0)  # what it weighs changes nothing
        builder.add_link(
            driven.name,
            "world",
            pos=driven.pos,
            quat=driven.quat,
            joints=driven.joints,
            mass=1.0,
            com=com,
            inertia=inertia,
        )
        groups.append([builder.add_shape(driven.name, driven.shape)])
    for shape in world.fixed:
        builder.add_shape("world", shape)
    _pair_up(builder, groups, len(world.driven))
    return builder


def _pair_up(builder: ModelBuilder, groups: list[list[str]], driven: int) -> None:
    """Let all that moves touch one another, but not driven bodies: they give way to nothing."""
    loose = len(groups) - driven
    for i, one in enumerate(groups):
        for j in range(i + 1, len(groups)):
            if i < loose:
                for a in one:
                    for b in groups[j]:
                        builder.add_pair(a, b)


def _hands(world: World) -> list[Grip]:
    """What holds the bodies that will be thrown."""
    return [
        Grip(f"hand_of_{body.name}", body.name, solid(body.shape, 1.0)[0], open=_let_go(body))
        for body in world.bodies
        if body.throw_at is not None
    ]


def _let_go(body: Body) -> float:
    return max((body.throw_at or 0.0) - THROW_TIME, 0.0) - EARLY


def _add_grips(
    world: World, builder: ModelBuilder, mover: _Character | None, grips: list[Grip]
) -> None:
    names = builder.link_names
    for grip in grips:
        for key, link in (("link", grip.link), ("to", grip.to)):
            if link not in names and not (key == "to" and link == "world"):
                raise WorldError(
                    f"{world.name}: [[grip]] {grip.name!r}, key {key!r}: there is no link {link!r}"
                    f"{suggestion(link, names)}; the links are: {', '.join(names)}"
                )
    open_ended = [link for g in grips if g.to_point is None for link in (g.link, g.to)]
    poses = _poses(world, builder, mover, set(open_ended) - {"world"})
    for grip in grips:
        there: Any = grip.to_point
        if there is None:
            pos, rot = poses[grip.link]
            there = pos + rot @ np.array(grip.point)
            if grip.to != "world":
                pos, rot = poses[grip.to]
                there = rot.T @ (there - pos)
        builder.add_grip(grip.name, grip.link, grip.point, grip.to, there, grip.strength)


def _poses(
    world: World, builder: ModelBuilder, mover: _Character | None, links: set[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Places (3,) and rotations (3, 3) at the start; of loose bodies without kinematics."""
    poses = {b.name: (np.array(b.pos), rotation(b.quat)) for b in world.bodies}
    if links - set(poses):
        bare = builder.build()
        state = _start(world, bare, mover)
        kin = _kinematics(bare, state.q, state.qd)
        pairs = zip(np.asarray(kin.link_pos, float), np.asarray(kin.link_rot, float), strict=True)
        poses |= dict(zip(bare.topology.link_names, pairs, strict=True))
    return poses


# ---- state and forces


def _start(world: World, model: Model, mover: _Character | None) -> State:
    top = model.topology
    state = neutral_state(model, row_layout(top).n_rows)
    q, qd = np.array(state.q, float), np.array(state.qd, float)
    if mover is not None:
        own = mover.model.topology
        q[: own.nq], qd[: own.nv] = np.asarray(mover.state.q), np.asarray(mover.state.qd)
        _place_root(world, own, q, qd)
    for body in world.bodies:
        joint = top.joint(body.name)
        at, dof = top.q_start[joint], top.v_start[joint]
        q[at : at + 7] = [*body.pos, *body.quat]
        if body.throw_at is None:
            qd[dof : dof + 3] = body.velocity
            qd[dof + 3 : dof + 6] = rotation(body.quat).T @ np.array(body.angular_velocity)
    dtype = model.mass.dtype
    return state.replace(q=jnp.asarray(q, dtype), qd=jnp.asarray(qd, dtype))


def _place_root(world: World, top: Any, q: np.ndarray, qd: np.ndarray) -> None:
    spec = world.character
    assert spec is not None
    root = next((j for j, kind in enumerate(top.joint_kinds) if kind == "free"), None)
    given = any((*spec.pos, *spec.velocity, *spec.angular_velocity)) or abs(spec.quat[0]) < 1
    if root is None:
        slides = _planar_root(top)
        if slides is not None and not any((*spec.angular_velocity, spec.pos[1], spec.velocity[1])):
            for joint, axis in slides:
                q[top.q_start[joint]] += spec.pos[axis]
                qd[top.v_start[joint]] += spec.velocity[axis]
            given = abs(spec.quat[0]) < 1
        if given:
            raise WorldError(
                f"{world.name}: [character]: {spec.model} has no free root, so that pos, turn_deg,"
                " velocity and angular_velocity do not apply; leave them out"
            )
        return
    at, dof = top.q_start[root], top.v_start[root]
    turn = rotation(spec.quat)
    q[at : at + 3] = turn @ q[at : at + 3] + np.array(spec.pos)
    q[at + 3 : at + 7] = _multiply(np.array(spec.quat), q[at + 3 : at + 7])
    qd[dof : dof + 3] += np.array(spec.velocity)
    qd[dof + 3 : dof + 6] += rotation(q[at + 3 : at + 7]).T @ np.array(spec.angular_velocity)


def _planar_root(top: Any) -> list[tuple[int, int]] | None:
    """The slides along x and z of a planar character's root, with their axes."""
    if not top.planar:
        return None
    slides = [j for j, kind in enumerate(top.joint_kinds) if kind == "slide"][:2]
    return list(zip(slides, (0, 2)))


def _multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    w, u = p[0] * q[0] - p[1:] @ q[1:], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])
    return np.array([w, *u])


def _pushes(world: World, model: Model) -> Pushes | None:
    found = [
        push(model, shove.link, shove.force, shove.start, shove.duration, shove.point)
        for shove in world.shoves
    ]
    for body in world.bodies:
        if body.throw_at is not None:
            start = _let_go(body)
            time = body.throw_at - EARLY - start
            force = body.mass * (np.array(body.velocity) / time - np.array(world.gravity))
            found.append(push(model, body.name, force.tolist(), start, time))
    return pushes_together(*found) if found else None


def _keys(world: World, model: Model, state: State) -> Keys:
    """Between two keys joints go 10 u^3 - 15 u^4 + 6 u^5 of the way, at rest at both (the way of
    least jerk, Flash and Hogan 1985)."""
    begun, time, q = np.asarray(state.q), [0.0], [np.asarray(state.q)]
    for key in world.character.keys if world.character else ():
        goal = np.asarray(_posed(world, model, q[-1], key.pose))
        u = np.arange(1, BETWEEN + 1) / BETWEEN
        part = u**3 * (10 + u * (6 * u - 15))
        time += (time[-1] + (key.time - time[-1]) * u).tolist()
        q += _between(model, q[-1], goal, part)
    return Keys(np.array(time), np.stack(q, dtype=begun.dtype))


def _between(model: Model, begin: np.ndarray, goal: np.ndarray, part: np.ndarray) -> list:
    """Poses (nq,) at the given parts of the way."""
    poses = begin + part[:, None] * (goal - begin)
    for joint, kind in enumerate(model.topology.joint_kinds):
        if kind == "ball":  # the shorter way round, at an even speed
            at = slice(model.topology.q_start[joint], model.topology.q_start[joint] + 4)
            p, q = begin[at], goal[at] * (1.0 if begin[at] @ goal[at] >= 0 else -1.0)
            angle = np.arccos(np.clip(p @ q, -1.0, 1.0))
            near, far = (np.sinc(x * angle / np.pi) * x for x in (1 - part, part))
            poses[:, at] = (near[:, None] * p + far[:, None] * q) / np.sinc(angle / np.pi)
    return list(poses)


def with_character(world: World, model: str) -> World:
    """A world with another character, a built-in one or a file, in the place of its own; in an
    empty world it keeps the ground it comes with."""
    spec = world.character or CharacterSpec(model)
    path = model if built_in(model) else str(Path(model).resolve())
    if not (world.fixed or world.bodies or world.driven):
        world = replace(world, name=Path(model).stem)
    return replace(world, character=replace(spec, model=path, options={}))


def begun(world: World, start: str) -> World:
    """A world whose character begins in another start pose. Raises WorldError without one."""
    if world.character is None:
        raise WorldError(f"{world.name}: there is no character that could begin {start!r}")
    return replace(world, character=replace(world.character, start=start))

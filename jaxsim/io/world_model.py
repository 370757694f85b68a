"""Builder of the Model, State and forces of a World."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.toml_table import WorldError, suggestion
from jaxsim.io.world import Body, CharacterSpec, Grip, World
from jaxsim.io.world_character import (
    Placed,
    load_character,
    overlaps,
    place_root,
)
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model import Model, ModelBuilder, State, free, neutral_state
from jaxsim.model.adopt import add_model
from jaxsim.simulation.pushes import Pushes, push, pushes_together

THROW_TIME = 0.05  # in which a held body gets the velocity it is thrown with [s]
NO_GROUND = "there is no ground; a [[fixed]] table of a world file can give one"
EARLY = 0.0005  # begins and ends between two steps, whose times are rounded [s]


# Compiled as a whole: one operation after the other, each would be compiled by itself.
_kinematics = jax.jit(forward_kinematics)


@dataclass(frozen=True)
class WorldModel:
    """Model, state and forces of a world, as arrays."""

    model: Model
    state: State
    pushes: Pushes | None
    grip_close: np.ndarray  # (ng,) [s]
    grip_open: np.ndarray  # (ng,) [s]
    roles: tuple[str, ...]  # (nl,) "character", "companion", "prop" or "driven"
    notes: tuple[str, ...]  # what a user should know


def build_world(world: World) -> WorldModel:
    """Build model, start state and forces of a world, in JAX's default float precision.

    Links are in the order character, companions, bodies, driven bodies; moving bodies may touch all
    other moving and fixed ones, except that companions touch fixed ones alone. The character's
    links touch one another where its file says so or it has ``self_collision``; in the latter case,
    shapes that overlap at the start never do.

    Raises WorldError or ModelError, naming the place, for contradictions.
    """
    if world.character is None and not world.bodies:
        raise WorldError(f"{world.name}: nothing moves in it; give a [character] or a [[body]]")
    notes: list[str] = []
    mover = None if world.character is None else load_character(world, world.character, notes)
    if mover is not None and _alone(world):
        return _by_itself(mover, notes)
    companions = _load_companions(world, notes)
    builder = _builder(world, mover, companions)
    if mover is not None and world.character is not None and world.character.self_collision:
        builder.add_self_collision(mover.model.topology.link_names)
        for pair in overlaps(mover):
            builder.exclude_pair(*pair)
    of_companions = tuple(f"{one.name}." for one in world.companions)
    grips = [*world.grips, *_hands(world)]
    _add_grips(world, builder, mover, grips)
    model = builder.build()
    state = _start(world, model, mover, companions)
    top = model.topology
    if not world.fixed and -1 not in top.shape_link:
        notes.append(NO_GROUND)
    kinds = {body.name: "prop" for body in world.bodies}
    kinds |= {body.name: "driven" for body in world.driven}
    roles = [
        kinds.get(name, "companion" if name.startswith(of_companions) else "character")
        for name in top.link_names
    ]
    return WorldModel(
        model=model,
        state=state,
        pushes=_pushes(world, model),
        grip_close=np.array([grip.close for grip in grips]),
        grip_open=np.array([grip.open for grip in grips]),
        roles=tuple(roles),
        notes=tuple(notes),
    )


def _by_itself(mover: Placed, notes: list[str]) -> WorldModel:
    """World of a character with its own ground and nothing else."""
    none = np.zeros(0)
    if -1 not in mover.model.topology.shape_link:
        notes.append(NO_GROUND)
    kinds = ("character",) * mover.model.topology.n_links
    return WorldModel(mover.model, mover.state, None, none, none, kinds, tuple(notes))


def _load_companions(world: World, notes: list[str]) -> list[Placed]:
    """Load each companion by itself."""
    if world.companions and world.character is None:
        raise WorldError(f"{world.name}: [[companion]]: of whom? give a [character]")
    return [
        load_character(replace(world, character=one.spec), one.spec, notes)
        for one in world.companions
    ]


# ---- the model


def _alone(world: World) -> bool:
    """True if the character is the whole world, so that its model is the world's."""
    others = (*world.fixed, *world.bodies, *world.driven, *world.grips, *world.holds)
    others = (*others, *world.companions)
    spec = world.character or CharacterSpec("")
    moved = (*spec.pos, *spec.velocity, *spec.angular_velocity, *spec.quat[1:])
    usual = tuple(world.gravity) == World.gravity and not any(moved)
    return usual and not (spec.self_collision or others or world.pushes or world.ground is False)


def _builder(world: World, mover: Placed | None, companions: list[Placed]) -> ModelBuilder:
    builder = ModelBuilder(world.gravity)
    groups: list[list[str]] = []  # shapes of what moves together
    if mover is not None:
        # A model file by itself keeps its ground.
        alone = not world.fixed if world.ground is None else world.ground
        add_model(builder, mover.model, world_shapes=alone)
        top = mover.model.topology
        groups.append([n for n, link in zip(top.shape_names, top.shape_link) if link >= 0])
    for one, placed in zip(world.companions, companions):
        add_model(builder, placed.model, world_shapes=False, prefix=f"{one.name}.")
    for body in world.bodies:
        com, inertia = body.shape.solid(body.mass)
        builder.add_link(
            body.name, "world", joints=[free(body.name)], mass=body.mass, com=com, inertia=inertia
        )
        groups.append([builder.add_shape(body.name, body.shape)])
    groups += _add_driven(world, builder)
    for shape in world.fixed:
        builder.add_shape("world", shape)
    moving = [driven.name for driven in world.driven if driven.joints]
    for hold in world.holds:
        _check_carrier(world, f"[[hold]] {hold.name!r}", hold.on, moving)
        builder.add_shape(hold.on, hold.shape)
    _pair_up(builder, groups, len(moving))
    return builder


def _add_driven(world: World, builder: ModelBuilder) -> list[list[str]]:
    """Add the driven bodies, each on its carrier; returns their shapes by what moves together."""
    shape_names: dict[str, list[str]] = {}
    for driven in world.driven:
        _check_carrier(world, f"[[driven]] {driven.name!r}", driven.on, list(shape_names))
        if not driven.joints:
            placed = replace(driven.shape, pos=driven.pos, quat=driven.quat)
            shape_names[driven.on].append(builder.add_shape(driven.on, placed))
            continue
        com, inertia = driven.shape.solid(1.0)  # its mass has no effect
        builder.add_link(
            driven.name,
            driven.on,
            pos=driven.pos,
            quat=driven.quat,
            joints=driven.joints,
            mass=1.0,
            com=com,
            inertia=inertia,
        )
        shape_names[driven.name] = [builder.add_shape(driven.name, driven.shape)]
    return list(shape_names.values())


def _check_carrier(world: World, what: str, on: str, moving: list[str]) -> None:
    """Raise WorldError for a hold or driven body whose carrier does not exist."""
    if on not in ("world", *moving):
        known = ", ".join(("world", *moving))
        raise WorldError(
            f"{world.name}: {what}, key 'on': before it there is no driven body {on!r} with a"
            f" motion of its own{suggestion(on, moving)}; there are {known}"
        )


def _pair_up(builder: ModelBuilder, groups: list[list[str]], driven: int) -> None:
    """Let all moving groups touch one another, except pairs of driven bodies."""
    loose = len(groups) - driven
    for i, one in enumerate(groups):
        for j in range(i + 1, len(groups)):
            if i < loose:
                for a in one:
                    for b in groups[j]:
                        builder.add_pair(a, b)


def _hands(world: World) -> list[Grip]:
    """Grips of the bodies that will be thrown, until they are released."""
    return [
        Grip(f"hand_of_{body.name}", body.name, body.shape.solid(1.0)[0], open=_let_go(body))
        for body in world.bodies
        if body.throw_at is not None
    ]


def _let_go(body: Body) -> float:
    return max((body.throw_at or 0.0) - THROW_TIME, 0.0) - EARLY


def _add_grips(
    world: World, builder: ModelBuilder, mover: Placed | None, grips: list[Grip]
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
    world: World, builder: ModelBuilder, mover: Placed | None, links: set[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Positions (3,) and rotations (3, 3) at the start; of loose bodies without kinematics."""
    poses = {b.name: (np.array(b.pos), rotation_matrix(b.quat)) for b in world.bodies}
    if links - set(poses):
        bare = builder.build()
        state = _start(world, bare, mover, [])
        kin = _kinematics(bare, state.q, state.qd)
        pairs = zip(np.asarray(kin.link_pos, float), np.asarray(kin.link_rot, float), strict=True)
        poses |= dict(zip(bare.topology.link_names, pairs, strict=True))
    return poses


# ---- state and forces


def _start(world: World, model: Model, mover: Placed | None, companions: list[Placed]) -> State:
    top = model.topology
    state = neutral_state(model)
    q, qd = np.array(state.q, float), np.array(state.qd, float)
    if mover is not None:
        character_top = mover.model.topology
        q[: character_top.nq], qd[: character_top.nv] = (
            np.asarray(mover.state.q),
            np.asarray(mover.state.qd),
        )
        place_root(world, character_top, q, qd)
    for one, placed in zip(world.companions, companions):
        character_top, joint = (
            placed.model.topology,
            top.joint(f"{one.name}.{placed.model.topology.joint_names[0]}"),
        )
        at, dof = top.q_start[joint], top.v_start[joint]
        of_q, of_v = np.array(placed.state.q, float), np.array(placed.state.qd, float)
        place_root(replace(world, character=one.spec), character_top, of_q, of_v)
        q[at : at + character_top.nq], qd[dof : dof + character_top.nv] = of_q, of_v
    for body in world.bodies:
        joint = top.joint(body.name)
        at, dof = top.q_start[joint], top.v_start[joint]
        q[at : at + 7] = [*body.pos, *body.quat]
        if body.throw_at is None:
            qd[dof : dof + 3] = body.velocity
            qd[dof + 3 : dof + 6] = rotation_matrix(body.quat).T @ np.array(body.angular_velocity)
    dtype = model.mass.dtype
    return state.replace(q=jnp.asarray(q, dtype), qd=jnp.asarray(qd, dtype))


def _pushes(world: World, model: Model) -> Pushes | None:
    forces = [
        push(model, each.link, each.force, each.start, each.duration, each.point)
        for each in world.pushes
    ]
    for body in world.bodies:
        if body.throw_at is not None:
            start = _let_go(body)
            time = body.throw_at - EARLY - start
            force = body.mass * (np.array(body.velocity) / time - np.array(world.gravity))
            forces.append(push(model, body.name, force.tolist(), start, time))
    return pushes_together(*forces) if forces else None

"""ModelBuilder: declares links, joints and shapes, checks them, and makes a Model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.model import checks
from jaxsim.model.drives import Drive, stack_drives
from jaxsim.model.errors import ModelError
from jaxsim.model.facts import LinkRecord, covered_ends, is_planar
from jaxsim.model.height_fields import field_index, field_reaches
from jaxsim.model.joints import V_SIZE, Joint, fixed
from jaxsim.model.model import Model
from jaxsim.model.roles import NO_ROLES, Roles
from jaxsim.model.seams import flush_faces
from jaxsim.model.shapes import Shape
from jaxsim.model.topology import WORLD, Topology
from jaxsim.threads import thread_counts


@dataclass(frozen=True)
class _Grip:
    name: str
    link: int
    other: int
    point: np.ndarray
    other_point: np.ndarray
    strength: float


class ModelBuilder:
    """Collects a scene link by link; every mistake raises ModelError naming link and remedy.

    >>> from jaxsim.model import ModelBuilder, hinge
    >>> b = ModelBuilder()
    >>> rod = dict(mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.09, 0.09))
    >>> b.add_link("upper", "world", joints=[hinge("shoulder", axis=(0, 1, 0))], **rod)
    >>> b.add_link("lower", "upper", pos=(1, 0, 0), joints=[hinge("elbow", axis=(0, 1, 0))], **rod)
    >>> model = b.build()
    >>> model.topology.nv, model.topology.link_names
    (2, ('upper', 'lower'))
    """

    def __init__(self, gravity: Sequence[float] = (0.0, 0.0, -9.81)):
        self._gravity = checks.vector("gravity", gravity, 3)
        self._links: list[LinkRecord] = []
        self._shapes: list[tuple[int, Shape]] = []
        self._pairs: list[tuple[int, int]] = []
        self._grips: list[_Grip] = []
        self._excluded: set[frozenset[int]] = set()
        self._roles = NO_ROLES

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of the links declared so far."""
        return tuple(link.name for link in self._links)

    def add_link(
        self,
        name: str,
        parent: str,
        *,
        pos: Sequence[float] | np.ndarray = (0.0, 0.0, 0.0),
        quat: Sequence[float] | np.ndarray = (1.0, 0.0, 0.0, 0.0),
        mass: float,
        com: Sequence[float] = (0.0, 0.0, 0.0),
        inertia: Sequence[float] | np.ndarray,
        joints: Sequence[Joint] = (),
    ) -> None:
        """Add a rigid link whose frame sits at ``pos``, ``quat`` in its parent's at the zero pose.

        parent: an earlier link's name or "world"; mass [kg]; com (3,) centre of mass in the link's
        frame [m]; inertia about it, (3,) principal or (3, 3) [kg m^2]; joints in the order in
        which they act, none for a link welded to its parent.

        Raises ModelError: duplicate or unknown names, a mass or inertia no body can have, limits
        out of order, wrong shapes, NaN.
        """
        where = f"link {name!r}"
        if not name or name == "world":
            raise ModelError(f"{where}: a link needs a name other than 'world'")
        names = [link.name for link in self._links]
        if name in names:
            raise ModelError(f"{where}: the name is taken; give each link its own")
        if parent != "world" and parent not in names:
            raise ModelError(
                f"{where}: unknown parent {parent!r}; add it first, or use one of: "
                + ", ".join(["world", *names])
            )
        taken = [joint.name for link in self._links for joint in link.joints]
        joints = tuple(joints) or (fixed(f"{name}_fixed"),)
        for joint in joints:
            checks.joint(where, joint, taken, on_world=parent == "world", alone=len(joints) == 1)
            taken.append(joint.name)
        pos = checks.vector(f"{where}: pos", pos, 3)
        quat = checks.quaternion(f"{where}: quat", quat)
        if joints[0].kind == "free" and not (np.allclose(pos, 0) and np.allclose(quat[1:], 0)):
            raise ModelError(
                f"{where}: a free joint's q is the pose in the world; leave pos and quat at their "
                "defaults and place the link by the state"
            )
        self._links.append(
            LinkRecord(
                name=name,
                parent=WORLD if parent == "world" else names.index(parent),
                pos=pos,
                quat=quat,
                mass=checks.mass(where, mass),
                com=checks.vector(f"{where}: com", com, 3),
                inertia=checks.inertia(where, inertia),
                joints=joints,
            )
        )

    def add_shape(self, link: str, shape: Shape) -> str:
        """Attach a collision shape to a link or to "world"; returns its name.

        A shape of a link touches every shape of the world that its ``group`` and ``mask`` let it
        touch. Links do not touch one another unless :meth:`add_pair` or :meth:`add_self_collision`
        says so. Planes and height fields belong to the world; the rest may be on either.
        """
        names = [entry.name for entry in self._links]
        if link != "world" and link not in names:
            raise ModelError(
                f"shape {shape.name!r}: unknown link {link!r}; use one of: "
                + ", ".join(["world", *names])
            )
        taken = [existing.name for _, existing in self._shapes]
        index = WORLD if link == "world" else names.index(link)
        name = shape.name or f"{link}_{shape.kind}_{len(self._shapes)}"
        if name in taken:
            raise ModelError(f"shape {name!r} of {link!r}: the name is taken")
        checks.shape(f"shape {name!r} of {link!r}", shape, index)
        fields = {**shape.__dict__, "name": name}
        self._shapes.append((index, Shape(**fields)))
        return name

    def add_pair(self, shape_a: str, shape_b: str) -> None:
        """Let two shapes touch, in either order and independent of their ``group`` and ``mask``.

        Nothing changes if they do already. Raises ModelError for unknown names and for shapes that
        never move against one another.
        """
        a, b = self._pair(shape_a, shape_b)
        link_a, link_b = self._shapes[a][0], self._shapes[b][0]
        if link_a == link_b:
            where = "the world" if link_a == WORLD else f"link {self._links[link_a].name!r}"
            raise ModelError(
                f"pair {shape_a!r}, {shape_b!r}: both belong to {where} and never move against "
                "one another; a pair needs shapes of two links, or of a link and the world"
            )
        self._pairs.append((a, b))

    def add_grip(
        self,
        name: str,
        link: str,
        point: Sequence[float],
        other: str = "world",
        other_point: Sequence[float] = (0.0, 0.0, 0.0),
        strength: float = np.inf,
    ) -> None:
        """Add a grip between a point of a link and a point of another or of the world.

        point (3,) in the link's frame, other_point (3,) in the other's or the world's [m];
        strength [N]: a larger force breaks it for good. ``Control.closed`` switches it.
        """
        where = f"grip {name!r}"
        if not name or name in [grip.name for grip in self._grips]:
            raise ModelError(f"{where}: the name is {'taken' if name else 'empty'}")
        names = [entry.name for entry in self._links]
        for what, places in ((link, names), (other, [*names, "world"])):
            if what not in places:
                raise ModelError(
                    f"{where}: unknown link {what!r}; use one of: {', '.join(names)}; what is held "
                    "on to may be the world"
                )
        if link == other:
            raise ModelError(f"{where}: link {link!r} cannot hold on to itself")
        if np.isnan(strength) or strength <= 0:
            raise ModelError(f"{where}: strength is {strength}; give a positive force [N]")
        self._grips.append(
            _Grip(
                name=name,
                link=names.index(link),
                other=WORLD if other == "world" else names.index(other),
                point=checks.vector(f"{where}: point", point, 3),
                other_point=checks.vector(f"{where}: other_point", other_point, 3),
                strength=float(strength),
            )
        )

    def exclude_pair(self, shape_a: str, shape_b: str) -> None:
        """Never let two shapes touch, with precedence over pairs, groups and masks."""
        self._excluded.add(frozenset(self._pair(shape_a, shape_b)))

    def add_self_collision(
        self, links: Sequence[str] | None = None, exclude: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Let the present shapes of some links (by default all) touch one another.

        Left out are shapes of one link, of links welded to one another and of neighbours across a
        joint, shapes whose ``group`` and ``mask`` keep them apart, and the pairs in ``exclude``,
        two names of links or shapes each. Which shapes overlap in a pose, such as those of two
        thighs at the hips, ``jaxsim.collision.contacts.overlapping_pairs`` finds in the built
        model; pass its result to :meth:`exclude_pair`.
        """
        names = [link.name for link in self._links]
        shapes = [shape.name for _, shape in self._shapes]
        for given, known in ((links or (), names), (chain(*exclude), [*names, *shapes])):
            for name in given:
                if name not in known:
                    raise ModelError(
                        f"self-collision: no {name!r}; the names are: {', '.join(known)}"
                    )
        apart = {frozenset(pair) for pair in exclude}
        chosen = [
            (i, link, shape)
            for i, (link, shape) in enumerate(self._shapes)
            if link != WORLD and (links is None or names[link] in links)
        ]
        for (i, link_a, a), (j, link_b, b) in combinations(chosen, 2):
            called = product((a.name, names[link_a]), (b.name, names[link_b]))
            if (
                not self._are_neighbours(link_a, link_b)
                and a.may_touch(b)
                and not any(frozenset(pair) in apart for pair in called)
            ):
                self._pairs.append((i, j))

    def set_roles(self, roles: Roles) -> None:
        """Set the links that are the character's head, feet, ...; ModelError for unknown links."""
        for role, link in roles.links:
            if link not in self.link_names:
                raise ModelError(
                    f"role {role!r}: no link {link!r}; the links are: {', '.join(self.link_names)}"
                )
        self._roles = roles

    def _pair(self, *pair: str) -> tuple[int, int]:
        """Indices of two shapes by name; ModelError for an unknown name."""
        names = [shape.name for _, shape in self._shapes]
        for name in pair:
            if name not in names:
                raise ModelError(f"pair: no shape {name!r}; the shapes are: {', '.join(names)}")
        return names.index(pair[0]), names.index(pair[1])

    def _are_neighbours(self, link_a: int, link_b: int) -> bool:
        """True for links of one rigid body, or of two bodies with a joint between them."""
        a, b = self._body(link_a), self._body(link_b)
        return a == b or a == self._above(b) != WORLD or b == self._above(a) != WORLD

    def _body(self, link: int) -> int:
        """First link that ``link`` is welded to; WORLD if it cannot move."""
        while link != WORLD and all(joint.kind == "fixed" for joint in self._links[link].joints):
            link = self._links[link].parent
        return link

    def _above(self, body: int) -> int:
        """Parent body of a body, or WORLD."""
        return WORLD if body == WORLD else self._body(self._links[body].parent)

    def build(self) -> Model:
        """Build the Model, in JAX's default precision. Raises ModelError for an empty scene."""
        if not self._links:
            raise ModelError("the model has no link; add one with add_link")
        topology = self._topology()
        nodes = [(link, k) for link in self._links for k in range(len(link.joints))]
        joints = [link.joints[k] for link, k in nodes]
        dofs = [joint for joint in joints for _ in range(V_SIZE[joint.kind])]
        shapes = [shape for _, shape in self._shapes]
        identity = np.array([1.0, 0, 0, 0])
        arrays = dict(
            gravity=self._gravity,
            mass=[link.mass for link in self._links],
            com=[link.com for link in self._links],
            inertia=[link.inertia for link in self._links],
            joint_pos=[link.pos if k == 0 else np.zeros(3) for link, k in nodes],
            joint_quat=[link.quat if k == 0 else identity for link, k in nodes],
            joint_axis=[np.asarray(j.axis) / np.linalg.norm(j.axis) for j in joints],
            joint_anchor=[j.anchor for j in joints],
            joint_lower=[j.limits[0] if j.limits else -1e9 for j in joints],
            joint_upper=[j.limits[1] if j.limits else 1e9 for j in joints],
            damping=[j.damping for j in dofs],
            armature=[j.armature for j in dofs],
            gain_p=[j.kp for j in dofs],
            gain_d=[j.kd for j in dofs],
            torque_limit=[j.max_torque or 0.0 for j in dofs],
            shape_pos=np.array([s.pos for s in shapes]).reshape(-1, 3),
            shape_quat=np.array([s.quat for s in shapes]).reshape(-1, 4),
            shape_size=np.array([s.size for s in shapes]).reshape(-1, 3),
            friction=[s.friction for s in shapes],
            restitution=[s.restitution for s in shapes],
            grip_point=np.array([g.point for g in self._grips]).reshape(-1, 3),
            grip_other_point=np.array([g.other_point for g in self._grips]).reshape(-1, 3),
            grip_strength=[g.strength for g in self._grips],
        )
        with thread_counts():  # where it is here that JAX begins
            dtype = jnp.zeros(0).dtype
        drives = stack_drives([joint.drive for joint in joints if joint.drive is not None])

        def numbers(values):
            # numpy first: one device transfer each, no op-by-op compilation
            return {name: jax.device_put(np.asarray(v, dtype)) for name, v in values.items()}

        grids = [np.asarray(s.heights, dtype) for s in shapes if s.record.grid]
        return Model(
            topology=topology,
            drive=Drive(**numbers(drives)),
            heights=tuple(map(jax.device_put, grids)),
            **numbers(arrays),
        )

    def _topology(self) -> Topology:
        last: dict[int, int] = {WORLD: WORLD}
        parents, link_of = [], []
        for index, link in enumerate(self._links):
            before = last[link.parent]
            for _ in link.joints:
                parents.append(before)
                link_of.append(index)
                before = len(parents) - 1
            last[index] = before
        joints = [joint for link in self._links for joint in link.joints]
        shapes = [shape for _, shape in self._shapes]
        pairs = self._all_pairs()
        return Topology(
            link_names=tuple(link.name for link in self._links),
            link_parent=tuple(link.parent for link in self._links),
            joint_names=tuple(joint.name for joint in joints),
            joint_kinds=tuple(joint.kind for joint in joints),
            joint_parent=tuple(parents),
            joint_link=tuple(link_of),
            joint_limited=tuple(joint.limits is not None for joint in joints),
            joint_actuated=tuple(joint.max_torque is not None for joint in joints),
            joint_driven=tuple(joint.drive is not None for joint in joints),
            shape_names=tuple(shape.name for shape in shapes),
            shape_kinds=tuple(shape.kind for shape in shapes),
            shape_link=tuple(link for link, _ in self._shapes),
            shape_pairs=pairs,
            covered_ends=covered_ends(self._links, self._shapes, pairs),
            grip_names=tuple(grip.name for grip in self._grips),
            grip_link=tuple(grip.link for grip in self._grips),
            grip_other=tuple(grip.other for grip in self._grips),
            planar=is_planar(self._links, self._shapes, pairs),
            shape_field=field_index([shape.kind for shape in shapes]),
            field_reach=field_reaches(shapes, pairs),
            flush_faces=flush_faces(self._shapes),
            roles=self._roles,
        )

    def _all_pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of shapes that may touch, each once, in the order that the collision needs.

        Balls come before boxes, and both before planes and height fields.
        """
        moving = [i for i, (link, _) in enumerate(self._shapes) if link != WORLD]
        world = [i for i, (link, _) in enumerate(self._shapes) if link == WORLD]
        shapes = [shape for _, shape in self._shapes]
        of_world = [(a, b) for b in world for a in moving if shapes[a].may_touch(shapes[b])]
        pairs = [
            (b, a) if shapes[a].record.rank > shapes[b].record.rank else (a, b)
            for a, b in of_world + self._pairs
            if frozenset((a, b)) not in self._excluded
        ]
        return tuple({frozenset(pair): pair for pair in pairs}.values())

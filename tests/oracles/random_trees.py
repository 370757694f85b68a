"""A random tree of links as a jaxsim Model and as a MuJoCo model, with the maps between them."""

from dataclasses import dataclass
from functools import cached_property

import jax
import mujoco
import numpy as np
from hypothesis import strategies as st

from jaxsim.model import Joint, Model, ModelBuilder
from jaxsim.model.joints import Q_SIZE, V_SIZE

# What may stand between a link and its parent; "free" only on the world.
STACKS = (
    ("fixed",),
    ("hinge",),
    ("slide",),
    ("ball",),
    ("hinge", "hinge"),
    ("hinge", "slide"),
    ("slide", "hinge"),
    ("slide", "slide"),
    ("slide", "ball"),
    ("ball", "slide"),
    ("hinge", "slide", "hinge"),
    ("hinge", "hinge", "hinge"),
)
FREE = ("free",)

# Links by (index of the parent or -1 for the world, joints to it).
Structure = tuple[tuple[int, tuple[str, ...]], ...]

# Two moving trees and a static link, every kind of joint, a fixed link inside a chain.
MIXED: Structure = (
    (-1, ("free",)),
    (0, ("hinge",)),
    (1, ("fixed",)),
    (2, ("ball",)),
    (-1, ("hinge", "slide")),
    (4, ("hinge", "hinge", "hinge")),
    (-1, ("fixed",)),
)


@st.composite
def structures(draw, smallest: int = 2, largest: int = 20) -> Structure:
    """Trees of links, in an order in which parents come first."""
    links = []
    for i in range(draw(st.integers(smallest, largest))):
        parent = draw(st.integers(-1, i - 1))
        links.append((parent, draw(st.sampled_from((FREE, *STACKS) if parent < 0 else STACKS))))
    return tuple(links)


def drawn_structure(seed: int, largest: int = 8) -> Structure:
    """A random tree of up to ``largest`` links, drawn from the seed."""
    rng = np.random.default_rng(seed)
    links = []
    for i in range(rng.integers(2, largest + 1)):
        parent = int(rng.integers(-1, i))
        choices = (FREE, *STACKS) if parent < 0 else STACKS
        links.append((parent, choices[rng.integers(len(choices))]))
    return tuple(links)


def chain(*stacks: tuple[str, ...]) -> Structure:
    """Links one after another."""
    return tuple((i - 1, stack) for i, stack in enumerate(stacks))


@dataclass(frozen=True)
class Tree:
    """One mechanism twice. ``q_index`` and ``v_index`` pick from MuJoCo's arrays in our order."""

    model: Model
    mj: mujoco.MjModel

    @cached_property
    def q_index(self) -> np.ndarray:
        return self._index(self.mj.jnt_qposadr, Q_SIZE)

    @cached_property
    def v_index(self) -> np.ndarray:
        return self._index(self.mj.jnt_dofadr, V_SIZE)

    @cached_property
    def body(self) -> np.ndarray:
        """(nl,) MuJoCo's body of each link; it numbers depth first."""
        return np.array([self.mj.body(name).id for name in self.model.topology.link_names])

    def _index(self, address, size) -> np.ndarray:
        top = self.model.topology
        index = [
            address[self.mj.joint(name).id] + k
            for name, kind in zip(top.joint_names, top.joint_kinds)
            for k in range(size[kind])
        ]
        return np.array(index, int)

    def random_state(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A random (q, v) in MuJoCo's order."""
        q = np.array(self.mj.qpos0)
        mujoco.mj_integratePos(self.mj, q, rng.normal(size=self.mj.nv), 1.0)
        return q, rng.normal(size=self.mj.nv)


def random_tree(structure: Structure, seed: int = 0) -> Tree:
    """Both models of one structure, in JAX's current precision.

    Numbers of order one, drawn from the seed: offsets, turned axes and anchors off the origin,
    inertias with all six components, armature, gravity in any direction.
    """
    rng = np.random.default_rng(seed)
    gravity = rng.normal(size=3) * 5
    builder = ModelBuilder(gravity)
    spec = mujoco.MjSpec()
    spec.option.gravity = gravity
    spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    bodies: list = []
    for i, (parent, stack) in enumerate(structure):
        pos, quat = rng.normal(size=3), rng.normal(size=4)
        if stack == FREE:
            pos, quat = np.zeros(3), np.array([1.0, 0, 0, 0])
        joints = [
            Joint(
                f"link{i}_{k}_{kind}",
                kind,
                axis=tuple(rng.normal(size=3)),
                anchor=tuple(rng.normal(size=3)),
                armature=rng.uniform(0, 0.1),
            )
            for k, kind in enumerate(stack)
            if kind != "fixed"
        ]
        inertial = dict(mass=rng.uniform(0.5, 3), com=rng.normal(size=3), inertia=_inertia(rng))
        frame = dict(pos=pos, quat=quat / np.linalg.norm(quat))
        name = f"link{i}"
        above = "world" if parent < 0 else f"link{parent}"
        builder.add_link(name, above, **frame, **inertial, joints=joints)
        above = spec.worldbody if parent < 0 else bodies[parent]
        bodies.append(_add_body(above, name, frame, inertial, joints))
    return Tree(builder.build(), spec.compile())


def stacked(trees: list[Tree]) -> Model:
    """The models of trees of one structure as a batch."""
    return jax.tree.map(lambda *arrays: np.stack(arrays), *[tree.model for tree in trees])


def _inertia(rng: np.random.Generator) -> np.ndarray:
    """(3, 3) of a random cloud of points: it satisfies the triangle inequality."""
    points = rng.normal(size=(3, 4))
    second = points @ points.T
    return np.trace(second) * np.eye(3) - second


def _add_body(above, name: str, frame: dict, inertial: dict, joints: list[Joint]):
    I = inertial["inertia"]
    body = above.add_body(
        name=name,
        **frame,
        mass=inertial["mass"],
        ipos=inertial["com"],
        fullinertia=[I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]],
        explicitinertial=True,
    )
    for joint in joints:
        body.add_joint(
            name=joint.name,
            type=getattr(mujoco.mjtJoint, f"mjJNT_{joint.kind.upper()}"),
            axis=joint.axis,
            pos=joint.anchor if joint.kind != "free" else (0, 0, 0),
            armature=joint.armature,
        )
    return body

"""Record of one simulated motion, which the viewer, the plots and later analyses read.

Plain numpy, SI units, world frame with z up, quaternions (w, x, y, z). `jaxsim.io.motion_file`
saves a `Motion` to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np

from jaxsim.io.gauges import Gauge
from jaxsim.model.kinds import KINDS, ShapeKind

ROLES = ("character", "companion", "prop", "driven")


class BadFrame(NamedTuple):
    """First sample that is not finite."""

    frame: int
    time: float  # [s]
    field: str  # e.g. "q", or "heights['head']"


def _floats(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(v) for v in np.ravel(np.asarray(values, dtype=float)))


@dataclass(frozen=True)
class MotionShape:
    """One collision shape, fixed to a link or to the world.

    The segment of a capsule runs along the shape's local x axis. Of a tapered capsule, end 0
    (radius_0) lies at x = +half_length and end 1 (radius_1) at x = -half_length. The normal of
    a plane is its local z axis. A height field has `heights` (nx, ny) along its z axis, evenly over
    x from -half_x to half_x and y likewise, each cell split from corner (i, j) to (i + 1, j + 1).
    `size` holds the lengths that the kind's record names, `ShapeKind.numbers`.

    Raises ValueError for an unknown kind, a wrong number of sizes, a negative or non-finite
    size, a quaternion that is not of unit length, and heights that are no grid or that belong to
    another kind.
    """

    kind: str  # one of jaxsim.model.kinds.KINDS
    link: int  # index of the link, -1 for the world
    pos: tuple[float, ...] = (0.0, 0.0, 0.0)  # [m] origin of the shape in the link's frame
    quat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)  # orientation in the link's frame, w first
    size: tuple[float, ...] = ()  # [m]
    heights: tuple[tuple[float, ...], ...] = ()  # [m] of a height field

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown shape kind {self.kind!r}; known: {', '.join(KINDS)}")
        object.__setattr__(self, "link", int(self.link))
        for name in ("pos", "quat", "size"):
            object.__setattr__(self, name, _floats(getattr(self, name)))
        sizes = tuple(name for name, _ in self.record.numbers)
        if len(self.pos) != 3 or len(self.quat) != 4:
            raise ValueError(f"{self.kind}: pos needs 3 numbers and quat 4")
        if len(self.size) != len(sizes):
            raise ValueError(
                f"{self.kind}: size needs {len(sizes)} numbers {sizes}, got {len(self.size)}"
            )
        if not np.all(np.isfinite(self.pos + self.quat + self.size)):
            raise ValueError(f"{self.kind}: pos, quat and size must be finite")
        if any(s < 0 for s in self.size):
            raise ValueError(f"{self.kind}: negative size {self.size}")
        if abs(float(np.linalg.norm(self.quat)) - 1.0) > 1e-3:
            raise ValueError(f"{self.kind}: quat {self.quat} is not of unit length")
        grid = np.asarray(self.heights, dtype=float)
        good = grid.ndim == 2 and min(grid.shape) >= 2 and np.isfinite(grid).all()
        if self.record.grid != (grid.size > 0) or (grid.size and not good):
            raise ValueError(
                f"{self.kind}: heights have shape {grid.shape}, a height field needs"
                " a grid of at least 2 x 2 finite numbers, another kind none"
            )
        object.__setattr__(self, "heights", tuple(map(tuple, grid.tolist())) if grid.size else ())

    @property
    def record(self) -> ShapeKind:
        """Record of the shape's kind."""
        return KINDS[self.kind]

    @property
    def full_size(self) -> np.ndarray:
        """(3,) sizes [m] as in a model, which the functions of the record take."""
        return self.record.unpack(self.size)


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Motion:
    """T samples of one character's motion: configuration, poses, contacts, phases, torques.

    All arrays are numpy; integers become floats where a quantity is meant. `time` does not
    decrease. Samples may hold NaN or infinity (a simulation that diverged is worth saving);
    `first_bad_frame` finds the first of them.

    Raises ValueError, naming the field, where shapes or indices do not agree.
    """

    title: str
    link_names: tuple[str, ...]  # (nl,)
    joint_names: tuple[str, ...]  # (nj,) one per torque
    phase_names: tuple[str, ...]
    shapes: tuple[MotionShape, ...]
    time: np.ndarray  # (T,) [s]
    q: np.ndarray  # (T, nq) [m, rad, quaternions]
    qd: np.ndarray  # (T, nv) [m/s, rad/s]
    link_pos: np.ndarray  # (T, nl, 3) [m] origins of the link frames in the world
    link_quat: np.ndarray  # (T, nl, 4) orientations of the link frames in the world
    contact_pos: np.ndarray  # (T, nc, 3) [m] in the world
    contact_force: np.ndarray  # (T, nc, 3) [N] on the character, in the world; 0 where inactive
    phase: np.ndarray  # (T,) index into phase_names, -1 for none
    torque: np.ndarray  # (T, nj) [Nm]
    torque_limit: np.ndarray  # (nj,) [Nm], inf for no limit
    heights: dict[str, np.ndarray]  # name -> (T,) [m], e.g. head, pelvis, com
    planar: bool = False  # the character stays in the x-z plane
    phase_events: tuple[tuple[float, str, str], ...] = ()  # ([s], phase, what ended the last one)
    com: np.ndarray | None = field(default=None)  # (T, 3) [m] centre of mass, if known
    contact_outer: np.ndarray | None = None  # (nc,) bool: not between links; all if not given
    link_roles: tuple[str, ...] = ()  # (nl,) of ROLES; "character" for all if not given
    grip_names: tuple[str, ...] = ()  # (ng,)
    grip_pos: np.ndarray = field(
        default_factory=_none
    )  # (T, ng, 3) [m] the point that is held, in the world
    grip_force: np.ndarray = field(
        default_factory=_none
    )  # (T, ng, 3) [N] on the link that holds, in the world
    grip_closed: np.ndarray = field(
        default_factory=_none
    )  # (T, ng) bool; open or torn off where False
    gauges: dict[str, Gauge] = field(default_factory=dict)  # name -> what the controller watches
    ghost_pos: np.ndarray | None = None  # (T, nl, 3) [m] link_pos of a reference, if there is one
    ghost_quat: np.ndarray | None = None  # (T, nl, 4) its link_quat; NaN for links that it lacks
    shares: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (T,), of 1

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.title, str):
            raise ValueError(f"motion: title is {self.title!r}, a text is needed")
        for name in ("link_names", "joint_names", "phase_names"):
            put(name, tuple(str(s) for s in getattr(self, name)))
        put("shapes", tuple(self.shapes))
        put("planar", bool(self.planar))
        put("phase_events", tuple((float(t), str(p), str(w)) for t, p, w in self.phase_events))
        for name in FLOAT_FIELDS:
            put(name, _float_array(getattr(self, name)))
        for name in OPTIONAL:
            if getattr(self, name) is not None:
                put(name, _float_array(getattr(self, name)))
        put("gauges", {str(k): v for k, v in self.gauges.items()})
        put("phase", np.asarray(self.phase, dtype=np.int32))
        roles = self.link_roles or ("character",) * self.n_links
        put("link_roles", tuple(map(str, roles)))
        put("grip_names", tuple(map(str, self.grip_names)))
        frames = self.time.shape[0] if self.time.ndim else 0
        if not self.grip_names:
            put("grip_pos", np.zeros((frames, 0, 3)))
            put("grip_force", np.zeros((frames, 0, 3)))
            put("grip_closed", np.zeros((frames, 0)))
        put("grip_pos", _float_array(self.grip_pos))
        put("grip_force", _float_array(self.grip_force))
        put("grip_closed", np.asarray(self.grip_closed, dtype=bool))
        nc = self.contact_pos.shape[1] if self.contact_pos.ndim == 3 else 0
        outer = np.ones(nc, bool) if self.contact_outer is None else self.contact_outer
        put("contact_outer", np.asarray(outer, dtype=bool))
        for name in NAMED:
            put(name, {str(k): _float_array(v) for k, v in getattr(self, name).items()})
        self._check()

    def _check(self) -> None:
        n, nl, nj = self.time.shape[0] if self.time.ndim else 0, self.n_links, self.n_joints
        nc = self.contact_pos.shape[1] if self.contact_pos.ndim == 3 else 0
        any_size = -1
        expected = {
            "time": (n,),
            "q": (n, any_size),
            "qd": (n, any_size),
            "link_pos": (n, nl, 3),
            "link_quat": (n, nl, 4),
            "contact_pos": (n, nc, 3),
            "contact_force": (n, nc, 3),
            "phase": (n,),
            "torque": (n, nj),
            "torque_limit": (nj,),
        }
        arrays = [(name, getattr(self, name), shape) for name, shape in expected.items()]
        for name in NAMED:
            arrays += [(f"{name}[{k!r}]", v, (n,)) for k, v in getattr(self, name).items()]
        arrays += [(f"gauges[{k!r}]", v.values, (n,)) for k, v in self.gauges.items()]
        if (self.ghost_pos is None) != (self.ghost_quat is None):
            raise ValueError("motion: a ghost needs both ghost_pos and ghost_quat")
        optional = zip(OPTIONAL, ((n, 3), (n, nl, 3), (n, nl, 4)), strict=True)
        arrays += [(k, getattr(self, k), s) for k, s in optional if getattr(self, k) is not None]
        ng = len(self.grip_names)
        grips = {"grip_pos": (n, ng, 3), "grip_force": (n, ng, 3), "grip_closed": (n, ng)}
        grips["contact_outer"] = (nc,)
        arrays += [(name, getattr(self, name), shape) for name, shape in grips.items()]
        for name, array, shape in arrays:
            agrees = array.ndim == len(shape) and all(
                w in (any_size, s) for s, w in zip(array.shape, shape, strict=True)
            )
            if not agrees:
                text = tuple("any" if w == any_size else w for w in shape)
                raise ValueError(f"motion: {name} has shape {array.shape}, expected {text}")
        if np.any(np.diff(self.time) < 0):
            frame = int(np.argmax(np.diff(self.time) < 0)) + 1
            raise ValueError(f"motion: time decreases at frame {frame}")
        if n and (self.phase.min() < -1 or self.phase.max() >= len(self.phase_names)):
            raise ValueError(f"motion: phase must be -1 to {len(self.phase_names) - 1}")
        if len(self.link_roles) != nl or not set(self.link_roles) <= set(ROLES):
            raise ValueError(f"motion: link_roles needs {nl} of {', '.join(ROLES)}")
        if np.any(np.isnan(self.torque_limit)):
            raise ValueError("motion: torque_limit holds NaN; use inf for no limit")
        for shape in self.shapes:
            if not -1 <= shape.link < nl:
                raise ValueError(f"motion: a {shape.kind} is on link {shape.link}, have {nl} links")
        if not all(np.isfinite(t) for t, _, _ in self.phase_events):
            raise ValueError("motion: phase_events holds a time that is not finite")

    @property
    def n_frames(self) -> int:
        """Number T of samples."""
        return int(self.time.shape[0])

    @property
    def n_links(self) -> int:
        """Number nl of links."""
        return len(self.link_names)

    @property
    def n_joints(self) -> int:
        """Number nj of torques."""
        return len(self.joint_names)

    def _samples(self) -> list[tuple[str, np.ndarray]]:
        """Pairs (name, array with T as its first axis), in the order in which they are reported."""
        arrays = [(f, getattr(self, f)) for f in FLOAT_FIELDS if f != "torque_limit"]
        for name in NAMED:
            arrays += [(f"{name}[{k!r}]", v) for k, v in getattr(self, name).items()]
        arrays += [(f"gauges[{k!r}]", v.values) for k, v in self.gauges.items()]
        return arrays if self.com is None else [*arrays, ("com", self.com)]

    def first_bad_frame(self) -> BadFrame | None:
        """First frame with a NaN or an infinity, and its field; None if all are finite."""
        first: tuple[int, str] | None = None
        for name, array in self._samples():
            bad = ~np.isfinite(array.reshape(self.n_frames, int(np.prod(array.shape[1:])))).all(1)
            frame = int(np.argmax(bad)) if bad.any() else None
            if frame is not None and (first is None or frame < first[0]):
                first = (frame, name)
        return None if first is None else BadFrame(first[0], float(self.time[first[0]]), first[1])

    def take(self, index: np.ndarray) -> Motion:
        """Motion at some frames. index: (n,) increasing frame numbers, or a (T,) mask."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in (*FLOAT_FIELDS, "phase", *GRIP_FIELDS):
            if name != "torque_limit":
                values[name] = values[name][index]
        for name in NAMED:
            values[name] = {k: v[index] for k, v in getattr(self, name).items()}
        values["gauges"] = {k: v.at(index) for k, v in self.gauges.items()}
        for name in OPTIONAL:
            values[name] = None if values[name] is None else values[name][index]
        return Motion(**values)


FLOAT_FIELDS = (
    *("time", "q", "qd", "link_pos", "link_quat", "contact_pos", "contact_force"),
    *("torque", "torque_limit"),
)


NAMED = ("heights", "shares")  # name -> (T,)
OPTIONAL = ("com", "ghost_pos", "ghost_quat")
GRIP_FIELDS = ("grip_pos", "grip_force", "grip_closed")  # since version 2


def _float_array(value: object) -> np.ndarray:
    array = np.asarray(value)
    return array if array.dtype.kind == "f" else array.astype(float)

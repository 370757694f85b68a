"""Clip: the motion of a tree of joints, as in motion-capture files.

Metres, seconds, z up; quaternions (w, x, y, z), which map a joint's frame to that of its parent. In
the zero pose (all quaternions the identity) every frame is parallel to the world's, and the figure
faces x with its left at y.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from jaxsim.mocap.errors import ClipError

__all__ = ["Clip"]

_ARRAYS = ("offsets", "end_offsets", "rotations", "root_pos", "moved_pos")


def _none() -> np.ndarray:
    return np.zeros((0, 0, 3))


@dataclass(frozen=True, eq=False)
class Clip:
    """T frames of J joints with E end sites; joint 0 is the root, parents stand before children.

    Plain numpy in float64. Raises ClipError, naming the field, for shapes that do not agree,
    numbers that are not finite, quaternions not of unit length, parents that come too late.
    """

    name: str
    joint_names: tuple[str, ...]  # (J,) all different
    parents: tuple[int, ...]  # (J,) -1 for the root
    offsets: np.ndarray  # (J, 3) [m] from the parent's origin, in the zero pose
    orders: tuple[str, ...]  # (J,) of the file's channels: "ZYX" is Rz Ry Rx in the file's axes
    rotations: np.ndarray  # (T, J, 4)
    root_pos: np.ndarray  # (T, 3) [m] of the root in the world; replaces its offset
    rate: float  # [Hz]
    end_parents: tuple[int, ...] = ()  # (E,) the joint that an end site belongs to
    end_offsets: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))  # (E, 3) [m]
    moved: tuple[int, ...] = ()  # (K,) joints whose place in their parent changes, without the root
    moved_pos: np.ndarray = field(default_factory=_none)  # (T, K, 3) [m] replaces their offsets
    unit: float = 1.0  # [m] that one unit of the file is
    axes: tuple[str, str, str] = ("X", "Y", "Z")  # which axis of the file x, y and z are: "-Y"
    problems: tuple[str, ...] = ()  # what a reader should know, and what was done about it

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if not self.moved:
            object.__setattr__(self, "moved_pos", np.zeros((self.root_pos.shape[0], 0, 3)))
        self._check()

    def _check(self) -> None:
        n, frames, ends = len(self.joint_names), self.root_pos.shape[0], len(self.end_parents)
        expected = {
            "offsets": (n, 3),
            "end_offsets": (ends, 3),
            "rotations": (frames, n, 4),
            "root_pos": (frames, 3),
            "moved_pos": (frames, len(self.moved), 3),
        }
        for name, shape in expected.items():
            array = getattr(self, name)
            if array.shape != shape:
                raise ClipError(f"clip: {name} has shape {array.shape}, expected {shape}")
            if not np.isfinite(array).all():
                raise ClipError(f"clip: {name} holds numbers that are not finite")
        if n == 0 or frames == 0:
            raise ClipError("clip: it needs at least one joint and one frame")
        if len(self.parents) != n or len(self.orders) != n:
            raise ClipError(f"clip: parents and orders need an entry for each of {n} joints")
        if self.parents[0] != -1 or not all(0 <= p < j for j, p in enumerate(self.parents) if j):
            raise ClipError(
                "clip: joint 0 is the root (parent -1), and parents stand before children"
            )
        if len(set(self.joint_names)) != n:
            raise ClipError("clip: joint_names holds a name twice")
        if not all(0 < k < n for k in self.moved) or not all(0 <= e < n for e in self.end_parents):
            raise ClipError("clip: moved or end_parents name a joint that does not exist")
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise ClipError(f"clip: rate is {self.rate}, frames a second above zero are needed")
        if np.abs(np.linalg.norm(self.rotations, axis=-1) - 1.0).max() > 1e-6:
            raise ClipError("clip: rotations holds quaternions that are not of unit length")

    @property
    def n_frames(self) -> int:
        """Number T of frames."""
        return int(self.root_pos.shape[0])

    @property
    def n_joints(self) -> int:
        """Number J of joints."""
        return len(self.joint_names)

    @property
    def seconds(self) -> float:
        """Time from the first frame to the last [s]."""
        return (self.n_frames - 1) / self.rate

    @property
    def time(self) -> np.ndarray:
        """Times (T,) [s], from 0."""
        return np.arange(self.n_frames) / self.rate

    def joint(self, name: str) -> int:
        """Index of a joint. Raises ClipError, with the names, if there is none."""
        if name not in self.joint_names:
            raise ClipError(
                f"{self.name} has no joint {name!r}; it has {', '.join(self.joint_names)}"
            )
        return self.joint_names.index(name)

    def take(self, frames: slice | np.ndarray) -> Clip:
        """Clip at some frames, which are one 1/rate apart.

        frames: a slice without a step, or (n,) consecutive frame numbers.
        """
        cut = {k: getattr(self, k)[frames] for k in ("rotations", "root_pos", "moved_pos")}
        return replace(self, **cut)

    def repeated(self, times: int) -> Clip:
        """Repeat a cycle; each repetition begins in the last frame of the one before."""
        cycle = np.arange(self.n_frames - 1)
        frames = np.concatenate([*[cycle] * times, [self.n_frames - 1]])
        moves = (self.root_pos[-1] - self.root_pos[0]) * np.array([1.0, 1.0, 0.0])
        passed = np.repeat(np.arange(times), len(cycle))
        passed = np.append(passed, times - 1)
        made = self.take(frames)
        return replace(made, root_pos=made.root_pos + passed[:, None] * moves)

    def some(self, count: int) -> Clip:
        """Clip at up to ``count`` frames, evenly spaced; its rate and time are invalid."""
        return self.take(np.unique(np.linspace(0, self.n_frames - 1, count).astype(int)))

    def noted(self, *problems: str) -> Clip:
        """Clip with more problems."""
        return replace(self, problems=(*self.problems, *problems))

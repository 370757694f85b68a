"""Writer of clips as BVH files that Blender, three.js and others play."""

from __future__ import annotations

import os

import numpy as np

from jaxsim.io.files import write_bytes
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.rotations import AXES, to_angles
from jaxsim.mocap.settle import axes_matrix

__all__ = ["bvh_text", "write_bvh"]

DIGITS = 12  # significant: angles come back to 1e-9 degrees


def write_bvh(path: str | os.PathLike[str], clip: Clip) -> None:
    """Write a clip in the unit, the axes and the channel orders of its file, atomically.

    Every joint gets three rotation channels, missing ones behind those that it had, since Blender
    reads three or none. Blender's defaults are for files with Y up in metres: give its importer the
    scale ``clip.unit``, and for Z up forward Y, up Z. Raises OSError if the file cannot be written.
    """
    write_bytes(path, bvh_text(clip).encode("utf-8"))


def bvh_text(clip: Clip) -> str:
    """Text of the file that ``write_bvh`` writes."""
    back = axes_matrix(clip.axes) / clip.unit  # of row vectors, from our axes to the file's
    offsets, ends = clip.offsets @ back, clip.end_offsets @ back
    offsets[0] = 0.0  # some players add it to the root's position, others replace it
    orders = [full_order(order) for order in clip.orders]
    below: list[list[int]] = [[] for _ in clip.joint_names]
    for j, parent in enumerate(clip.parents):
        if parent >= 0:
            below[parent].append(j)
    lines, order = ["HIERARCHY"], []
    waiting: list[tuple[int, int, bool]] = [(0, 0, False)]  # joint, depth, its block is finished
    while waiting:
        j, depth, finished = waiting.pop()
        pad = "  " * depth
        if finished:
            lines.append(f"{pad}}}")
            continue
        order.append(j)
        lines += [f"{pad}{'JOINT' if depth else 'ROOT'} {clip.joint_names[j]}", f"{pad}{{"]
        lines.append(f"{pad}  OFFSET {_row(offsets[j])}")
        shifts = [f"{axis}position" for axis in AXES] if j == 0 or j in clip.moved else []
        channels = [*shifts, *(f"{axis}rotation" for axis in orders[j])]
        lines.append(f"{pad}  CHANNELS {len(channels)} {' '.join(channels)}")
        sites = [ends[k] for k, parent in enumerate(clip.end_parents) if parent == j]
        for site in sites or ([] if below[j] else [np.zeros(3)]):
            lines += [
                f"{pad}  End Site",
                f"{pad}  {{",
                f"{pad}    OFFSET {_row(site)}",
                f"{pad}  }}",
            ]
        waiting.append((j, depth, True))
        waiting.extend((child, depth + 1, False) for child in reversed(below[j]))
    lines += ["MOTION", f"Frames: {clip.n_frames}", f"Frame Time: {1.0 / clip.rate:.{DIGITS}g}"]
    values = _values(clip, order, orders)
    row = " ".join([f"%.{DIGITS}g"] * values.shape[1])
    lines += [row % tuple(each) for each in values.tolist()]
    return "\n".join(lines) + "\n"


def full_order(order: str) -> str:
    """Order of three axes: the given ones, then the missing ones; ZXY for an empty order."""
    return order + "".join(axis for axis in (AXES if order else "ZXY") if axis not in order)


def _row(vector: np.ndarray) -> str:
    return " ".join(f"{x:.{DIGITS}g}" for x in vector + 0.0)


def _values(clip: Clip, joints: list[int], orders: list[str]) -> np.ndarray:
    """Channel values (T, channels) of the joints in this order, in file units and degrees."""
    M = axes_matrix(clip.axes)
    turned = np.concatenate([clip.rotations[..., :1], clip.rotations[..., 1:] @ M], axis=-1)
    angles = np.stack([to_angles(order, turned[:, j]) for j, order in enumerate(orders)], axis=1)
    angles = _steady(np.degrees(angles))
    columns = []
    for j in joints:
        if j == 0:
            columns.append(clip.root_pos @ M / clip.unit)
        elif j in clip.moved:
            columns.append(clip.moved_pos[:, clip.moved.index(j)] @ M / clip.unit)
        columns.append(angles[:, j])
    return np.concatenate(columns, axis=1) + 0.0


def _steady(angles: np.ndarray) -> np.ndarray:
    """Angles (T, J, 3) [deg] of the same rotations, continuous from frame to frame.

    So that interpolation between frames does not spin; the first frame is unchanged.
    """
    other = angles + np.array([180.0, 0.0, 180.0])  # the second triple of each rotation
    other[..., 1] = 180.0 - angles[..., 1]
    both = np.stack([angles, other])  # (2, T, J, 3)
    result = angles.copy()
    for t in range(1, len(angles)):
        last = result[t - 1]
        near = both[:, t] - 360.0 * np.round((both[:, t] - last) / 360.0)
        way = np.abs(near - last).sum(axis=-1)
        result[t] = np.where((way[0] <= way[1])[:, None], near[0], near[1])
    return result

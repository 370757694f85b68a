"""Conversion of MuJoCo's geoms to shapes, and the pairs of them that may touch."""

from typing import Any

import numpy as np

from jaxsim.io.frames import X_ALONG_Z, Placement
from jaxsim.io.mujoco_links import BodyPlacement
from jaxsim.io.mujoco_report import Report, element_names
from jaxsim.model.builder import ModelBuilder
from jaxsim.model.errors import ModelError
from jaxsim.model.kinds import KINDS
from jaxsim.model.shapes import Shape

Pair = tuple[int, int]


def add_shapes(
    mujoco: Any,
    mj: Any,
    builder: ModelBuilder,
    places: list[BodyPlacement],
    pairs: list[Pair],
    self_collision: bool,
    report: Report,
) -> None:
    """Add every geom that can touch something, and the pairs that may touch in the file.

    pairs: ``wanted_pairs``.
    """
    kinds = [mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower() for kind in mj.geom_type]
    defaults = [f"{places[b].body}_{kind}" for b, kind in zip(mj.geom_bodyid, kinds)]
    names = element_names(mujoco, mj, "geom", defaults)
    touching = {g for pair in pairs for g in pair}
    added = []
    for g in tangible_geoms(mj):
        problem = _add_shape(mj, builder, places[mj.geom_bodyid[g]], g, kinds[g], names[g])
        if not problem:
            added.append(g)
        elif g in touching:
            report.lacks(problem, names[g])
        else:
            report.note(f"{problem}, which touch nothing in the file", names[g])
    links = [places[b].link for b in mj.geom_bodyid]
    known = set(added)
    pairs_here = [(a, b) for a, b in pairs if a in known and b in known and links[a] != links[b]]
    if not self_collision:
        with_world = [pair for pair in pairs_here if "world" in (links[pair[0]], links[pair[1]])]
        left_out = len(pairs_here) - len(with_world)
        pairs_here = with_world
        if left_out:
            report.note(f"{left_out} pairs of links do not touch, as self_collision is off")
    _add_pairs(builder, added, pairs_here, links, names)
    _compare_surfaces(mj, pairs_here, names, report)


def tangible_geoms(mj: Any) -> list[int]:
    """Geoms that may touch something; all others are only visible."""
    in_pairs = {*mj.pair_geom1.tolist(), *mj.pair_geom2.tolist()}
    by_mask = np.flatnonzero(mj.geom_contype | mj.geom_conaffinity)
    return sorted(in_pairs | set(by_mask.tolist()))


def wanted_pairs(mujoco: Any, mj: Any) -> list[Pair]:
    """Pairs of geoms that MuJoCo lets touch: explicit ones, and those that pass its filters."""
    if mj.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT:
        return []
    pairs = {_ordered(*pair) for pair in zip(mj.pair_geom1.tolist(), mj.pair_geom2.tolist())}
    filter_parent = not mj.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    geoms = np.flatnonzero(mj.geom_contype | mj.geom_conaffinity)
    type_, affinity = mj.geom_contype[geoms], mj.geom_conaffinity[geoms]
    body = mj.geom_bodyid[geoms]
    weld = mj.body_weldid[body]
    above = mj.body_weldid[mj.body_parentid[weld]]
    passes = (type_[:, None] & affinity | affinity[:, None] & type_) != 0
    passes &= weld[:, None] != weld  # not of bodies that are welded together
    if filter_parent:  # nor of parent and child, unless one of them is the world
        family = (weld[:, None] == above) | (above[:, None] == weld)
        passes &= ~(family & (weld[:, None] != 0) & (weld != 0))
    for signature in mj.exclude_signature.tolist():
        first, second = body == signature >> 16, body == (signature & 0xFFFF)
        passes &= ~(first[:, None] & second | second[:, None] & first)
    one, other = np.nonzero(np.triu(passes, 1))
    pairs |= set(zip(geoms[one].tolist(), geoms[other].tolist()))
    return sorted(pairs)


def _ordered(a: int, b: int) -> Pair:
    return min(a, b), max(a, b)


def _add_shape(
    mj: Any, builder: ModelBuilder, place: BodyPlacement, g: int, kind: str, name: str
) -> str:
    """Add a geom as a shape; returns the reason why the builder refuses it, or ""."""
    record = {each.geom_type: each for each in KINDS.values() if each.geom_type}.get(kind)
    if record is None:
        return f"geoms of type {kind}"
    size, heights = mj.geom_size[g], ()
    if record.grid:
        heights, size = _grid(mj, int(mj.geom_dataid[g]))
    frame = place.frame @ Placement(mj.geom_pos[g], mj.geom_quat[g])
    if record.along_z:
        frame = frame @ X_ALONG_Z
    shape = Shape(
        kind=record.name,
        size=record.size_of_geom(size),
        pos=tuple(frame.pos.tolist()),
        quat=tuple(frame.quat.tolist()),
        friction=float(mj.geom_friction[g, 0]),
        name=name,
        heights=heights,
    )
    try:
        builder.add_shape(place.link, shape)
    except ModelError:
        where = "the world" if place.link == "world" else "a moving link"
        return f"geoms of type {kind} on {where}"
    return ""


def _grid(mj: Any, field: int) -> tuple[tuple[tuple[float, ...], ...], np.ndarray]:
    """Heights (nx, ny) and sizes (4,) of a height field [m]; MuJoCo has y along rows."""
    rows, columns = mj.hfield_nrow[field], mj.hfield_ncol[field]
    first = mj.hfield_adr[field]
    data = mj.hfield_data[first : first + rows * columns].reshape(rows, columns)
    heights = data.T.astype(float) * mj.hfield_size[field, 2]
    return tuple(map(tuple, heights.tolist())), mj.hfield_size[field]


def _add_pairs(
    builder: ModelBuilder, added: list[int], wanted: list[Pair], links: list[str], names: list[str]
) -> None:
    """Let the wanted pairs touch; those of a link and the world do so unless they are excluded."""
    world = [g for g in added if links[g] == "world"]
    moving = [g for g in added if links[g] != "world"]
    for a, b in sorted({_ordered(a, b) for a in moving for b in world} - set(wanted)):
        builder.exclude_pair(names[a], names[b])
    for a, b in wanted:
        if "world" not in (links[a], links[b]):
            builder.add_pair(names[a], names[b])


def _pair_name(names: list[str], a: int, b: int) -> str:
    return f"{names[a]} with {names[b]}"


def _compare_surfaces(mj: Any, wanted: list[Pair], names: list[str], report: Report) -> None:
    """Report friction that contacts have in the file and not here."""
    explicit = {
        _ordered(a, b): (mj.pair_friction[i], mj.pair_dim[i])
        for i, (a, b) in enumerate(zip(mj.pair_geom1.tolist(), mj.pair_geom2.tolist()))
    }
    for a, b in wanted:
        friction = mj.geom_friction[[a, b]]
        sliding = np.repeat(friction[:, 0].max(), 2)
        condim = mj.geom_condim[[a, b]].max()
        if (a, b) in explicit:
            sliding, condim = explicit[a, b][0][:2], explicit[a, b][1]
        if condim == 1:
            report.lacks("contacts without friction (condim 1)", _pair_name(names, a, b))
            continue
        if condim > 3:
            report.lacks(
                f"torsional or rolling friction (condim {condim})", _pair_name(names, a, b)
            )
        ours = np.sqrt(friction[:, 0].prod())
        if not np.allclose(sliding, ours, rtol=1e-6, atol=1e-12):
            report.note(
                "contacts with another friction: sqrt(a b) here, the larger one or the pair's own "
                "in the file",
                f"{_pair_name(names, a, b)} ({ours:.3g} for {sliding[0]:.3g})",
            )

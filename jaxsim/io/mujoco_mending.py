"""Repairs of model files: removal of elements that MuJoCo refuses and the motion does not need.

Robot files travel without the meshes, textures and scenes that they name, and exporters write
inertias that no body has. Each repair removes or changes one kind of these in the parsed file and
reports it.
"""

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.frames import Placement, quaternion_of
from jaxsim.io.mujoco_report import Report

LOOKS = "looks that the file lacks (textures, skins, materials, targets of cameras and lights)"
LOST = "(their files were not found)"
UNREAD = "(MuJoCo cannot read their files)"
INERTIAS = "inertias that no body has (their smaller moments are raised)"
RADIUS = 0.01  # [m] of the ball whose inertia a mass without any gets
LEAST = 1e-12  # [kg m^2] of an inertia at all
THIN = 1e-6  # of the largest moment that the smallest one is raised to
# How many of a geom's three sizes its kind has.
SIZES = {"SPHERE": 1, "CAPSULE": 2, "CYLINDER": 2, "BOX": 3, "ELLIPSOID": 3}


@dataclass(frozen=True)
class Mending:
    """A parsed model file, its path, and the report of its repairs."""

    mujoco: Any
    spec: Any
    path: Path | None
    report: Report

    def names(self, kind: str) -> set[str]:
        """Names of all "geoms", "bodies", ... of the file."""
        return {element.name for element in getattr(self.spec, kind, ())}

    def exists(self, file: str, folder: str) -> bool:
        """True if a file exists; folder: that of meshes or textures."""
        below = [
            Path(self.path.parent) if self.path else Path(),
            Path(self.spec.modelfiledir or "."),
        ]
        names = [file.replace("package://", ""), os.path.basename(file)]
        folders = [base / middle for base in below for middle in (folder, "")]
        return any((base / name).is_file() for base in folders for name in names)

    def delete(self, element: Any) -> None:
        """Delete an element; before MuJoCo 3.4 it does so itself."""
        if hasattr(self.spec, "delete"):
            self.spec.delete(element)
        else:
            element.delete()

    def is_(self, value: Any, enum: str, member: str) -> bool:
        """True if a value is a member of an enumeration, which MuJoCo may lack."""
        known = getattr(getattr(self.mujoco, enum), member, None)
        return known is not None and int(value) == int(known)


def mends() -> tuple[Callable[[Mending], None], ...]:
    """Repairs, from those that change nothing to those that change the motion."""
    return drop_lost, drop_sizeless, raise_inertias, drop_unread, drop_keyframes


def drop_lost(file: Mending) -> None:
    """Remove elements that name a missing file or element."""
    _drop_looks(file)
    folder = file.spec.compiler.meshdir if hasattr(file.spec.compiler, "meshdir") else ""
    folder = folder or getattr(file.spec, "meshdir", "") or ""
    for kind, what in (("meshes", "meshes"), ("hfields", "height fields")):
        lost = {
            a.name for a in getattr(file.spec, kind) if a.file and not file.exists(a.file, folder)
        }
        _drop_assets(file, kind, lost, f"{what} {LOST}")
    _drop_dangling(file)


def drop_unread(file: Mending) -> None:
    """Remove all meshes and height fields, of which MuJoCo cannot read some."""
    for kind, what in (("meshes", "meshes"), ("hfields", "height fields")):
        _drop_assets(file, kind, file.names(kind), f"{what} {UNREAD}")
    _drop_dangling(file)


def drop_sizeless(file: Mending) -> None:
    """Remove geoms of size zero of bodies whose inertia is stated, or that never move."""
    for kind, count in SIZES.items():
        for geom in list(file.spec.geoms):
            plain = not geom.meshname and not np.isfinite(np.array(geom.fromto)).all()
            if file.is_(geom.type, "mjtGeom", f"mjGEOM_{kind}") and plain:
                sizes = np.array(geom.size)[:count]
                if not (sizes > 0).all() and not _gives_mass(file, geom):
                    file.report.lacks("geoms of size zero", geom.name or geom.parent.name)
                    file.delete(geom)
    _drop_dangling(file)


def drop_keyframes(file: Mending) -> None:
    """Remove key frames with more numbers than the model has; MuJoCo completes shorter ones."""
    bare = file.spec.copy()
    for key in list(bare.keys):
        Mending(file.mujoco, bare, file.path, file.report).delete(key)
    mj = bare.compile()
    sizes = {"qpos": mj.nq, "qvel": mj.nv, "act": mj.na, "ctrl": mj.nu}
    for key in list(file.spec.keys):
        if any(len(getattr(key, field)) > size for field, size in sizes.items()):
            file.report.lacks("key frames of another model", key.name)
            file.delete(key)


def raise_inertias(file: Mending) -> None:
    """Raise moments of inertia to those of the flattest body with the same largest one."""
    for body in file.spec.bodies:
        if not body.explicitinertial or not body.mass > 0:
            continue
        full = np.array(body.fullinertia, float)
        turn, moments = np.eye(3), np.array(body.inertia, float)
        if np.isfinite(full).all():
            xx, yy, zz, xy, xz, yz = full
            moments, turn = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            turn[:, 0] *= np.linalg.det(turn)
        order = np.argsort(moments)
        a, b, c = np.maximum(moments[order], 0.0)
        if a > LEAST and a + b >= c:
            continue
        if c < LEAST:
            a = b = c = 0.4 * body.mass * RADIUS**2
        a, b = (max(moment, LEAST, THIN * c) for moment in (a, b))
        short = max(c - a - b, 0.0) / 2
        moments[order] = np.array([a + short, b + short, c * (1 - 1e-9)])
        file.report.lacks(INERTIAS, body.name)
        body.fullinertia = [math.nan] * 6
        body.inertia = moments
        frame = Placement(np.zeros(3), np.array(body.iquat)) @ Placement(
            np.zeros(3), quaternion_of(turn)
        )
        body.iquat = frame.quat


def _drop_looks(file: Mending) -> None:
    """Remove all elements that are only visible, and report the lost ones."""
    spec, folder = file.spec, getattr(file.spec.compiler, "texturedir", "") or ""
    lost: list[str] = []
    for texture in spec.textures:
        files = [name for name in (texture.file, *texture.cubefiles) if name]
        if not all(file.exists(name, folder) for name in files):
            lost.append(texture.name or files[0])
    for skin in spec.skins:
        if skin.file and not file.exists(skin.file, folder):
            lost.append(skin.name or skin.file)
    materials, textures, bodies = map(file.names, ("materials", "textures", "bodies"))
    for material in spec.materials:
        lost += [name for name in material.textures if name and name not in textures]
    for kind in ("geoms", "sites", "tendons", "meshes", "flexes", "skins"):
        for element in getattr(spec, kind, ()):
            name = getattr(element, "material", "")
            if name:
                lost += [] if name in materials else [name]
                element.material = ""
    for kind in ("cameras", "lights"):
        lost += [e.targetbody for e in getattr(spec, kind) if e.targetbody not in ("", *bodies)]
    for kind in ("skins", "cameras", "lights", "materials", "textures"):
        for element in list(getattr(spec, kind)):
            file.delete(element)
    for name in lost:
        file.report.note(LOOKS, name)


def _drop_dangling(file: Mending) -> None:
    """Remove references to elements that the file lacks; all sensors, since they move nothing."""
    for tendon in list(file.spec.tendons):
        if any(wrap.target is None for wrap in _wraps(file, tendon)):
            file.report.lacks("tendons along what the file lacks", tendon.name)
            file.delete(tendon)
    kinds = ("bodies", "joints", "geoms", "sites", "tendons", "actuators", "cameras", "sensors")
    named = {kind: file.names(kind) for kind in kinds}

    def lacking(kinds: Iterable[str], *names: str) -> list[str]:
        known = set().union(*(named[kind] for kind in kinds))
        return [name for name in names if name and name not in known]

    anything = tuple(named)
    for sensor in list(file.spec.sensors):
        for name in lacking(anything, sensor.objname, sensor.refname):
            file.report.note("sensors of what the file lacks", name)
        file.delete(sensor)
    for pair in list(file.spec.pairs):
        if lacking(("geoms",), pair.geomname1, pair.geomname2):
            name = f"{pair.geomname1} with {pair.geomname2}"
            file.report.lacks("contact pairs with geoms that the file lacks", name)
            file.delete(pair)
    for exclude in list(file.spec.excludes):
        for name in lacking(("bodies",), exclude.bodyname1, exclude.bodyname2)[:1]:
            file.report.note("excluded contacts of bodies that the file lacks", name)
            file.delete(exclude)
    movable = ("bodies", "joints", "sites", "tendons")
    for actuator in list(file.spec.actuators):
        names = (actuator.target, actuator.slidersite, actuator.refsite)
        for name in lacking(movable, *names)[:1]:
            file.report.lacks("actuators of what the file lacks", actuator.name or name)
            file.delete(actuator)
    for equality in list(file.spec.equalities):
        for name in lacking(anything, equality.name1, equality.name2)[:1]:
            file.report.lacks("equality constraints of what the file lacks", equality.name or name)
            file.delete(equality)
    for element in list(file.spec.tuples):
        file.delete(element)


def _wraps(file: Mending, tendon: Any) -> list[Any]:
    """Elements along the path of a tendon; empty for a MuJoCo too old to list them."""
    pulley = getattr(getattr(file.mujoco, "mjtWrap", None), "mjWRAP_PULLEY", None)
    return [wrap for wrap in getattr(tendon, "path", ()) if wrap.type != pulley]


def _drop_assets(file: Mending, kind: str, names: set[str], what: str) -> None:
    """Delete meshes or height fields and their geoms, except those that give moving bodies mass."""
    field = "meshname" if kind == "meshes" else "hfieldname"
    needed = set()
    geoms = [g for g in file.spec.geoms if getattr(g, field) in names and getattr(g, field)]
    for geom in geoms:
        if kind == "meshes" and _gives_mass(file, geom):
            needed.add(geom.meshname)
    for geom in geoms:
        asset = getattr(geom, field)
        if asset in needed:
            continue
        if geom.contype or geom.conaffinity:
            file.report.lacks(what, geom.name or asset)
        else:
            file.report.note(f"{what}, only seen", geom.name or asset)
        file.delete(geom)
    for asset in list(getattr(file.spec, kind)):
        if asset.name in names - needed:
            file.delete(asset)


def _gives_mass(file: Mending, geom: Any) -> bool:
    """True if the mass of a moving body comes from this geom."""
    compiler, body = file.spec.compiler, geom.parent
    always = file.is_(compiler.inertiafromgeom, "mjtInertiaFromGeom", "mjINERTIAFROMGEOM_TRUE")
    if (body.explicitinertial and not always) or geom.mass == 0 or geom.density == 0:
        return False
    first, last = compiler.inertiagrouprange
    return first <= geom.group <= last and _moves(body)


def _moves(body: Any) -> bool:
    while body is not None and body.name != "world":
        if list(body.joints):
            return True
        body = body.parent
    return False

"""MJCF and URDF by MuJoCo's own reader: a file or text in, a compiled ``MjModel`` out."""

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, NamedTuple

from jaxsim.io.mujoco_report import Report
from jaxsim.model.errors import ModelError

# attributes that hold names, which may be such words as "inf"
WORDS = {"name", "class", "childclass", "body1", "body2", "geom1", "geom2", "joint", "joint1"}
WORDS |= {"joint2", "site", "tendon", "actuator", "mesh", "hfield", "material", "texture", "target"}
WORDS |= {"link", "file", "model", "body", "geom", "type", "objname", "refname", "prefix"}


class Source(NamedTuple):
    """Where a model comes from: the title that messages use, and the path or the text."""

    title: str
    path: Path | None
    text: str


def load_mujoco() -> Any:
    """The module ``mujoco``; ImportError names the extra to install."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(
            'reading MJCF and URDF needs MuJoCo: pip install "jaxsim-characters[models]"',
            name=error.name,
        ) from error
    return mujoco


def find_source(path_or_text: str | Path) -> Source:
    """The file or the text. ModelError if there is no such file or it is no text."""
    if isinstance(path_or_text, str) and "<" in path_or_text:
        return Source("the model text", None, path_or_text)
    path = Path(path_or_text)
    if not path.is_file():
        raise ModelError(
            f"{path}: there is no such file; give the path of a .xml or .urdf file, or its text"
        )
    try:
        return Source(str(path), path, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ModelError(f"{path}: this is no text; an MJCF or URDF file is needed") from None
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read: {error.strerror}") from None


def compile_source(source: Source, report: Report) -> Any:
    """The compiled model; a ModelError gives MuJoCo's reason.

    Where mesh files are missing, the meshes are left out, if the file itself states the inertia of
    their bodies; meshes are of no use here anyway. A URDF's links are kept apart, not fused.
    """
    mujoco = load_mujoco()
    _check_numbers(source)
    try:
        return _parse(mujoco, source).compile()
    except Exception as error:  # besides ValueError MuJoCo has a FatalError, and memory runs out
        reason = " ".join(str(error).split())
    if "<mesh" in source.text:
        mj, names = _compile_without_meshes(mujoco, source)
        if mj is not None:
            for name in names:
                report.lacks("meshes (their files were not found)", name)
            return mj
    raise ModelError(f"{source.title}: MuJoCo cannot read it: {reason}")


def _check_numbers(source: Source) -> None:
    """ModelError for a number that is NaN or infinite. MuJoCo takes mass="nan" for one that is not
    given, and an infinite one as it is."""
    try:
        root = ET.fromstring(source.text)
    except ET.ParseError:
        return  # MuJoCo says what is wrong with it
    for element in root.iter():
        for key, text in element.attrib.items():
            if key not in WORDS and any(map(_endless, text.split())):
                name = element.get("name")
                place = f"<{element.tag}>" if name is None else f"<{element.tag}> {name!r}"
                raise ModelError(
                    f'{source.title}: {place} has {key}="{text}"; give finite numbers there'
                )


def _endless(word: str) -> bool:
    try:
        return not math.isfinite(float(word))
    except ValueError:
        return False


def _compile_without_meshes(mujoco: Any, source: Source) -> tuple[Any, list[str]]:
    """The model and the names of the geoms it lost; None and no names where that does not help."""
    try:
        spec = _parse(mujoco, source)
        names = _drop_meshes(mujoco, spec)
        return (spec.compile(), names) if names else (None, [])
    except Exception:
        return None, []


def _parse(mujoco: Any, source: Source) -> Any:
    if source.path is None:
        spec = mujoco.MjSpec.from_string(source.text)
    else:
        spec = mujoco.MjSpec.from_file(str(source.path))
    if is_urdf(source):
        spec.compiler.fusestatic = False
    return spec


def _drop_meshes(mujoco: Any, spec: Any) -> list[str]:
    """Delete mesh geoms that give no inertia, and all meshes; the geoms' names that are lost."""
    if spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE:
        return []
    lost = []
    for body in spec.bodies:
        for geom in body.geoms:
            if geom.type != mujoco.mjtGeom.mjGEOM_MESH:
                continue
            if not (body.explicitinertial or body.name == "world"):
                return []
            lost.append((geom, geom.name or geom.meshname))
    for geom, _ in lost:
        _delete(spec, geom)
    for mesh in list(spec.meshes):
        _delete(spec, mesh)
    return [name for _, name in lost]


def _delete(spec: Any, element: Any) -> None:
    """Before MuJoCo 3.4 an element deletes itself."""
    if hasattr(spec, "delete"):
        spec.delete(element)
    else:
        element.delete()


def is_urdf(source: Source) -> bool:
    """Whether the root element is that of a URDF."""
    return re.search(r"<robot[\s>]", source.text) is not None

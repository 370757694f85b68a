"""Text of MJCF and URDF files, and of the files that they include, in any encoding."""

import codecs
import math
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

from jaxsim.model.errors import ModelError

# attributes that hold names, which may be such words as "inf"
WORDS = {"name", "class", "childclass", "body1", "body2", "geom1", "geom2", "joint", "joint1"}
WORDS |= {"joint2", "site", "tendon", "actuator", "mesh", "hfield", "material", "texture", "target"}
WORDS |= {"link", "file", "model", "body", "geom", "type", "objname", "refname", "prefix"}
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"))
BOMS += ((codecs.BOM_UTF16_BE, "utf-16"),)
INCLUDE = r"""<include\s[^>]*\bfile\s*=\s*["']{}["'][^>]*?(/>|>\s*</include\s*>)"""
DECLARED = re.compile(rb"""^\s*<\?xml[^>]*encoding\s*=\s*["']([\w.:-]+)["']""")


class ModelSource(NamedTuple):
    """A model: the title that messages use, and the path or the text."""

    title: str
    path: Path | None
    text: str


class ModelTexts(NamedTuple):
    """A model and the files that it takes in by <include>, as MuJoCo can read them."""

    text: str  # of the model itself
    changed: dict[str, bytes]  # by path, those that do not stand in their files like this
    lost: tuple[str, ...]  # included files that there are not; the texts are without them


def find_source(path_or_text: str | Path) -> ModelSource:
    """Source of a model: a file or a text.

    Raises ModelError if the file does not exist or is no text.
    """
    if isinstance(path_or_text, str) and "<" in path_or_text:
        return ModelSource("the model text", None, path_or_text)
    path = Path(path_or_text)
    if not path.is_file():
        raise ModelError(
            f"{path}: there is no such file; give the path of a .xml or .urdf file, or its text"
        )
    text, _ = _read(path)
    return ModelSource(str(path), path, text)


def is_urdf(source: ModelSource) -> bool:
    """True if the root element is that of a URDF."""
    return re.search(r"<robot[\s>]", source.text) is not None


def idle_joints(urdf: str) -> list[str]:
    """Names of a URDF's movable joints whose effort is 0, as some exporters write it."""
    joints = []
    for joint in _root(urdf).iter("joint"):
        effort = [limit.get("effort", "") for limit in joint.iter("limit")]
        if effort and re.fullmatch(r"[+-]?0*\.?0*([eE].*)?", effort[0].strip() or "x"):
            joints.append(joint.get("name", ""))
    return joints


def find_parts(source: ModelSource) -> ModelTexts:
    """Read the files that a model includes, and check them like the model itself.

    Raises ModelError, naming file and element, for a number that is NaN or infinite (MuJoCo treats
    mass="nan" as not given, and accepts an infinite one), and for a file that is no text.
    """
    changed: dict[str, bytes] = {}
    lost: list[str] = []
    main = source.text
    waiting = [(source, False if source.path is None else not _read(source.path)[1])]
    seen: set[Path] = set()
    while waiting:
        part, other = waiting.pop()
        text = part.text
        for name in _checked(part):
            path = _find(name, part.path, source.path)
            if path is None:
                lost.append(name)
                text = re.sub(INCLUDE.format(re.escape(name)), "", text)
            elif path not in seen:
                seen.add(path)
                inner, plain = _read(path)
                waiting.append((ModelSource(f"{source.title}, {name}", path, inner), not plain))
        if part.path is not None and (other or text != part.text):
            changed[os.path.abspath(part.path)] = text.encode()
        if part is source:
            main = text
    return ModelTexts(main, changed, tuple(dict.fromkeys(lost)))


def _read(path: Path) -> tuple[str, bool]:
    """Text of a file, and whether its bytes are UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read: {error.strerror}") from None
    for encoding in _encodings(data):
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        if "<" in text and "\0" not in text:
            return text, encoding.startswith("utf-8")
    raise ModelError(f"{path}: this is no text; an MJCF or URDF file is needed")


def _encodings(data: bytes) -> list[str]:
    """Encodings to try, the likeliest first.

    Latin-1 is the last one: it accepts every byte, and leaves markup as it is.
    """
    begun = [encoding for mark, encoding in BOMS if data.startswith(mark)]
    if begun:
        return begun
    declared = DECLARED.match(data)
    return ["utf-8", *([declared[1].decode()] if declared else []), "latin-1"]


def _checked(source: ModelSource) -> list[str]:
    """Names of the files that a text includes.

    Raises ModelError for numbers that are not finite.
    """
    root = _root(source.text)
    for element in root.iter():
        for key, text in element.attrib.items():
            if key not in WORDS and any(map(_endless, text.split())):
                name = element.get("name")
                place = f"<{element.tag}>" if name is None else f"<{element.tag}> {name!r}"
                raise ModelError(
                    f'{source.title}: {place} has {key}="{text}"; give finite numbers there'
                )
    return [name for element in root.iter("include") if (name := element.get("file"))]


def _root(text: str) -> ET.Element:
    """Root element; an empty one for invalid XML, for which MuJoCo states the reason."""
    try:
        return ET.fromstring(text.lstrip("\ufeff \t\r\n"))
    except (ET.ParseError, ValueError):
        return ET.Element("unsound")


def _endless(word: str) -> bool:
    try:
        return not math.isfinite(float(word))
    except ValueError:
        return False


def _find(name: str, near: Path | None, main: Path | None) -> Path | None:
    """Path of an included file: beside the file that includes it, or beside the model's."""
    for folder in dict.fromkeys(path.parent if path else Path() for path in (near, main)):
        if (folder / name).is_file():
            return folder / name
    return None

"""Writer of clips as glTF animations that Blender and three.js play. Needs pygltflib, an extra.

A node for each joint, whose place is its offset and whose rotation is animated, and below it a node
with a visible bone. Axes are those of glTF: Y up, faces Z, metres; quaternions (x, y, z, w).
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.files import write_bytes
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import places_of
from jaxsim.mocap.rotations import continuous, turning

__all__ = ["gltf_bytes", "write_gltf"]

EXTRA = "pip install 'jaxsim-characters[mocap]'"
TO_GLTF = [1, 2, 0]  # X is our y, Y our z, Z our x
FLOAT = 5126  # type of the components
_VERTICES = 34962  # target of a buffer view
WIDTH = 0.12  # of a bone's length


def write_gltf(path: str | os.PathLike[str], clip: Clip) -> None:
    """Write a clip as .glb (one binary file) or .gltf (JSON that holds all), atomically.

    Raises ClipError for another ending, ImportError, naming the extra, without pygltflib.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".glb", ".gltf"):
        raise ClipError(f"{path}: a glTF file ends in .glb or .gltf")
    write_bytes(path, gltf_bytes(clip, binary=kind == ".glb"))


def gltf_bytes(clip: Clip, binary: bool = True) -> bytes:
    """Bytes of the file that ``write_gltf`` writes."""
    try:
        import pygltflib
    except ImportError as error:
        raise ImportError(f"glTF files need pygltflib: {EXTRA}") from error
    document = _Document(pygltflib)
    nodes = _nodes(clip, document)
    document.animate(clip, nodes)
    gltf = document.finished(clip.name)
    if binary:
        gltf.set_binary_blob(bytes(document.data))
        return b"".join(gltf.save_to_bytes())
    uri = "data:application/octet-stream;base64," + base64.b64encode(document.data).decode("ascii")
    gltf.buffers[0].uri = uri
    return gltf.to_json(indent=1).encode("utf-8")


class _Document:
    """Lists of a glTF file under construction, and its one buffer."""

    def __init__(self, library: Any):
        self.library, self.data = library, bytearray()
        self.accessors: list[Any] = []
        self.views: list[Any] = []
        self.nodes: list[Any] = []
        self.samplers: list[Any] = []
        self.channels: list[Any] = []
        place = self.add(_octahedron(), "VEC3", bounds=True, target=_VERTICES)
        material = library.Material(
            pbrMetallicRoughness=library.PbrMetallicRoughness(
                baseColorFactor=[0.35, 0.53, 0.74, 1.0], metallicFactor=0.0, roughnessFactor=0.8
            )
        )
        self.materials = [material]
        shape = library.Primitive(attributes=library.Attributes(POSITION=place), material=0)
        self.meshes = [library.Mesh(primitives=[shape], name="bone")]

    def add(self, array: np.ndarray, shape: str, bounds=False, target: int | None = None) -> int:
        """Add an array; returns the index of its accessor."""
        packed = np.ascontiguousarray(array, dtype="<f4")
        self.data.extend(bytes(-len(self.data) % 4))
        view = self.library.BufferView(
            buffer=0, byteOffset=len(self.data), byteLength=packed.nbytes, target=target
        )
        self.data.extend(packed.tobytes())
        self.views.append(view)
        limits = {}
        if bounds:
            rows = packed.reshape(len(packed), -1)
            limits = {"min": rows.min(axis=0).tolist(), "max": rows.max(axis=0).tolist()}
        self.accessors.append(
            self.library.Accessor(
                bufferView=len(self.views) - 1,
                componentType=FLOAT,
                count=len(packed),
                type=shape,
                **limits,
            )
        )
        return len(self.accessors) - 1

    def animate(self, clip: Clip, nodes: list[int]) -> None:
        """Add channels for the rotations of all joints and the positions of those that move."""
        time = self.add(clip.time[:, None], "SCALAR", bounds=True)
        rotations, places = gltf_quat(continuous(clip.rotations)), places_of(clip)[..., TO_GLTF]
        for j, node in enumerate(nodes):
            self._channel(time, self.add(rotations[:, j], "VEC4"), node, "rotation")
            if j == 0 or j in clip.moved:
                self._channel(time, self.add(places[:, j], "VEC3"), node, "translation")

    def _channel(self, time: int, values: int, node: int, path: str) -> None:
        library = self.library
        sampler = library.AnimationSampler(input=time, output=values, interpolation="LINEAR")
        self.samplers.append(sampler)
        target = library.AnimationChannelTarget(node=node, path=path)
        self.channels.append(
            library.AnimationChannel(sampler=len(self.samplers) - 1, target=target)
        )

    def finished(self, name: str) -> Any:
        """Whole document; the root is node 0."""
        library = self.library
        animation = library.Animation(name=name, samplers=self.samplers, channels=self.channels)
        return library.GLTF2(
            asset=library.Asset(version="2.0", generator="jaxsim"),
            scene=0,
            scenes=[library.Scene(nodes=[0], name=name)],
            nodes=self.nodes,
            meshes=self.meshes,
            materials=self.materials,
            animations=[animation],
            accessors=self.accessors,
            bufferViews=self.views,
            buffers=[library.Buffer(byteLength=len(self.data))],
        )


def gltf_quat(q: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) (x, y, z, w) in glTF's axes, from ours (..., 4)."""
    return np.concatenate([q[..., 1:][..., TO_GLTF], q[..., :1]], axis=-1)


def _nodes(clip: Clip, document: _Document) -> list[int]:
    """Add a node for each joint, and those of bones below; returns the indices of the joints."""
    library, nodes = document.library, document.nodes
    rest, turned = places_of(clip.take(slice(0, 1)))[0][:, TO_GLTF], gltf_quat(clip.rotations[0])
    for j, name in enumerate(clip.joint_names):
        nodes.append(
            library.Node(
                name=name, translation=rest[j].tolist(), rotation=turned[j].tolist(), children=[]
            )
        )
    for j, parent in enumerate(clip.parents):
        if parent >= 0:
            nodes[parent].children.append(j)
    bones = [
        (p, clip.offsets[j], clip.joint_names[j])
        for j, p in enumerate(clip.parents)
        if p >= 0 and j not in clip.moved
    ]
    bones += [
        (p, end, f"{clip.joint_names[p]}_end") for p, end in zip(clip.end_parents, clip.end_offsets)
    ]
    for parent, offset, name in bones:
        length = float(np.linalg.norm(offset))
        if length < 1e-3:
            continue
        along = gltf_quat(turning(np.array([1.0, 0.0, 0.0]), offset))  # our x is glTF's Z
        nodes.append(
            library.Node(
                name=f"bone_to_{name}",
                mesh=0,
                rotation=along.tolist(),
                scale=[WIDTH * length, WIDTH * length, length],
            )
        )
        nodes[parent].children.append(len(nodes) - 1)
    return list(range(clip.n_joints))


def _octahedron() -> np.ndarray:
    """Corners (24, 3) of 8 flat triangles: a bone of length 1 along Z, widest at a fifth."""
    ring = [(0.5, 0.5, 0.2), (-0.5, 0.5, 0.2), (-0.5, -0.5, 0.2), (0.5, -0.5, 0.2)]
    corners: list[tuple[float, float, float]] = []
    for k in range(4):
        a, b = ring[k], ring[(k + 1) % 4]
        corners += [a, b, (0.0, 0.0, 1.0), b, a, (0.0, 0.0, 0.0)]
    return np.array(corners)

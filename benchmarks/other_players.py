"""Whether Blender and three.js have the joints of a clip where jaxsim has them.

    python -m venv runs/blender && runs/blender/bin/pip install bpy
    npm install --prefix runs/three three
    python benchmarks/other_players.py CLIP.bvh --blender runs/blender/bin/python --three runs/three

The clip, and with --character NAME the character that moves as it does, is written as BVH (in
metres) and as glTF; each program reads both, and tells where the joints are in every frame.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._machine import table
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.write_bvh import write_bvh
from jaxsim.mocap.write_gltf import write_gltf

HERE = Path(__file__).resolve().parent
Y_UP = ("Z", "X", "Y")  # axes of files that no importer needs an option for
FROM_BLENDER, FROM_THREE = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.eye(3)[[2, 0, 1]]


def in_blender(python: str, file: Path, time: np.ndarray) -> dict[str, np.ndarray]:
    """Places (T, 3) [m] by joint, in our axes."""
    np.save(file.with_suffix(".npy"), time)
    found = file.with_suffix(".found.npz")
    command = [python, HERE / "_in_blender.py", file, file.with_suffix(".npy"), found]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with np.load(found) as stored:
        return {name: stored[name] @ FROM_BLENDER.T for name in stored.files}


def in_three(folder: str, file: Path, time: np.ndarray) -> dict[str, np.ndarray]:
    """The same."""
    times, found = file.with_suffix(".json"), file.with_suffix(".found.json")
    times.write_text(json.dumps(time.tolist()))
    script = shutil.copy(HERE / "_in_three.mjs", folder)  # node looks for three beside it
    subprocess.run(["node", script, file, times, found], check=True, stdout=subprocess.DEVNULL)
    stored = json.loads(found.read_text())
    return {name: np.array(places) @ FROM_THREE.T for name, places in stored.items()}


def main() -> None:
    """Print a table: the greatest distance of any joint in any frame."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clip", nargs="+")
    parser.add_argument("--character", help="put the clip on it")
    parser.add_argument("--blender", metavar="PYTHON", help="a Python that has bpy")
    parser.add_argument("--three", metavar="FOLDER", help="where three is installed")
    args = parser.parse_args()
    rows = []
    for name in args.clip:
        clip = replace(_clip(name, args.character), unit=1.0, axes=Y_UP)
        places, _ = poses_of(clip)
        for kind, write in (("bvh", write_bvh), ("glb", write_gltf)):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, f"clip.{kind}")
                write(file, clip)
                for program, where, play in (
                    ("Blender", args.blender, in_blender),
                    ("three.js", args.three, in_three),
                ):
                    if where is not None:
                        found = play(where, file, clip.time)
                        theirs = np.stack([found[joint] for joint in clip.joint_names], axis=1)
                        far = 1e6 * np.linalg.norm(theirs - places, axis=-1).max()
                        rows.append([clip.name, program, kind, str(clip.n_joints), f"{far:.2f}"])
    print(table(["clip", "read by", "file", "joints", "farthest um"], rows))


def _clip(name: str, character: str | None):
    clip = read_clip(name)
    if character is None:
        return clip
    from jaxsim.characters.registry import CHARACTERS
    from jaxsim.mocap.retarget import retarget
    from optimize.cli.retargeting import as_clip

    return as_clip(retarget(clip, CHARACTERS[character].build()))


if __name__ == "__main__":
    main()

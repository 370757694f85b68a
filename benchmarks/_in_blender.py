"""What Blender makes of a BVH and a glTF file: run by a Python that has bpy, as other_players.py
does. Arguments: FILE, times.npy [s], where to write; places (T, 3) by the name of a joint."""

import sys

import bpy
import numpy as np

file, times, out = sys.argv[1:]
bpy.ops.wm.read_factory_settings(use_empty=True)
scene = bpy.context.scene
if file.endswith(".bvh"):
    bpy.ops.import_anim.bvh(filepath=file, update_scene_fps=True)
    (figure,) = (each for each in bpy.data.objects if each.type == "ARMATURE")
    frames = 1.0 + np.arange(len(np.load(times)))
else:
    bpy.ops.import_scene.gltf(filepath=file)
    figure = None
    frames = np.load(times) * scene.render.fps / scene.render.fps_base
places = {}
for frame in frames:
    scene.frame_set(int(frame), subframe=float(frame % 1.0))
    if figure is not None:
        now = {bone.name: figure.matrix_world @ bone.head for bone in figure.pose.bones}
    else:
        now = {each.name: each.matrix_world.translation for each in bpy.data.objects}
    for name, place in now.items():
        places.setdefault(name, []).append(list(place))
np.savez(out, **{name: np.array(each) for name, each in places.items()})

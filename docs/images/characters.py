"""Draws docs/images/characters.png: python docs/images/characters.py"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from jaxsim import Motion, articulated_human, ball_joint_human, start, write_filmstrip
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.rotation import matrix_to_quat
from optimize.running.recording import shapes_of

TO_THE_VIEWER = np.sqrt([0.5, 0, 0, 0.5]) * [1, 1, 1, -1]  # faces -y
names, shapes, pos, quat = [], [], [], []
for place, (human, build) in enumerate(
    (human, build)
    for human in (articulated_human, ball_joint_human)
    for build in ("adult", "child")
):
    model = human(build)
    top = model.topology
    for name, x in (("standing", 2.1 * place), ("t_pose", 2.1 * place + 1.15)):
        state = start(model, name)
        q = state.q.at[0].set(x)
        if name == "t_pose":
            q = q.at[3:7].set(TO_THE_VIEWER)
        kin = forward_kinematics(model, q, state.qd)
        first = len(names)
        shapes += [
            shape if shape.link < 0 else replace(shape, link=shape.link + first)
            for shape in shapes_of(model)
            if shape.link >= 0 or not first
        ]
        names += top.link_names
        pos.append(np.asarray(kin.link_pos))
        quat.append(np.asarray(matrix_to_quat(kin.link_rot)))

none = np.zeros((1, 0))
motion = Motion(
    title="Articulated and ball-joint human, adult and child, standing and in the T pose",
    link_names=tuple(names),
    joint_names=(),
    phase_names=(),
    shapes=tuple(shapes),
    time=np.zeros(1),
    q=none,
    qd=none,
    link_pos=np.concatenate(pos)[None],
    link_quat=np.concatenate(quat)[None],
    contact_pos=np.zeros((1, 0, 3)),
    contact_force=np.zeros((1, 0, 3)),
    phase=np.full(1, -1),
    torque=none,
    torque_limit=np.zeros(0),
    heights={},
)
write_filmstrip(Path(__file__).with_suffix(".png"), motion, frames=1)

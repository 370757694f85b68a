"""The planar human's joints as a table, from its model and its start poses.

python docs/generate/joints.py    writes it anew into docs/guides/script.md
"""

import re
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from jaxsim import planar_human, start  # noqa: E402
from jaxsim.characters.planar_human import STARTS, TABLE_4_2  # noqa: E402

PAGE = ROOT / "docs" / "guides" / "script.md"
CHAIR = 0.45  # [m]
POSITIVE = {
    "rootAngle": "the whole body leans back",
    "neckTop": "head forward",
    "neckBottom": "neck forward",
    "waist": "trunk bends forward",
    "shoulder": "arm forward and up",
    "elbow": "forearm forward",
    "wrist": "hand forward",
    "hip": "thigh forward and up",
    "knee": "shank forward; bent is negative",
    "ankle": "toes up; 90 is a flat foot below an upright shank",
}


def joints() -> str:
    """A row a joint, both sides in one: range, angles of the start poses, gains, torque."""
    model = planar_human(chair_height=CHAIR)
    top = model.topology
    poses = [np.rad2deg(np.asarray(start(model, name).q)) for name in STARTS]
    lines = [
        "| joint | from, to | range [deg] | "
        + " | ".join(f"{name} [deg]" for name in STARTS)
        + " | kp [N m/rad] | kd [N m s/rad] | torque [N m] | positive |",
        "|---" * (7 + len(STARTS)) + "|",
    ]
    for row, meaning in POSITIVE.items():
        side = row if row in top.joint_names else "left" + row[0].upper() + row[1:]
        at = top.q_start[top.joint(side)]
        angles = " | ".join(f"{pose[at] + 0.0:.4g}" for pose in poses)
        if row not in TABLE_4_2:
            lines.append(f"| `{row}` | world, head | | {angles} | | | | {meaning} |")
            continue
        link = top.link_names[top.joint_link[top.joint(side)]]
        parent = top.link_names[top.link_parent[top.joint_link[top.joint(side)]]]
        both = "" if side == row else f", `{row}s` for both"
        gains = TABLE_4_2[row]
        span = f"{gains.range[0]:g} to {gains.range[1]:g}"
        lines.append(
            f"| `{side}`{both} | {parent}, {link} | {span} | {angles} "
            f"| {gains.kp:g} | {gains.kd:g} | {gains.torque:g} | {meaning} |"
        )
    return "\n".join(lines)


def renewed(text: str) -> str:
    """The page with its table made anew."""
    return re.sub(
        r"(<!-- joints -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}\n{joints()}\n\n{m[2]}",
        text,
        flags=re.S,
    )


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")

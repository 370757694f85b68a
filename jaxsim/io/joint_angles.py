"""Poses from files: angles by the names of joints."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsim.characters.poses import MIRROR
from jaxsim.io.toml_table import Table, WorldError, suggestion
from jaxsim.model import Model
from jaxsim.model.joints import Q_SIZE
from jaxsim.model.roles import SIDES, side_role


def pose_of(table: Table | None) -> dict[str, Any]:
    """Angles of a table, by joint name [deg], of a ball (3,) rotation vector, of a slide [m]."""
    if table is None:
        return {}
    return {
        name: table.vector(name) if isinstance(table.take(name), list) else table.number(name)
        for name in table.keys()
    }


def posed_q(where: str, model: Model, q: Any, pose: dict[str, Any]) -> Any:
    """Coordinates q with the joints of a pose set; a name without its side sets both joints."""
    top = model.topology
    q = np.array(q, float)
    for name, angle in pose.items():
        both = [side_role(side, name) for side in SIDES]
        names = [name] if name in top.joint_names else [n for n in both if n in top.joint_names]
        if not names:
            movable = [n for n, kind in zip(top.joint_names, top.joint_kinds) if Q_SIZE[kind] < 7]
            raise WorldError(
                f"{where}: pose: there is no joint {name!r}{suggestion(name, movable)}; "
                f"the joints are: {', '.join(movable)}"
            )
        for joint, sign in zip(names, (np.ones(3), MIRROR)):
            index = top.joint(joint)
            kind, at = top.joint_kinds[index], top.q_start[index]
            if kind == "ball":
                turn = np.deg2rad(np.broadcast_to(np.asarray(angle, float), (3,))) * sign
                half = np.linalg.norm(turn) / 2
                q[at : at + 4] = [np.cos(half), *(0.5 * np.sinc(half / np.pi) * turn)]
            elif kind in ("hinge", "slide") and np.ndim(angle) == 0:
                q[at] = np.deg2rad(angle) if kind == "hinge" else angle
            else:
                raise WorldError(
                    f"{where}: pose: joint {joint!r} is a {kind}; hinges and slides take a "
                    "number, balls three"
                )
    return jnp.asarray(q, model.mass.dtype)

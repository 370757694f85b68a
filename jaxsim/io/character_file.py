"""The roles of an imported model: from ``NAME.roles.toml`` beside it, else from its names.

[roles]                                  what the body lacks is left out
head = "skull"
feet = ["sole_l", "sole_r"]              left, right

[standing]                               joint angles [deg] in which its soles are flat,
knee_l = 5.0                             on top of the file's initial pose
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.characters.role_finding import find_roles
from jaxsim.characters.sole import directions, find_points
from jaxsim.io.joint_angles import pose_of, posed_q
from jaxsim.io.mujoco_links import body_owners
from jaxsim.io.toml_table import Table, format_value, read_toml, suggestion
from jaxsim.model import Model, Roles
from jaxsim.model.roles import FEET, MIDDLE, PAIRS, pair_roles


def roles_file(model_file: Path) -> Path:
    """Path of the roles file that belongs to a model file."""
    return model_file.with_suffix(".roles.toml")


def with_roles(mujoco: Any, mj: Any, model: Model, path: Path | None) -> Model:
    """Add roles, standing pose and effectors to a model.

    Raises WorldError, naming file, table, key and remedy, for an invalid roles file.
    """
    q, links = mj.qpos0, tuple(find_roles(model.topology).items())
    if path is not None and roles_file(path).is_file():
        file = read_toml(roles_file(path))
        table = file.table("roles") or Table(file.file, "[roles]", {})
        links = _links(table, model.topology.link_names)
        pose = pose_of(file.table("standing"))
        file.done()
        q = np.asarray(posed_q(f"{file.file}: [standing]", model, q, pose), float)
    standing = tuple(np.asarray(q, float).tolist()) if links else ()
    roles = Roles("" if path is None else path.name, links, standing=standing)
    if all(map(roles.link, FEET)):
        data = mujoco.MjData(mj)
        data.qpos[:] = q
        mujoco.mj_kinematics(mj, data)
        own = [b for b, owner in enumerate(body_owners(mj)) if b and owner == b]
        poses = data.xpos[own], data.xmat[own].reshape(-1, 3, 3)
        forward, up = directions(model, roles, *poses)
        roles = replace(roles, forward=forward, up=up)
        roles = replace(roles, points=find_points(model, roles, *poses))
    return model.replace(topology=replace(model.topology, roles=roles))


def _links(table: Table, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    singles = {role: table.text(role, None) for role in MIDDLE}
    middle = {role: _known(table, role, link, names) for role, link in singles.items() if link}
    pairs = {}
    for pair in PAIRS:
        both = table.take(pair, None)
        if both is None:
            continue
        if not (isinstance(both, list) and [type(link) for link in both] == [str, str]):
            raise table.error(
                f'is {format_value(both)}; give two links, ["left one", "right one"]', pair
            )
        pairs[pair] = tuple(_known(table, pair, link, names) for link in both)
    table.done()
    return pair_roles(middle, pairs)


def _known(table: Table, key: str, link: str, names: tuple[str, ...]) -> str:
    if link not in names:
        raise table.error(
            f"there is no link {link!r}{suggestion(link, names)}; the links are: "
            + ", ".join(names),
            key,
        )
    return link

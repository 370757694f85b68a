"""What a controller by goals sees: itself, its contacts, the forces of the last step."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.safe import safe_divide
from jaxsim.synthesis.config import Units
from jaxsim.synthesis.configuration import Configuration


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EffectorObservation:
    """One character's conf of itself and its surroundings."""

    conf: Configuration
    touching: Array  # (ne,) bool: effectors on a surface
    force: Array  # (ne, 3) on the effectors in the last step [N]
    weight: Array  # () of the body [N]
    height: Array  # () of its centre of mass when it stands [m]
    time: Array  # () [s]
    unit: Units
    objects: Any = None  # that fly about, for goals that know them
    all_links: Kinematics | None = None  # where others than the character's move; None: its own
    company: tuple[Configuration, ...] = ()  # of several characters all, in their order
    me: int = dataclasses.field(default=0, metadata={"static": True})  # which of them this is

    @property
    def kin(self) -> Kinematics:
        """As in ``Observation``: of all links of the model."""
        return self.conf.kin if self.all_links is None else self.all_links

    @property
    def com(self) -> Array:
        """(3,) [m]."""
        return self.conf.com

    @property
    def com_velocity(self) -> Array:
        """(3,) [m/s]."""
        return self.conf.com_velocity

    @property
    def contact_point(self) -> Array:
        """(ne, 3) where there may be a contact: the effectors [m]."""
        return self.conf.position

    @property
    def link_touching(self) -> Array:
        """(nl,) bool: the link is in contact."""
        links = np.array(self.conf.effectors.links)
        on = links[None, :] == np.arange(self.kin.link_pos.shape[0])[:, None]
        return (on & self.touching).any(axis=1)

    def with_conf(self, conf: Configuration) -> "EffectorObservation":
        """The same, with positions of another configuration, at its time."""
        if conf.elapsed is None:
            return dataclasses.replace(self, conf=conf)
        seen = 0.0 if self.conf.elapsed is None else self.conf.elapsed
        return dataclasses.replace(self, conf=conf, time=self.time + (conf.elapsed - seen))

    def group(self, name: str) -> np.ndarray:
        """(ne,) bool: the effectors of a foot or hand."""
        return self.conf.effectors.of(name)

    def place(self, groups: Array | np.ndarray) -> Array:
        """(3,) the middle of some effectors (ne,) bool [m]."""
        part = jnp.where(groups, 1.0, 0.0).astype(self.conf.position.dtype)
        return safe_divide(part @ self.conf.position, jnp.sum(part))

    def load(self, groups: Array | np.ndarray) -> Array:
        """() normal force on some effectors (ne,) bool, in body weights."""
        normal = jnp.sum(self.force * self.conf.near.normal, axis=-1)
        return jnp.sum(jnp.where(groups, normal, 0.0)) / self.weight

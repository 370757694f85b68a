"""Observation of a task-based controller: configuration, contacts, forces of the last step."""

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
    """One character's configuration, contacts and last forces, for a task-based controller."""

    conf: Configuration
    touching: Array  # (ne,) bool: effectors on a surface
    force: Array  # (ne, 3) on the effectors in the last step [N]
    weight: Array  # () of the body [N]
    height: Array  # () of its centre of mass in the standing pose [m]
    time: Array  # () [s]
    unit: Units
    objects: Any = None  # thrown objects, for goals that use them
    clip: Any = None  # reference motion, for goals that follow it
    all_links: Kinematics | None = None  # where other links than the character's move; else None
    company: tuple[Configuration, ...] = ()  # of all of several characters, in their order
    me: int = dataclasses.field(default=0, metadata={"static": True})  # own index in ``company``

    @property
    def kin(self) -> Kinematics:
        """Kinematics of all links of the model, as in ``Observation``."""
        return self.conf.kin if self.all_links is None else self.all_links

    @property
    def com(self) -> Array:
        """(3,) centre of mass [m]."""
        return self.conf.com

    @property
    def com_velocity(self) -> Array:
        """(3,) velocity of the centre of mass [m/s]."""
        return self.conf.com_velocity

    @property
    def contact_point(self) -> Array:
        """(ne, 3) possible contact points: positions of the effectors [m]."""
        return self.conf.position

    @property
    def link_touching(self) -> Array:
        """(nl,) bool: the link is in contact."""
        links = np.array(self.conf.effectors.links)
        on = links[None, :] == np.arange(self.kin.link_pos.shape[0])[:, None]
        return (on & self.touching).any(axis=1)

    def with_conf(self, conf: Configuration) -> "EffectorObservation":
        """Replace the configuration, and the time by that of the new one; forces stay."""
        if conf.elapsed is None:
            return dataclasses.replace(self, conf=conf)
        seen = 0.0 if self.conf.elapsed is None else self.conf.elapsed
        return dataclasses.replace(self, conf=conf, time=self.time + (conf.elapsed - seen))

    def group(self, name: str) -> np.ndarray:
        """(ne,) bool: effectors of a foot or hand, by the group's name."""
        return self.conf.effectors.of(name)

    def place(self, groups: Array | np.ndarray) -> Array:
        """(3,) mean position of a selection of effectors (ne,) bool [m]."""
        part = jnp.where(groups, 1.0, 0.0).astype(self.conf.position.dtype)
        return safe_divide(part @ self.conf.position, jnp.sum(part))

    def load(self, groups: Array | np.ndarray) -> Array:
        """() normal force on a selection of effectors (ne,) bool [body weights]."""
        normal = jnp.sum(self.force * self.conf.near.normal, axis=-1)
        return jnp.sum(jnp.where(groups, normal, 0.0)) / self.weight

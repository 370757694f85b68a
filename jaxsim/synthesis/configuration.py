"""One configuration as goals, conditions and the optimisation see it."""

from dataclasses import dataclass

import jax
from jax import Array

from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.jacobians import center_of_mass, com_jacobian
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.model import Model
from jaxsim.synthesis.surfaces import Nearest, Surfaces, nearest, surfaces


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Configuration:
    """Everything that follows from (q, v); computed once a step."""

    model: Model
    effectors: Effectors
    q: Array  # (nq,)
    v: Array  # (nv,) [m/s, rad/s]
    kin: Kinematics
    com: Array  # (3,) [m]
    com_jacobian: Array  # (3, nv)
    position: Array  # (ne, 3) of the effectors [m]
    jacobian: Array  # (ne, 3, nv)
    near: Nearest
    surfaces: Surfaces

    @property
    def com_velocity(self) -> Array:
        """(3,) [m/s]."""
        return self.com_jacobian @ self.v

    @property
    def velocity(self) -> Array:
        """(ne, 3) of the effectors [m/s]."""
        return self.jacobian @ self.v

    def link(self, name: str) -> int:
        """Index of a link by its role or name; KeyError lists both."""
        return self.model.topology.part(name)


def configuration_at(model: Model, effectors: Effectors, q: Array, v: Array) -> Configuration:
    """See a configuration q (nq,) that moves with v (nv,)."""
    with jax.default_matmul_precision("highest"):
        return _configuration_at(model, effectors, q, v)


def _configuration_at(model: Model, effectors: Effectors, q: Array, v: Array) -> Configuration:
    kin = forward_kinematics(model, q, v)
    position = effectors.positions(kin)
    found = surfaces(model, position)
    return Configuration(
        model=model,
        effectors=effectors,
        q=q,
        v=v,
        kin=kin,
        com=center_of_mass(model, kin),
        com_jacobian=com_jacobian(model, kin),
        position=position,
        jacobian=effectors.jacobians(model, kin, position),
        near=nearest(model, effectors, found),
        surfaces=found,
    )

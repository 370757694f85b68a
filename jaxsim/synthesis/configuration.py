"""One configuration as goals, conditions and the optimisation see it."""

from dataclasses import dataclass, replace

import jax
from jax import Array

from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.jacobians import center_of_mass, com_jacobian
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.model import Model
from jaxsim.synthesis.clasps import ClaspsNow
from jaxsim.synthesis.holds import HoldsNow
from jaxsim.synthesis.surroundings import Nearest, Surfaces, Surroundings, nearest, surroundings


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
    around: Surroundings
    holds: HoldsNow | None = None
    clasps: ClaspsNow | None = None  # with other characters
    elapsed: Array | None = None  # () since the step began, of one further on in a window [s]

    @property
    def com_velocity(self) -> Array:
        """(3,) [m/s]."""
        return self.com_jacobian @ self.v

    @property
    def velocity(self) -> Array:
        """(ne, 3) of the effectors [m/s]."""
        return self.jacobian @ self.v

    def at(self, q: Array, v: Array) -> "Configuration":
        """Another one among the same surroundings."""
        return self._among(self.around, q, v)

    def ahead(self, q: Array, v: Array) -> "Configuration":
        """One at the step's end, among the surroundings as they are then."""
        return self._among(self.around.at_end(), q, v)

    def _among(self, around: Surroundings, q: Array, v: Array) -> "Configuration":
        found = configuration_at(self.model, self.effectors, q, v, around, self.holds, self.clasps)
        return replace(found, elapsed=self.elapsed)

    def surface_moved(self) -> Array | float:
        """(ne, 3) how far the nearest surface of each effector gets in the step [m]."""
        return 0.0 if self.near.moved is None else self.near.moved

    def link(self, name: str) -> int:
        """Index of a link by its role or name; KeyError lists both."""
        return self.model.topology.part(name)


def configuration_at(
    model: Model,
    effectors: Effectors,
    q: Array,
    v: Array,
    around: Surroundings | None = None,
    holds: HoldsNow | None = None,
    clasps: ClaspsNow | None = None,
) -> Configuration:
    """See a configuration q (nq,) that moves with v (nv,). around: what bears; the shapes of the
    model's own world. holds: what there is to hold on to; clasps: with which other hands."""
    with jax.default_matmul_precision("highest"):
        around = surroundings(model) if around is None else around
        return _configuration_at(model, effectors, q, v, around, holds, clasps)


def _configuration_at(
    model: Model,
    effectors: Effectors,
    q: Array,
    v: Array,
    around: Surroundings,
    holds: HoldsNow | None,
    clasps: ClaspsNow | None,
) -> Configuration:
    kin = forward_kinematics(model, q, v)
    position = effectors.positions(kin)
    found = around.surfaces(position)
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
        near=nearest(model, effectors, position, around, found),
        surfaces=found,
        around=around,
        holds=holds,
        clasps=clasps,
    )

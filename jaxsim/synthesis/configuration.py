"""Configuration of a character with the quantities that goals and the optimisation use."""

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
    """Kinematics, Jacobians and gaps at (q, v), computed once a step."""

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
    elapsed: Array | None = None  # () time since the step began, of a later frame of a horizon [s]

    @property
    def com_velocity(self) -> Array:
        """(3,) velocity of the centre of mass [m/s]."""
        return self.com_jacobian @ self.v

    @property
    def velocity(self) -> Array:
        """(ne, 3) velocities of the effectors [m/s]."""
        return self.jacobian @ self.v

    def at(self, q: Array, v: Array) -> "Configuration":
        """Configuration at another (q, v), among the same surroundings."""
        return self._among(self.around, q, v)

    def ahead(self, q: Array, v: Array) -> "Configuration":
        """Configuration (q, v) at the step's end, among the surroundings as they are then."""
        return self._among(self.around.at_end(), q, v)

    def _among(self, around: Surroundings, q: Array, v: Array) -> "Configuration":
        found = configuration_at(self.model, self.effectors, q, v, around, self.holds, self.clasps)
        return replace(found, elapsed=self.elapsed)

    def surface_moved(self) -> Array | float:
        """(ne, 3) displacement in the step of the surface nearest to each effector [m]."""
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
    """Compute the configuration of q (nq,) and v (nv,).

    around: supporting shapes, by default those of the model's world; holds: holds that may be
    gripped; clasps: hand holds with other characters.
    """
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
    surfaces = around.surfaces(position)
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
        near=nearest(model, effectors, position, around, surfaces),
        surfaces=surfaces,
        around=around,
        holds=holds,
        clasps=clasps,
    )

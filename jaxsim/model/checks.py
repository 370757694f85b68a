"""Checks of declared links, joints and shapes; each failure names the place and the remedy."""

import numpy as np

from jaxsim.model.errors import ModelError
from jaxsim.model.joints import V_SIZE, Joint
from jaxsim.model.kinds import KINDS
from jaxsim.model.shapes import Shape
from jaxsim.model.topology import WORLD
from jaxsim.ranges import RANGES


def finite(what: str, value) -> np.ndarray:
    """Convert ``value`` to a float array; ModelError if it is no number or not finite."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} is {value!r}; numbers are needed") from None
    if not np.isfinite(array).all():
        raise ModelError(f"{what} is {array.tolist()}; it must be finite")
    return array


def number(what: str, value) -> float:
    """Convert ``value`` to a finite float; ModelError if it is none."""
    array = finite(what, value)
    if array.ndim:
        raise ModelError(f"{what} has shape {array.shape}; it needs one number")
    return float(array)


def vector(what: str, value, size: int) -> np.ndarray:
    """Convert ``value`` to a finite (size,) array; ModelError if it is none."""
    array = finite(what, value)
    if array.shape != (size,):
        raise ModelError(f"{what} has shape {array.shape}; it needs ({size},)")
    return array


def quaternion(what: str, value) -> np.ndarray:
    """Normalise a quaternion (w, x, y, z); ModelError unless its length is 1 to 0.1%."""
    array = vector(what, value, 4)
    norm = np.linalg.norm(array)
    if abs(norm - 1) > 1e-3:
        raise ModelError(f"{what} has length {norm:.4g}; a unit quaternion (w, x, y, z) is needed")
    return array / norm


def mass(where: str, value) -> float:
    """Check a mass, positive and within the range of masses [kg]; ModelError otherwise."""
    kilograms = number(f"{where}: mass", value)
    if kilograms <= 0:
        raise ModelError(
            f"{where}: mass is {kilograms:g} kg; it must be positive (a link that only carries "
            "shapes can be welded to its parent by giving the parent the shapes)"
        )
    if not RANGES["mass"].contains(kilograms):
        raise ModelError(f"{where}: mass is {kilograms:g} kg; {RANGES['mass'].wanted}")
    return kilograms


def inertia(where: str, value) -> np.ndarray:
    """Check an inertia, (3,) or (3, 3), and return it as (3, 3).

    It has to be symmetric and positive, and its moments fulfil the triangle inequality.
    """
    array = finite(f"{where}: inertia", value)
    if array.shape == (3,):
        array = np.diag(array)
    if array.shape != (3, 3):
        raise ModelError(
            f"{where}: inertia has shape {array.shape}; give (3,) principal moments or (3, 3)"
        )
    if not np.allclose(array, array.T, rtol=1e-9, atol=1e-12):
        raise ModelError(f"{where}: inertia is not symmetric")
    moments = np.sort(np.linalg.eigvalsh(array))
    if moments[0] <= 0:
        raise ModelError(
            f"{where}: inertia has principal moments {moments.tolist()}; all must be positive"
        )
    if not all(map(RANGES["moment"].contains, moments.tolist())):
        raise ModelError(
            f"{where}: inertia has principal moments {moments.tolist()}; {RANGES['moment'].wanted}"
        )
    if moments[0] + moments[1] < moments[2] * (1 - 1e-6):
        raise ModelError(
            f"{where}: inertia breaks the triangle inequality: {moments[0]:.6g} + "
            f"{moments[1]:.6g} < {moments[2]:.6g}; no body has such principal moments"
        )
    return array


def joint(where: str, value: Joint, taken: list[str], on_world: bool, alone: bool) -> None:
    """Check one joint declaration of a link."""
    what = f"{where}: joint {value.name!r}"
    if value.kind not in V_SIZE:
        raise ModelError(f"{what}: unknown kind {value.kind!r}; use one of {', '.join(V_SIZE)}")
    if not value.name or value.name in taken:
        raise ModelError(f"{what}: the name is {'taken' if value.name else 'empty'}")
    if value.kind == "free" and not (on_world and alone):
        raise ModelError(f"{what}: a free joint must be the only joint of a child of the world")
    if value.kind == "fixed" and not alone:
        raise ModelError(f"{what}: a fixed joint must be the only joint of its link")
    vector(f"{what}: anchor", value.anchor, 3)
    if np.linalg.norm(vector(f"{what}: axis", value.axis, 3)) < 1e-9:
        raise ModelError(f"{what}: the axis is zero; give a direction")
    for field in ("damping", "armature", "kp", "kd"):
        if number(f"{what}: {field}", getattr(value, field)) < 0:
            raise ModelError(f"{what}: {field} is negative")
    if value.max_torque is not None and number(f"{what}: max_torque", value.max_torque) <= 0:
        raise ModelError(f"{what}: max_torque must be positive; leave it out for no actuator")
    drive(what, value)
    if value.limits is not None:
        if value.kind not in ("hinge", "slide", "ball"):
            raise ModelError(f"{what}: only hinges, slides and balls can have limits")
        lower, upper = vector(f"{what}: limits", value.limits, 2)
        if value.kind == "ball" and lower != 0:
            raise ModelError(f"{what}: limits of a ball are (0, greatest angle), not {lower:g}")
        if lower >= upper:
            raise ModelError(f"{what}: limits out of order, lower {lower:g} >= upper {upper:g}")


def drive(what: str, value: Joint) -> None:
    """Check the prescribed motion of a joint."""
    if value.drive is None:
        return
    if value.kind not in ("hinge", "slide"):
        raise ModelError(f"{what}: only hinges and slides can be driven; stack several of them")
    if value.max_torque is not None or value.limits is not None:
        raise ModelError(f"{what}: a driven joint needs neither max_torque nor limits")
    for name, number_given in vars(value.drive).items():
        if name == "end" and number_given == np.inf:
            continue
        number(f"{what}: drive.{name}", number_given)


def shape(where: str, value: Shape, link: int) -> None:
    """Check one shape declaration."""
    if value.kind not in KINDS:
        raise ModelError(f"{where}: unknown kind {value.kind!r}; use one of {', '.join(KINDS)}")
    size = vector(f"{where}: size", value.size, 3)
    vector(f"{where}: pos", value.pos, 3)
    quaternion(f"{where}: quat", value.quat)
    if number(f"{where}: friction", value.friction) < 0:
        raise ModelError(f"{where}: friction is negative")
    if not 0 <= number(f"{where}: restitution", value.restitution) <= 1:
        raise ModelError(f"{where}: restitution is {value.restitution:g}; it lies in [0, 1]")
    for field in ("group", "mask"):
        bits = getattr(value, field)
        if not isinstance(bits, int) or bits < 0:
            raise ModelError(f"{where}: {field} is {bits!r}; give bits, a whole number from 0")
    kind = value.record
    needed = kind.n_positive
    if (size[:needed] <= 0).any():
        raise ModelError(f"{where}: sizes {size[:needed].tolist()} must be positive")
    if kind.world_only and link != WORLD:
        raise ModelError(f"{where}: a {value.kind.replace('_', ' ')} belongs to the world")
    if kind.grid:
        finite(f"{where}: heights", value.heights)

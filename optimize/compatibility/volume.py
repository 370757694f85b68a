"""Volume of compatible points: a support vector machine, also as a function of JAX.

Source: Shen, section 6.2 and its numbers in 6.4. Learned by scikit-learn, over scaled points.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from optimize.compatibility.space import Space

GAMMA = 4.0  # g
# c is 64; incompatible points weigh more
NUMBERS: dict[str, Any] = {"C": 64.0, "gamma": GAMMA, "class_weight": {False: 4.0, True: 1.0}}
FOLDS = 5


def machine() -> Any:
    """Untrained support vector machine with the thesis' numbers.

    Raises ImportError with the remedy where scikit-learn is missing.
    """
    try:
        from sklearn.svm import SVC
    except ImportError as error:
        raise ImportError(
            "the compatibility model needs scikit-learn:"
            ' pip install "jaxsim-characters[compatibility]"'
        ) from error
    return SVC(kernel="rbf", **NUMBERS)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Volume:
    """Volume of compatible points: ``decision`` is positive, and at least 1 beyond the margin."""

    support: Array | np.ndarray  # (m, d) support vectors, scaled
    weight: Array | np.ndarray  # (m,) dual coefficients, positive for compatible ones
    offset: Array | np.ndarray  # ()

    def decision(self, z: Array | np.ndarray) -> Array:
        """Decision value (...,) of scaled points (..., d); traceable and differentiable."""
        z, support = jnp.asarray(z), jnp.asarray(self.support)
        # the square written out as products, one product of matrices for many points
        square = (
            jnp.sum(z * z, axis=-1)[..., None]
            - 2 * z @ support.T
            + jnp.sum(support * support, axis=-1)
        )
        kernel = jnp.exp(-GAMMA * jnp.maximum(square, 0.0))
        return kernel @ jnp.asarray(self.weight) + self.offset

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for a file."""
        return {name: np.asarray(getattr(self, name)) for name in ("support", "weight", "offset")}


@dataclass(frozen=True)
class LearnedVolume:
    """Volume with its cross-validation.

    accuracy: of 5-fold cross-validation. decisions: (n,) of each point by a machine that did not
    see it.
    """

    volume: Volume
    accuracy: float
    decisions: np.ndarray

    @property
    def vectors(self) -> int:
        """Number of support vectors."""
        return len(self.volume.support)


def fit(space: Space, points: np.ndarray, yes: np.ndarray) -> Volume:
    """Learn a volume from points (n, d) and answers (n,) bool.

    Raises ValueError where all answers are the same, or a number is not finite.
    """
    points, yes = np.asarray(points, float), np.asarray(yes, bool)
    if not np.isfinite(points).all():
        raise ValueError("some points are not finite")
    if yes.all() or not yes.any():
        raise ValueError(
            f"all {len(yes)} points are {'' if yes.any() else 'in'}compatible, so there is no"
            " boundary to learn; sample more, or change the ranges"
        )
    trained = machine().fit(space.scaled(points), yes)
    return Volume(trained.support_vectors_, trained.dual_coef_[0], trained.intercept_[0])


def learn(space: Space, points: np.ndarray, yes: np.ndarray, seed: int = 0) -> LearnedVolume:
    """Learn a volume, with its cross-validation over shuffled folds.

    Raises ValueError as ``fit``, and where a kind of answer is rarer than there are folds.
    """
    volume = fit(space, points, yes)
    rarest = int(min(yes.sum(), (~yes).sum()))
    if rarest < FOLDS:
        raise ValueError(f"only {rarest} points of one kind; at least {FOLDS} are needed")
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    z = space.scaled(points)
    decisions = np.asarray(
        cross_val_predict(machine(), z, yes, cv=folds, method="decision_function")
    )
    return LearnedVolume(volume, float(((decisions > 0) == yes).mean()), decisions)

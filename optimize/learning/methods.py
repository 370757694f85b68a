"""Learning methods by name, with their options checked."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from controllers.policy.observations import look_up
from optimize.environments.environment import Environment
from optimize.learning.evolving import Evolving
from optimize.learning.ppo import PPO
from optimize.learning.shac import SHAC

METHODS: dict[str, Any] = {"ppo": PPO, "shac": SHAC, "es": Evolving, "cma": Evolving}


def learner_of(
    method: str, env: Environment, options: Mapping[str, Any], backend: str = "fused"
) -> Any:
    """A learner with ``init``, ``update``, ``network``. Raises KeyError for an unknown method or
    option, with the nearest."""
    kind = look_up(method, METHODS, "method of learning")
    known = {f.name: f for f in fields(kind) if f.init and f.name not in ("env", "backend")}
    for name in options:
        look_up(name, known, f"option of {method}")
    extra = {"search": {"es": "openai-es", "cma": "sep-cma"}[method]} if kind is Evolving else {}
    hidden = {"hidden": tuple(options["hidden"])} if "hidden" in options else {}
    return kind(env, **{**extra, **options, **hidden}, backend=backend)

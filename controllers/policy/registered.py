"""The controller ``policy`` of scenario files: a network from a file."""

from dataclasses import dataclass

from controllers.policy.file import PolicyError, read_policy
from controllers.registry import Registered, Setup
from jaxsim.io.archive import ArchiveError
from jaxsim.io.keys import Keys, reads
from jaxsim.model import ModelError
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class PolicyKeys(Keys):
    """Keys of ``policy``."""

    file: str = option(
        REQUIRED, "policy file beside the scenario, or where the command runs", kind=str
    )


@reads(PolicyKeys)
def policy(given: PolicyKeys, setup: Setup) -> Registered:
    """Network that has [learned](../guides/learning.md); one learned with a clip starts on it."""
    file, table = given.file, given.table
    beside = setup.world.folder / file
    try:
        policy = read_policy(beside if beside.is_file() else file)
        controller = policy.controller(setup.model, setup.state)
        controller.check(setup.model)
    except (PolicyError, ArchiveError, FileNotFoundError, ModelError) as error:
        raise table.error(str(error), "file") from error
    dt = setup.world.dt
    if dt is not None and policy.about["rate"] * dt > 1 + 1e-6:
        raise table.error(
            f"the policy decides {policy.about['rate']:g} times a second, and a step of {dt:g} s is"
            " longer; give a shorter world.dt",
            "file",
        )
    return Registered(
        controller,
        state=controller.begun(setup.model, setup.state),
        notes=policy.other_scenario(setup.world.name),
    )

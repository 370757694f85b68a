"""Builder of the controller ``policy``, a network from a file, from its scenario table."""

from controllers.policy.file import PolicyError, read_policy
from controllers.registry import Registered, Setup
from jaxsim.io.archive import ArchiveError
from jaxsim.io.toml_table import Table
from jaxsim.model import ModelError


def policy(table: Table, setup: Setup) -> Registered:
    """Controller of the policy in ``file``, beside the scenario or in the current folder.

    A policy that was learned with a clip starts as the clip does.
    """
    file = table.text("file")
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

"""Builder of the controller ``script`` from its scenario table."""

from collections.abc import Sequence

from controllers.registry import Registered, Setup
from controllers.scl.ast import ContactCondition, Transition
from controllers.scl.load import find_script, script_controller
from jaxsim.io.toml_table import Table


def script(table: Table, setup: Setup) -> Registered:
    """Controller of a script from a file, from the package, or from the table itself.

    ``file``: a script beside the scenario, or the name of a shipped one; ``text``: the script
    itself. Raises ScriptError for an invalid one.
    """
    script_tree = find_script(
        table.text("file"), setup.model, setup.world.folder, table.text("text", None)
    )
    return Registered(
        script_controller(script_tree, setup.model),
        tuple((phase.name, cause_text(phase.transition)) for phase in script_tree.phases),
        {"script.scl": script_tree.source},
        tuple(map(str, script_tree.warnings)),
    )


def cause_text(transition: Transition | None) -> str:
    """Condition of a transition as text, such as "contact rightFoot after 0.3 s"."""
    if transition is None:
        return ""
    parts: Sequence[str] = [
        *([_contact_text(transition.contact)] if transition.contact is not None else []),
        *([f"after {transition.time.value:.4g} s"] if transition.time is not None else []),
    ]
    return " ".join(parts)


def _contact_text(contact: ContactCondition) -> str:
    event = "" if contact.event == "touching" else f"{contact.event} "
    joined = (" and " if contact.which == "all" else " or ").join(contact.links)
    return f"contact {event}{joined}"

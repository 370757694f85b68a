"""Scripts, from their tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from controllers.registry import Registered, Setup
from controllers.scl.ast import ContactCondition, Transition
from controllers.scl.load import find_script, script_controller
from jaxsim.io.keys import Keys, reads
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class ScriptKeys(Keys):
    """Keys of ``script``."""

    file: str = option(
        REQUIRED, "script beside the scenario, or the name of a shipped one", kind=str
    )
    text: str | None = option(None, "the script itself, whose name is `file`", kind=str)


@reads(ScriptKeys)
def script(keys: ScriptKeys, setup: Setup) -> Registered:
    """Script of the Simple Controller Language ([the language](scl.md)).

    Raises ScriptError for one that cannot be used.
    """
    given = find_script(keys.file, setup.model, setup.world.folder, keys.text)
    return Registered(
        script_controller(given, setup.model),
        tuple((phase.name, cause_text(phase.transition)) for phase in given.phases),
        {"script.scl": given.source},
        tuple(map(str, given.warnings)),
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

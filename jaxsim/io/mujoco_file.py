"""MJCF and URDF by MuJoCo's own reader: a file or text in, a compiled ``MjModel`` out."""

import os
from typing import Any

from jaxsim.io.model_text import ModelSource, ModelTexts, find_parts, is_urdf
from jaxsim.io.mujoco_mending import Mending, mends
from jaxsim.io.mujoco_report import Report
from jaxsim.model.errors import ModelError


def load_mujoco() -> Any:
    """The module ``mujoco``; ImportError names the extra to install."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(
            'reading MJCF and URDF needs MuJoCo: pip install "jaxsim-characters[models]"',
            name=error.name,
        ) from error
    return mujoco


def compile_source(source: ModelSource, report: Report) -> Any:
    """Compile a model with MuJoCo; a ModelError gives MuJoCo's reason.

    Elements that MuJoCo refuses and the model can do without are removed, see
    :mod:`mujoco_mending`; the reason is what remains after that. A URDF's links stay separate, not
    fused.
    """
    mujoco = load_mujoco()
    parts = find_parts(source)
    reason = ""
    for last in range(len(mends()) + 1):
        attempt = Report()
        try:
            spec = _parse(mujoco, source, parts, attempt)
            mending = Mending(mujoco, spec, source.path, attempt)
            for mend in mends()[:last]:
                mend(mending)
            mj = spec.compile()
        except Exception as error:  # ValueError, MuJoCo's FatalError, and memory runs out
            reason = " ".join(str(error).split())
        else:
            report.add(attempt)
            return mj
    lost = f"; files that it includes were not found: {', '.join(parts.lost)}" if parts.lost else ""
    raise ModelError(f"{source.title}: MuJoCo cannot read it: {reason}{lost}")


def _parse(mujoco: Any, source: ModelSource, parts: ModelTexts, report: Report) -> Any:
    for name in parts.lost:
        report.lacks("files that it includes (they were not found)", name)
    options = {"include": parts.changed} if parts.changed else {}
    if source.path is None:
        spec = mujoco.MjSpec.from_string(parts.text, **options)
    else:
        # In full, as MuJoCo 4.0 puts relative paths of meshes together wrongly.
        spec = mujoco.MjSpec.from_file(os.path.abspath(source.path), **options)
    if is_urdf(source):
        spec.compiler.fusestatic = False
    return spec

"""How policies were learned by the commands of those that ship: returns without noise, by actions.

    python docs/images/policies.py                        draws policies.png from policies.json
    python docs/images/policies.py --keep NAME=RUN ...    takes up run folders of jaxsim learn first

Each NAME is a scenario. Every 25 updates a policy is judged without noise, from starts drawn anew.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from jaxsim.viewer.plots import new_figure, save_figure  # noqa: E402

KEPT = Path(__file__).with_suffix(".json")


def curve_of(name: str, run: Path) -> dict[str, Any]:
    """Command, time and checks of a run folder of ``jaxsim learn``."""
    config = json.loads((run / "config.json").read_text())
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    checks = [line for line in lines if "worth" in line]
    options = "".join(f" --option {key}={value}" for key, value in config["options"].items())
    updates, last = lines[-1]["update"] + 1, lines[-1]
    return {
        "command": f"jaxsim learn {name} --updates {updates} --seed {config['seed']}{options}",
        "seconds": round(last["seconds"]),
        "cpu_seconds": round(last["cpu_seconds"]),
        "actions": [check["actions"] for check in checks],
        "return": [round(check["worth"], 2) for check in checks],
        "whole": [round(check["whole"], 4) for check in checks],
    }


def draw(curves: dict[str, dict[str, Any]], path: Path) -> None:
    columns = 3
    rows = -(-len(curves) // columns)
    figure = new_figure(10, 2.4 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, (name, curve) in zip(axes, sorted(curves.items())):
        millions = [actions / 1e6 for actions in curve["actions"]]
        axis.plot(millions, curve["return"], ".-")
        axis.set_title(name, fontsize=9)
        axis.set_xlim(0)
        twin = axis.twinx()
        twin.plot(millions, [100 * whole for whole in curve["whole"]], "C1:", lw=1)
        twin.set_ylim(0, 105)
        twin.tick_params(colors="C1", labelsize=7)
    for axis in axes[len(curves) :]:
        axis.set_axis_off()
    figure.supxlabel("actions [millions]")
    figure.supylabel("return without noise; dotted: episodes that last to their end [%]")
    save_figure(path, figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", nargs="+", default=[], metavar="NAME=RUN")
    curves = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for pair in parser.parse_args().keep:
        name, _, run = pair.partition("=")
        curves[name] = curve_of(name, Path(run))
    lines = [f"{json.dumps(name)}: {json.dumps(curves[name])}" for name in sorted(curves)]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    draw(curves, KEPT.with_suffix(".png"))


if __name__ == "__main__":
    main()

"""Sensitivity of a measure to numbers: Sobol indices, by Saltelli's sampling (SALib).

The first index of a number is the share of a measure's variance that goes with that number alone,
the total one adds all that it does together with others. Source: Saltelli et al., Variance based
sensitivity analysis of model output, Computer Physics Communications 181 (2010).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from optimize.sweeps import store
from optimize.sweeps.table import measure_in

if TYPE_CHECKING:
    from xarray import Dataset

LEVEL = 0.95  # of the intervals
RESAMPLES = 200


def need_salib() -> Any:
    """Import SALib. Raises ImportError, naming the extra."""
    try:
        import SALib
    except ImportError as error:
        raise ImportError(f"sensitivity needs SALib: {store.EXTRA}", name=error.name) from error
    return SALib


def saltelli(numbers: int, count: int, seed: int) -> np.ndarray:
    """Samples (count (numbers + 2), numbers) in [0, 1], for first and total indices."""
    need_salib()
    from SALib.sample import sobol

    return sobol.sample(_problem(numbers), count, calc_second_order=False, seed=seed)


def sobol_indices(table: "Dataset", measure: str, seed: int = 0) -> "Dataset":
    """First and total Sobol indices of a measure, for each sampled number, with intervals.

    table: of ``sweep(..., sample="saltelli")``; a measure's mean over the starts counts. Returns
    "first", "total" and half the width of their 95% intervals ("first_interval",
    "total_interval"), by bootstrap with ``seed``, along "number". A group of the sample in which a
    member failed is left out; attributes say how many were ("left_out", of "groups").

    Raises ValueError for another kind of sample, for fewer than two whole groups, and for a measure
    that is the same for all; KeyError for an unknown measure.
    """
    need_salib()
    from SALib.analyze import sobol

    values = np.asarray(measure_in(table, measure), float)
    if table.attrs.get("sample") != "saltelli":
        raise ValueError('Sobol indices need sample="saltelli" (--sensitivity)')
    sampled = [
        str(name)
        for name, x in table.coords.items()
        if x.dims == (store.SAMPLE,) and name != store.SAMPLE
    ]
    groups = values.mean(axis=-1).reshape(-1, len(sampled) + 2)
    whole = np.isfinite(groups).all(axis=1)
    used = groups[whole]
    if len(used) < 2:
        raise ValueError(f"{len(used)} of {len(groups)} groups are whole; draw more (count)")
    if np.ptp(used) == 0:
        raise ValueError(f"{measure} is {used[0, 0]:g} for every member: nothing depends on it")
    result = sobol.analyze(
        _problem(len(sampled)),
        used.reshape(-1),
        calc_second_order=False,
        num_resamples=RESAMPLES,
        conf_level=LEVEL,
        seed=seed,
    )
    keys = {"first": "S1", "first_interval": "S1_conf", "total": "ST", "total_interval": "ST_conf"}
    return store.need_xarray().Dataset(
        {name: ("number", np.asarray(result[key], float)) for name, key in keys.items()},
        {"number": sampled},
        {"measure": measure, "groups": len(groups), "left_out": int((~whole).sum())},
    )


def indices_text(indices: "Dataset") -> str:
    """Format the indices as lines for a terminal, the largest total first."""
    order = np.argsort(-np.asarray(indices["total"]))
    names = [str(name) for name in np.asarray(indices["number"])]
    width = max(map(len, names))
    groups, out = indices.attrs["groups"], indices.attrs["left_out"]
    lines = [f"{indices.attrs['measure']}: {groups - out} of {groups} groups of the sample"]
    lines.append(f"  {'':<{width}}  {'first':>16}  {'total':>16}")
    for k in order:
        both = (
            f"{float(indices[n][k]):.3f} ± {float(indices[f'{n}_interval'][k]):.3f}" for n in KINDS
        )
        lines.append(f"  {names[k]:<{width}}  " + "  ".join(f"{text:>16}" for text in both))
    return "\n".join(lines)


KINDS = ("first", "total")


def _problem(numbers: int) -> dict[str, Any]:
    names = [str(k) for k in range(numbers)]
    return {"num_vars": numbers, "names": names, "bounds": [[0.0, 1.0]] * numbers}

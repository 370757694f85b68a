"""Notebooks in the tests: those whose claims other tests check run with the slow ones.

tests/test_notebooks.py checks names and arguments of all of them by default.
"""

import pytest

DEFAULT = {"02_recover_parameters"}  # the only test that numbers of a model are found again


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark notebooks."""
    for item in items:
        if item.path.suffix == ".ipynb" and item.path.stem not in DEFAULT:
            item.add_marker(pytest.mark.slow)

"""What the tests of the command line share."""

from dataclasses import replace

import pytest

from optimize.cli import main as cli


@pytest.fixture
def run_all_by(monkeypatch):
    """run_all_by(run): the commands keep their options and settings, and do only this."""

    def by(run):
        monkeypatch.setattr(cli, "COMMANDS", [replace(each, run=run) for each in cli.COMMANDS])

    return by

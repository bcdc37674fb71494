"""What all tests share: no test fails for being slow, and `make test` runs each test once.

The light half is run first, in an environment without torch, which lists what passed: --list-passed FILE. The run in
the environment with everything leaves those tests out: --leave-out FILE. Tests that were skipped for want of a package
or a corpus are not in the list, so they are run there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("once", "each test once in two environments")
    group.addoption("--list-passed", type=Path, metavar="FILE", help="write the names of the tests that passed")
    group.addoption("--leave-out", type=Path, metavar="FILE", help="do not run the tests that this file names")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--list-passed")
    if path is not None and not hasattr(config, "workerinput"):  # workers of xdist report to the one that started them
        config.pluginmanager.register(PassedTests(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--leave-out")
    if path is None:
        return
    passed = set(path.read_text(encoding="utf-8").splitlines())
    left_out = [item for item in items if item.nodeid in passed]
    items[:] = [item for item in items if item.nodeid not in passed]
    config.hook.pytest_deselected(items=left_out)


class PassedTests:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: set[str] = set()
        self.not_passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.names.add(report.nodeid)
        elif not report.passed:  # also a set-up or a tear-down that failed
            self.not_passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{name}\n" for name in sorted(self.names - self.not_passed)), encoding="utf-8")

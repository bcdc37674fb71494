"""Compiles the C core when the package is built, so that a wheel carries it ready and an editable install has it.

The compiler and its flags are known to src/rheostat/core/build.py alone. On a machine without a C compiler, the build
asks pip for ziglang, which brings one.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def core_build(root: Path) -> ModuleType:
    """src/rheostat/core/build.py, which can be used before the package is installed."""
    spec = importlib.util.spec_from_file_location("core_build", root / "src" / "rheostat" / "core" / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CoreBuildHook(BuildHookInterface[Any]):
    """Compiles the core beside its sources."""

    def dependencies(self) -> list[str]:
        """What the build needs beyond hatchling: a C compiler, if the machine has none."""
        build = core_build(Path(self.root))
        try:
            build.find_compiler()
        except build.CompilerError:
            return [build.ZIG]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        build = core_build(Path(self.root))
        try:
            library = build.ensure_library()
        except build.CompilerError as error:
            sys.exit(f"rheostat: {error}")
        build_data["artifacts"].append(library.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

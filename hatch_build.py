"""Compiles the C core when the package is built, so that a wheel carries it ready and an editable install has it.

The compiler and its flags are known to src/rheostat/core/build.py alone. On a machine without a C compiler, the build
asks pip for ziglang, which brings one. $RHEOSTAT_WHEEL names the platform of a wheel for another machine, which zig
compiles: scripts/wheels.py sets it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
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
    """Compiles the core beside its sources, or for another platform in a folder of its own."""

    compiled: Path | None = None  # that folder

    def dependencies(self) -> list[str]:
        """What the build needs beyond hatchling: a C compiler, if the machine has none."""
        build = core_build(Path(self.root))
        if os.environ.get("RHEOSTAT_WHEEL"):
            return [build.ZIG]
        try:
            build.find_compiler()
        except build.CompilerError:
            return [build.ZIG]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        build = core_build(Path(self.root))
        platform = os.environ.get("RHEOSTAT_WHEEL", "")
        try:
            if platform:
                self.include_other(build, platform, build_data)
            else:
                build_data["artifacts"].append(build.ensure_library().relative_to(self.root).as_posix())
        except build.CompilerError as error:
            sys.exit(f"rheostat: {error}")
        build_data["pure_python"] = False
        own = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform or own}"

    def include_other(self, build: ModuleType, platform: str, build_data: dict[str, Any]) -> None:
        """Compile for another platform, apart from the sources: the library of this machine stays."""
        if platform not in build.WHEELS:
            raise build.CompilerError(f"RHEOSTAT_WHEEL is {platform!r}; expected one of {', '.join(build.WHEELS)}")
        folder = Path(tempfile.mkdtemp(prefix="rheostat-wheel-"))
        library = build.compile_for(build.WHEELS[platform], folder / build.library_name("linux"))
        build_data["force_include"][str(library)] = f"rheostat/core/{library.name}"
        self.compiled = folder

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.compiled:
            shutil.rmtree(self.compiled)

"""Adds the generated stubs to the sdist and the wheel.

The sdist contains the stubs, so that installing the sdist needs neither protoc
nor a compiler. For an editable install, the stubs are generated in the source
folder, otherwise in a temporary folder.
"""

import pathlib
import runpy
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# For each range of Python versions, the oldest grpcio-tools that has wheels.
# Stubs do not work with versions of protobuf older than their generator.
GENERATORS = (
    ((3, 13), ("grpcio-tools >=1.62.3,<1.63",
               "setuptools <81")),  # grpcio-tools 1.62 imports setuptools
    ((3, 14), ("grpcio-tools >=1.67.1,<1.68",)),
    ((4, 0), ("grpcio-tools >=1.75.1,<1.76",)),
)


class CustomBuildHook(BuildHookInterface):
    """The hooks that hatchling calls before and after it builds a package."""

    def dependencies(self):
        if self._is_sdist():
            return []
        return next(list(packages) for before, packages in GENERATORS
                    if sys.version_info < before)

    def initialize(self, version, build_data):
        self.folder = None
        if self._is_sdist():
            build_data["artifacts"].append("/topk_client/_stubs")
            return
        root = pathlib.Path(self.root)
        if version == "editable":
            self._make_stubs(root, root / "topk_client" / "_stubs")
            return
        if sys.version_info >= (3, 13):
            if self.target_name == "sdist":
                raise RuntimeError("build the sdist with Python 3.12 or "
                                   "earlier: stubs made with a later Python "
                                   "need a newer protobuf")
            build_data["tag"] = f"py3{sys.version_info.minor}-none-any"
        self.folder = tempfile.TemporaryDirectory()
        stubs = pathlib.Path(self.folder.name, "_stubs")
        self._make_stubs(root, stubs)
        build_data["force_include"][str(stubs)] = "topk_client/_stubs"
        licence = "LICENSE" if self.target_name == "sdist" else (
            "topk_client/LICENSE")
        build_data["force_include"][str(root.parents[1] / "LICENSE")] = licence

    def finalize(self, version, build_data, artifact_path):
        if self.folder is not None:
            self.folder.cleanup()

    def _make_stubs(self, root, stubs):
        make = runpy.run_path(str(root / "make_stubs.py"))
        make["make_stubs"]([sys.executable, "-m", "grpc_tools.protoc"],
                           root.parents[1] / "proto", stubs)

    def _is_sdist(self):
        """Returns whether the source is an unpacked sdist, which has stubs."""
        return pathlib.Path(self.root, "PKG-INFO").exists()

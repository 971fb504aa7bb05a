"""Puts the stubs into the wheel. They are made in a temporary folder, so that
nothing is left beside the sources."""

import pathlib
import runpy
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """What hatchling calls before and after it packs."""

    def initialize(self, version, build_data):
        if self.target_name != "wheel":
            return
        if version == "editable":
            raise RuntimeError("topk_client cannot be installed with -e: its "
                               "stubs are made when it is built")
        root = pathlib.Path(self.root)
        protos = root / "proto"  # in an sdist
        if not protos.exists():
            protos = root.parents[1] / "proto"
        self.folder = tempfile.TemporaryDirectory()
        stubs = pathlib.Path(self.folder.name, "_stubs")
        make = runpy.run_path(str(root / "make_stubs.py"))
        make["make_stubs"](
            [sys.executable, "-m", "grpc_tools.protoc"], protos, stubs)
        build_data["force_include"][str(stubs)] = "topk_client/_stubs"

    def finalize(self, version, build_data, artifact_path):
        if self.target_name == "wheel":
            self.folder.cleanup()

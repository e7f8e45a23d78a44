"""Puts the binary into the wheel as a command, and the platform that it was linked for on its name."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["GPUSTALL_PLATFORM"]
        build_data["shared_scripts"][os.environ["GPUSTALL_BINARY"]] = "gpustall"

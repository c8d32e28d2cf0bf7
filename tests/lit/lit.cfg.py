# How lit runs the FileCheck tests of the passes: heddle-opt comes from the build folder, FileCheck from LLVM.
import os

import lit.formats

config.name = "heddle"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".mlir", ".heddle"]
config.test_source_root = os.path.dirname(__file__)
binary_dir = lit_config.params["binary_dir"]
config.test_exec_root = os.path.join(binary_dir, "tests", "lit")
tools = [os.path.join(binary_dir, "bin"), lit_config.params.get("llvm_tools", "/usr/lib/llvm-22/bin")]
config.environment["PATH"] = os.pathsep.join(tools + [os.environ["PATH"]])
config.environment["HEDDLE_DB"] = "none"  # schedules by expected cost, whatever was measured here

"""What pyproject.toml cannot say: a wheel holds conf/ as elmo_bench/conf, and a library in C that
is built where a compiler is at hand.

Without the library numbers are the same but for the last digits, and the biLM is slower
(`elmo_bench/encoders/bilm/pointwise.py`).
"""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


class BuildWithConfigs(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # an editable install reads conf/ where it is
            folder = Path(self.build_lib, "elmo_bench", "conf")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree("conf", folder)


setup(
    cmdclass={"build_py": BuildWithConfigs},
    ext_modules=[
        Extension(
            "elmo_bench.encoders.bilm._pointwise",
            ["elmo_bench/encoders/bilm/native.c"],
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math"],
            optional=True,
        )
    ],
)

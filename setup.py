"""What pyproject.toml cannot say: a library in C that is built where a compiler is at hand.

Without it all numbers are the same, and the biLM is slower (`elmo_bench/encoders/bilm/native.py`).
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "elmo_bench.encoders.bilm._native",
            ["elmo_bench/encoders/bilm/native.c"],
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math"],
            optional=True,
        )
    ]
)

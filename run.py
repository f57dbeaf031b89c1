"""The command `elmo-bench`, for a clone: `python run.py`."""

from elmo_bench.cli import main

if __name__ == "__main__":
    main()

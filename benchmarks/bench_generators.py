"""What generators cost beside diffusers' own way.

    python benchmarks/bench_generators.py --part sampling     # generators_sampling.py
    python benchmarks/bench_generators.py --part training     # generators_training.py

Each part takes settings of its own after these: ``--help`` behind its name.
"""

import runpy
import sys
from pathlib import Path

PARTS = ("sampling", "training")


def main() -> None:
    """Run a part as if it had been called."""
    given = sys.argv[1:]
    if given[:1] != ["--part"] or given[1:2] == [] or given[1] not in PARTS:
        sys.exit(f"usage: bench_generators.py --part {{{','.join(PARTS)}}} [settings of the part]")
    file = Path(__file__).with_name(f"generators_{given[1]}.py")
    sys.argv = [str(file), *given[2:]]
    runpy.run_path(str(file), run_name="__main__")


if __name__ == "__main__":
    main()

"""One case of one adapter in whichever environment it needs: prepares once, then runs and times itself when told to.

    python worker.py FOLDER MODULE CASE INPUTS.npz VALUES.npz LIBRARY,LIBRARY

Reads commands from standard input, a line each, and answers each with a line of JSON: ``run`` (seconds of one call, by
the processor and by the clock), ``save`` (writes the values of the last call, tells versions) and the end of the input.
Only the standard library and NumPy are imported here, since a peer's environment has no memorisk. What a peer prints
goes to standard error.
"""

import importlib
import json
import os
import sys
import time
from importlib import metadata
from typing import Any

import numpy as np


def main() -> None:
    """Prepare the case, then answer."""
    folder, module, case, inputs, values, libraries = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # peers print progress
    sys.path[:0] = folder.split(os.pathsep)
    with np.load(inputs) as file:
        data = {name: file[name] for name in file.files}
    call = importlib.import_module(module).CASES[case](data)
    found: dict[str, Any] = {}
    for line in sys.stdin:
        if line.strip() == "run":
            wall, processor = time.perf_counter(), time.process_time()
            found = call()
            answer: Any = {"processor": time.process_time() - processor, "wall": time.perf_counter() - wall}
        else:
            np.savez(values, **found)
            answer = {name: metadata.version(name) for name in libraries.split(",") if name}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""A Dask cluster of Slurm jobs for memorisk: starts workers, runs a command on them, ends them.

    python recipes/slurm_dask.py --workers 8 --cores 4 --memory 16GB [--gpus 1] [--queue gpu] [--walltime 08:00:00]
        -- memorisk audit classifier DATA --out /shared/runs/mine --store /shared/store

Needs the extra ``cluster`` (dask-jobqueue is in it), on a node that may call sbatch. Run folder
and image store lie on storage that all nodes mount under one path, and so does the Python environment. Every Slurm job
is one worker that runs one training at a time with --cores threads; give the command --threads as many. Killed, the
same call goes on: what is done stays in the run folder. --script prints a worker's job, and starts nothing.
"""

import argparse
import subprocess
import sys
from typing import Any


def cluster_settings(given: argparse.Namespace) -> dict[str, Any]:
    """What `dask_jobqueue.SLURMCluster` is told.

    Args:
        given: The flags.
    """
    gpu = [f"--resources GPU={given.gpus}"] if given.gpus else []
    return {
        "cores": given.cores,
        "processes": 1,
        "memory": given.memory,
        "queue": given.queue,
        "walltime": given.walltime,
        "job_extra_directives": [f"--gres=gpu:{given.gpus}"] if given.gpus else [],
        "worker_extra_args": ["--nthreads 1", "--no-dashboard", *gpu],
        "job_script_prologue": [f"export OMP_NUM_THREADS={given.cores}", "export PYTHONSAFEPATH=1"],
        "python": sys.executable,
    }


def main() -> int:
    """Start the workers, run the command, and give its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cores", type=int, default=4)
    parser.add_argument("--memory", default="16GB")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--queue")
    parser.add_argument("--walltime", default="08:00:00")
    parser.add_argument("--script", action="store_true", help="print the job of a worker, start nothing")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of memorisk, after --")
    given = parser.parse_args()
    command = [word for word in given.command if word != "--"]
    if not command and not given.script:
        parser.error("name the command that the workers are for, after --")
    from dask_jobqueue import SLURMCluster

    with SLURMCluster(**cluster_settings(given)) as cluster:
        if given.script:
            print(cluster.job_script())
            return 0
        cluster.scale(jobs=given.workers)
        cluster.wait_for_workers(1)
        address = cluster.scheduler_address
        return subprocess.run([*command, "--executor", "dask", "--cluster", address], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Executors of jobs: processes of this machine (`pool`), Dask.

Start with `placement`, the settings of a cluster. `worker` is what a worker does with a job.
"""

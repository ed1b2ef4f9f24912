"""Executors of jobs: processes of this machine (`pool`), Dask, Ray.

Start with `placement`, the settings of a cluster. `worker` is what a worker does with a job.
"""

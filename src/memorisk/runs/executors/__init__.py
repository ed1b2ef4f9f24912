"""Where jobs run: processes of this machine (`pool`), Dask, Ray. Start with `placement`."""

# memorisk in a container; no target was built where this was written (docs/offline.md, "In a container").
#   docker build --target cpu  -t memorisk --build-arg TORCH_INDEX=URL .    PyTorch from its index for processors: 1 GB in place of 6
#   docker build --target cuda -t memorisk:cuda .   the lock as it stands; run it with --gpus all
#   docker build --target gate -t memorisk:gate .   memorisk gate alone, without PyTorch
#   docker run --rm --network none -v "$PWD:/data" --user "$(id -u):$(id -g)" memorisk audit classifier digits --out runs/demo --models 16
FROM python:3.11-slim-bookworm AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /opt/memorisk
COPY pyproject.toml README.md LICENSE ./
COPY locks locks
COPY recipes/cpu_lock.py recipes/cpu_lock.py
COPY src src
RUN python -m pip install --require-hashes -r locks/build.txt

FROM base AS gate
COPY recipes/ci/gate-requirements.txt recipes/ci/gate-requirements.txt
RUN python -m pip install --require-hashes -r recipes/ci/gate-requirements.txt \
 && python -m pip install --no-deps --no-build-isolation .
WORKDIR /data
USER 1000
ENTRYPOINT ["memorisk"]

FROM base AS cuda
RUN python -m pip install --require-hashes -r locks/core.txt \
 && python -m pip install --require-hashes -r locks/medical.txt -r locks/sign.txt \
 && python -m pip install --no-deps --no-build-isolation .
WORKDIR /data
USER 1000
ENTRYPOINT ["memorisk"]

FROM base AS cpu
ARG TORCH_INDEX
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The lock's hashes are those of the wheels with CUDA. PyTorch alone comes by version, from its index for processors.
RUN python recipes/cpu_lock.py locks/core.txt --torch | xargs python -m pip install --no-deps --index-url "${TORCH_INDEX:?name the index of PyTorch for processors by --build-arg TORCH_INDEX=URL}" \
 && python recipes/cpu_lock.py locks/core.txt > core.txt \
 && python recipes/cpu_lock.py locks/medical.txt > medical.txt \
 && python recipes/cpu_lock.py locks/sign.txt > sign.txt \
 && python -m pip install --no-deps --require-hashes -r core.txt \
 && python -m pip install --no-deps --require-hashes -r medical.txt -r sign.txt \
 && python -m pip install --no-deps --no-build-isolation .
WORKDIR /data
USER 1000
ENTRYPOINT ["memorisk"]

# The scheduler as an image: pinned packages, no compiler, no root.
#   docker build --tag registry.example/hostler:0.1.0 .
# For a build that can be repeated bit for bit, give the base by its digest: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/build.txt requirements/kube.txt requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --requirement requirements/build.txt \
 && python -m venv /opt/hostler/venv \
 && /opt/hostler/venv/bin/pip install --require-hashes --requirement requirements/kube.txt
COPY LICENSE README.md pyproject.toml ./
COPY tools/kube tools/kube
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
 && /opt/hostler/venv/bin/pip install --no-deps /opt/wheels/hostler-*.whl \
 && /opt/hostler/venv/bin/pip check
# Kernels are compiled here, once, for any processor of this architecture: else each new pod would spend half a minute
# on that. They are kept by the paths and times of their sources, which the next stage leaves as they are.
ENV NUMBA_CACHE_DIR=/opt/hostler/kernels NUMBA_CPU_NAME=generic
RUN /opt/hostler/venv/bin/python -c "\
from hostler.config import prepare_kernel_cache; cache = prepare_kernel_cache(); \
from hostler.kube.configuration import default_settings; \
from hostler.engine.warmup import warm_kernels; \
warm_kernels(default_settings().policies); cache.mark_complete()"

FROM ${PYTHON}
LABEL org.opencontainers.image.title="hostler" \
      org.opencontainers.image.description="A scheduler for Kubernetes that says why" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/hostler/venv /opt/hostler/venv
# numba takes only a cache that it could write to; with a read-only root, copy this one to a volume (deploy/kustomize).
COPY --from=build --chown=65532:65532 /opt/hostler/kernels /opt/hostler/kernels
ENV PATH=/opt/hostler/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/opt/hostler/kernels \
    NUMBA_CPU_NAME=generic
USER 65532:65532
EXPOSE 10359
ENTRYPOINT ["hostler", "kube", "schedule"]

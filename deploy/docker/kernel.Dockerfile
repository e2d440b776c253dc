# syntax=docker/dockerfile:1
# An image for heads, nodes and programs, built from a checkout:
#   docker build -f deploy/docker/kernel.Dockerfile -t kernel .
# Run it with room for the object store: docker run --shm-size=2g -it kernel
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS wheels
WORKDIR /checkout
COPY . .
RUN pip install --no-cache-dir "hatchling>=1.24,<2" \
    && python tools/build_wheels.py --out /wheels \
    && PYTHONPATH=tools python -c "import workspace_projects; print(workspace_projects.version())" > /wheels/version

FROM python:${PYTHON}-slim-bookworm
ARG EXTRAS=plugins,provider_kubernetes
# tini ends what a worker may leave behind, and passes signals on.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home kernel
# The version is needed: the public index has another project of the name kernel.
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --find-links /wheels "kernel[${EXTRAS}]==$(cat /wheels/version)"
USER 1000
WORKDIR /home/kernel
EXPOSE 6380
ENTRYPOINT ["tini", "-g", "--"]
CMD ["python"]

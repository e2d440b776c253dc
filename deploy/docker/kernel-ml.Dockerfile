# syntax=docker/dockerfile:1
# The image with the libraries that programs for training use most; BASE=kernel-gpu for GPUs.
#   docker build -f deploy/docker/kernel-ml.Dockerfile --build-arg BASE=kernel -t kernel-ml .
ARG BASE=kernel:latest
# hadolint ignore=DL3006
FROM ${BASE}
USER 0
RUN pip install --no-cache-dir \
    "gymnasium>=1.0,<2" \
    "matplotlib>=3.7,<4" \
    "pandas>=2.0,<3" \
    "pyarrow>=14.0" \
    "scikit-learn>=1.3,<2" \
    "torch>=2.4,<3" \
    "xgboost>=2.0,<4"
USER 1000

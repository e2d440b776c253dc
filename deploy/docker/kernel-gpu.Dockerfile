# syntax=docker/dockerfile:1
# The image with PyTorch for NVIDIA's GPUs. The driver comes from the host, by the NVIDIA container toolkit:
#   docker build -f deploy/docker/kernel-gpu.Dockerfile --build-arg BASE=kernel -t kernel-gpu .
ARG BASE=kernel:latest
# hadolint ignore=DL3006
FROM ${BASE}
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 0
RUN pip install --no-cache-dir "torch>=2.4,<3" "nvidia-ml-py>=12"
USER 1000

# A small image with topkd and topk. Build arguments:
#
# GRPC            debian12: Debian 12 with gRPC 1.51. current: Debian 13 with gRPC
#                 1.83 from Debian experimental. SECURITY.md compares them.
# GRPC_DATE       For `current`, the snapshot of Debian's archive with gRPC,
#                 protobuf and Abseil. Empty: the mirror's current versions.
# TOPK_WITH_CUDA  ON: with the CUDA backend.
# CUDAARCHS       GPU architectures, such as 90-real. By default, all that the
#                 backend supports.
#
# To pin a base image, add its digest: `--build-context
# debian:bookworm=docker-image://debian@sha256:...`.
ARG GRPC=debian12
ARG GRPC_DATE=20261123T000000Z

FROM debian:bookworm AS build-debian12

FROM debian:trixie AS build-current
ARG GRPC_DATE
COPY deploy/packages.sh deploy/grpc_current.pins /tmp/
RUN ["/bin/bash", "-c", "source /tmp/packages.sh && apt-get update -qq && use_current_grpc / \"${GRPC_DATE:-$(debian_mirror)}\""]

# hadolint ignore=DL3006
FROM build-${GRPC} AS build
WORKDIR /src
COPY deploy/packages.sh deploy/
RUN ["/bin/bash", "-c", "source deploy/packages.sh && install_packages \"${TOPK_BUILD_PACKAGES[@]}\""]
COPY . .
# The container runtime provides the CUDA driver.
ARG TOPK_WITH_CUDA=OFF
ARG CUDAARCHS
# hadolint ignore=DL3008
RUN if [ "${TOPK_WITH_CUDA}" = ON ]; then \
      apt-get update -qq \
   && apt-get install -y --no-install-recommends python3-venv \
   && CUDACXX="$(deploy/cuda_toolkit.sh)" && export CUDACXX; \
    fi \
 && cmake --preset release -DTOPK_WITH_CUDA="${TOPK_WITH_CUDA}" \
 && cmake --build --preset release \
 && cmake --install build/release --prefix /stage/usr --strip
# The SBOM must list these header-only libraries, which the image's packages do
# not include.
RUN deploy/sbom.sh packages libcli11-dev nlohmann-json3-dev \
    > /stage/headers

FROM debian:bookworm-slim AS slim-debian12

FROM debian:trixie-slim AS slim-current
COPY --from=build-current /etc/apt/preferences.d/grpc_current /etc/apt/preferences.d/
COPY --from=build-current /etc/apt/sources.list.d/grpc_current.list /etc/apt/sources.list.d/

# hadolint ignore=DL3006
FROM slim-${GRPC}
ARG GRPC
RUN --mount=type=bind,source=deploy/packages.sh,target=/mnt/packages.sh \
    ["/bin/bash", "-c", "source /mnt/packages.sh && declare -n packages=TOPK_IMAGE_PACKAGES_$GRPC && install_packages \"${packages[@]}\" && rm -rf /var/lib/apt/lists/*"]
COPY --from=build /stage/usr/bin/topkd /stage/usr/bin/topk /usr/bin/
# The protocol's descriptors, for Envoy.
COPY --from=build /stage/usr/share/topkd /usr/share/topkd
COPY LICENSE deploy/debian/copyright /usr/share/doc/topkd/

ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=
RUN --mount=type=bind,from=build,source=/,target=/mnt \
    mkdir /usr/share/sbom \
 && /mnt/src/deploy/sbom.sh document "${VERSION}" "${REVISION}" "${CREATED}" \
    /mnt/stage/headers > /usr/share/sbom/topkd.spdx
LABEL org.opencontainers.image.title="topkd" \
      org.opencontainers.image.description="TopK of ONNX, OpenVINO and DirectML as a gRPC service" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"

# Each arena of glibc's allocator keeps free memory that other arenas cannot use.
# NVIDIA_VISIBLE_DEVICES is left to `--gpus` and Kubernetes: the value `all` would
# give all GPUs to containers that request none.
ENV MALLOC_ARENA_MAX=4 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    TOPKD_LISTEN=[::]:50051 \
    TOPKD_METRICS_LISTEN=[::]:9464 \
    TOPKD_HEALTH_LISTEN=127.0.0.1:50052 \
    TOPKD_DRAIN_DELAY=5s
# A numeric ID, so that Kubernetes can verify that the user is not root.
USER 65532:65532
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
# The health port is plaintext even if the main port uses TLS.
HEALTHCHECK --interval=10s --timeout=2s --start-period=5s \
  CMD ["/usr/bin/topk", "health", "--timeout", "1", "--target", "127.0.0.1:50052"]
ENTRYPOINT ["/usr/bin/topkd"]

# One file, two images:
#   make image                    CPU
#   make image VARIANT=cuda       CUDA, for machines with the NVIDIA container toolkit
# Nothing is fetched at run time: models come from a volume, or ship with levelhead.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ARG VARIANT=cpu
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src src
# torch of PyPI brings CUDA's libraries along; that of the other index runs on CPUs only and is a tenth as large
RUN case "$VARIANT" in \
        cpu) index=https://download.pytorch.org/whl/cpu ;; \
        cuda) index=https://pypi.org/simple ;; \
        *) echo "VARIANT must be cpu or cuda (got $VARIANT)" >&2; exit 1 ;; \
    esac \
    && python -m venv /opt/levelhead \
    && /opt/levelhead/bin/pip install --no-cache-dir --index-url "$index" --constraint constraints.txt torch \
    && /opt/levelhead/bin/pip install --no-cache-dir --constraint constraints.txt \
        '.[ray,scale,gguf,glue,serve,explore,sentiment]' 'ray[default]'

FROM python:${PYTHON}
# KubeRay asks its containers for their health by wget
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends wget \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 levelhead \
    && install --directory --owner levelhead --mode 0700 /work
COPY --from=build /opt/levelhead /opt/levelhead
ENV PATH=/opt/levelhead/bin:$PATH \
    HF_HUB_OFFLINE=1 \
    TRANSFORMERS_OFFLINE=1 \
    RAY_AUTH_MODE=token \
    RAY_USAGE_STATS_ENABLED=0
USER 10001
WORKDIR /work
CMD ["levelhead", "--help"]

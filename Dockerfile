# syntax=docker/dockerfile:1
# One build, two images: docker build --target edge . and docker build --target worker .
ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/foveate/venv
WORKDIR /src
# The locked dependencies first: they change seldom, so this layer is seldom built again.
COPY requirements/run.txt requirements/
RUN /opt/foveate/venv/bin/pip install --require-hashes --only-binary :all: -r requirements/run.txt
COPY pyproject.toml README.md LICENSE THIRD_PARTY_NOTICES.md ./
COPY pipeline/ pipeline/
COPY edge_agent/ edge_agent/
COPY cloud_worker/ cloud_worker/
COPY foveate/ foveate/
RUN /opt/foveate/venv/bin/pip install --no-deps --no-build-isolation . \
    && /opt/foveate/venv/bin/pip uninstall --yes setuptools pip

FROM python:${PYTHON_VERSION}-slim-bookworm AS runtime
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin foveate
COPY --from=build /opt/foveate/venv/ /opt/foveate/venv/
COPY models/ /opt/foveate/models/
COPY LICENSE THIRD_PARTY_NOTICES.md deploy/healthcheck.py /opt/foveate/
# The installed package has no models beside it, so their folder is named.
ENV PATH=/opt/foveate/venv/bin:$PATH \
    FOVEATE_MODELS=/opt/foveate/models \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /etc/foveate
STOPSIGNAL SIGTERM
ENTRYPOINT ["foveate"]

FROM runtime AS worker
CMD ["worker", "-c", "/etc/foveate/foveate.yaml"]
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["python", "/opt/foveate/healthcheck.py", "worker", "/etc/foveate/foveate.yaml"]

FROM runtime AS edge
EXPOSE 8080
CMD ["edge", "-c", "/etc/foveate/foveate.yaml"]
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
    CMD ["python", "/opt/foveate/healthcheck.py", "edge", "/etc/foveate/foveate.yaml"]

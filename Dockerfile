# One image for every role: docker run … telegram-assistant ingest | worker | api | bot | up | doctor …
FROM python:3.11.14-slim-bookworm AS build

WORKDIR /source
COPY requirements requirements
RUN python -m venv /opt/uv \
 && /opt/uv/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.lock \
 && python -m venv --without-pip /opt/tga
# Packages change seldom, our code often: two layers. Every package is pinned by its hash.
RUN /opt/uv/bin/uv pip install --no-cache --python /opt/tga/bin/python --require-hashes \
      --build-constraint requirements/build.lock -r requirements/run.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/uv/bin/uv pip install --no-cache --python /opt/tga/bin/python --no-deps \
      --build-constraint requirements/build.lock .

FROM python:3.11.14-slim-bookworm

# What reads text on pictures; the program itself is in its wheel.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tesseract-ocr-rus tesseract-ocr-eng \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin tga \
 && install --directory --owner=tga --group=tga --mode=0711 /data
COPY --from=build /opt/tga /opt/tga
COPY deploy/docker/healthcheck.py /opt/tga/healthcheck.py

ENV PATH=/opt/tga/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TGA_DATA_DIR=/data \
    LOG_FORMAT=json \
    API_HOST=0.0.0.0 \
    INGEST_HEALTH_HOST=0.0.0.0 \
    WORKER_HEALTH_HOST=0.0.0.0 \
    BOT_HEALTH_HOST=0.0.0.0
VOLUME /data
USER 10001:10001
EXPOSE 8000 8011 8013 8015
HEALTHCHECK --interval=15s --timeout=10s --start-period=2m --retries=4 CMD ["python", "/opt/tga/healthcheck.py"]
ENTRYPOINT ["tga"]
CMD ["up"]

# Three images, one recipe:
#   docker build --target gateway -t foldline-gateway .   also sweeper, forecaster, notifier, migrations
#   docker build --target scaler  -t foldline-scaler .
#   docker build --target worker  -t foldline-worker-builtin --build-arg RUNTIME=builtin .
# Without an NVIDIA driver at hand, which is so in a build, torch comes as a CPU build; for cards
# name an index with CUDA builds: --build-arg TORCH_INDEX_URL=...

# The control plane without model code: no torch, no compiler, no pip cache.
FROM python:3.13-slim AS packages
COPY requirements/control.txt /tmp/control.txt
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r /tmp/control.txt

FROM python:3.13-slim AS control
RUN useradd --create-home --uid 10001 foldline \
    && install -d -o foldline -g foldline /run/foldline \
        /var/lib/foldline /var/lib/foldline/artifacts /var/lib/foldline/checkpoints \
        /var/lib/foldline/scratch
COPY --from=packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    FOLDLINE_HOME=/var/lib/foldline FOLDLINE_SIGNS=/run/foldline
WORKDIR /srv/foldline
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e .
USER foldline

FROM control AS gateway
ENV FOLDLINE_BIND=0.0.0.0
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:8000/healthz', headers={'Host': os.environ.get('FOLDLINE_HOSTS', 'localhost').split(',')[0]}), timeout=5)"]
CMD ["python", "-m", "gunicorn"]

FROM control AS scaler
HEALTHCHECK CMD ["python", "-m", "scaler.probe"]
CMD ["python", "-m", "scaler"]

# A worker: the control plane's packages for the host, and one runtime for the plugins.
FROM control AS worker
ARG RUNTIME=builtin
ARG TORCH_INDEX_URL=""
RUN PIP_NO_CACHE_DIR=1 python manage.py runtime install "$RUNTIME"
HEALTHCHECK --start-period=5m CMD ["python", "-m", "tasks.probe", "alive"]
ENTRYPOINT ["python", "-m", "tasks.worker"]

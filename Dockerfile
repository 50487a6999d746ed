# The control plane: gateway, sweeper, worker hosts, Flower. No model code: a worker's image is
# made from this one by adding a runtime (docs/operations.md).
FROM python:3.13-slim

RUN useradd --create-home --uid 10001 foldline
WORKDIR /srv/foldline

COPY requirements/control.txt requirements/control.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/control.txt

COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && install -d -o foldline -g foldline /var/lib/foldline

USER foldline
ENV FOLDLINE_HOME=/var/lib/foldline FOLDLINE_BIND=0.0.0.0 PYTHONUNBUFFERED=1
VOLUME /var/lib/foldline
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz')"]
CMD ["python", "-m", "gunicorn"]

"""How to reach the API server: from inside the cluster, or by a kubeconfig file."""

from __future__ import annotations

import os

from kubernetes import client, config


class NoCluster(Exception):
    """There is neither a service account's token here nor a kubeconfig file."""


def connect() -> client.ApiClient:
    """Raises NoCluster, with a sentence."""
    settings = client.Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(client_configuration=settings)
    except config.ConfigException as error:
        raise NoCluster(f"No Kubernetes cluster is configured: {error}") from error
    return client_of(settings)


def client_of(settings: client.Configuration) -> client.ApiClient:
    """urllib3 would by itself retry reads and sleep for as long as `Retry-After` says, beyond
    every time limit; who asks decides that here."""
    settings.retries = False
    return client.ApiClient(settings)

"""Weights by name come from the Hugging Face hub; without a network from its cache, or they are refused at once."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_SECONDS = 5.0
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY")


@contextmanager
def quiet_hub() -> Iterator[bool]:
    """Inside, the hub's client says nothing and, where the hub cannot be reached, looks into its cache only.

    Its own way is to try ten times, for a minute, and to print a line for each.

    Yields:
        Whether the hub can be reached.
    """
    from huggingface_hub import constants

    logger = logging.getLogger("huggingface_hub")
    level, offline = logger.level, constants.HF_HUB_OFFLINE
    reachable = not offline and _reachable(constants.ENDPOINT)
    logger.setLevel(logging.CRITICAL)
    constants.HF_HUB_OFFLINE = not reachable
    try:
        yield reachable
    finally:
        constants.HF_HUB_OFFLINE = offline
        logger.setLevel(level)


def _reachable(endpoint: str) -> bool:
    """Whether something answers there; a proxy is taken at its word."""
    if any(os.environ.get(name) for name in _PROXIES):
        return True
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True

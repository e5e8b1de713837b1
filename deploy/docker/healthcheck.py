"""Whether the role in this container is well: it answers on one of our ports, and says so. Exit code 1: it is not."""

from __future__ import annotations

import http.client
import sys

PORTS = (8011, 8013, 8000, 8015)  # ingest (and tga up), worker, api, bot
SECONDS = 8


def status_of(port: int) -> int | None:
    """None: no process listens there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except ConnectionRefusedError:
        return None
    except OSError:
        return 0
    finally:
        connection.close()


def main(ports: tuple[int, ...] = PORTS) -> int:
    found = [status for port in ports if (status := status_of(port)) is not None]
    return 0 if found and set(found) == {200} else 1


if __name__ == "__main__":
    sys.exit(main(tuple(map(int, sys.argv[1:])) or PORTS))

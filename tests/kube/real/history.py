"""What an independent watcher saw of the pods of one namespace, also across restarts of API servers."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

from hostler.kube.local import LocalCluster

_TIMEOUT_S = 1.0  # of one read: how soon the end is noticed


class History:
    """Follows the pods of a namespace in a thread of its own from before the first one is made."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        self.nodes: dict[str, list[str]] = {}  # by uid: the nodes that it was on, in order
        self.removed: set[str] = set()  # uids
        self.problems: list[str] = []
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        with cluster.api() as api:
            self._version = api.call("GET", self._path)["metadata"]["resourceVersion"]
        self._tls = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._is_over.set()
        self._thread.join(10 * _TIMEOUT_S)

    def _run(self) -> None:
        while not self._is_over.is_set():
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self._cluster.state.ports.apiserver, timeout=_TIMEOUT_S, context=self._tls
            )
            try:
                self._follow(connection)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
            finally:
                connection.close()

    def _follow(self, connection: http.client.HTTPSConnection) -> None:
        query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}&timeoutSeconds=600"
        connection.request("GET", self._path + query, headers={"Authorization": f"Bearer {self._cluster.token()}"})
        answer = connection.getresponse()
        if answer.status == 410:
            self._begin_anew({"code": 410})
        if answer.status != 200:
            time.sleep(0.2)
            return
        rest = b""
        while not self._is_over.is_set():
            with suppress(TimeoutError):
                piece = answer.read1(65_536)
                if not piece:
                    return
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        kind, pod = event["type"], event["object"]
        if kind == "ERROR":
            self._begin_anew(pod)
            return
        self._version = pod["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            self._note(kind, pod)

    def _begin_anew(self, error: dict[str, Any]) -> None:
        """List again: a restarted server does not know earlier changes."""
        if error.get("code") != 410:
            self.problems.append(str(error))
        with self._cluster.api() as api:
            listing = api.call("GET", self._path)
        for pod in listing["items"]:
            self._note("ADDED", pod)
        self._version = listing["metadata"]["resourceVersion"]

    def _note(self, kind: str, pod: dict[str, Any]) -> None:
        seen = self.nodes.setdefault(pod["metadata"]["uid"], [])
        node = pod["spec"].get("nodeName", "")
        if node and seen[-1:] != [node]:
            seen.append(node)
        if kind == "DELETED":
            self.removed.add(pod["metadata"]["uid"])

"""A Kubernetes control plane with kwok as its kubelets, each server as it is released, on loopback."""

import http.client
import json
import os
import re
import ssl
import subprocess
import threading
import time

from processes import eventually, free_port

FEATURES = "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true"

# The product has an administrator's rights here: what is measured is the time, not the roles.
USERS = {
    "admin": ("admin", "system:masters"),
    "product": ("product", "system:masters"),
    "operator": ("operator", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "controllers": ("system:kube-controller-manager", ""),
    "kwok": ("kwok", "system:masters"),
}

# Bodies of the product's own objects only where they are asked for: writing them costs the API server time.
AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
{bodies}- level: Metadata
"""
BODIES = """\
- level: Request
  resources: [{group: gpu-remediator.dev}]
"""


class Cluster:
    """The running control plane."""

    def __init__(self, parts, processes, audit_bodies=False):
        self.parts, self.processes, self.folder = parts, processes, processes.folder
        self.port = free_port()
        self.audit_log = self._path("audit.log")
        self._start_etcd()
        self._start_apiserver(audit_bodies)
        certificate = self._path("certs/apiserver.crt")
        eventually("the API server's certificate", lambda: _ends_with(certificate, "END CERTIFICATE"), 60)
        self.tls = ssl.create_default_context(cafile=certificate)
        for user in USERS:
            self._write_kubeconfig(user, certificate)
        eventually("the API server to be ready", self._is_ready, 90)
        self._start_others()
        eventually(
            "the controllers to be at work",
            lambda: self.call("GET", "/api/v1/namespaces/default/serviceaccounts/default", missing=True),
        )

    def _path(self, name):
        return os.path.join(self.folder, name)

    def part(self, name):
        """Path of a part."""
        return os.path.join(self.parts, name)

    def kubeconfig(self, user):
        """Path of a user's kubeconfig."""
        return self._path(f"{user}.kubeconfig")

    def _start_etcd(self):
        self.etcd = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        # With fsync, as in production: a write that is not on disk is not accepted.
        self.processes.start("etcd", [
            self.part("etcd"), "--log-level", "warn", "--data-dir", self._path("etcd"),
            "--listen-client-urls", self.etcd, "--advertise-client-urls", self.etcd,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        ])

    def _start_apiserver(self, audit_bodies):
        subprocess.run(["openssl", "genrsa", "-out", self._path("sa.key"), "2048"], check=True, capture_output=True)
        tokens = [f'{user}-token,{name},{user},"{group}"\n' for user, (name, group) in USERS.items()]
        _write(self._path("tokens.csv"), "".join(tokens))
        _write(self._path("audit.yaml"), AUDIT.format(bodies=BODIES if audit_bodies else ""))
        self.processes.start("kube-apiserver", [
            self.part("kube-apiserver"), "--etcd-servers", self.etcd,
            "--bind-address", "127.0.0.1", "--secure-port", self.port, "--cert-dir", self._path("certs"),
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", self._path("sa.key"),
            "--service-account-signing-key-file", self._path("sa.key"),
            "--token-auth-file", self._path("tokens.csv"), "--authorization-mode", "Node,RBAC",
            "--service-cluster-ip-range", "10.96.0.0/24", "--disable-admission-plugins=ServiceAccount",
            "--runtime-config=resource.k8s.io/v1beta2=true", FEATURES,
            "--audit-policy-file", self._path("audit.yaml"), "--audit-log-path", self.audit_log,
        ])

    def _start_others(self):
        self.processes.start("kube-scheduler", [
            self.part("kube-scheduler"), "--kubeconfig", self.kubeconfig("scheduler"),
            "--leader-elect=false", "--secure-port=0", FEATURES,
        ])
        self.processes.start("kube-controller-manager", [
            self.part("kube-controller-manager"), "--kubeconfig", self.kubeconfig("controllers"),
            "--service-account-private-key-file", self._path("sa.key"),
            "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0", FEATURES,
        ])
        with open(self.part("kwok-stages.yaml"), encoding="utf-8") as stages:
            text = stages.read()
        # kwok ends a pod at a moment drawn by chance between one second and its grace period. Here each pod takes the
        # one second, so that what is above it can be told from it.
        fixed, count = re.subn(r"\n +jitterDurationFrom:\n +expressionFrom: '?\.metadata\.deletionTimestamp'?", "", text)
        if count != 1:
            raise RuntimeError("kwok's stage pod-delete is not as expected")
        _write(self._path("kwok-stages.yaml"), fixed)
        self.processes.start("kwok", [
            self.part("kwok"), "--kubeconfig", self.kubeconfig("kwok"), "--config", self._path("kwok-stages.yaml"),
            "--manage-all-nodes=true", "--node-lease-duration-seconds=40",
            "--server-address", f"127.0.0.1:{free_port()}",
        ])

    def _write_kubeconfig(self, user, certificate):
        # JSON is YAML too, so no writer of YAML is needed.
        _write(self.kubeconfig(user), json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {
                "server": f"https://127.0.0.1:{self.port}", "certificate-authority": certificate}}],
            "users": [{"name": user, "user": {"token": f"{user}-token"}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": user}}],
        }))

    def _is_ready(self):
        try:
            return self._connect("GET", "/readyz").read() == b"ok"
        except OSError:
            return False

    def _connect(self, method, path, body=None, content_type="application/json", timeout=30):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=timeout)
        headers = {"Authorization": "Bearer admin-token", "Content-Type": content_type, "Accept": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def call(self, method, path, body=None, content_type="application/json", missing=False):
        """One call as the administrator; `None` for an object that is not there, where that is allowed."""
        def answered():
            with self._connect(method, path, body, content_type) as answer:
                text = answer.read()
            # A kind that was defined a moment ago is not served yet.
            return None if answer.status == 429 else (answer.status, text)

        status, text = eventually(f"{method} {path} to be answered", answered, 30)
        if missing and status == 404:
            return None
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {text[:300]!r}")
        return json.loads(text)

    def kubectl(self, *arguments, user="admin", stdin=None, timeout=120):
        """Runs kubectl and returns what it printed."""
        done = subprocess.run(
            [self.part("kubectl"), "--kubeconfig", self.kubeconfig(user), *arguments],
            input=stdin, text=True, capture_output=True, timeout=timeout, env={**os.environ, "HOME": self.folder},
        )
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def watch(self, path):
        """Watches a list of objects from now on."""
        return Watch(self, path)


class Watch:
    """What a watch has shown: for each object its newest state, and when each event arrived."""

    def __init__(self, cluster, path):
        self.cluster, self.path = cluster, path
        self.events, self.objects = [], {}
        self.changed = threading.Condition()
        listed = cluster.call("GET", path)
        for item in listed["items"]:
            self.objects[_key(item)] = item
        self.version = listed["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        while True:
            try:
                query = f"{self.path}?watch=true&allowWatchBookmarks=true&resourceVersion={self.version}"
                with self.cluster._connect("GET", query, timeout=3600) as answer:
                    for line in answer:
                        self._note(time.time(), json.loads(line))
            except (OSError, ValueError, http.client.HTTPException):
                # The server closes a watch after a while, and at the end it is gone.
                time.sleep(0.05)

    def _note(self, at, event):
        item = event["object"]
        if event["type"] == "ERROR":
            raise ValueError(item)
        self.version = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        with self.changed:
            if event["type"] == "DELETED":
                self.objects.pop(_key(item), None)
            else:
                self.objects[_key(item)] = item
            self.events.append((at, event["type"], item))
            self.changed.notify_all()

    def until(self, what, holds, timeout=60.0):
        """Waits until `holds` is true of the newest objects."""
        with self.changed:
            if not self.changed.wait_for(lambda: holds(self.objects), timeout):
                raise TimeoutError(f"not within {timeout:.0f} s: {what}")

    def first(self, what, since, matches, timeout=60.0):
        """Waits for the first event since then that matches; returns when it arrived."""
        def found():
            return next((at for at, kind, item in self.events if at >= since and matches(kind, item)), None)

        with self.changed:
            if not self.changed.wait_for(lambda: found() is not None, timeout):
                raise TimeoutError(f"not within {timeout:.0f} s: {what}")
            return found()

    def between(self, start, end):
        """Events that arrived in this time."""
        with self.changed:
            return [event for event in self.events if start <= event[0] <= end]


def _key(item):
    metadata = item["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _ends_with(path, words):
    try:
        with open(path, encoding="ascii") as file:
            return words in file.read()
    except FileNotFoundError:
        return False

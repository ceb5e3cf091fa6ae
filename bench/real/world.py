"""The nodes, their exporters, Prometheus, the controller, the rules and the policy."""

import collections
import json
import os
import subprocess
import time
import urllib.parse
import urllib.request

from processes import eventually, free_port

NAMESPACE = "gpu-remediator"
GPU = "nvidia.com/gpu"
GPUS = 8

# The time after an Xid in which the rule fires. The shipped rules take 300 s and go on for another ten minutes; then a
# node could not be used for a second run within that time, because the earlier fault of another GPU of it, whose rule
# still fires, would be opened again as soon as the node's health is disproved. The time to the cordon does not depend on
# it.
WINDOW = 10

POLICY = """\
apiVersion: gpu-remediator.dev/v1alpha1
kind: RemediationPolicy
metadata: {name: drain-node}
spec:
  nodeSelector: {matchLabels: {nvidia.com/gpu.present: "true"}}
  guards:
    pauseIf: [{name: heat, expr: "max(gpu_temperature_celsius) > 100"}]
    stopIf: [{name: fleet, expr: "sum(gpu_up) < bool 8"}]
  budget: {maxUnavailable: 2, maxConcurrent: 2}
  steps:
    - cordon: {}
    - evictPods: {timeout: 2m}
    - verify: {expr: 'gpu_up{node="{{ .node }}"} == 1', for: 1s}
  recovery:
    healthy: {expr: 'min by (node) (gpu_up{node="{{ .node }}"}) == 1', for: 1s}
"""


class Exporter:
    """An exporter; with a driver and a kernel log of its own, or with simulated GPUs."""

    def __init__(self, processes, binaries, node, number, simulate=False):
        self.node, self.number = node, number
        self.address = f"127.0.0.1:{free_port()}"
        self.kernel_log = os.path.join(processes.folder, f"kmsg-{node}")
        self.scenario = os.path.join(processes.folder, f"driver-{node}.yaml")
        with open(self.kernel_log, "w", encoding="ascii"):
            pass
        self.write_scenario()
        command = [os.path.join(binaries, "gpu-remediator"), "exporter", "--listen", self.address,
                   "--node-name", node, "--kmsg", self.kernel_log]
        if simulate:
            command += ["--simulate", GPUS]
        else:
            command += ["--nvml", os.path.join(binaries, "libnvidia_ml.so")]
        self.process = processes.start(f"exporter-{node}", command, {"FAKE_NVML_SCENARIO": self.scenario})

    def bus(self, gpu):
        """The bus of a GPU, in hexadecimal."""
        return f"{0x1b + gpu:02x}"

    def uuid(self, gpu):
        """The UUID of a GPU."""
        return f"GPU-{self.number:08x}-0000-4000-8000-{gpu:012x}"

    def write_scenario(self, lost=None):
        """Says what the driver answers from now on."""
        gpus = [
            {"uuid": self.uuid(gpu), "pci_bus_id": f"00000000:{self.bus(gpu).upper()}:00.0",
             "state": "lost" if gpu == lost else "healthy"}
            for gpu in range(GPUS)
        ]
        # The driver never sees half a file.
        with open(self.scenario + ".new", "w", encoding="utf-8") as file:
            json.dump({"gpus": gpus}, file)
        os.replace(self.scenario + ".new", self.scenario)

    def fall_off_the_bus(self, gpu):
        """The driver says that the GPU is lost, then the kernel logs Xid 79; returns the time just before the line."""
        self.write_scenario(lost=gpu)
        line = (f"NVRM: Xid (PCI:0000:{self.bus(gpu)}:00): 79, pid='<unknown>', name=<unknown>, "
                "GPU has fallen off the bus.\n")
        with open(self.kernel_log, "a", encoding="ascii") as log:
            before = time.time()
            log.write(line)
        return before

    def heal(self):
        """The driver answers again."""
        self.write_scenario()


class World:
    """Everything that runs around one cluster."""

    def __init__(self, cluster, processes, options, nodes):
        self.cluster, self.processes = cluster, processes
        self.binaries, self.repository = options.binaries, options.repository
        self.product = os.path.join(self.binaries, "gpu-remediator")
        self._install()
        for node in nodes:
            self._create_node(node)
        self.nodes = cluster.watch("/api/v1/nodes")
        for node in nodes:
            self.nodes.until(f"node {node} to be ready", lambda seen, node=node: _is_usable(seen.get(("", node))))
        self.faults = cluster.watch("/apis/gpu-remediator.dev/v1alpha1/gpufaults")
        self.rules = cluster.watch("/apis/gpu-remediator.dev/v1alpha1/gpufaultrules")
        self.exporters = {
            node: Exporter(processes, self.binaries, node, number) for number, node in enumerate(nodes, start=1)
        }
        # Belongs to no node of the cluster: it is there to be measured.
        self.simulated = Exporter(processes, self.binaries, "simulated", 0, simulate=True)
        self.controller_address = f"127.0.0.1:{free_port()}"
        self._start_prometheus()
        self._start_controller()

    def _install(self):
        definitions = subprocess.run([self.product, "crds"], check=True, capture_output=True, text=True).stdout
        kubectl = self.cluster.kubectl
        kubectl("create", "namespace", NAMESPACE)
        kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        with open(os.path.join(self.repository, "rules/xid-fatal.yaml"), encoding="utf-8") as rules:
            shipped = rules.read()
        variant = shipped.replace("< 300", f"< {WINDOW}").replace("          keep_firing_for: 10m\n", "")
        if variant.count(f"< {WINDOW}\n") != shipped.count("- alert:") or "keep_firing_for" in variant:
            raise RuntimeError("the shipped rules are not as expected")
        kubectl("apply", "-f", "-", stdin=POLICY)
        kubectl("apply", "-f", "-", stdin=variant)

    def _create_node(self, name):
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
        labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}
        self.cluster.call("POST", "/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts},
        })

    def _start_prometheus(self):
        self.prometheus = f"http://127.0.0.1:{free_port()}"
        exporters = [exporter.address for exporter in [*self.exporters.values(), self.simulated]]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                {"job_name": "gpu-exporter", "honor_labels": True, "static_configs": [{"targets": exporters}]},
                {"job_name": "gpu-remediator", "static_configs": [{"targets": [self.controller_address]}]},
            ],
        }
        path = os.path.join(self.processes.folder, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.processes.start("prometheus", [
            self.cluster.part("prometheus"), "--config.file", path, "--log.level", "warn",
            "--storage.tsdb.path", os.path.join(self.processes.folder, "tsdb"),
            "--web.listen-address", self.prometheus.removeprefix("http://"),
        ])
        up = GPUS * (len(self.exporters) + 1)
        eventually("Prometheus to have scraped every GPU", lambda: self.query("sum(gpu_up)") == up)

    def _start_controller(self):
        self.controller = self.processes.start("controller", [
            self.product, "controller", "--listen", self.controller_address, "--prometheus", self.prometheus,
            "--lease-namespace", NAMESPACE,
        ], {"KUBECONFIG": self.cluster.kubeconfig("product")})
        eventually("the controller to lead", lambda: self.query("max(gpu_remediator_leader)") == 1)
        self.rules.until("the rules to be evaluated", lambda seen: _states(seen) == {"Inactive"})

    def query(self, expression):
        """The value of an expression with one result; `None` where there is none."""
        data = urllib.parse.urlencode({"query": expression}).encode()
        try:
            with urllib.request.urlopen(f"{self.prometheus}/api/v1/query", data, timeout=10) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return float(result[0]["value"][1]) if len(result) == 1 else None

    def cordoned_at(self, node, since):
        """Waits for the node to be cordoned; returns when the watch told it."""
        return self.nodes.first(
            f"{node} to be cordoned", since,
            lambda _, item: item["metadata"]["name"] == node and item["spec"].get("unschedulable", False), 30)

    def recovered(self, node, gpu):
        """Waits until the fault of that GPU is over and the node is back."""
        uuid = self.exporters[node].uuid(gpu)

        def is_over(seen):
            faults = [f for f in seen.values() if f["spec"].get("gpu", {}).get("uuid") == uuid]
            return len(faults) == 1 and faults[0].get("status", {}).get("phase") == "Recovered"

        self.faults.until(f"GPU {gpu} of {node} to be Recovered", is_over)
        self.nodes.until(f"{node} to be back", lambda seen: not seen[("", node)]["spec"].get("unschedulable", False))

    def displaced(self):
        """How many displaced pods came to which end, as the product sees it."""
        outcomes = [pod["outcome"] for fault in self.faults.objects.values()
                    for pod in fault.get("status", {}).get("displacedPods", [])]
        return dict(collections.Counter(outcomes))

    def silent(self):
        """Waits until no rule fires."""
        self.rules.until("the rules to be silent", lambda seen: _states(seen) == {"Inactive"}, WINDOW + 20)


def _is_usable(node):
    if node is None or node["spec"].get("taints"):
        return False
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _states(rules):
    return {rule["state"] for item in rules.values() for rule in item.get("status", {}).get("rules", [])}

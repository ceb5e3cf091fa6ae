"""The exporter and node_exporter, as processes, and how they are read."""

import http.client
import json
import os
import re
import time

from processes import eventually, free_port
from scrape import get

GPUS = 8
LINES = b"gpu_exporter_kernel_log_lines_total"
XIDS = re.compile(rb'^gpu_xid_errors_total\{.*?pci_bus_id="([^"]+)".*?,xid="(\d+)"\} (\S+)$', re.M)


def bus(gpu):
    """The bus of a GPU."""
    return 0x3b + gpu


def scenario(folder, here):
    """Writes what the driver answers: eight H100, each as h100.json says."""
    with open(os.path.join(here, "h100.json"), encoding="ascii") as file:
        model = json.load(file)
    gpus = [{"uuid": f"GPU-{gpu:08x}-0000-4000-8000-0000000000f0", "pci_bus_id": f"00000000:{bus(gpu):02X}:00.0",
             "serial": f"165{gpu:010}", **model} for gpu in range(GPUS)]
    path = os.path.join(folder, "driver.yaml")
    with open(path, "w", encoding="ascii") as file:
        json.dump({"driver_version": "570.124.06", "gpus": gpus}, file)
    return path


class Target:
    """A process that answers /metrics."""

    def __init__(self, processes, name, command, environment=None, small="/healthz"):
        self.name, self.small = name, small
        self.address = f"127.0.0.1:{free_port()}"
        self.started = time.perf_counter()
        self.process = processes.start(name, [word.format(address=self.address) for word in command], environment)
        self.connection = http.client.HTTPConnection(self.address, timeout=60)

    def page(self, path="/metrics", headers=None):
        """A page, as it is sent."""
        return get(self.connection, path, headers)[2]

    def answers(self, path):
        """Whether it answers that page with 200 yet."""
        try:
            self.page(path, {})
        except (OSError, RuntimeError, http.client.HTTPException):
            self.connection.close()
            return False
        return True


class Exporter(Target):
    """Ours, with the driver and a kernel log, or simulated."""

    def __init__(self, processes, options, name, kernel_log, driver=None):
        self.kernel_log = kernel_log
        # One port is for whoever resets a GPU; only one exporter of a machine has it.
        gpus = ["--simulate", str(GPUS), "--release-listen", "none"] if driver is None else [
            "--nvml", os.path.join(options.binaries, "libnvidia_ml.so")]
        super().__init__(processes, name, [
            os.path.join(options.binaries, "gpu-remediator"), "exporter", "--listen", "{address}",
            "--node-name", "gpu-node-17", "--kmsg", kernel_log, *gpus,
        ], {} if driver is None else {"FAKE_NVML_SCENARIO": driver})

    def ready(self, every=0.1):
        """Waits until it has looked everywhere once and has asked each GPU for everything."""
        eventually(f"{self.name} to be ready", lambda: self.answers("/readyz"), 120, every)

    def settled(self):
        """Waits until every GPU is there."""
        eventually("every GPU to be up", lambda: len(re.findall(rb"^gpu_up\{.* 1(?:\.0)?$", self.page(headers={}), re.M)) == GPUS)

    def lines(self):
        """How many lines of the kernel log it has read."""
        return lines(self.page(headers={}))


def lines(page):
    """How many lines of the kernel log had been read."""
    return int(float(re.search(rb"^" + LINES + rb"\{.*\} (\S+)$", page, re.M).group(1)))


def xids(page):
    """The count of each Xid, by bus and code."""
    return {(int(place.split(b":")[1], 16), int(code)): int(float(count)) for place, code, count in XIDS.findall(page)}

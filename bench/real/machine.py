"""What was measured, and on what."""

import os
import platform
import re
import subprocess
import time
import urllib.request


def describe(options, modules=None):
    """The machine, the versions and the time; `modules` has the module of each part by its name."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(re.search(r"MemTotal:\s*(\d+)", file.read()).group(1)) * 1024
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)),
        "processor": model.group(1) if model else platform.machine(),
        "memory_bytes": memory,
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": _output(["git", "-C", options.repository, "log", "-1", "--format=%h"]),
        "product": _output([os.path.join(options.binaries, "gpu-remediator"), "--version"]),
        "parts": {name: _version(os.path.join(options.parts, name), module)
                  for name, module in (modules or MODULES).items()},
    }


def _output(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


# Where each part's version is written in the build information that Go leaves in a binary.
MODULES = {
    "etcd": b"go.etcd.io/etcd/server/v3", "kube-apiserver": b"k8s.io/kubernetes", "kubectl": b"k8s.io/kubernetes",
    "kwok": b"sigs.k8s.io/kwok", "prometheus": b"github.com/prometheus/prometheus",
}


def _version(part, module):
    with open(part, "rb") as file:
        found = re.search(rb"\t" + re.escape(module) + rb"\t(v[\w.+-]+)", file.read())
    return found.group(1).decode() if found else "unknown"


def wal_sync(etcd):
    """How long etcd's log takes to reach the disk, in seconds: mean, and how often."""
    with urllib.request.urlopen(f"{etcd}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    total = float(re.search(r"^etcd_disk_wal_fsync_duration_seconds_sum (\S+)", text, re.M).group(1))
    count = float(re.search(r"^etcd_disk_wal_fsync_duration_seconds_count (\S+)", text, re.M).group(1))
    return {"mean": total / count, "count": int(count)}


def complaints(processes):
    """Lines of the product's logs that are warnings or errors, without their time, and how often each came."""
    found = {}
    for name, _ in processes.children:
        if name != "controller" and not name.startswith("exporter-"):
            continue
        with open(processes.log(name), encoding="utf-8", errors="replace") as log:
            for line in log:
                # Colours and the time are no part of what is said.
                line = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
                said = re.search(r"\b(WARN|ERROR)\b.*|panicked.*", line)
                if said:
                    key = f"{name.partition('-')[0]}: {said.group(0)[:300]}"
                    found[key] = found.get(key, 0) + 1
    return found

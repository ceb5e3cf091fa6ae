"""Child processes that end with this one, whatever happens to it."""

import ctypes
import os
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_taken = set()


def free_port():
    """A port on loopback that nobody listens on and that was not handed out before."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _taken:
            _taken.add(port)
            return port
    raise RuntimeError("no free port")


def eventually(what, check, timeout=60.0, every=0.1):
    """Polls until `check` returns something true, and returns that."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(every)
    raise TimeoutError(f"not within {timeout:.0f} s: {what}")


class Processes:
    """The children, ended in the reverse order of their start."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, name, command, environment=None):
        """Starts a process whose output goes to NAME.log in the folder."""
        with open(self.log(name), "ab") as log:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                cwd=self.folder,
                # The kernel ends the child should this process be killed without a chance to tidy up.
                preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        self.children.append((name, child))
        return child

    def log(self, name):
        """Path of the log of a process."""
        return os.path.join(self.folder, f"{name}.log")

    def ended(self):
        """Names of the processes that have ended by themselves, which none should."""
        return [name for name, child in self.children if child.poll() is not None]

    def end(self, name):
        """Ends the child of this name."""
        [child] = [child for other, child in self.children if other == name]
        self.children.remove((name, child))
        _end(name, child)

    def end_all(self):
        """Ends every child."""
        for name, child in reversed(self.children):
            if child.poll() is None:
                _end(name, child)
        self.children.clear()


def _end(name, child):
    # kube-apiserver takes most of a minute to obey SIGTERM.
    child.send_signal(signal.SIGKILL if name == "kube-apiserver" else signal.SIGTERM)
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def memory(child):
    """Resident memory now and at its highest, and the part of it that is no file's, in bytes; from /proc/PID/status."""
    found = {}
    with open(f"/proc/{child.pid}/status", encoding="ascii") as status:
        for line in status:
            key, _, rest = line.partition(":")
            if key in ("VmRSS", "VmHWM", "RssAnon"):
                found[key] = int(rest.split()[0]) * 1024
    return {"rss": found["VmRSS"], "peak": found["VmHWM"], "anonymous": found["RssAnon"]}


def cpu_seconds(child):
    """Processor time of all its threads so far, those that have ended too, in seconds.

    The clock of the process, to the nanosecond. /proc/PID/stat may count by the ticks of the kernel's timer: of a process
    that works for a tenth of a millisecond at a time, many times a second, it sees a part only, or too much.
    """
    # clock_getcpuclockid(3), which Python has for its own threads alone: 2 is CPUCLOCK_SCHED of linux/posix-timers.h.
    return time.clock_gettime((~child.pid << 3) | 2)

"""The kernel log: how many lines in a second, how soon, and a storm."""

import collections
import os
import re
import time

from processes import cpu_seconds, memory
from world import GPUS, Exporter, bus, lines, xids

# The codes of a storm; 999 is one that no catalogue has.
CODES = (13, 31, 43, 45, 48, 63, 74, 79, 94, 95, 119, 999)
# One line of so many is an Xid.
XID_EVERY = 100
WRITE = 1 << 20


def xid(gpu, code, number):
    """An Xid as the driver prints it."""
    return (f"NVRM: Xid (PCI:0000:{bus(gpu):02x}:00): {code}, pid={1000 + number % 30000}, name=python3, "
            f"Ch {number % 4096:08x}, intr 00000000")


def record(number, message):
    """A record in the form of /dev/kmsg."""
    return f"4,{number},{5_000_000 + 17 * number},-;{message}\n"


def ordinary(here):
    """What a kernel says."""
    with open(os.path.join(here, "kernel_lines.txt"), encoding="ascii") as file:
        return file.read().splitlines()


def write_log(path, count, messages):
    """A log of so many lines, of which one in a hundred is an Xid; returns the count of each."""
    written = collections.Counter()
    with open(path, "w", encoding="ascii", buffering=WRITE) as file:
        for number in range(count):
            if number % XID_EVERY == 0:
                gpu, code = number // XID_EVERY % GPUS, CODES[number // XID_EVERY % len(CODES)]
                written[bus(gpu), code] += 1
                file.write(record(number, xid(gpu, code, number)))
            else:
                file.write(record(number, messages[number % len(messages)]))
    return written


def throughput(processes, options, driver, here, say):
    """How fast a log is read that is there at the start; a start with a log of one line is taken away from the time."""
    folder = processes.folder
    short, long = os.path.join(folder, "kmsg-short"), os.path.join(folder, "kmsg-long")
    write_log(short, 1, ordinary(here))
    written = write_log(long, options.lines, ordinary(here))
    with open(long, "rb") as file:
        # Into the page cache: the disk is not what is measured.
        while file.read(WRITE):
            pass
    starts, found = {}, {}
    for number in range(options.rounds):
        for name, path, expected in (("short", short, 1), ("long", long, options.lines)):
            exporter = Exporter(processes, options, f"exporter-{name}-{number}", path, driver)
            exporter.ready(every=0.002)
            while (read := exporter.lines()) < expected:
                time.sleep(0.002)
            took = time.perf_counter() - exporter.started
            if name == "long":
                found = xids(exporter.page(headers={}))
                wrong = differing(found, written)
                if read != expected or wrong:
                    raise RuntimeError(f"read {read} lines of {expected}, and counted wrongly: {wrong}")
            processes.end(exporter.name)
            starts.setdefault(name, []).append(took)
        say(f"round {number + 1} of {options.rounds}: {starts['long'][-1]:.2f} s for {options.lines} lines")
    size = os.path.getsize(long)
    os.remove(long)
    seconds = min(starts["long"]) - min(starts["short"])
    return {"lines": options.lines, "bytes": size, "starts": starts, "lines_per_second": (options.lines - 1) / seconds}


def latency(exporter, count, chance):
    """Seconds from the writing of a line to the last byte of the first page that shows it, page after page."""
    times = []
    for number in range(count):
        gpu, code = number % GPUS, CODES[number % len(CODES)]
        before = xids(exporter.page(headers={})).get((bus(gpu), code), 0)
        shown = re.compile(rb'^gpu_xid_errors_total\{.*pci_bus_id="00000000:%02X:00.0".*,xid="%d"\} %d(?:\.0)?$'
                           % (bus(gpu), code, before + 1), re.M)
        # The reader looks at its own times: the line comes at any moment between them.
        time.sleep(chance.uniform(0, 0.1))
        with open(exporter.kernel_log, "a", encoding="ascii") as log:
            log.write(record(number, xid(gpu, code, number)))
            log.flush()
            written = time.perf_counter()
        while not shown.search(exporter.page(headers={})):
            if time.perf_counter() - written > 10:
                raise TimeoutError(f"Xid {code} of GPU {gpu} is not shown")
        times.append(time.perf_counter() - written)
    return times


def storm(exporter, count, say):
    """So many Xids, written faster than they are read; memory before, at its highest and after, and the counts."""
    before, lines_before = xids(exporter.page(headers={})), exporter.lines()
    written = collections.Counter()
    rows = []
    for number in range(count):
        gpu, code = number % GPUS, CODES[number // GPUS % len(CODES)]
        written[bus(gpu), code] += 1
        rows.append(record(number, xid(gpu, code, number)))
    text = "".join(rows).encode("ascii")
    del rows
    # From here on the highest is counted anew.
    with open(f"/proc/{exporter.process.pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    memory_before, cpu = memory(exporter.process), cpu_seconds(exporter.process)
    begun = time.perf_counter()
    with open(exporter.kernel_log, "ab", buffering=0) as log:
        for at in range(0, len(text), WRITE):
            log.write(text[at:at + WRITE])
    wrote = time.perf_counter() - begun
    say(f"{count} Xids written in {wrote:.2f} s")
    while lines(page := exporter.page(headers={})) - lines_before < count:
        if time.perf_counter() - begun > 600:
            raise TimeoutError("the storm is not read to its end")
        time.sleep(0.05)
    took = time.perf_counter() - begun
    # The last line is counted as read just before what it says is.
    time.sleep(0.5)
    page = exporter.page(headers={})
    found = collections.Counter(xids(page))
    found.subtract(before)
    memory_after = memory(exporter.process)
    return {
        "xids": count, "write_seconds": wrote, "seconds": took, "cpu_seconds": cpu_seconds(exporter.process) - cpu,
        "lines_read": lines(page) - lines_before, "before": memory_before["rss"], "peak": memory_after["peak"],
        "after": memory_after["rss"], "counters": len(written), "differing": differing(found, written),
    }


def differing(found, written):
    """Counters that are not what was written, as text."""
    keys = {key for key, count in found.items() if count} | set(written)
    return [f"{key}: {found.get(key, 0)} and not {written[key]}" for key in sorted(keys)
            if found.get(key, 0) != written[key]]

"""Memory and processor time while nothing happens, and what a scrape costs."""

import time

import scrape
from processes import cpu_seconds, memory

PLAIN = {"Accept": scrape.HEADERS["Accept"]}


def rest(targets, minutes, interval, say):
    """Scrapes each as Prometheus does, for so long; what each took of memory and of a core."""
    begun, before = time.monotonic(), [cpu_seconds(target.process) for target in targets]
    end, scrapes = begun + minutes * 60, 0
    while (left := end - time.monotonic()) > 0:
        for target in targets:
            target.page()
        scrapes += 1
        if scrapes % 10 == 0:
            say(f"{left / 60:.1f} min to go")
        time.sleep(max(0.0, min(end, begun + scrapes * interval) - time.monotonic()))
    elapsed = time.monotonic() - begun
    return {
        target.name: memory(target.process) | {
            "cores": (cpu_seconds(target.process) - cpu) / elapsed, "seconds": elapsed, "scrapes": scrapes,
        } for target, cpu in zip(targets, before)
    }


def scrapes(target, count, cores):
    """Times, sizes and processor time of scrapes one after the other, compressed and not.

    `cores` is what the target takes without them.
    """
    found = {}
    for form, headers in (("gzip", None), ("plain", PLAIN)):
        # The small pages are asked for before, and are no part of the processor time.
        floor = scrape.measure(target.address, count, target.small, headers)["floor"]
        begun, before = time.monotonic(), cpu_seconds(target.process)
        connection = scrape.http.client.HTTPConnection(target.address, timeout=10)
        times = []
        for _ in range(count):
            seconds, encoding, body = scrape.get(connection, "/metrics", headers)
            times.append(seconds)
        connection.close()
        used = cpu_seconds(target.process) - before - cores * (time.monotonic() - begun)
        found[form] = {
            "seconds": times, "floor": floor, "bytes": len(body), "encoding": encoding, "cpu_seconds": used / count,
        }
    text = target.page(headers=PLAIN)
    found["series"] = sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))
    return found

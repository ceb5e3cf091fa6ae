"""Measures the product on the real parts; bench/real.sh starts it."""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time

import audit
import drain
import latency
import machine
import report
import scrape
from cluster import Cluster
from processes import Processes, cpu_seconds, memory
from world import World

FAULTY = [f"gpu-{number}" for number in range(1, 8)]
IDLE_SECONDS = 20


def main():
    """Everything, in one run."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = {"machine": machine.describe(options), "options": {"runs": options.runs, "drains": options.drains,
                                                              "scrapes": options.scrapes, "seed": options.seed}}
    with tempfile.TemporaryDirectory(prefix="gpu-remediator-bench-") as folder:
        processes = Processes(folder)
        try:
            measure(options, processes, found)
        except BaseException:
            print_logs(processes)
            raise
        finally:
            processes.end_all()
    figures = report.summarize(found)
    tables = report.markdown(found, figures)
    print(tables)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"figures": figures, **found}, file, indent=1)
            file.write("\n")
    if options.markdown:
        report.replace(options.markdown, tables)
    say(f"displaced pods by what became of them: {found['displaced']}")
    for line, count in found["complaints"].items():
        say(f"logged {count} times: {line}")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/real.sh", description=__doc__)
    parser.add_argument("--parts", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--binaries", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--repository", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=50, help="faults for the time to the cordon (at most 56)")
    parser.add_argument("--drains", type=int, default=5, help="drains by each, for each case (at most 8)")
    parser.add_argument("--scrapes", type=int, default=500, help="scrapes of each exporter")
    parser.add_argument("--seed", type=int, default=1, help="of the chance that draws the moments of the faults")
    parser.add_argument("--story", help="write every request of the first faults, with the bodies of the product's own "
                        "objects, to this file; figures of such a run are not to be quoted")
    parser.add_argument("--json", help="file for everything that was measured; empty: none")
    parser.add_argument("--markdown", help="page whose tables are replaced; empty: none")
    options = parser.parse_args()
    if options.json is None:
        options.json = os.path.join(options.repository, "docs/benchmarks.json")
    if options.markdown is None:
        options.markdown = os.path.join(options.repository, "docs/benchmarks.md")
    if not 1 <= options.runs <= 8 * len(FAULTY) or not 1 <= options.drains <= 8 or options.scrapes < 1:
        parser.error("a number is out of its range")
    return options


def measure(options, processes, found):
    """Starts the parts, measures, and leaves what was measured in `found`."""
    say("starting the parts")
    cluster = Cluster(options.parts, processes, audit_bodies=options.story is not None)
    nodes = [*FAULTY, *drain.NODES]
    world = World(cluster, processes, options, nodes)
    found["nodes"] = len(nodes)
    exporters = [exporter.process for exporter in world.exporters.values()]
    cpu_before = [cpu_seconds(process) for process in [*exporters, world.simulated.process, world.controller]]
    clock = time.monotonic()

    say(f"nothing happens for {IDLE_SECONDS} s")
    idle = time.time()
    time.sleep(IDLE_SECONDS)
    idle = (idle, time.time())

    runs, window = latency.measure(world, FAULTY, options.runs, random.Random(options.seed), say)
    drains = drain.measure(world, options.drains, say)

    # Read before the scrapes below, which are far more than Prometheus makes.
    elapsed = time.monotonic() - clock
    cpu_after = [cpu_seconds(process) for process in [*exporters, world.simulated.process, world.controller]]
    found["footprint"] = footprint(world, exporters, elapsed, [b - a for a, b in zip(cpu_before, cpu_after)])
    say("scraping")
    found["scrapes"] = {
        "driver": scrape.measure(world.exporters[FAULTY[0]].address, options.scrapes),
        "simulated": scrape.measure(world.simulated.address, options.scrapes),
    }
    found["displaced"] = world.displaced()
    found["wal_sync"] = machine.wal_sync(cluster.etcd)
    found["complaints"] = machine.complaints(processes)
    ended = processes.ended()
    if ended:
        raise RuntimeError(f"ended by themselves: {ended}")

    requests = audit.read(cluster.audit_log)
    quiet = audit.split(audit.between(requests, *idle, "product"))
    found["idle"] = {"seconds": idle[1] - idle[0],
                     **{group: sum(counts.values()) for group, counts in quiet.items()},
                     "kinds": dict(quiet["requests"])}
    counts = audit.split(audit.between(requests, *window, "product"))
    found["latency"] = {
        "runs": latency.explain(runs, requests),
        "per_node": {
            "requests": sum(counts["requests"].values()) / len(runs),
            "events": sum(counts["events"].values()) / len(runs),
            "kinds": {kind: count / len(runs) for kind, count in counts["requests"].most_common()},
        },
    }
    found["drains"] = drain.explain(drains, requests)
    if options.story:
        write_story(options.story, runs, drains, requests)


def footprint(world, exporters, elapsed, cpu):
    """Memory and processor time; of the exporters with a driver the largest memory and the mean processor time."""
    memories = [memory(process) for process in exporters]
    return {
        "seconds": elapsed,
        "exporters": {key: max(m[key] for m in memories) for key in ("rss", "peak", "anonymous")}
        | {"cores": sum(cpu[:-2]) / len(exporters) / elapsed, "cpu_seconds": cpu[:-2]},
        "simulated": memory(world.simulated.process) | {"cores": cpu[-2] / elapsed},
        "controller": memory(world.controller) | {"cores": cpu[-1] / elapsed},
    }


def write_story(path, runs, drains, requests):
    """What the product asked of the API server for the first fault without pods and for one drain of each case."""
    later = [run["line"] for run in runs[1:]] + [drains[0]["start"]]
    stories = {"no GPU pods": latency.story(runs[0], requests, later[0])}
    for one in drains:
        if one["by"] == "product" and one["case"] not in stories:
            stories[one["case"]] = latency.story({"line": one["start"]}, requests, one["window"][1])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(stories, file, indent=1)


def print_logs(processes):
    """The ends of the logs, for whoever wants to know why it failed."""
    for name, _ in processes.children:
        with open(processes.log(name), encoding="utf-8", errors="replace") as log:
            for line in log.readlines()[-3:]:
                say(f"{name}: {line.rstrip()[:300]}")


def say(words):
    """Progress, on standard error."""
    print(f"bench: {words}", file=sys.stderr, flush=True)


main()

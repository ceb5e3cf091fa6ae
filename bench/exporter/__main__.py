"""Measures the exporter by itself, with node_exporter beside it; bench/exporter.sh starts it."""

import argparse
import json
import os
import random
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "real"))

# pylint: disable=wrong-import-position
import footprint
import kernel_log
import machine
import report
import table
from processes import Processes, eventually
from world import Exporter, Target, scenario


def main():
    """Everything, in one run."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.parts = os.path.dirname(os.path.abspath(options.node_exporter))
    module = {os.path.basename(options.node_exporter): b"github.com/prometheus/node_exporter"}
    measured = ("minutes", "interval", "scrapes", "latencies", "lines", "rounds", "xids", "seed")
    found = {"machine": machine.describe(options, module), "options": {key: getattr(options, key) for key in measured}}
    with tempfile.TemporaryDirectory(prefix="gpu-remediator-bench-", dir=options.folder) as folder:
        processes = Processes(folder)
        try:
            measure(options, processes, found)
        except BaseException:
            for name, _ in processes.children:
                with open(processes.log(name), encoding="utf-8", errors="replace") as log:
                    for line in log.readlines()[-3:]:
                        say(f"{name}: {line.rstrip()[:300]}")
            raise
        finally:
            processes.end_all()
    figures = table.summarize(found)
    text = table.markdown(found, figures)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"figures": figures, **found}, file, indent=1)
            file.write("\n")
    if options.markdown:
        report.replace(options.markdown, text, table.BEGIN, table.END)
    for line in found["storm"]["differing"]:
        say(f"counted wrongly: {line}")
    for line, count in found["complaints"].items():
        say(f"logged {count} times: {line}")
    say(f"{table.missed(text)} targets missed")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/exporter.sh", description=__doc__)
    for name in ("--node-exporter", "--binaries", "--repository"):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=10, help="for memory and processor time")
    parser.add_argument("--interval", type=float, default=15, help="seconds between two scrapes meanwhile")
    parser.add_argument("--scrapes", type=int, default=500, help="scrapes of each, in each form")
    parser.add_argument("--latencies", type=int, default=200, help="lines for the time to /metrics")
    parser.add_argument("--lines", type=int, default=5_000_000, help="lines for the throughput of the kernel log")
    parser.add_argument("--rounds", type=int, default=3, help="how often they are read; the fastest counts")
    parser.add_argument("--xids", type=int, default=1_000_000, help="Xids of the storm")
    parser.add_argument("--seed", type=int, default=1, help="of the chance that draws the moments of the lines")
    parser.add_argument("--folder", help="where the logs are written; default: the system's for temporary files")
    parser.add_argument("--json", help="file for everything that was measured; empty: none")
    parser.add_argument("--markdown", help="page whose table is replaced; empty: none")
    options = parser.parse_args()
    if options.json is None:
        options.json = os.path.join(options.repository, "docs/benchmarks-exporter.json")
    if options.markdown is None:
        options.markdown = os.path.join(options.repository, "docs/benchmarks.md")
    counts = (options.scrapes, options.latencies, options.lines, options.rounds, options.xids)
    if options.minutes <= 0 or options.interval <= 0 or min(counts) < 1:
        parser.error("a number is out of its range")
    return options


def measure(options, processes, found):
    """Measures one after the other, and leaves what was measured in `found`."""
    forget(os.path.join(options.binaries, "gpu-remediator"), os.path.join(options.binaries, "libnvidia_ml.so"),
           options.node_exporter)
    driver = scenario(processes.folder, HERE)
    logs = {name: os.path.join(processes.folder, f"kmsg-{name}") for name in ("driver", "simulated")}
    for number, path in enumerate(logs.values()):
        with open(path, "w", encoding="ascii") as file:
            file.write(kernel_log.record(number, "Linux version 6.8.0-60-generic"))
    ours = Exporter(processes, options, "exporter-driver", logs["driver"], driver)
    simulated = Exporter(processes, options, "exporter-simulated", logs["simulated"])
    peer = Target(processes, "node_exporter",
                  [os.path.abspath(options.node_exporter), "--web.listen-address", "{address}"], small="/")
    for exporter in (ours, simulated):
        exporter.ready()
        exporter.settled()
    eventually("node_exporter to answer", lambda: peer.answers("/metrics"))

    targets = [ours, simulated, peer]
    say(f"nothing happens for {options.minutes:g} min")
    found["rest"] = footprint.rest(targets, options.minutes, options.interval, say)
    say("scraping")
    found["scrapes"] = {target.name: footprint.scrapes(target, options.scrapes, found["rest"][target.name]["cores"])
                        for target in targets}
    for target in (simulated, peer):
        processes.end(target.name)
    say("one line after the other")
    found["latency"] = kernel_log.latency(ours, options.latencies, random.Random(options.seed))
    say("a storm")
    found["storm"] = kernel_log.storm(ours, options.xids, say)
    found["complaints"] = machine.complaints(processes)
    ended = processes.ended()
    if ended:
        raise RuntimeError(f"ended by themselves: {ended}")
    processes.end(ours.name)
    say("a long log")
    found["throughput"] = kernel_log.throughput(processes, options, driver, HERE, say)


def forget(*paths):
    """Has the kernel forget its copies of files, so that programs are read as after the start of a machine.

    Of a file that was just written the kernel keeps larger pieces in memory, and of a piece that is used it maps the
    whole: the same program would take megabytes more on the machine that has just linked it.
    """
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def say(words):
    """Progress, on standard error."""
    print(f"bench: {words}", file=sys.stderr, flush=True)


main()

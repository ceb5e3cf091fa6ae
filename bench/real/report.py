"""The figures as tables."""

import collections
import math

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def percentile(values, share):
    """The nearest rank: no value that was not measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values):
    """Median, 99th percentile, least and most."""
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "min": min(values), "max": max(values),
            "count": len(values)}


def summarize(found):
    """The figures of a run, out of what was measured one by one."""
    runs = found["latency"]["runs"]
    latency = {key: summary([run[key] for run in runs])
               for key in ("line_to_cordon", "line_to_fault", "answer_to_cordon", "cordon_to_watch")}
    drains = {}
    groups = collections.defaultdict(list)
    for drain in found["drains"]:
        groups[drain["case"], drain["by"]].append(drain)
    for (case, by), members in groups.items():
        drains[f"{case} | {by}"] = {
            **{key: summary([m[key] for m in members]) for key in ("total", "own", "held", "above")},
            "calls_per_pod": sum(m["eviction_calls"] for m in members) / sum(m["pods"] for m in members),
            "refused": sum(m["refused"] for m in members),
            "requests": sum(m["requests"] for m in members) / len(members),
            "events": sum(m["events"] for m in members) / len(members),
            "kinds": _mean_kinds([m["kinds"] for m in members]),
        }
    scrapes = {name: {**s, **summary(s["seconds"]), "floor": percentile(s["floor"], 0.5)}
               for name, s in found["scrapes"].items()}
    for scrape in scrapes.values():
        del scrape["seconds"]
    return {"latency": latency, "drains": drains, "scrapes": scrapes}


def _mean_kinds(all_kinds):
    total = collections.Counter()
    for kinds in all_kinds:
        total.update(kinds)
    return {kind: count / len(all_kinds) for kind, count in total.most_common()}


def markdown(found, figures):
    """The tables of docs/benchmarks.md."""
    machine, latency = found["machine"], figures["latency"]
    ours = {key.partition(" | ")[0]: drain for key, drain in figures["drains"].items() if key.endswith("product")}
    controller, exporters = found["footprint"]["controller"], found["footprint"]["exporters"]
    simulated, scrape = found["footprint"]["simulated"], figures["scrapes"]
    per_node = found["latency"]["per_node"]
    above = ", ".join(f"{_s(d['above']['p50'])} ({case})" for case, d in ours.items())
    calls = ", ".join(f"{d['calls_per_pod']:.1f} ({case})" for case, d in ours.items())
    requests = ", ".join(f"{d['requests']:.1f} ({case})" for case, d in ours.items())
    lines = [
        f"Measured on {machine['date']}, {machine['product']}, commit {machine['commit']}.", "",
        "| machine | |", "| --- | --- |",
        f"| processor | {machine['cores']} cores, {machine['processor']} |",
        f"| memory | {machine['memory_bytes'] / 2**30:.0f} GiB |",
        f"| kernel | {machine['kernel']} |",
        f"| load just before | {machine['load_before']:.2f} |",
        f"| write to etcd's log, with fsync | {_ms(found['wal_sync']['mean'])} on average "
        f"of {found['wal_sync']['count']} |",
        "| parts | " + ", ".join(f"{name} {version}" for name, version in machine["parts"].items()) + " |",
        "",
        "| what | peer | target | measured |", "| --- | --- | --- | --- |",
        f"| kernel-log line → node cordoned | poll of 15 s before anything | p50 ≤ 3 s, p99 ≤ 6 s | "
        f"p50 {_s(latency['line_to_cordon']['p50'])}, p99 {_s(latency['line_to_cordon']['p99'])} "
        f"({latency['line_to_cordon']['count']} runs) |",
        f"| query answer → cordon accepted | p99 165 ms | p99 ≤ 50 ms | "
        f"p50 {_ms(latency['answer_to_cordon']['p50'])}, p99 {_ms(latency['answer_to_cordon']['p99'])} |",
        f"| drain time above the pods' own termination, median | 10.1 s | ≤ 0.5 s | {above} |",
        f"| eviction calls per pod | 3.0 | 1.0 | {calls} |",
        f"| API requests per remediated node | ≈ 22 | ≤ 10 | {per_node['requests']:.1f} (no GPU pods), {requests} |",
        f"| controller memory | ≈ 14 GB at 10,000 nodes | ≤ 100 MB at 10,000 nodes | "
        f"{_memory(controller)} at {found['nodes']} nodes |",
        f"| exporter memory, 8 GPUs | 84 MB | ≤ 15 MB | {_memory(exporters)} (fake driver); {_memory(simulated)} "
        "(simulated) |",
        f"| exporter CPU, 8 GPUs asked and scraped every second | 0.002 cores | ≤ 0.002 cores | "
        f"{exporters['cores']:.4f} cores (fake driver), {simulated['cores']:.4f} (simulated) |",
        f"| scrape of 8 GPUs | – | p99 ≤ 5 ms | "
        f"p50 {_ms(scrape['driver']['p50'])}, p99 {_ms(scrape['driver']['p99'])} "
        f"({scrape['driver']['count']} scrapes; {_ms(scrape['driver']['floor'])} for an answer of two bytes; "
        f"{scrape['driver']['bytes']} bytes, {scrape['driver']['encoding']}; {scrape['driver']['series']} series) |",
        "",
        "Where the time from line to cordon goes:", "",
        "| stretch | p50 | p99 | least | most |", "| --- | --- | --- | --- | --- |",
        *(f"| {words} | {_s(latency[key]['p50'])} | {_s(latency[key]['p99'])} | {_s(latency[key]['min'])} | "
          f"{_s(latency[key]['max'])} |" for key, words in (
              ("line_to_cordon", "line → a watcher sees the node cordoned"),
              ("line_to_fault", "line → creation of the `GpuFault` asked for (scrape, then evaluation)"),
              ("answer_to_cordon", "creation asked for → cordon accepted"),
              ("cordon_to_watch", "cordon accepted → seen by the watcher"))),
        "",
        "The same drain, in turn on the same nodes (medians of "
        f"{min(d['total']['count'] for d in figures['drains'].values())}):", "",
        "| drain | by | start → last GPU pod gone | last pod's own end | held by the budget | above | most above | "
        "eviction calls per pod | refused (429) | API requests |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key, drain in figures["drains"].items():
        case, _, by = key.partition(" | ")
        lines.append(
            f"| {case} | {'`kubectl drain`' if by == 'kubectl' else 'gpu-remediator'} | {_s(drain['total']['p50'])} | "
            f"{_s(drain['own']['p50'])} | {_s(drain['held']['p50'])} | {_s(drain['above']['p50'])} | "
            f"{_s(drain['above']['max'])} | {drain['calls_per_pod']:.1f} | {drain['refused']} | "
            f"{drain['requests']:.1f} |")
    lines += ["", "API requests per remediated node, by kind (mean; leases and events apart):", ""]
    columns = {"no GPU pods": per_node["kinds"], **{case: d["kinds"] for case, d in ours.items()}}
    kinds = list(dict.fromkeys(kind for column in columns.values() for kind in column))
    lines += ["| request | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    lines += [f"| {kind} | " + " | ".join(_count(column.get(kind, 0)) for column in columns.values()) + " |"
              for kind in kinds]
    events = [per_node["events"], *(d["events"] for d in ours.values())]
    lines += ["| **all of these** | " + " | ".join(f"**{sum(c.values()):.1f}**" for c in columns.values()) + " |",
              "| events, apart | " + " | ".join(f"{count:.1f}" for count in events) + " |"]
    idle = found["idle"]
    lines += ["", f"With no fault, in {idle['seconds']:.0f} s: {idle['requests']} requests besides {idle['leases']} for "
                  "the lease."]
    return "\n".join(lines) + "\n"


def replace(path, text, begin_mark=BEGIN, end_mark=END):
    """Puts the tables between two markers of a page."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    head, begin, rest = page.partition(begin_mark)
    _, end, tail = rest.partition(end_mark)
    if not begin or not end:
        raise RuntimeError(f"{path} has not both markers, {begin_mark} and {end_mark}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{begin_mark}\n\n{text}\n{end_mark}{tail}")


def _s(seconds):
    return f"{seconds:.2f} s" if seconds >= 0.1 else _ms(seconds)


def _ms(seconds):
    return f"{seconds * 1000:.1f} ms"


def _mb(count):
    return f"{count / 1e6:.1f} MB"


def _memory(of):
    return f"{_mb(of['rss'])}, peak {_mb(of['peak'])}, {_mb(of['anonymous'])} of it not of a file"


def _count(count):
    return f"{count:.1f}" if count else "–"

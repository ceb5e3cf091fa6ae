"""The figures of the exporter as a table."""

from report import summary

BEGIN, END = "<!-- exporter: begin -->", "<!-- exporter: end -->"
MEMORY, CORES, SCRAPE, THROUGHPUT, LATENCY = 15e6, 0.002, 0.005, 500_000, 0.05
# Memory is flat where it grows by less than this: what the allocator and the first Xids of each kind take once.
FLAT = 1e6


def summarize(found):
    """What is said of many values."""
    figures = {"latency": summary(found["latency"]), "scrapes": {}}
    for name, scrapes in found["scrapes"].items():
        figures["scrapes"][name] = {
            "series": scrapes["series"],
            **{form: {**{key: value for key, value in scrapes[form].items() if key not in ("seconds", "floor")},
                      **summary(scrapes[form]["seconds"]), "floor": summary(scrapes[form]["floor"])["p50"]}
               for form in ("gzip", "plain")},
        }
    return figures


def markdown(found, figures):
    """The table of docs/benchmarks.md."""
    machine, rest = found["machine"], found["rest"]
    ours, simulated, peer = (rest[name] for name in ("exporter-driver", "exporter-simulated", "node_exporter"))
    scrapes = figures["scrapes"]
    our_scrape, peer_scrape = scrapes["exporter-driver"], scrapes["node_exporter"]
    throughput, latency, storm = found["throughput"], figures["latency"], found["storm"]
    minutes = ours["seconds"] / 60
    grown = max(storm["peak"], storm["after"]) - storm["before"]
    exact = not storm["differing"] and storm["lines_read"] == storm["xids"]
    version = ", ".join(f"{name} {version}" for name, version in machine["parts"].items())
    rows = [
        (f"resident memory after {minutes:.3g} min", "≤ 15 MB", ours["peak"] <= MEMORY, _memory(ours), _memory(peer)),
        ("the same with `--simulate 8`", "", None, _memory(simulated), ""),
        (f"processor time over {minutes:.3g} min, scraped every {found['options']['interval']:.0f} s", "≤ 0.2 % of a core",
         ours["cores"] <= CORES, _cores(ours), _cores(peer)),
        ("the same with `--simulate 8`", "", None, _cores(simulated), ""),
        ("series", "", None, str(our_scrape["series"]), str(peer_scrape["series"])),
        *((f"scrape, {words}, p99", "≤ 5 ms", our_scrape[form]["p99"] <= SCRAPE, _scrape(our_scrape[form]),
           _scrape(peer_scrape[form])) for form, words in (("gzip", "gzip"), ("plain", "not compressed"))),
        *((f"bytes of a scrape, {words}", "", None, _count(our_scrape[form]["bytes"]), _count(peer_scrape[form]["bytes"]))
          for form, words in (("gzip", "gzip"), ("plain", "not compressed"))),
        *((f"processor time of a scrape, {words}", "", None, _ms(our_scrape[form]["cpu_seconds"]),
           _ms(peer_scrape[form]["cpu_seconds"])) for form, words in (("gzip", "gzip"), ("plain", "not compressed"))),
        (f"kernel log, {_count(throughput['lines'])} lines, one in a hundred an Xid", "≥ 500,000 lines/s",
         throughput["lines_per_second"] >= THROUGHPUT, f"{_count(throughput['lines_per_second'])} lines/s", ""),
        ("line → `/metrics`, p99", "≤ 50 ms", latency["p99"] <= LATENCY,
         f"p50 {_ms(latency['p50'])}, p99 {_ms(latency['p99'])}, most {_ms(latency['max'])} ({latency['count']} lines)", ""),
        (f"memory in a storm of {_count(storm['xids'])} Xids", "flat", grown < FLAT,
         f"{_mb(storm['before'])} before, {_mb(storm['peak'])} at its highest, {_mb(storm['after'])} after", ""),
        (f"the counts of its {storm['counters']} counters", "exact", exact,
         "all as written" if exact else f"{len(storm['differing'])} differ", ""),
        ("time to read it", "", None, f"{storm['seconds']:.1f} s, {_count(storm['xids'] / storm['seconds'])} Xids/s", ""),
    ]
    lines = [
        f"Measured on {machine['date']}, {machine['product']}, commit {machine['commit']}, "
        f"{machine['cores']} cores, {machine['processor']}, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"{machine['kernel']}, load just before {machine['load_before']:.2f}; {version}.", "",
        "| what | target | measured | node_exporter |", "| --- | --- | --- | --- |",
    ]
    for what, target, met, measured, beside in rows:
        missed = ": **missed**" if met is False else ""
        lines.append(f"| {what} | {target or '–'} | {measured}{missed} | {beside or '–'} |")
    return "\n".join(lines) + "\n"


def missed(text):
    """How many targets a table says to be missed."""
    return text.count("**missed**")


def _mb(count):
    return f"{count / 1e6:.1f} MB"


def _memory(of):
    return f"{_mb(of['rss'])}, peak {_mb(of['peak'])}, {_mb(of['anonymous'])} of it not of a file"


def _cores(of):
    return f"{of['cores'] * 100:.2f} %"


def _ms(seconds):
    return f"{seconds * 1000:.1f} ms"


def _scrape(of):
    return f"p50 {_ms(of['p50'])}, p99 {_ms(of['p99'])} ({of['count']} scrapes; a small page takes {_ms(of['floor'])})"


def _count(count):
    return f"{count:,.0f}"

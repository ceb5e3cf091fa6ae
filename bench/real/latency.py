"""From a line in the kernel log to a cordoned node."""

import time

import audit


def measure(world, nodes, runs, chance, say):
    """Runs one fault after the other, each on another GPU; returns what each took."""
    done = []
    start = time.time()
    for run in range(runs):
        node, gpu = nodes[run % len(nodes)], run // len(nodes)
        # Scrapes and evaluations come once a second: the fault comes at any moment between them.
        time.sleep(chance.uniform(0, 1))
        exporter = world.exporters[node]
        line = exporter.fall_off_the_bus(gpu)
        cordoned = world.cordoned_at(node, line)
        exporter.heal()
        world.recovered(node, gpu)
        done.append({"node": node, "gpu": gpu, "line": line, "cordoned": cordoned})
        say(f"run {run + 1} of {runs}: {node} GPU {gpu} cordoned after {cordoned - line:.3f} s")
    # Let the last rule fall silent and what follows from that be written.
    world.silent()
    time.sleep(2)
    return done, (start, time.time())


def explain(runs, requests):
    """Splits each run's time by the audit log: when the fault was created, when the cordon was accepted."""
    product = [r for r in requests if r.user == "product"]
    out = []
    for run in runs:
        until = run["cordoned"] + 1
        opened = next(r for r in product if r.is_("create", "gpufaults") and run["line"] <= r.received <= until)
        accepted = next(
            r for r in product
            if r.verb in ("patch", "update") and r.resource == "nodes" and r.name == run["node"]
            and r.code == 200 and opened.received <= r.received <= until
        )
        out.append({
            "line_to_cordon": run["cordoned"] - run["line"],
            "line_to_fault": opened.received - run["line"],
            "answer_to_cordon": accepted.answered - opened.received,
            "cordon_to_watch": run["cordoned"] - accepted.answered,
        })
    return out


def story(run, requests, end):
    """Every request of the product for one run, in order, with its time after the line."""
    return [
        {"after": round(r.received - run["line"], 4), "took": round(r.answered - r.received, 4),
         "what": r.kind(), "code": r.code, "uri": r.uri, "body": r.body}
        for r in audit.between(requests, run["line"], end, "product")
        if not audit.is_lease(r)
    ]

"""The same drain by kubectl and by the product, in turn, on the same pair of nodes."""

import time

import audit

APP = "llm"

# Each case: how many pods with one GPU each, whether a PodDisruptionBudget lets only one be away, how long kwok takes to
# make a pod Ready (in two stages), the pair of nodes, and who is first. The second case changes places with the first, so
# that the product drains the other node of the pair, with GPUs that had no fault yet.
CASES = (
    ("2 GPU pods, PDB, Ready after 0.2 s", 2, True, ("100ms", "100ms"), ("drain-1", "drain-2"), ("kubectl", "product")),
    ("2 GPU pods, PDB, Ready after 3 s", 2, True, ("1s", "2s"), ("drain-1", "drain-2"), ("product", "kubectl")),
    ("8 GPU pods, no PDB", 8, False, ("100ms", "100ms"), ("drain-3", "drain-4"), ("kubectl", "product")),
)
NODES = tuple(dict.fromkeys(node for case in CASES for node in case[4]))
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def measure(world, repeats, say):
    """Drains, for each case, the node that has all the pods, `repeats` times by each, in turn."""
    drains = []
    for name, pods, budget, delays, nodes, order in CASES:
        setting = _Setting(world, pods, budget, delays, nodes)
        for repeat in range(repeats):
            for who in order:
                node = setting.settle()
                drain = _by_kubectl if who == "kubectl" else _by_product
                drains.append({"case": name, "by": who, "node": node, **drain(world, setting, node, repeat)})
                say(f"{name}: {node} drained by {who}")
        setting.remove()
    return drains


class _Setting:
    """A Deployment whose pods are all on one of two nodes, and its PodDisruptionBudget."""

    def __init__(self, world, pods, budget, delays, nodes):
        self.world, self.cluster, self.count, self.budget = world, world.cluster, pods, budget
        self.pods, self.budgets = self.cluster.watch(PODS), self.cluster.watch(BUDGETS)
        self.cluster.kubectl("cordon", nodes[1])
        self.cluster.call("POST", "/apis/apps/v1/namespaces/default/deployments", _deployment(pods, delays, nodes))
        if budget:
            self.cluster.call("POST", BUDGETS, {
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": APP},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": APP}}},
            })
        self.settle()
        self.cluster.kubectl("uncordon", nodes[1])

    def settle(self):
        """Waits until all pods are Ready on one node and the budget lets one go; returns that node."""
        self.pods.until("the pods to be ready", lambda seen: len(seen) == self.count and all(map(_ready, seen.values())))
        if self.budget:
            self.budgets.until("the budget to let one go", lambda seen: _allowed(seen) >= 1)
        on = {pod["spec"]["nodeName"] for pod in self.pods.objects.values()}
        if len(on) != 1:
            raise RuntimeError(f"the pods are spread over {on}")
        return on.pop()

    def names(self):
        """Names of the pods that are there."""
        return set(name for _, name in self.pods.objects)

    def gone(self, names):
        """Waits until those pods are gone."""
        self.pods.until("the GPU pods to be gone", lambda seen: not names & {name for _, name in seen}, 120)

    def remove(self):
        """Takes the Deployment and its budget away."""
        self.cluster.kubectl("delete", "deployment", APP, "--wait=true")
        if self.budget:
            self.cluster.kubectl("delete", "poddisruptionbudget", APP)
        self.pods.until("the pods to be gone", lambda seen: not seen, 120)


def _by_kubectl(world, setting, node, _gpu):
    pods, start = setting.names(), time.time()
    world.cluster.kubectl(
        "drain", node, f"--pod-selector=app={APP}", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s",
        user="operator", timeout=150,
    )
    setting.gone(pods)
    end = time.time()
    world.cluster.kubectl("uncordon", node)
    return {"pods": sorted(pods), "start": start, "end": end, "budget_back": _budget_back(setting, start, end)}


def _by_product(world, setting, node, gpu):
    exporter, pods = world.exporters[node], setting.names()
    start = exporter.fall_off_the_bus(gpu)
    world.cordoned_at(node, start)
    setting.gone(pods)
    exporter.heal()
    world.recovered(node, gpu)
    end = time.time()
    world.silent()
    time.sleep(2)
    return {"pods": sorted(pods), "start": start, "end": end, "window": (start, time.time()),
            "budget_back": _budget_back(setting, start, end)}


def _budget_back(setting, start, end):
    """When the budget let a pod go again, after having let none go."""
    moments, none_before = [], False
    for at, _, item in setting.budgets.between(start, end):
        allowed = item["status"].get("disruptionsAllowed", 0)
        if allowed >= 1 and none_before:
            moments.append(at)
        none_before = allowed < 1
    return moments


def explain(drains, requests):
    """Measures each drain by the audit log.

    `total` goes from the first request (kubectl's first, or the creation of the fault) to the end of the last pod's
    deletion. `own` is what that last pod took to end, and `held` the time in which the budget let no pod go. What is left
    is `above`: what the one who drains added.
    """
    out = []
    for drain in drains:
        user = "operator" if drain["by"] == "kubectl" else "product"
        pods = set(drain["pods"])
        mine = audit.between(requests, drain["start"], drain["end"], user)
        begun = next(r for r in mine if user == "operator" or r.is_("create", "gpufaults"))
        calls = [r for r in mine if r.is_("create", "pods", "eviction") and r.name in pods]
        accepted = {r.name: r.answered for r in calls if r.code in (200, 201)}
        ended = {
            r.name: r.answered for r in audit.between(requests, drain["start"], drain["end"])
            if r.is_("delete", "pods") and r.name in pods and r.user == "kwok" and r.code == 200
        }
        if set(accepted) != pods or set(ended) != pods:
            raise RuntimeError(f"the audit log tells not the whole drain of {drain['node']}: {accepted} {ended}")
        last = max(ended, key=ended.get)
        held, evictions = 0.0, sorted(accepted.values())
        for one, following in zip(evictions, evictions[1:]):
            back = [at for at in drain["budget_back"] if one <= at <= following]
            if back:
                held += back[0] - one
        total, own = ended[last] - begun.received, ended[last] - accepted[last]
        window = drain.get("window", (drain["start"], drain["end"]))
        counts = audit.split(audit.between(requests, *window, user))
        out.append({
            "case": drain["case"], "by": drain["by"], "pods": len(pods), "total": total, "own": own, "held": held,
            "above": total - own - held, "eviction_calls": len(calls),
            "refused": sum(r.code == 429 for r in calls), "requests": sum(counts["requests"].values()),
            "events": sum(counts["events"].values()), "kinds": dict(counts["requests"]),
        })
    return out


def _allowed(budgets):
    return max((item.get("status", {}).get("disruptionsAllowed", 0) for item in budgets.values()), default=0)


def _ready(pod):
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))


def _deployment(replicas, delays, nodes):
    # How long kwok takes for each stage of a pod's start; its own defaults are up to 5 s, drawn by chance.
    annotations = {
        f"{stage}.stage.kwok.x-k8s.io/{key}": delay
        for stage, delay in zip(("pod-create", "pod-ready"), delays) for key in ("delay", "jitter-delay")
    }
    container = {"name": "main", "image": "example.test/llm:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [only]}]}}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": APP},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": APP}},
            "template": {
                "metadata": {"labels": {"app": APP}, "annotations": annotations},
                "spec": {"affinity": affinity, "containers": [container]},
            },
        },
    }

#!/usr/bin/env bash
# Measures the memory of the controller on a large cluster: 10,000 nodes and 100,000 pods, played by the simulation in one
# process, and the controller as it is shipped in another, over loopback HTTP. Prints one row for docs/benchmarks.md, and
# fails where the controller does not do its work or holds more than its target of 100 MB.
#
#   bench/memory.sh                            10,000 nodes, 100,000 pods, 100 faults
#   bench/memory.sh --nodes 500 --pods 5000 --faults 5     a quick try
#
# GPU_REMEDIATOR_BIN   a folder with the release binary; built by cargo where it is not set
#
# Needs bash, curl, awk and grep, about 8 GB of memory for the simulation, and Linux for /proc.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$here")
nodes=10000 pods=100000 faults=100 target_kb=100000
while (($#)); do
  case $1 in
    --nodes) nodes=$2 ;;
    --pods) pods=$2 ;;
    --faults) faults=$2 ;;
    *) echo "memory.sh: unknown option $1; there are --nodes, --pods and --faults" >&2; exit 2 ;;
  esac
  shift 2
done

binaries=${GPU_REMEDIATOR_BIN:-}
if [[ -z $binaries ]]; then
  cargo build --release --manifest-path "$repository/Cargo.toml" >&2
  binaries=${CARGO_TARGET_DIR:-$repository/target}/release
fi
program=$binaries/gpu-remediator
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

fail() {
  echo "memory.sh: $1" >&2
  tail -n 20 "$work"/*.log >&2
  exit 1
}

# Asks a command again until it succeeds, for so many seconds.
until_true() {
  local what=$1 seconds=$2 end
  shift 2
  end=$((SECONDS + seconds))
  until "$@"; do
    ((SECONDS < end)) || fail "$what: not within $seconds s"
    sleep 1
  done
}

"$program" simulate --serve --nodes "$nodes" --pods "$pods" --faults "$faults" \
  >"$work/addresses" 2>"$work/cluster.log" &
until_true "the cluster is served" 600 grep -q '^Prometheus: ' "$work/addresses"
api=$(awk '/^API server: /{print $3}' "$work/addresses")
prometheus=$(awk '/^Prometheus: /{print $2}' "$work/addresses")

cat >"$work/kubeconfig" <<KUBECONFIG
apiVersion: v1
kind: Config
current-context: simulation
clusters: [{name: simulation, cluster: {server: "$api"}}]
contexts: [{name: simulation, context: {cluster: simulation, user: simulation}}]
users: [{name: simulation, user: {}}]
KUBECONFIG
KUBECONFIG=$work/kubeconfig "$program" controller --prometheus "$prometheus" --listen 127.0.0.1:0 \
  --lease-namespace gpu-remediator >"$work/controller.out" 2>"$work/controller.log" &
controller=$!

resident() { awk -v field="$1:" '$1 == field {print $2}' "/proc/$controller/status"; }
count() {
  curl -sf "$api/apis/gpu-remediator.dev/v1alpha1/gpufaults?limit=100000" | grep -o "\"phase\":\"$1\"" | wc -l
}
leads() { curl -sf "$api/apis/coordination.k8s.io/v1/namespaces/gpu-remediator/leases/gpu-remediator" | grep -q holderIdentity; }
alive() { kill -0 "$controller" 2>/dev/null || fail "the controller has ended"; }
all_faults() { alive; (($(count '[A-Za-z]*') >= faults)); }
some_drained() { alive; (($(count 'Processing') + $(count 'Failed') + $(count 'Handled') + $(count 'Recovering') > 0)); }

until_true "the controller leads" 120 leads
idle=$(resident VmRSS)
until_true "$faults faults are open" 300 all_faults
until_true "nodes are being drained" 120 some_drained
# The drains go on for a minute; what counts is the highest.
for _ in $(seq 60); do alive; sleep 1; done
now=$(resident VmRSS) highest=$(resident VmHWM) file=$(resident RssFile)
mb() { awk -v kb="$1" 'BEGIN {printf "%.1f", kb / 1000}'; }
echo "| controller memory, $nodes nodes, $pods pods, $faults faults | ≤ 100 MB | $(mb "$now") MB, peak $(mb "$highest") MB, $(mb $((now - file))) MB of it not of a file; $(mb "$idle") MB when it had just begun to lead |"
((highest <= target_kb)) || fail "the target of 100 MB is missed"

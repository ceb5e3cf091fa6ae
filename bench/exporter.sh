#!/usr/bin/env bash
# Measures the exporter by itself: eight GPUs of the fake driver, a file as its kernel log, and node_exporter beside it in the
# same run. Memory and processor time at default intervals, scrapes, the kernel log's throughput and latency, a storm of Xids.
#
#   bench/exporter.sh                 about fifteen minutes; writes docs/benchmarks-exporter.json and the exporter's table of
#                                     docs/benchmarks.md
#   bench/exporter.sh --minutes 1 --json '' --markdown ''     a quick try, which writes nothing
#   bench/exporter.sh --help          everything that can be changed
#
# GPU_REMEDIATOR_BIN   a folder with the binary and the fake driver; built by cargo where it is not set
# NODE_EXPORTER        a binary of node_exporter; built from its Go module into the cache where it is not set
#
# Needs bash, python3, 2 GB of disk, and cargo and Go where something is to be built. Run it on a machine that does nothing
# else.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$here")
version=v1.12.1

for word in "$@"; do
  if [[ $word == -h || $word == --help ]]; then
    # Nothing is built for that.
    exec python3 -B "$here/exporter" --node-exporter '' --binaries '' --repository '' --help
  fi
done

node_exporter=${NODE_EXPORTER:-}
if [[ -z $node_exporter ]]; then
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-remediator/node_exporter/$version
  node_exporter=$cache/node_exporter
  if [[ ! -x $node_exporter ]]; then
    if ! command -v go >/dev/null && [[ -x /usr/local/go/bin/go ]]; then
      PATH="$PATH:/usr/local/go/bin"
    fi
    command -v go >/dev/null || { echo "exporter.sh: needs Go, or NODE_EXPORTER=FILE" >&2; exit 1; }
    mkdir -p "$cache"
    # Static, as the project's own releases are.
    CGO_ENABLED=0 GOBIN=$cache go install -trimpath -ldflags "-s -w" "github.com/prometheus/node_exporter@$version" >&2
  fi
fi

binaries=${GPU_REMEDIATOR_BIN:-}
if [[ -z $binaries ]]; then
  # As the image is built.
  cargo build --profile production --no-default-features --manifest-path "$repository/Cargo.toml" >&2
  binaries=${CARGO_TARGET_DIR:-$repository/target}/production
fi

exec python3 -B "$here/exporter" --node-exporter "$node_exporter" --binaries "$binaries" --repository "$repository" "$@"

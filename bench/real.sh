#!/usr/bin/env bash
# Measures the product on the real parts: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok and
# Prometheus on loopback, with the fake driver as the only thing that is not real.
#
#   bench/real.sh                     50 runs, about twelve minutes; writes docs/benchmarks.json and the tables
#                                     of docs/benchmarks.md
#   bench/real.sh --runs 3 --drains 1 --scrapes 50 --json FILE --markdown ''    a quick try
#
# GPU_REMEDIATOR_PARTS   a folder of ready binaries; tests/parts/build.sh makes one where it is not set
# GPU_REMEDIATOR_BIN     a folder with the release binary and the fake driver; built by cargo where it is not set
#
# Needs bash, python3, openssl, and cargo and Go where something is to be built. Run it on a machine that does nothing else.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$here")

parts=${GPU_REMEDIATOR_PARTS:-}
if [[ -z $parts ]]; then
  parts=$("$repository/tests/parts/build.sh" | tail -n 1)
fi

binaries=${GPU_REMEDIATOR_BIN:-}
if [[ -z $binaries ]]; then
  cargo build --release --manifest-path "$repository/Cargo.toml" >&2
  binaries=${CARGO_TARGET_DIR:-$repository/target}/release
fi

exec python3 -B "$here/real" --parts "$parts" --binaries "$binaries" --repository "$repository" "$@"

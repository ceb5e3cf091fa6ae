#!/usr/bin/env bash
# Makes a folder of the real servers and tools that tests/real runs against, and
# prints that folder as the last line of standard output. All else goes to
# standard error.
#
#   tests/parts/build.sh            build what is missing into the cache
#   GPU_REMEDIATOR_PARTS=DIR ...    build nothing: check that DIR has every part
#
# The cache is ${XDG_CACHE_HOME:-$HOME/.cache}/gpu-remediator/parts/<hash>/bin,
# where the hash covers every go.mod and go.sum here and the recipe below: other
# versions get another folder, and a folder that is complete is used as it is.
set -euo pipefail

# Counted up when the recipe changes in a way that go.mod does not show.
RECIPE=1

PARTS=(
  etcd kube-apiserver kube-scheduler kube-controller-manager kubectl
  kwok prometheus promtool alertmanager amtool helm
)
STAGES=kwok-stages.yaml

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { echo "parts: $*" >&2; }
die() { say "$*"; exit 1; }

# Names of the parts that folder $1 lacks, one a line.
missing_in() {
  local part
  for part in "${PARTS[@]}"; do
    [[ -f "$1/$part" && -x "$1/$part" ]] || echo "$part"
  done
  [[ -s "$1/$STAGES" ]] || echo "$STAGES"
}

if [[ -n "${GPU_REMEDIATOR_PARTS:-}" ]]; then
  [[ -d "$GPU_REMEDIATOR_PARTS" ]] ||
    die "GPU_REMEDIATOR_PARTS=$GPU_REMEDIATOR_PARTS is not a folder"
  missing=$(missing_in "$GPU_REMEDIATOR_PARTS" | tr '\n' ' ')
  [[ -z "$missing" ]] ||
    die "GPU_REMEDIATOR_PARTS=$GPU_REMEDIATOR_PARTS lacks (or cannot execute): $missing"
  (cd "$GPU_REMEDIATOR_PARTS" && pwd)
  exit 0
fi

# Versions and recipe in, a folder name out.
hash=$(
  {
    echo "recipe $RECIPE $(uname -sm)"
    cd "$here"
    for file in */go.mod */go.sum; do
      echo "$file"
      cat "$file"
    done
  } | sha256sum | cut -c1-16
)
root="${XDG_CACHE_HOME:-$HOME/.cache}/gpu-remediator/parts/$hash"
bin="$root/bin"
mkdir -p "$bin"

if [[ -z "$(missing_in "$bin")" ]]; then
  say "complete: $bin"
  echo "$bin"
  exit 0
fi

if ! command -v go >/dev/null && [[ -x /usr/local/go/bin/go ]]; then
  PATH="$PATH:/usr/local/go/bin"
fi
command -v go >/dev/null ||
  die "needs Go 1.26.7 or newer (https://go.dev/dl/), or GPU_REMEDIATOR_PARTS=DIR with ready binaries: ${PARTS[*]} $STAGES"
command -v flock >/dev/null || die "needs flock (Debian package util-linux)"

# One build at a time: a second run waits here and then finds the work done.
exec 9>"$root/lock"
flock -n 9 || { say "another run is building into $root; waiting"; flock 9; }

# Static binaries without a version-control stamp build the same everywhere,
# whatever the caller's GOFLAGS say.
export CGO_ENABLED=0 GOWORK=off

# build NAME MODULE PACKAGE [go build arguments]: atomic, so that an
# interrupted run never leaves half a binary under its final name.
build() {
  local name=$1 module=$2 package=$3 began=$SECONDS
  shift 3
  if [[ -x "$bin/$name" ]]; then
    say "$name: there"
    return
  fi
  say "$name: building $package"
  (cd "$module" && nice -n 5 go build -buildvcs=false -trimpath "$@" -o "$root/$name.part" "$package") >&2 ||
    die "$name: build failed"
  mv "$root/$name.part" "$bin/$name"
  say "$name: built in $((SECONDS - began)) s"
}

strip="-s -w"
version=v1.36.3
grep -q "k8s.io/kubernetes $version\$" "$here/kubernetes/go.mod" ||
  grep -q "k8s.io/kubernetes $version " "$here/kubernetes/go.mod" ||
  die "kubernetes/go.mod does not require k8s.io/kubernetes $version: set the version in build.sh too"
IFS=. read -r major minor _ <<<"${version#v}"
component=k8s.io/component-base/version
# Without these the servers call themselves v0.0.0-master, and clients that
# look at the version refuse them.
stamp="$strip -X $component.gitVersion=$version -X $component.gitMajor=$major -X $component.gitMinor=$minor"

build etcd "$here/etcd" go.etcd.io/etcd/server/v3 -ldflags "$strip"
for part in kube-apiserver kube-scheduler kube-controller-manager kubectl; do
  build "$part" "$here/kubernetes" "k8s.io/kubernetes/cmd/$part" -ldflags "$stamp"
done
build kwok "$here/kwok" sigs.k8s.io/kwok/cmd/kwok -ldflags "$strip"

# kwok plays no kubelet without stages; these are its own, for nodes that are
# ready and pods that start, run, complete and are deleted.
if [[ ! -s "$bin/$STAGES" ]]; then
  kwok=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
  files=(
    "$kwok/kustomize/stage/node/fast/node-initialize.yaml"
    "$kwok/kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"
  )
  for file in "$kwok"/kustomize/stage/pod/general/pod-*.yaml; do
    files+=("$file")
  done
  [[ ${#files[@]} -ge 8 ]] || die "kwok's module has ${#files[@]} stage files, not the 8 expected"
  for file in "${files[@]}"; do
    cat "$file" || die "kwok's module lacks $file"
    printf '\n---\n'
  done >"$root/$STAGES.part"
  mv "$root/$STAGES.part" "$bin/$STAGES"
  say "$STAGES: collected ${#files[@]} files"
fi

# Without the clouds' SDKs, which the tests have no use for.
tags=remove_all_sd,enable_kubernetes_sd,enable_file_sd
for part in prometheus promtool; do
  build "$part" "$here/prometheus" "github.com/prometheus/prometheus/cmd/$part" -tags "$tags" -ldflags "$strip"
done

# Alertmanager embeds web pages that its module does not contain. A vendored
# copy with empty pages builds; the API is complete.
if [[ ! -x "$bin/alertmanager" || ! -x "$bin/amtool" ]]; then
  vendored="$root/alertmanager"
  rm -rf "$vendored"
  mkdir -p "$vendored"
  cp "$here/alertmanager/go.mod" "$here/alertmanager/go.sum" "$vendored/"
  (cd "$vendored" && go mod vendor -e) >&2 || die "alertmanager: go mod vendor failed"
  for page in elm mantine; do
    mkdir -p "$vendored/vendor/github.com/prometheus/alertmanager/ui/app/dist/$page"
    echo "The API is at /api/v2." >"$vendored/vendor/github.com/prometheus/alertmanager/ui/app/dist/$page/index.html"
  done
  for part in alertmanager amtool; do
    build "$part" "$vendored" "github.com/prometheus/alertmanager/cmd/$part" -mod=vendor -ldflags "$strip"
  done
  rm -rf "$vendored"
fi

build helm "$here/helm" helm.sh/helm/v3/cmd/helm -ldflags "$strip"

missing=$(missing_in "$bin" | tr '\n' ' ')
[[ -z "$missing" ]] || die "still missing after the build: $missing"
say "complete: $bin ($SECONDS s)"
echo "$bin"

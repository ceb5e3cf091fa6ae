//! The resources that the server knows.

use std::fmt;

/// One kind of object and how the API serves it.
#[derive(Clone, Copy)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version it is served in.
    pub version: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// The kind in objects.
    pub kind: &'static str,
    /// Does it live in a namespace?
    pub namespaced: bool,
    /// Names that `kubectl` accepts as well.
    pub short_names: &'static [&'static str],
    /// Is `status` written through a subresource of its own?
    pub status: bool,
    /// Does the server count `metadata.generation`?
    pub generation: bool,
    /// Further subresources that can be written.
    pub subresources: &'static [&'static str],
    /// Where it lies in [`ALL`].
    pub(super) place: usize,
}

impl Resource {
    const fn new(
        (group, version, plural, singular, kind): (
            &'static str,
            &'static str,
            &'static str,
            &'static str,
            &'static str,
        ),
        namespaced: bool,
        place: usize,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            singular,
            kind,
            namespaced,
            short_names: &[],
            status: false,
            generation: false,
            subresources: &[],
            place,
        }
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn with_status(mut self) -> Self {
        self.status = true;
        self
    }

    const fn with_generation(mut self) -> Self {
        self.generation = true;
        self
    }

    const fn with_subresources(mut self, names: &'static [&'static str]) -> Self {
        self.subresources = names;
        self
    }

    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name in messages: `pods`, `deployments.apps`.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The resource at a path.
    pub(super) fn at(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        ALL.iter()
            .copied()
            .find(|r| r.group == group && r.version == version && r.plural == plural)
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Resource {}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.qualified())
    }
}

macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident = $place:literal: $names:expr, $namespaced:literal $(, $extra:ident($($argument:expr)?))*;)*) => {
        $($(#[$doc])* pub const $name: &Resource = &Resource::new($names, $namespaced, $place)$(.$extra($($argument)?))*;)*
        /// All of them.
        pub const ALL: &[&Resource] = &[$($name),*];
    };
}

resources! {
    /// Nodes.
    NODES = 0: ("", "v1", "nodes", "node", "Node"), false, short(&["no"]), with_status();
    /// Pods.
    PODS = 1: ("", "v1", "pods", "pod", "Pod"), true, short(&["po"]), with_status(), with_generation(), with_subresources(&["eviction", "binding"]);
    /// Namespaces.
    NAMESPACES = 2: ("", "v1", "namespaces", "namespace", "Namespace"), false, short(&["ns"]), with_status();
    /// Services.
    SERVICES = 3: ("", "v1", "services", "service", "Service"), true, short(&["svc"]), with_status();
    /// ConfigMaps.
    CONFIG_MAPS = 4: ("", "v1", "configmaps", "configmap", "ConfigMap"), true, short(&["cm"]);
    /// Events in the core group: the same objects as [`EVENTS`].
    CORE_EVENTS = 5: ("", "v1", "events", "event", "Event"), true, short(&["ev"]);
    /// Events.
    EVENTS = 6: ("events.k8s.io", "v1", "events", "event", "Event"), true, short(&["ev"]);
    /// Deployments.
    DEPLOYMENTS = 7: ("apps", "v1", "deployments", "deployment", "Deployment"), true, short(&["deploy"]), with_status(), with_generation(), with_subresources(&["scale"]);
    /// ReplicaSets.
    REPLICA_SETS = 8: ("apps", "v1", "replicasets", "replicaset", "ReplicaSet"), true, short(&["rs"]), with_status(), with_generation(), with_subresources(&["scale"]);
    /// StatefulSets.
    STATEFUL_SETS = 9: ("apps", "v1", "statefulsets", "statefulset", "StatefulSet"), true, short(&["sts"]), with_status(), with_generation(), with_subresources(&["scale"]);
    /// DaemonSets.
    DAEMON_SETS = 10: ("apps", "v1", "daemonsets", "daemonset", "DaemonSet"), true, short(&["ds"]), with_status(), with_generation();
    /// Jobs.
    JOBS = 11: ("batch", "v1", "jobs", "job", "Job"), true, with_status(), with_generation();
    /// PodDisruptionBudgets.
    POD_DISRUPTION_BUDGETS = 12: ("policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget"), true, short(&["pdb"]), with_status(), with_generation();
    /// Leases.
    LEASES = 13: ("coordination.k8s.io", "v1", "leases", "lease", "Lease"), true;
    /// ResourceClaims of dynamic resource allocation.
    RESOURCE_CLAIMS = 14: ("resource.k8s.io", "v1", "resourceclaims", "resourceclaim", "ResourceClaim"), true, with_status();
    /// Our faults.
    GPU_FAULTS = 15: ("gpu-remediator.dev", "v1alpha1", "gpufaults", "gpufault", "GpuFault"), false, short(&["gf"]), with_status(), with_generation();
    /// Our rules.
    GPU_FAULT_RULES = 16: ("gpu-remediator.dev", "v1alpha1", "gpufaultrules", "gpufaultrule", "GpuFaultRule"), false, short(&["gfr"]), with_status(), with_generation();
    /// Our policies.
    REMEDIATION_POLICIES = 17: ("gpu-remediator.dev", "v1alpha1", "remediationpolicies", "remediationpolicy", "RemediationPolicy"), false, short(&["rp"]), with_status(), with_generation();
}

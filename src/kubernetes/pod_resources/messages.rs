//! What of the kubelet's messages is read. The numbers are those of `k8s.io/kubelet/pkg/apis/podresources/v1/api.proto`;
//! fields that are not here are skipped, those of later versions too.

/// What stands before each pod in `ListPodResourcesResponse`: field 1, with a length.
pub(super) const POD_KEY: usize = 1 << 3 | 2;

/// `PodResources`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Pod {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) namespace: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) containers: Vec<Container>,
}

/// `ContainerResources`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) devices: Vec<Devices>,
    #[prost(message, repeated, tag = "5")]
    pub(super) claims: Vec<Claim>,
}

/// `ContainerDevices`: from a device plugin.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Devices {
    #[prost(string, tag = "1")]
    pub(super) resource: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) ids: Vec<String>,
}

/// `DynamicResource`: a ResourceClaim.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Claim {
    #[prost(message, repeated, tag = "4")]
    pub(super) devices: Vec<ClaimedDevice>,
}

/// `ClaimResource`: one device of a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClaimedDevice {
    #[prost(message, repeated, tag = "1")]
    pub(super) cdi: Vec<CdiDevice>,
    #[prost(string, tag = "2")]
    pub(super) driver: String,
    #[prost(string, tag = "4")]
    pub(super) name: String,
}

/// `CDIDevice`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CdiDevice {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

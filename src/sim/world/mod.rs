//! What a cluster does by itself: scheduler, workload controllers, kubelets, GPUs.

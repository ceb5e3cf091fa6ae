//! What goes wrong between the controller and the cluster: a seeded injector.

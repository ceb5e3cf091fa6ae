//! What the node process collects. Each collector can be left out, and what is asked for has an interval of its own.

use std::collections::BTreeMap;
use std::time::Duration;

/// A source of metrics that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collector {
    /// Which GPUs there are, and whether each is healthy.
    Nvml,
    /// How busy each GPU is.
    Usage,
    /// The NVLinks of each GPU, and the fabric that they make.
    Nvlink,
    /// The instances that a GPU is divided into.
    Mig,
    /// What changes rarely: limits, modes, retired pages.
    Details,
    /// What the driver tells by itself.
    NvmlEvents,
    /// What the driver writes into the kernel log.
    KernelLog,
    /// The GPUs that the kernel sees.
    PciBus,
    /// The pods that hold GPUs.
    PodResources,
}

impl Collector {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Nvml,
        Self::Usage,
        Self::Nvlink,
        Self::Mig,
        Self::Details,
        Self::NvmlEvents,
        Self::KernelLog,
        Self::PciBus,
        Self::PodResources,
    ];

    /// The name, as in flags and in the label `collector`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvml => "nvml",
            Self::Usage => "usage",
            Self::Nvlink => "nvlink",
            Self::Mig => "mig",
            Self::Details => "details",
            Self::NvmlEvents => "nvml_events",
            Self::KernelLog => "kernel_log",
            Self::PciBus => "pci_bus",
            Self::PodResources => "pod_resources",
        }
    }

    /// What it collects, for the help of the command line.
    #[must_use]
    pub const fn collects(self) -> &'static str {
        match self {
            Self::Nvml => {
                "Which GPUs the driver has, and the health of each: ECC, rows, temperature, throttling, recovery action"
            }
            Self::Usage => {
                "How busy each GPU is: clocks, utilization, memory, power, processes, PCIe, on-chip ECC"
            }
            Self::Nvlink => "NVLinks of each GPU, and the fabric that they make",
            Self::Mig => "Instances that a GPU is divided into",
            Self::Details => "What changes rarely: limits, modes, retired pages, spare rows",
            Self::NvmlEvents => "Events that the driver tells by itself, Xids among them",
            Self::KernelLog => "Xids and other messages of the driver in the kernel log",
            Self::PciBus => "GPUs that the kernel sees on the PCI bus",
            Self::PodResources => "Pods that hold GPUs, as the kubelet says",
        }
    }

    /// The time between two collections where nobody says otherwise; `None` for what comes by itself.
    #[must_use]
    pub const fn default_interval(self) -> Option<Duration> {
        match self {
            Self::Nvml => Some(Duration::from_secs(1)),
            Self::Usage | Self::Nvlink | Self::Mig => Some(Duration::from_secs(5)),
            Self::Details => Some(Duration::from_secs(30)),
            Self::PciBus | Self::PodResources => Some(Duration::from_secs(10)),
            Self::NvmlEvents | Self::KernelLog => None,
        }
    }

    /// Whether it asks the driver, in the session of [`Collector::Nvml`] and of the GPUs that this found.
    #[must_use]
    pub const fn needs_nvml(self) -> bool {
        matches!(
            self,
            Self::Usage | Self::Nvlink | Self::Mig | Self::Details | Self::NvmlEvents
        )
    }
}

/// The collectors that are on, and how often each of them asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collectors(BTreeMap<Collector, Duration>);

impl Default for Collectors {
    /// All of them, at their default intervals.
    fn default() -> Self {
        Self::new(Collector::ALL.map(|collector| (collector, None)))
    }
}

impl Collectors {
    /// These, each at its interval, or at its default one. A collector that needs [`Collector::Nvml`] is off without it.
    #[must_use]
    pub fn new(on: impl IntoIterator<Item = (Collector, Option<Duration>)>) -> Self {
        let mut collectors: BTreeMap<_, _> = on
            .into_iter()
            .map(|(collector, interval)| {
                let interval = interval.or(collector.default_interval());
                (collector, interval.unwrap_or_default())
            })
            .collect();
        if !collectors.contains_key(&Collector::Nvml) {
            collectors.retain(|collector, _| !collector.needs_nvml());
        }
        Self(collectors)
    }

    /// The same with another interval, where the collector is on.
    #[must_use]
    pub fn every(mut self, collector: Collector, interval: Duration) -> Self {
        if let Some(before) = self.0.get_mut(&collector) {
            *before = interval;
        }
        self
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self, collector: Collector) -> bool {
        self.0.contains_key(&collector)
    }

    /// Whether none is on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time between two collections; zero for what comes by itself, and for what is off.
    #[must_use]
    pub fn interval(&self, collector: Collector) -> Duration {
        self.0.get(&collector).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_all_has_each_once_and_no_name_twice() {
        let names: std::collections::BTreeSet<_> = Collector::ALL.map(Collector::name).into();
        assert_eq!(names.len(), Collector::ALL.len());
        for collector in Collector::ALL {
            assert!(Collectors::default().is_on(collector), "{collector:?}");
        }
    }

    #[test]
    fn without_the_driver_nothing_is_asked_of_it() {
        let on = [Collector::Usage, Collector::NvmlEvents, Collector::PciBus];
        let collectors = Collectors::new(on.map(|collector| (collector, None)));
        assert!(!collectors.is_on(Collector::Usage) && !collectors.is_on(Collector::NvmlEvents));
        assert!(collectors.is_on(Collector::PciBus) && !collectors.is_empty());
        assert!(Collectors::new([(Collector::Mig, None)]).is_empty());
    }

    #[test]
    fn an_interval_is_the_given_one_or_the_default() {
        let minute = Duration::from_secs(60);
        let on = [
            (Collector::Nvml, None),
            (Collector::Usage, Some(minute)),
            (Collector::KernelLog, None),
        ];
        let collectors = Collectors::new(on);
        assert_eq!(collectors.interval(Collector::Nvml), Duration::from_secs(1));
        assert_eq!(collectors.interval(Collector::Usage), minute);
        assert_eq!(collectors.interval(Collector::KernelLog), Duration::ZERO);
        let slower = collectors
            .every(Collector::Nvml, minute)
            .every(Collector::Mig, minute);
        assert_eq!(slower.interval(Collector::Nvml), minute);
        assert!(!slower.is_on(Collector::Mig));
    }
}

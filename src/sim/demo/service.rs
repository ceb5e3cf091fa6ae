//! A service whose error rate is known to Prometheus, for guards over it.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::sim::prometheus::Page;

/// How many requests a second it answers.
const RATE: f64 = 200.0;

/// The service. Clones are the same one.
#[derive(Clone)]
pub struct Service {
    counters: Arc<Mutex<Counters>>,
}

struct Counters {
    counted_until: Timestamp,
    /// The share of requests that it answers with an error.
    failing: f64,
    answered: f64,
    failed: f64,
}

impl Service {
    /// One that is well.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let counters = Counters {
            counted_until: now,
            failing: 0.0,
            answered: 0.0,
            failed: 0.0,
        };
        Self {
            counters: Arc::new(Mutex::new(counters)),
        }
    }

    /// From now on it answers this share of its requests with an error.
    pub fn fails(&self, share: f64, now: Timestamp) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.count(now);
        counters.failing = share;
    }
}

impl Counters {
    fn count(&mut self, now: Timestamp) {
        let seconds = now
            .duration_since(self.counted_until)
            .as_secs_f64()
            .max(0.0);
        self.answered += seconds * RATE * (1.0 - self.failing);
        self.failed += seconds * RATE * self.failing;
        self.counted_until = now;
    }
}

impl Page for Service {
    fn scrape(&self, now: Timestamp) -> Result<String, String> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.count(now);
        Ok(format!(
            "# TYPE http_requests_total counter\n\
             http_requests_total{{code=\"200\"}} {:.0}\n\
             http_requests_total{{code=\"500\"}} {:.0}\n",
            counters.answered, counters.failed
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_by_the_share_of_their_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let service = Service::new(at(0));
        service.fails(0.25, at(10));
        let page = service.scrape(at(20)).unwrap();
        assert!(page.contains("code=\"200\"} 3500\n"), "{page}");
        assert!(page.contains("code=\"500\"} 500\n"), "{page}");
    }
}

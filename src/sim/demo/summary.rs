//! The last page of a story: the fault as `kubectl` shows it, the times, what was expected, what was simulated.

use std::fmt::Write;

use jiff::SignedDuration;
use serde_json::Value;

use super::ending::{Ending, SIMULATED};
use super::history::duration;
use super::table;
use super::teller::{BAD, FAINT, GOOD, STRONG};

/// The last page.
#[must_use]
pub fn page(ending: &Ending) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_page(ending, &mut text);
    text
}

fn write_page(ending: &Ending, text: &mut String) -> std::fmt::Result {
    let objects: Vec<Value> = ending.faults.iter().map(|f| f.as_ref().clone()).collect();
    writeln!(text, "\n{FAINT}$ kubectl get gpufaults{FAINT:#}")?;
    text.push_str(&table::faults(&objects, ending.ended));

    let times = ending.recovery_times();
    writeln!(text)?;
    for (what, seconds) in [
        ("fault to isolated", times.fault_to_isolated_seconds),
        (
            "fault to workload recovered",
            times.fault_to_workload_recovered_seconds,
        ),
        ("fault to node back", times.fault_to_node_back_seconds),
    ] {
        let time = seconds.map_or_else(|| "-".to_owned(), shown);
        writeln!(text, "{what:<29}{STRONG}{time}{STRONG:#}")?;
    }
    let moved = ending.reschedules();
    let success = match moved.displaced {
        0 => "no pod was displaced".to_owned(),
        all => format!(
            "{} of {all} displaced pods ({} %)",
            moved.rescheduled,
            moved.rescheduled * 100 / all
        ),
    };
    writeln!(
        text,
        "{:<29}{STRONG}{success}{STRONG:#}",
        "reschedule success"
    )?;

    writeln!(text)?;
    for expectation in &ending.expectations {
        let what = &expectation.what;
        if expectation.holds {
            writeln!(text, "{GOOD}ok{GOOD:#}      {what}")?;
        } else {
            writeln!(text, "{BAD}FAILED{BAD:#}  {what}: {}", expectation.found)?;
        }
    }
    let verdict = if ending.is_as_expected() {
        format!("{GOOD}{}: ended as expected.{GOOD:#}", ending.scenario)
    } else {
        format!("{BAD}{}: did not end as expected.{BAD:#}", ending.scenario)
    };
    writeln!(text, "\n{verdict}")?;
    let took = SignedDuration::try_from(ending.took).unwrap_or(SignedDuration::MAX);
    writeln!(
        text,
        "{FAINT}Simulated: {SIMULATED}. {} of simulated time were told in {}: the clock ran {:.0} times as fast.{FAINT:#}",
        duration(ending.simulated()),
        duration(took),
        ending.acceleration()
    )
}

fn shown(seconds: f64) -> String {
    SignedDuration::try_from_secs_f64(seconds).map_or_else(|_| "-".to_owned(), duration)
}

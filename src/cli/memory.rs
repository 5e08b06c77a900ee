//! What a run would take of this machine's memory, found out before it does.

use crate::config::{Diagnostic, Diagnostics, Place, Resolved, RunLength};
use crate::metrics::Records;
use crate::workload::{Traffic, WorkloadSpec, open};

/// Memory that records may take: 10 GB.
const RECORDS_BYTES_MAX: f64 = 10e9;
/// What a record takes until it is written, and each gap between tokens in one, measured: 62 MB for 200,000 records, 790 MB
/// with 63 gaps each.
const RECORD_BYTES: f64 = 320.0;
const GAP_BYTES: f64 = 60.0;

/// Refuses a run whose records of requests would take more memory than there is.
///
/// # Errors
/// What they would take, and what takes less.
pub(super) fn check_records(resolved: &Resolved, records: Records) -> Result<(), Diagnostics> {
    let RunLength::Requests(requests) = resolved.length else {
        return Ok(());
    };
    let each = match records {
        Records::None => return Ok(()),
        Records::Requests => RECORD_BYTES,
        Records::WithItls => {
            let spec = &resolved.scenario.workload;
            RECORD_BYTES + GAP_BYTES * mean_output_tokens(spec, resolved.scenario.seed)
        }
    };
    let bytes = requests as f64 * each;
    if bytes <= RECORDS_BYTES_MAX {
        return Ok(());
    }
    let most = (RECORDS_BYTES_MAX / each) as u64;
    Err(Diagnostic::new(format!(
        "`--num-prompts` {requests}: a record of each request takes {:.0} GB of this machine's memory, more than {:.0} GB",
        bytes / 1e9,
        RECORDS_BYTES_MAX / 1e9
    ))
    .at(Place::Flag("--num-prompts".to_owned()))
    .help(format!(
        "at most {most} requests, or no --save-detailed, --save-result or --format csv: without records a run of any length takes \
         little memory"
    ))
    .into())
}

/// Output tokens of a request, on average over the first that come.
fn mean_output_tokens(spec: &WorkloadSpec, seed: u64) -> f64 {
    const LOOKED_AT: usize = 1000;
    let mut traffic = open(spec, seed);
    for _ in 0..LOOKED_AT {
        let Some(at) = traffic.next_arrival() else { break };
        let id = traffic.take().id;
        traffic.ended(id, at);
    }
    traffic.mean_output_tokens().unwrap_or(1.0)
}

//! How a command ended: the exit codes, the same for every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// It failed for a reason that is not the input's.
    Failure = 1,
    /// The arguments or a file are wrong.
    BadInput = 2,
    /// The SLO cannot be met, or the model does not fit.
    NotMet = 3,
    /// A steady state was asked for and there is none.
    NoSteadyState = 4,
    /// The machine, or this binary, cannot probe a GPU.
    CannotProbe = 5,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// Every code with its meaning, the same for every command: what `--help` and docs/answers.md say.
    pub(super) const ALL: [(Exit, &str); 7] = [
        (Exit::Ok, "done"),
        (
            Exit::Failure,
            "failure: a full disk, a broken conservation law, a livelock, a run in which no request was answered, or none was sent; of audit, \
             conform, lab check and lab try: something was found; of diff: a figure is beyond --tolerance; of calibrate: nothing was fitted, or what was fitted to \
             is impossible",
        ),
        (
            Exit::BadInput,
            "wrong arguments, or a file that is wrong or not there",
        ),
        (
            Exit::NotMet,
            "the SLO is not met (of sweep: by no run), the model does not fit, or no row of a table can be modelled (validate)",
        ),
        (
            Exit::NoSteadyState,
            "no steady state where one was asked for (a run without a number of requests)",
        ),
        (
            Exit::CannotProbe,
            "this machine, or this binary, cannot probe a GPU",
        ),
        (
            Exit::Interrupted,
            "interrupted; what was finished is printed and marked",
        ),
    ];

    /// The codes for the end of `--help`.
    pub(super) fn help() -> String {
        let line = |(exit, meaning): (Exit, &str)| format!("\n  {:<3}  {meaning}", exit as u8);
        Exit::ALL.map(line).concat()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

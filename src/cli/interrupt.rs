//! Ctrl-C, SIGTERM, and SIGHUP unless it is ignored (`nohup`): the first asks the running command to stop at its next safe point, the second ends the program.
//!
//! A terminal and a wrapper (`timeout`, `make`, a notebook) may both send the signal of one key press: what comes within
//! `ONE_PRESS` of the first is the same one.
//!
//! A command that has nothing to show before its end, and nothing half written, has no such point to wait for: while it
//! holds an [`AtOnce`] the first Ctrl-C ends the program.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Exit;

/// Signals that are no further apart are of one key press.
const ONE_PRESS: Duration = Duration::from_millis(300);

static FIRST: OnceLock<Instant> = OnceLock::new();
static IS_ASKED: AtomicBool = AtomicBool::new(false);
static IS_AT_ONCE: AtomicBool = AtomicBool::new(false);
static IS_WITHIN: AtomicBool = AtomicBool::new(false);

/// Starts to listen. Where the system gives no handler a signal ends the program at once, as always.
pub fn listen() {
    let hangups = Hangups::of_the_caller();
    let _ = ctrlc::set_handler(|| {
        let is_again = FIRST.get_or_init(Instant::now).elapsed() > ONE_PRESS;
        IS_ASKED.store(true, Ordering::SeqCst);
        if IS_AT_ONCE.load(Ordering::SeqCst) {
            quit(b"note: interrupted; nothing was written\n");
        }
        if is_again {
            quit(b"note: interrupted again\n");
        }
    });
    hangups.restore();
}

/// Whether whoever started the program had it ignore hangups, as `nohup` does: the handler takes those as well, and would end
/// what should go on.
struct Hangups {
    #[cfg(unix)]
    are_ignored: bool,
}

impl Hangups {
    #[cfg(unix)]
    fn of_the_caller() -> Hangups {
        // SAFETY: `SIG_IGN` is valid of SIGHUP, and no handler of this program is replaced: none was set before.
        let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let are_ignored = before == libc::SIG_IGN;
        if !are_ignored {
            // SAFETY: what it was before.
            unsafe { libc::signal(libc::SIGHUP, before) };
        }
        Hangups { are_ignored }
    }

    #[cfg(unix)]
    fn restore(&self) {
        if self.are_ignored {
            // SAFETY: `SIG_IGN` is valid of SIGHUP; the handler stays with the other signals.
            unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        }
    }

    #[cfg(not(unix))]
    fn of_the_caller() -> Hangups {
        Hangups {}
    }

    #[cfg(not(unix))]
    fn restore(&self) {}
}

/// Whether the user asked to stop.
#[must_use]
pub fn is_asked() -> bool {
    IS_ASKED.load(Ordering::SeqCst)
}

/// While it lives the first Ctrl-C ends the program.
#[derive(Debug)]
pub struct AtOnce(());

/// Until the returned value is dropped nothing would be lost if the program ended; if that was already asked for, it does.
#[must_use]
pub fn at_once() -> AtOnce {
    if IS_WITHIN.load(Ordering::SeqCst) {
        return AtOnce(());
    }
    IS_AT_ONCE.store(true, Ordering::SeqCst);
    if is_asked() {
        quit(b"note: interrupted; nothing was written\n");
    }
    AtOnce(())
}

/// While it lives commands run within another one, which has something to show: none of them ends the program.
#[derive(Debug)]
pub struct Within(());

/// Until the returned value is dropped [`at_once`] does nothing.
#[must_use]
pub fn within() -> Within {
    IS_WITHIN.store(true, Ordering::SeqCst);
    Within(())
}

impl Drop for Within {
    fn drop(&mut self) {
        IS_WITHIN.store(false, Ordering::SeqCst);
    }
}

impl Drop for AtOnce {
    fn drop(&mut self) {
        IS_AT_ONCE.store(false, Ordering::SeqCst);
    }
}

#[expect(
    clippy::exit,
    reason = "the command did not stop when asked, and holds nothing that must be saved"
)]
fn quit(note: &[u8]) {
    // A closed stderr is no reason to stay.
    let _ = std::io::stderr().write_all(note);
    std::process::exit(i32::from(Exit::Interrupted as u8));
}

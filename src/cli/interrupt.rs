//! Ctrl-C: the first asks the running command to stop at its next safe point, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Exit;

static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Starts to listen. Where the system gives no handler Ctrl-C ends the program at once, as always.
pub fn listen() {
    let _ = ctrlc::set_handler(|| {
        if IS_ASKED.swap(true, Ordering::Relaxed) {
            quit();
        }
    });
}

/// Whether the user asked to stop.
#[must_use]
pub fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

#[expect(
    clippy::exit,
    reason = "the command did not stop when asked, and holds nothing that must be saved"
)]
fn quit() {
    std::process::exit(i32::from(Exit::Interrupted as u8));
}

//! The folder of published results that tests hold readers and laws against, where it is at hand (`PLIMSOLL_DATA`).

use std::io::Write as _;
use std::path::PathBuf;

/// The folder; where there is none, says what is `unchecked` past the test's capture, so that a check that did not happen
/// is not taken for one that passed. A file that lacks in a folder that is there fails its test.
pub(crate) fn data(unchecked: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("PLIMSOLL_DATA").map(PathBuf::from);
    if folder.is_none() {
        let told = format!("PLIMSOLL_DATA is not set: {unchecked}\n");
        std::io::stderr().write_all(told.as_bytes()).unwrap();
    }
    folder
}

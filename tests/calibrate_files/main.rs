//! `calibrate` on files: results of every benchmark tool, a probe's output, tables with prefixes and copies, and what is
//! no input at all.

#[path = "../common/fitting.rs"]
mod fitting;

mod commands;
mod marks;
mod outliers;
mod own_server;
mod refused;
mod results;
mod served;
mod tables;
mod truths;

use std::path::Path;
use std::process::{Command, Output};

fn plimsoll(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

//! The real binary from end to end: exit codes, first lines, what it writes, and that the same input gives the same bytes.

mod apart;
mod axes;
mod classes;
mod conversations;
mod costs;
mod explain;
#[cfg(feature = "serve")]
mod explore;
mod frontier;
mod ideal;
mod input;
mod knees;
mod labs;
mod limits;
#[cfg(feature = "serve")]
mod listening;
mod loops;
mod metrics;
mod pasted;
mod promises;
mod readme;
mod report;
mod results;
#[cfg(feature = "serve")]
mod serve;
mod serving;
mod shipped;
mod size;
mod stages;
mod tables;
mod timeline;
mod told;
mod too_long;
mod windows;

use std::path::Path;
use std::process::{Command, Output};

/// Plimsoll in a folder of its own: an installed binary needs no other file.
pub(crate) struct Desk(tempfile::TempDir);

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command
            .args(shlex::split(words).unwrap())
            .current_dir(self.path())
            .env("SOURCE_DATE_EPOCH", "1767225600")
            .env_remove("RAYON_NUM_THREADS");
        command
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Demands an exit code; gives what was printed.
    pub(crate) fn expect(&self, code: i32, words: &str) -> String {
        let output = self.run(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "plimsoll {words}\n{out}\n{err}");
        out
    }
}

/// What was printed, whatever its lines were folded to.
pub(crate) fn unfolded(printed: &str) -> String {
    printed.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn fixture(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) const SMALL: &str = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --request-rate 5 \
                     --input-len 512 --output-len 64 --num-prompts 200";

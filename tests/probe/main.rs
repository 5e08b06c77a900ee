//! `plimsoll probe` as a user meets it: without the feature a line and a code; with it, from the driver to the file, against a
//! made-up driver that a C compiler builds, in health and in every ailment.

use std::process::{Command, Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// One line on stderr and nothing on stdout, with this exit code.
fn refuses(output: &Output, code: i32, says: &str) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{says}\n{out}\n{err}");
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
    assert!(err.contains(says), "`{err}` does not say `{says}`");
    assert!(!err.contains("panicked"), "{err}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_binary_without_the_probe_says_how_to_get_one_and_exits_with_5() {
    let run = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(words)
            .output()
            .unwrap()
    };
    refuses(
        &run(&["probe", "-o", "x.toml"]),
        5,
        "cargo install plimsoll --features cuda",
    );
    let doctor = run(&["probe", "doctor"]);
    assert_eq!(doctor.status.code(), Some(5));
    assert!(text(&doctor.stdout).starts_with("cannot probe: this binary was built without the probe"));
}

#[cfg(all(feature = "cuda", target_os = "linux"))]
mod with_a_made_up_driver {
    use super::*;
    use plimsoll::cost::calibration::{Calibration, GemmForm, KernelFormat};
    use std::path::{Path, PathBuf};

    /// A folder of made-up libraries and results.
    struct Rig(tempfile::TempDir);

    fn compile(arguments: &[&str], to: &Path) -> bool {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/driver.c");
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(to)
            .arg(source)
            .args(arguments);
        match command.output() {
            Ok(output) => {
                assert!(output.status.success(), "{}", text(&output.stderr));
                true
            }
            Err(_) => false,
        }
    }

    impl Rig {
        /// `None` where there is no C compiler.
        #[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
        fn new(arguments: &[&str]) -> Option<Rig> {
            let rig = Rig(tempfile::tempdir().unwrap());
            let driver = rig.path("libcuda.so.1");
            if !compile(
                &[arguments, &["-lm", "-Wl,-soname,libcuda.so.1"]].concat(),
                &driver,
            ) {
                eprintln!("not tested: there is no C compiler (`cc`)");
                return None;
            }
            // The bindings try the bare name first, and a real driver may have one.
            std::os::unix::fs::symlink(&driver, rig.path("libcuda.so")).unwrap();
            // One library by three names, so that all of it has one clock.
            for name in ["libcublasLt.so", "libcublasLt.so.13", "libnvidia-ml.so.1"] {
                std::os::unix::fs::symlink(&driver, rig.path(name)).unwrap();
            }
            Some(rig)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn run(&self, words: &str, ailments: &[(&str, &str)]) -> Output {
            let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
            command
                .args(words.split_whitespace())
                .current_dir(self.0.path())
                .env_clear();
            command
                .env("LD_LIBRARY_PATH", self.0.path())
                .envs(ailments.iter().copied());
            command.env("SOURCE_DATE_EPOCH", "1767225600");
            command.output().unwrap()
        }

        /// Files that a user would find.
        fn results(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.0.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| !name.contains(".so")).collect()
        }
    }

    #[test]
    fn a_healthy_card_becomes_a_calibration_that_a_run_uses() {
        let Some(rig) = Rig::new(&[]) else {
            return;
        };
        let probed = rig.run("probe -o card.toml", &[]);
        let (out, err) = (text(&probed.stdout), text(&probed.stderr));
        assert_eq!(probed.status.code(), Some(0), "{out}\n{err}");
        assert!(out.starts_with("NVIDIA H200: 77"), "{out}");
        let file = std::fs::read_to_string(rig.path("card.toml")).unwrap();
        let calibration = Calibration::parse("card", &file).unwrap_or_else(|error| panic!("{error}\n{file}"));
        let GemmForm::C5(c5) = &calibration.gemm[&KernelFormat::Bf16].form else {
            panic!("{file}")
        };
        assert!((c5.p_tflops / 776.0 - 1.0).abs() < 0.02, "{}", c5.p_tflops);
        assert!((c5.w_gbs / 4250.0 - 1.0).abs() < 0.02, "{}", c5.w_gbs);
        let attention = calibration.attention.as_ref().unwrap();
        assert!(
            (attention.decode.t0_us - 12.0).abs() < 0.3,
            "{}",
            attention.decode.t0_us
        );
        for expected in [
            "kernel_load = \"embedded-ptx\"",
            "driver = \"580.159.04\"",
            "sm_burst = 1980",
            "throttle = [\"sw_power_cap\"]",
            "pcie = { gen = 5, width = 16 }",
            "skipped = []",
            "decode_over_read = 1.0",
            "8 points of gemm.int8 are not supported here",
        ] {
            assert!(file.contains(expected), "no `{expected}` in\n{file}");
        }
        let run = "run meta-llama/Llama-3.1-8B-Instruct --gpu h200 --calibration card.toml --request-rate 5 \
                   --input-len 512 --output-len 64 --num-prompts 200 --max-model-len 8192";
        let simulated = rig.run(run, &[]);
        assert_eq!(simulated.status.code(), Some(0), "{}", text(&simulated.stderr));
        let doctor = rig.run("probe doctor", &[]);
        assert_eq!(doctor.status.code(), Some(0));
        assert!(
            text(&doctor.stdout).starts_with("ready: "),
            "{}",
            text(&doctor.stdout)
        );
    }

    #[test]
    fn every_ailment_is_one_line_and_exit_code_5() {
        let Some(rig) = Rig::new(&[]) else {
            return;
        };
        let ailments: [(&[(&str, &str)], &str); 11] = [
            (
                &[("MOCK_DRIVER", "12020")],
                "the driver supports CUDA 12.2, the probe needs 12.8",
            ),
            (&[("MOCK_CUINIT", "34")], "the toolkit's stub"),
            (&[("MOCK_CUINIT", "100")], "shows no GPU"),
            (&[("MOCK_CUINIT", "803")], "different versions"),
            (&[("MOCK_GPUS", "0")], "shows no GPU"),
            (&[("MOCK_OPEN", "46")], "cannot be opened"),
            (&[("MOCK_SM", "7")], "sm_80"),
            (&[("MOCK_MIG", "1")], "MIG slice"),
            (&[("MOCK_PROCESSES", "2")], "2 other process(es)"),
            (
                &[("MOCK_FREE", "1073741824")],
                "1.0 GiB of the GPU's memory are free",
            ),
            (&[("MOCK_ROOM", "5000000000")], "ran out of memory"),
        ];
        for (ailment, says) in ailments {
            refuses(&rig.run("probe -o card.toml", ailment), 5, says);
        }
        assert_eq!(rig.results(), Vec::<String>::new());
    }

    #[test]
    fn a_missing_or_cut_library_is_named() {
        let Some(rig) = Rig::new(&["-DCUT_SHORT"]) else {
            return;
        };
        refuses(&rig.run("probe", &[]), 5, "stub or cut short");
        for name in ["libcuda.so", "libcuda.so.1"] {
            std::fs::remove_file(rig.path(name)).unwrap();
        }
        // Where the machine has a driver of its own that one is found, and there is nothing to test.
        let output = rig.run("probe", &[]);
        if !text(&output.stderr).contains("CUDA") {
            refuses(&output, 5, "libcuda.so.1 was not found");
        }
    }

    #[test]
    fn neither_an_interruption_nor_a_failing_kernel_leaves_a_file() {
        let Some(rig) = Rig::new(&[]) else {
            return;
        };
        refuses(
            &rig.run("probe -o card.toml", &[("MOCK_INTERRUPT", "400")]),
            130,
            "nothing was written",
        );
        refuses(
            &rig.run("probe -o card.toml", &[("MOCK_FAIL", "400")]),
            1,
            "CUDA_ERROR_LAUNCH_FAILED",
        );
        assert_eq!(rig.results(), Vec::<String>::new());
    }

    #[test]
    fn a_shared_card_is_measured_where_the_user_insists_and_is_not_clean() {
        let Some(rig) = Rig::new(&[]) else {
            return;
        };
        let probed = rig.run(
            "probe --shared -o card.toml",
            &[("MOCK_PROCESSES", "2"), ("MOCK_NVML", "0")],
        );
        assert_eq!(probed.status.code(), Some(0), "{}", text(&probed.stderr));
        let file = std::fs::read_to_string(rig.path("card.toml")).unwrap();
        assert!(
            file.contains("clean = false") && file.contains("2 other process(es)"),
            "{file}"
        );
    }

    #[test]
    fn two_cards_are_copied_between() {
        let Some(rig) = Rig::new(&[]) else {
            return;
        };
        let probed = rig.run("probe --device 1", &[("MOCK_GPUS", "2")]);
        let (out, err) = (text(&probed.stdout), text(&probed.stderr));
        assert_eq!(probed.status.code(), Some(0), "{err}");
        assert!(out.starts_with("# Measured by `plimsoll probe`"), "{out}");
        let copies = out.split("\ncopies = [").nth(1).unwrap();
        let copies = copies.lines().filter(|line| line.starts_with("    [")).count();
        assert_eq!(copies, 4, "two sizes both ways");
        assert!(out.contains("status = \"copies\"\ngpus = 2"), "{out}");
    }
}

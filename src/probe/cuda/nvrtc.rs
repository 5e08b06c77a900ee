//! The kernels, compiled for the card at hand: straight to machine code, which no driver is too old for.

use std::ffi::CString;

use cudarc::nvrtc::{result, sys};

/// `13.0`.
pub(super) fn version() -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the pointers are to live integers.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    format!("{major}.{minor}")
}

/// What a compiled program is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// Machine code of an architecture, `sm_90`.
    Cubin(&'a str),
    /// Assembly for a virtual architecture, `compute_80`.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test makes kernels.ptx with it"))]
    Ptx(&'a str),
}

/// Compiles a text without includes.
///
/// # Errors
/// The compiler's own words.
pub(super) fn compile(source: &str, target: Target) -> Result<Vec<u8>, String> {
    let text = CString::new(source).map_err(|error| error.to_string())?;
    let program = result::create_program(&text, Some(c"kernels.cu")).map_err(|error| error.to_string())?;
    let (Target::Cubin(arch) | Target::Ptx(arch)) = target;
    let options = [format!("--gpu-architecture={arch}"), "--std=c++17".to_owned()];
    // SAFETY: the program was made above and is destroyed below.
    unsafe {
        let compiled = result::compile_program(program, &options);
        let log = result::get_program_log(program).unwrap_or_default();
        let log: String = log
            .iter()
            .map(|c| *c as u8 as char)
            .filter(|c| *c != '\0')
            .collect();
        let image = compiled
            .map_err(|error| format!("{error}: {log}"))
            .and_then(|()| match target {
                Target::Cubin(_) => cubin(program),
                Target::Ptx(_) => result::get_ptx(program)
                    .map(|ptx| ptx.iter().map(|c| *c as u8).collect())
                    .map_err(|error| error.to_string()),
            });
        // A program that cannot be destroyed leaks a little memory, no more.
        let _ = result::destroy_program(program);
        image
    }
}

/// # Safety
/// The program must have been compiled.
unsafe fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: the size is that which the compiler names.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &mut size)
            .result()
            .map_err(|error| error.to_string())?;
        let mut image = vec![0_u8; size];
        sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast())
            .result()
            .map_err(|error| error.to_string())?;
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::super::loader;
    use super::*;
    use crate::probe::kernels;

    /// `.version` lowered to the least that knows every instruction, comments off, the text's digest on top.
    fn portable(ptx: &str) -> String {
        let lines = ptx.lines().filter(|line| !line.starts_with("//"));
        let lines = lines.map(|line| {
            if line.starts_with(".version") {
                ".version 7.4"
            } else {
                line
            }
        });
        let body: Vec<&str> = lines.skip_while(|line| line.is_empty()).collect();
        format!("{}\n{}\n", kernels::stamp(), body.join("\n"))
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
    fn nvrtc_compiles_the_kernels_for_every_architecture() {
        let version = match loader::nvrtc() {
            Ok(version) => version,
            Err(why) => {
                eprintln!("not tested: {why}; `pip install nvidia-cuda-nvrtc-cu12` brings it");
                return;
            }
        };
        for arch in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] {
            let image =
                compile(kernels::SOURCE, Target::Cubin(arch)).unwrap_or_else(|why| panic!("{arch}: {why}"));
            assert!(image.starts_with(b"\x7fELF"), "{arch}");
        }
        let ptx = compile(kernels::SOURCE, Target::Ptx("compute_80")).unwrap();
        let ptx = portable(String::from_utf8(ptx).unwrap().trim_end_matches('\0'));
        if version == "12.9" && ptx.trim_end() != kernels::PTX.trim_end() {
            let fresh = std::env::temp_dir().join("plimsoll-kernels.ptx");
            std::fs::write(&fresh, ptx).unwrap();
            panic!(
                "kernels.ptx is not what this compiler makes; {} is",
                fresh.display()
            );
        }
        let error = compile("nonsense", Target::Cubin("sm_80")).unwrap_err();
        assert!(error.contains("kernels.cu"), "{error}");
    }
}

//! Finds and pins the CUDA libraries before the bindings look for them, since their own search panics where it fails.
//!
//! A library that was opened by its full path with global symbols stays open for good; a later search by its bare name
//! then finds that copy, because glibc compares the names that libraries give themselves. Wheels and toolkits that are not on the loader's
//! path are found in this way.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use cudarc::driver::{result, sys};
use libloading::Library;

use super::device;
use super::nvml::Nvml;
use super::nvrtc;
use crate::digest::sha256;
use crate::probe::doctor::{Facts, LEAST_CUDA};
use crate::probe::facts::Gpu;

/// The variable that names folders of libraries.
const FOLDERS: &str = "PLIMSOLL_CUDA_LIBS";

/// Folders that may hold CUDA's libraries, the user's first.
fn folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut folders = Vec::new();
    if let Some(named) = std::env::var_os(FOLDERS) {
        folders.extend(std::env::split_paths(&named));
    }
    let toolkits = [
        variable("CUDA_HOME"),
        variable("CUDA_PATH"),
        Some(PathBuf::from("/usr/local/cuda")),
    ];
    for toolkit in toolkits.into_iter().flatten() {
        folders.push(toolkit.join("lib64"));
        folders.push(toolkit.join(format!("targets/{}-linux/lib", std::env::consts::ARCH)));
    }
    // Wheels: torch brings its own CUDA into site-packages/nvidia/*/lib.
    for environment in [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX")]
        .into_iter()
        .flatten()
    {
        for python in entries(&environment.join("lib")) {
            for package in entries(&python.join("site-packages/nvidia")) {
                folders.push(package.join("lib"));
            }
        }
    }
    folders
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Opens the youngest `stem.so.<version>` of the first folder that has one, for good.
#[cfg(unix)]
fn pin(stem: &str) -> Option<PathBuf> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    let is_version = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let version = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix(".so."));
        version.is_some_and(|version| version.split('.').all(|part| part.parse::<u32>().is_ok()))
    };
    for folder in folders() {
        for path in entries(&folder).into_iter().rev().filter(is_version) {
            // SAFETY: initialisers of a CUDA library run, which is what the user asked for by probing.
            if let Ok(library) = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) } {
                std::mem::forget(library);
                return Some(path);
            }
        }
    }
    None
}

#[cfg(not(unix))]
fn pin(_stem: &str) -> Option<PathBuf> {
    None
}

fn not_found(library: &str) -> String {
    let places = folders().len();
    format!("{library} is neither on the loader's path nor in {places} other folders ({FOLDERS} adds some)")
}

/// Makes the run-time compiler ready; tells its version.
pub(super) fn nvrtc() -> Result<String, String> {
    // SAFETY: opens libraries by their names and closes them.
    if unsafe { !cudarc::nvrtc::sys::is_culib_present() } {
        // Its built-in headers are a library of their own, which it looks for by its bare name.
        pin("libnvrtc-builtins");
        pin("libnvrtc");
    }
    // SAFETY: as above.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        Ok(nvrtc::version())
    } else {
        Err(not_found("libnvrtc"))
    }
}

/// Makes the library of products ready; tells its version.
pub(super) fn cublaslt() -> Result<String, String> {
    // SAFETY: opens libraries by their names and closes them.
    if unsafe { !cudarc::cublaslt::sys::is_culib_present() } {
        pin("libcublasLt");
    }
    // SAFETY: as above.
    if unsafe { !cudarc::cublaslt::sys::is_culib_present() } {
        return Err(not_found("libcublasLt"));
    }
    // SAFETY: takes no arguments.
    let version = unsafe { cudarc::cublaslt::sys::cublasLtGetVersion() };
    // 120805 before CUDA 13, 130002 since.
    Ok(format!(
        "{}.{}.{}",
        version / 10_000,
        version % 10_000 / 100,
        version % 100
    ))
}

/// The driver's version by its own symbol, and whether a library was found at all: the bindings would panic on a stub.
fn driver() -> (bool, Option<i32>) {
    let names = ["cuda", "nvcuda"]
        .into_iter()
        .flat_map(cudarc::get_lib_name_candidates);
    for name in names {
        // SAFETY: opens the driver's library.
        let Ok(library) = (unsafe { Library::new(name) }) else {
            continue;
        };
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
        let needed: [&[u8]; 3] = [b"cuInit\0", b"cuDeviceGetCount\0", b"cuMemAlloc_v2\0"];
        // SAFETY: only whether the symbols are there is asked.
        let is_whole = needed
            .iter()
            .all(|symbol| unsafe { library.get::<*const ()>(*symbol) }.is_ok());
        // SAFETY: the driver API documents this signature.
        let Ok(get) = (unsafe { library.get::<GetVersion>(b"cuDriverGetVersion\0") }) else {
            return (true, None);
        };
        let mut version = 0;
        // SAFETY: the pointer is to a live integer.
        let code = unsafe { get(&mut version) };
        let known = (code == 0 || version > 0).then_some(version);
        // A toolkit's stub answers every call with 34 (CUDA_ERROR_STUB_LIBRARY): cuInit tells that below.
        return (true, if is_whole { known.or(Some(0)) } else { None });
    }
    (false, None)
}

/// Looks at everything that a probe needs, in the order in which it needs it.
pub(super) fn examine(mut facts: Facts) -> Facts {
    (facts.has_driver, facts.driver_version) = driver();
    if facts.driver_version.is_none() {
        return facts;
    }
    if let Err(error) = result::init() {
        let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
        facts.init = Some((error.0 as u32, name.unwrap_or_default()));
        return facts;
    }
    if facts.driver_version.is_some_and(|version| version < LEAST_CUDA) {
        return facts;
    }
    facts.gpus = result::device::get_count().map_or(0, |count| count.max(0) as u32);
    let nvml = Nvml::open();
    if facts.asked < facts.gpus {
        match describe(facts.asked, facts.gpus, nvml.as_ref().ok()) {
            Ok(gpu) => facts.gpu = Some(gpu),
            Err(error) => facts.open_error = Some(error.to_string()),
        }
    }
    facts.nvrtc = Some(nvrtc());
    facts.cublaslt = Some(cublaslt());
    facts.nvml = Some(nvml.map(|nvml| nvml.driver_version()));
    facts
}

/// What the driver and its instruments say of one GPU. Neighbours are counted before a context makes this process one.
fn describe(ordinal: u32, gpus: u32, nvml: Option<&Nvml>) -> Result<Gpu, device::Fault> {
    use sys::CUdevice_attribute_enum as A;
    let device = device::said("cuDeviceGet", result::device::get(ordinal as c_int))?;
    // SAFETY: the device comes from the driver.
    let attribute = |attribute| {
        device::said("cuDeviceGetAttribute", unsafe {
            result::device::get_attribute(device, attribute)
        })
    };
    let name = device::said("cuDeviceGetName", result::device::get_name(device))?;
    let uuid = result::device::get_uuid(device)
        .map(|uuid| uuid.bytes)
        .unwrap_or_default();
    let mut salted = b"plimsoll probe ".to_vec();
    salted.extend(uuid.iter().map(|byte| *byte as u8));
    let instruments = nvml.and_then(|nvml| nvml.device(&bus_id(device)?));
    let is_mig = name.contains(" MIG ") || instruments.as_ref().is_some_and(|card| card.is_mig());
    let other_processes = instruments.as_ref().and_then(|card| card.processes());
    let (free, total) = device::memory(ordinal)?;
    Ok(Gpu {
        is_mig,
        other_processes,
        uuid_digest: sha256(&salted)[..12].to_owned(),
        capability: (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        ),
        sm_count: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        l2_bytes: attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        memory_bytes: total as u64,
        memory_free: free as u64,
        peers: gpus,
        name,
    })
}

/// The card's place on the bus, by which its instruments know it: they count cards otherwise than CUDA does.
pub(super) fn bus_id(device: sys::CUdevice) -> Option<String> {
    let mut text = [0 as c_char; 32];
    // SAFETY: the buffer is as long as is said.
    let code = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, device) };
    code.result().ok()?;
    let bytes: Vec<u8> = text
        .iter()
        .map(|c| *c as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8(bytes).ok()
}

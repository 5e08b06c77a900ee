//! The card's instruments (NVML), read and never written. A dozen functions are looked up by name, which spares twenty crates.
//!
//! Every answer is optional: a container or a virtual machine may hide any of them.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::Library;

type Handle = *mut c_void;
type One = unsafe extern "C" fn(Handle, *mut c_uint) -> c_int;
type Two = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> c_int;
type OfKind = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_int;

/// `NVML_CLOCK_SM` and `NVML_CLOCK_MEM`.
const SM: c_uint = 1;
const MEM: c_uint = 2;
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
const TOO_SMALL: c_int = 7;

/// The opened library.
pub(super) struct Nvml {
    library: Library,
}

impl Nvml {
    /// Opens it.
    pub(super) fn open() -> Result<Nvml, String> {
        let names = if cfg!(windows) {
            ["nvml.dll", "nvml"]
        } else {
            ["libnvidia-ml.so.1", "libnvidia-ml.so"]
        };
        // SAFETY: opens the driver's own library.
        let library = names
            .into_iter()
            .find_map(|name| unsafe { Library::new(name) }.ok());
        let nvml = Nvml {
            library: library.ok_or_else(|| format!("{} was not found", names[0]))?,
        };
        let init = nvml.function::<unsafe extern "C" fn() -> c_int>(c"nvmlInit_v2");
        // SAFETY: takes no arguments.
        match init.map(|init| unsafe { init() }) {
            Some(0) => Ok(nvml),
            Some(code) => Err(format!("nvmlInit failed with {code}")),
            None => Err("libnvidia-ml is a stub or cut short".to_owned()),
        }
    }

    fn function<F: Copy>(&self, name: &std::ffi::CStr) -> Option<F> {
        // SAFETY: every caller names a function with the signature that nvml.h gives it.
        unsafe { self.library.get::<F>(name.to_bytes_with_nul()) }
            .ok()
            .map(|symbol| *symbol)
    }

    /// `580.159.04`; empty where it is not told.
    pub(super) fn driver_version(&self) -> String {
        type Get = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
        let mut text = [0 as c_char; 96];
        let get = self.function::<Get>(c"nvmlSystemGetDriverVersion");
        // SAFETY: the buffer is as long as is said.
        let code = get.map(|get| unsafe { get(text.as_mut_ptr(), text.len() as c_uint) });
        let bytes = text.iter().map(|c| *c as u8).take_while(|byte| *byte != 0);
        if code == Some(0) {
            bytes.map(char::from).collect()
        } else {
            String::new()
        }
    }

    /// The card at this place on the bus.
    pub(super) fn device(&self, bus_id: &str) -> Option<Card<'_>> {
        type Get = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
        let text = CString::new(bus_id).ok()?;
        let mut handle: Handle = std::ptr::null_mut();
        let get = self.function::<Get>(c"nvmlDeviceGetHandleByPciBusId_v2")?;
        // SAFETY: a string and a place for a handle.
        let code = unsafe { get(text.as_ptr(), &mut handle) };
        (code == 0).then_some(Card { nvml: self, handle })
    }
}

/// One card.
pub(super) struct Card<'n> {
    nvml: &'n Nvml,
    handle: Handle,
}

impl Card<'_> {
    fn one(&self, name: &std::ffi::CStr) -> Option<u32> {
        let mut value = 0;
        let get = self.nvml.function::<One>(name)?;
        // SAFETY: a handle of this library and a live integer.
        (unsafe { get(self.handle, &mut value) } == 0).then_some(value)
    }

    fn two(&self, name: &std::ffi::CStr) -> Option<(u32, u32)> {
        let (mut a, mut b) = (0, 0);
        let get = self.nvml.function::<Two>(name)?;
        // SAFETY: as above.
        (unsafe { get(self.handle, &mut a, &mut b) } == 0).then_some((a, b))
    }

    fn of_kind(&self, name: &std::ffi::CStr, kind: c_uint) -> Option<u32> {
        let mut value = 0;
        let get = self.nvml.function::<OfKind>(name)?;
        // SAFETY: as above.
        (unsafe { get(self.handle, kind, &mut value) } == 0).then_some(value)
    }

    /// MHz.
    pub(super) fn sm_clock(&self) -> Option<u32> {
        self.of_kind(c"nvmlDeviceGetClockInfo", SM)
    }

    /// MHz.
    pub(super) fn sm_clock_max(&self) -> Option<u32> {
        self.of_kind(c"nvmlDeviceGetMaxClockInfo", SM)
    }

    /// MHz.
    pub(super) fn mem_clock(&self) -> Option<u32> {
        self.of_kind(c"nvmlDeviceGetClockInfo", MEM)
    }

    /// W.
    pub(super) fn power(&self) -> Option<f64> {
        self.one(c"nvmlDeviceGetPowerUsage")
            .map(|milliwatts| f64::from(milliwatts) / 1e3)
    }

    /// W.
    pub(super) fn power_limit(&self) -> Option<f64> {
        let milliwatts = self.one(c"nvmlDeviceGetEnforcedPowerLimit")?;
        Some(f64::from(milliwatts) / 1e3)
    }

    /// °C of the chip (`NVML_TEMPERATURE_GPU`).
    pub(super) fn temperature(&self) -> Option<u32> {
        self.of_kind(c"nvmlDeviceGetTemperature", 0)
    }

    /// Reasons for a lower clock, as bits.
    pub(super) fn throttle(&self) -> u64 {
        type Get = unsafe extern "C" fn(Handle, *mut u64) -> c_int;
        // The name before driver 535, which all still export.
        let Some(get) = self
            .nvml
            .function::<Get>(c"nvmlDeviceGetCurrentClocksThrottleReasons")
        else {
            return 0;
        };
        let mut bits = 0;
        // SAFETY: a handle of this library and a live integer.
        if unsafe { get(self.handle, &mut bits) } == 0 {
            bits
        } else {
            0
        }
    }

    /// Whether the card is cut into slices now.
    pub(super) fn is_mig(&self) -> bool {
        self.two(c"nvmlDeviceGetMigMode").is_some_and(|(now, _)| now == 1)
    }

    /// Whether memory corrects errors now.
    pub(super) fn ecc(&self) -> Option<bool> {
        self.two(c"nvmlDeviceGetEccMode").map(|(now, _)| now == 1)
    }

    /// Generation and lanes of the host link, under whatever load there is.
    pub(super) fn pcie(&self) -> Option<(u32, u32)> {
        let generation = self.one(c"nvmlDeviceGetCurrPcieLinkGeneration")?;
        Some((generation, self.one(c"nvmlDeviceGetCurrPcieLinkWidth")?))
    }

    /// Processes that compute on the card. Only their number is asked: the record of one differs between versions.
    pub(super) fn processes(&self) -> Option<u32> {
        type Get = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_void) -> c_int;
        let names = [
            c"nvmlDeviceGetComputeRunningProcesses_v3",
            c"nvmlDeviceGetComputeRunningProcesses_v2",
        ];
        let get = names
            .into_iter()
            .find_map(|name| self.nvml.function::<Get>(name))?;
        let mut count = 0;
        // SAFETY: with a count of zero nothing is written.
        let code = unsafe { get(self.handle, &mut count, std::ptr::null_mut()) };
        matches!(code, 0 | TOO_SMALL).then_some(count)
    }
}

//! One opened GPU: its memory, its kernels, and how an operation is timed.
//!
//! Operations are captured into a graph and replayed between events, so that the host's time for a launch is no part of them.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, result, sys};
use cudarc::nvrtc::Ptx;

use super::nvrtc::{self, Target};
use crate::probe::course::Refusal;
use crate::probe::facts::Gpu;
use crate::probe::plan::sizing;
use crate::probe::{ProbeError, kernels};

/// Seconds from which the host's clock tells an operation's time well enough to plan its samples.
const LONG_S: f64 = 5e-3;

/// A call that failed.
pub(super) type Fault = ProbeError;

/// A driver's answer with the name of the call; a lack of memory is the machine's, not the probe's.
pub(super) fn said<T>(what: &'static str, answer: Result<T, DriverError>) -> Result<T, Fault> {
    answer.map_err(|error| {
        if error.0 == sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY {
            return ProbeError::Unfit(format!(
                "the GPU ran out of memory ({what}); stop what else holds it, `nvidia-smi` lists it"
            ));
        }
        let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
        ProbeError::Driver {
            what,
            message: name.unwrap_or_else(|_| format!("{error:?}")),
        }
    })
}

/// Free bytes and all bytes of a GPU.
pub(super) fn memory(ordinal: u32) -> Result<(usize, usize), Fault> {
    let context = said("open the GPU", CudaContext::new(ordinal as usize))?;
    said("cuMemGetInfo", context.mem_get_info())
}

/// Device memory. The bindings' own allocator is a pool with two events for each slice.
pub(super) struct Memory {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

impl Memory {
    pub(super) fn new(bytes: u64) -> Result<Memory, Fault> {
        // SAFETY: the memory is freed once, below.
        let at = said("cuMemAlloc", unsafe { result::malloc_sync(bytes as usize) })?;
        Ok(Memory { at, bytes })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated above. A context that is gone has freed it already.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// Pinned host memory, cached: the bindings' own is write-combined, which the host reads at a crawl.
pub(super) struct Pinned {
    pub(super) at: *mut c_void,
}

/// `CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: u32 = 2;

impl Pinned {
    pub(super) fn new(bytes: u64) -> Result<Pinned, Fault> {
        // SAFETY: freed once, below.
        let at = said("cuMemHostAlloc", unsafe {
            result::malloc_host(bytes as usize, MAPPED)
        })?;
        // SAFETY: the allocation is that long.
        unsafe { std::ptr::write_bytes(at.cast::<u8>(), 0x5a, bytes as usize) };
        Ok(Pinned { at })
    }

    /// Where the GPU sees it.
    pub(super) fn on_device(&self) -> Result<u64, Fault> {
        let mut at = 0;
        // SAFETY: the memory was allocated as mapped.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut at, self.at, 0) };
        said("cuMemHostGetDevicePointer", code.result()).map(|()| at)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated above.
        let _ = unsafe { result::free_host(self.at) };
    }
}

/// Pointers to the arguments of a kernel.
macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &mut [$(&raw const $value as *mut std::ffi::c_void),*] };
}
pub(super) use arguments;

/// A GPU with the kernels on it.
pub(super) struct Device {
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) sms: u32,
    functions: BTreeMap<&'static str, CudaFunction>,
    module: Arc<CudaModule>,
    /// `nvrtc-cubin` or `embedded-ptx`.
    pub(super) kernel_load: &'static str,
}

impl Device {
    /// Opens a GPU and loads the kernels: compiled for it where there is a compiler, else as PTX.
    pub(super) fn open(ordinal: u32, gpu: &Gpu, has_nvrtc: bool) -> Result<Device, Fault> {
        let context = said("open the GPU", CudaContext::new(ordinal as usize))?;
        // SAFETY: one stream at a time touches any memory here; with tracking every launch would record events.
        unsafe { context.disable_event_tracking() };
        let compiled = has_nvrtc
            .then(|| nvrtc::compile(kernels::SOURCE, Target::Cubin(&gpu.arch())))
            .and_then(Result::ok);
        let loaded = compiled.and_then(|image| context.load_module(Ptx::from_binary(image)).ok());
        let (module, kernel_load) = match loaded {
            Some(module) => (module, "nvrtc-cubin"),
            None => {
                let module = context.load_module(Ptx::from_src(kernels::PTX));
                (said("load the kernels", module)?, "embedded-ptx")
            }
        };
        // The default stream cannot be captured.
        let stream = said("cuStreamCreate", context.new_stream())?;
        Ok(Device {
            context,
            stream,
            sms: gpu.sm_count,
            functions: BTreeMap::new(),
            module,
            kernel_load,
        })
    }

    /// A kernel by its name.
    pub(super) fn kernel(&mut self, name: &'static str) -> Result<CudaFunction, Fault> {
        if !self.functions.contains_key(name) {
            let function = said("cuModuleGetFunction", self.module.load_function(name))?;
            self.functions.insert(name, function);
        }
        Ok(self.functions[name].clone())
    }

    /// # Safety
    /// Arguments must be the kernel's, and its memory live until the stream is done.
    pub(super) unsafe fn launch(
        &self,
        kernel: &CudaFunction,
        grid: (u32, u32, u32),
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Fault> {
        let (stream, function) = (self.stream.cu_stream(), kernel.cu_function());
        // SAFETY: promised by the caller.
        let launched =
            unsafe { result::launch_kernel(function, grid, (threads, 1, 1), 0, stream, arguments) };
        said("cuLaunchKernel", launched)
    }

    pub(super) fn wait(&self) -> Result<(), Fault> {
        said("cuStreamSynchronize", self.stream.synchronize())
    }

    /// Copies from the host and waits: for tables, never for what is timed.
    pub(super) fn put<T>(&self, at: u64, values: &[T]) -> Result<(), Fault> {
        // SAFETY: the caller's memory at `at` is as long; the wait keeps `values` alive.
        let copied = unsafe { result::memcpy_htod_async(at, values, self.stream.cu_stream()) };
        said("cuMemcpyHtoD", copied)?;
        self.wait()
    }

    /// Captures `calls` calls into a graph.
    pub(super) fn graph(
        &self,
        calls: usize,
        body: &mut dyn FnMut() -> Result<(), Refusal>,
    ) -> Result<cudarc::driver::CudaGraph, Refusal> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        said("cuStreamBeginCapture", self.stream.begin_capture(mode))?;
        let captured = (0..calls).try_for_each(|_| body());
        let ended = self.stream.end_capture(sys::CUgraphInstantiate_flags_enum(0));
        captured?;
        let graph = said("cuStreamEndCapture", ended)?;
        let graph = graph.ok_or_else(|| driver_error("cuStreamEndCapture", "an empty graph"))?;
        said("cuGraphUpload", graph.upload())?;
        Ok(graph)
    }

    /// Seconds of each of `samples` replays, after `warm` that do not count.
    pub(super) fn replay(
        &self,
        graph: &cudarc::driver::CudaGraph,
        warm: usize,
        samples: usize,
    ) -> Result<Vec<f64>, Refusal> {
        // Without this flag an event holds no time.
        let timing = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let mut events = Vec::with_capacity(samples + 1);
        for _ in 0..=samples {
            events.push(said("cuEventCreate", self.context.new_event(timing))?);
        }
        for _ in 0..warm {
            said("cuGraphLaunch", graph.launch())?;
        }
        said("cuEventRecord", events[0].record(&self.stream))?;
        for event in &events[1..] {
            said("cuGraphLaunch", graph.launch())?;
            said("cuEventRecord", event.record(&self.stream))?;
        }
        self.wait()?;
        let elapsed = events.windows(2).map(|pair| {
            let ms = said("cuEventElapsedTime", pair[0].elapsed_ms(&pair[1]))?;
            Ok(f64::from(ms) * 1e-3)
        });
        elapsed.collect()
    }

    /// Samples of one operation: how long it takes is found first, then how often it is called in a sample.
    pub(super) fn time(&self, body: &mut dyn FnMut() -> Result<(), Refusal>) -> Result<Vec<f64>, Refusal> {
        // Outside a graph first: a library may load its kernel now, which no capture survives.
        body()?;
        self.wait()?;
        let begun = Instant::now();
        body()?;
        self.wait()?;
        let by_the_host = begun.elapsed().as_secs_f64();
        // The host's clock will do for what is long, and a graph of four of it would take too long on a slow card.
        let rough = if by_the_host > LONG_S {
            by_the_host
        } else {
            let few = self.graph(4, body)?;
            self.replay(&few, 1, 1)?[0] / 4.0
        };
        let (calls, samples) = sizing(rough);
        let graph = self.graph(calls, body)?;
        let seconds = self.replay(&graph, 1, samples)?;
        Ok(seconds
            .into_iter()
            .map(|seconds| seconds / calls as f64)
            .collect())
    }
}

/// A failure of a call that has no code.
pub(super) fn driver_error(what: &'static str, message: impl Into<String>) -> Fault {
    ProbeError::Driver {
        what,
        message: message.into(),
    }
}

/// Blocks of 256 threads for this many pieces of 16 bytes, eight a multiprocessor at most.
pub(super) fn blocks(pieces: u64, sms: u32) -> u32 {
    pieces.div_ceil(256).clamp(1, 8 * u64::from(sms.max(1))) as u32
}

/// A GPU that is made the thread's own again after another was.
pub(super) fn bind(context: &CudaContext) -> Result<(), Fault> {
    said("cuCtxSetCurrent", context.bind_to_thread())
}

/// `c_int` of a device number.
pub(super) fn ordinal(number: u32) -> c_int {
    number as c_int
}

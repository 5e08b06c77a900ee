//! The bench: an opened GPU, its buffers and instruments, as the course of a probe sees them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::device::{Device, Fault, Memory, arguments, blocks, driver_error, ordinal};
use super::gemm::Library;
use super::link::HostBuffer;
use super::nvml::{Card, Nvml};
use super::{Wishes, attention, bandwidth, disk, launch, link, loader};
use crate::probe::course::{Machine, Refusal};
use crate::probe::facts::{Gpu, Instruments, Software};
use crate::probe::plan::{Buffers, Format, Point, SENTINEL_GEMM, Shape, Way};
use crate::probe::sample::Estimate;

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Whatever the last kernel wrote.
    Unknown,
    /// Random normal numbers of a format.
    Normal(Format),
    /// Zeros.
    Zeros,
}

/// A GPU that is being measured.
pub(super) struct Bench<'p> {
    pub(super) gpu: Gpu,
    pub(super) arena: Memory,
    pub(super) kv: Memory,
    pub(super) scratch: Memory,
    pub(super) library: Library,
    pub(super) host: Option<HostBuffer>,
    pub(super) pages: Option<attention::Pages>,
    arena_holds: Contents,
    kv_holds: Contents,
    pub(super) seed: u64,
    /// Counts calls, so that each takes the next piece of memory.
    pub(super) turn: u64,
    panel: Panel,
    software: Software,
    disk: Option<PathBuf>,
    file: Option<disk::TemporaryFile>,
    peers: link::Peers,
    begun: Instant,
    /// How long the last large product took with all that was around it.
    busy: Duration,
    goes_on: &'p mut dyn FnMut(usize) -> bool,
    /// Last, so that it is closed after everything on it was freed.
    pub(super) device: Device,
}

/// Rest before a large product, over the last one's time, and the longest.
const REST: (f64, Duration) = (1.5, Duration::from_millis(300));
/// The same before a product of the sentinel's size, which is to find the card as the sentinels before did.
const SENTINEL_REST: (f64, Duration) = (15.0, Duration::from_millis(1000));

/// The card's instruments and what was read from them.
struct Panel {
    nvml: Option<Nvml>,
    bus_id: Option<String>,
    readings: Instruments,
}

impl Panel {
    fn card(&self) -> Option<Card<'_>> {
        self.nvml.as_ref()?.device(self.bus_id.as_deref()?)
    }

    fn read_at_rest(&mut self) {
        let Some(card) = self.card() else {
            return;
        };
        let read = Instruments {
            sm_idle: card.sm_clock(),
            sm_max: card.sm_clock_max(),
            power_limit_w: card.power_limit(),
            ecc: card.ecc(),
            ..Instruments::default()
        };
        self.readings = read;
    }

    /// Reads clocks and power while the stream works; `is_long` after seconds of it.
    fn read_under_load(&mut self, is_long: bool) {
        let Some(card) = self.card() else {
            return;
        };
        let (sm, mem, power) = (card.sm_clock(), card.mem_clock(), card.power());
        let (throttle, pcie, temperature) = (card.throttle(), card.pcie(), card.temperature());
        let readings = &mut self.readings;
        readings.sm_burst = readings.sm_burst.max(sm);
        readings.mem = mem.or(readings.mem);
        if is_long {
            readings.sm_sustained = sm.or(readings.sm_sustained);
            readings.power_sustained_w = power.or(readings.power_sustained_w);
        }
        readings.throttle_bits |= throttle;
        readings.pcie = pcie.or(readings.pcie);
        readings.temp_end_c = temperature.or(readings.temp_end_c);
    }

    fn read_at_end(&mut self) {
        let temperature = self.card().and_then(|card| card.temperature());
        self.readings.temp_end_c = temperature.or(self.readings.temp_end_c);
    }
}

impl<'p> Bench<'p> {
    /// Opens the GPU and takes its memory.
    pub(super) fn open(
        wishes: &Wishes,
        gpu: &Gpu,
        begun: Instant,
        goes_on: &'p mut dyn FnMut(usize) -> bool,
    ) -> Result<Bench<'p>, Fault> {
        let nvrtc = loader::nvrtc();
        let cublaslt = loader::cublaslt().map_err(|why| driver_error("cublasLt", why))?;
        let nvml = Nvml::open().ok();
        let device = Device::open(wishes.device, gpu, nvrtc.is_ok())?;
        let buffers = Buffers::on(gpu);
        let bus_id = cudarc::driver::result::device::get(ordinal(wishes.device))
            .ok()
            .and_then(loader::bus_id);
        let software = Software {
            driver: nvml.as_ref().map(Nvml::driver_version).unwrap_or_default(),
            cuda_driver: cuda_driver(),
            nvrtc: nvrtc.unwrap_or_default(),
            cublaslt,
            kernel_load: device.kernel_load.to_owned(),
            host_cpu: host_cpu(),
            virtualised: virtualised(),
        };
        let library = Library::open(&device)?;
        let mut bench = Bench {
            arena: Memory::new(buffers.arena)?,
            kv: Memory::new(buffers.kv)?,
            scratch: Memory::new(buffers.scratch)?,
            device,
            gpu: gpu.clone(),
            library,
            host: None,
            pages: None,
            arena_holds: Contents::Unknown,
            kv_holds: Contents::Unknown,
            seed: wishes.options.seed,
            turn: 0,
            panel: Panel {
                nvml,
                bus_id,
                readings: Instruments::default(),
            },
            software,
            disk: wishes.disk.clone(),
            file: None,
            peers: link::Peers::default(),
            begun,
            busy: Duration::ZERO,
            goes_on,
        };
        bench.panel.read_at_rest();
        Ok(bench)
    }

    /// Fills the arena and the inputs, unless they hold it already.
    pub(super) fn fill_arena(&mut self, contents: Contents) -> Result<(), Fault> {
        if self.arena_holds != contents {
            for (at, bytes) in [
                (self.arena.at, self.arena.bytes),
                (self.scratch.at, self.scratch.bytes),
            ] {
                self.fill(at, bytes, contents)?;
            }
            self.arena_holds = contents;
        }
        Ok(())
    }

    /// Fills the KV pages with bf16 numbers, unless they hold them already: an output of int32 read as bf16 may be no number.
    pub(super) fn fill_kv(&mut self) -> Result<(), Fault> {
        let contents = Contents::Normal(Format::Bf16);
        if self.kv_holds != contents {
            self.fill(self.kv.at, self.kv.bytes, contents)?;
            self.kv_holds = contents;
        }
        Ok(())
    }

    /// Says that a kernel wrote into the KV pages.
    pub(super) fn spoil_kv(&mut self) {
        self.kv_holds = Contents::Unknown;
    }

    fn fill(&mut self, at: u64, bytes: u64, contents: Contents) -> Result<(), Fault> {
        let kernel = self.device.kernel("fill_normal")?;
        let (format, scale) = match contents {
            Contents::Normal(Format::Bf16) => (0_u32, 1.0_f32),
            Contents::Normal(Format::Fp8) => (2, 1.0),
            Contents::Normal(Format::Int8) => (3, 30.0),
            Contents::Zeros | Contents::Unknown => (0, 0.0),
        };
        let (pieces, seed) = (bytes / 16, self.seed as u32);
        let grid = (blocks(pieces, self.device.sms), 1, 1);
        // SAFETY: the arguments are those of fill_normal, and the memory is `bytes` long.
        unsafe {
            self.device
                .launch(&kernel, grid, 256, arguments!(at, pieces, format, scale, seed))?;
        }
        self.device.wait()
    }

    /// Runs large products until their times agree, half a second at least: an idle card has a low clock.
    pub(super) fn warm_up(&mut self) -> Result<(), Fault> {
        let begun = Instant::now();
        let mut medians: Vec<f64> = Vec::new();
        let agree = |medians: &[f64]| {
            let last = &medians[medians.len().saturating_sub(5)..];
            let most = last.iter().copied().fold(0.0, f64::max);
            let least = last.iter().copied().fold(f64::INFINITY, f64::min);
            last.len() == 5 && most < 1.01 * least
        };
        while begun.elapsed() < Duration::from_secs(3) && medians.len() < 150 {
            let contents = Contents::Normal(Format::Bf16);
            let samples = match self.products(Format::Bf16, SENTINEL_GEMM, contents, 1) {
                Ok(samples) => samples,
                Err(Refusal::Fatal(error)) => return Err(error),
                Err(Refusal::Unsupported(why)) => return Err(driver_error("warm-up", why)),
            };
            medians.extend(Estimate::of(&samples).map(|estimate| estimate.value));
            let is_long = begun.elapsed() > Duration::from_millis(500) || medians.len() > 50;
            if agree(&medians) && is_long {
                break;
            }
        }
        self.busy = begun.elapsed();
        Ok(())
    }

    /// Lets the card rest before a large product, `times` as long as the last one kept it busy: within a tenth of a second at
    /// full load a card at its power limit lowers its clock (an H200 from 1980 to 1440 MHz), and a product
    /// would be as slow as those before it were large. What load on end does is a point of its own.
    fn rest(&self, times: f64, most: Duration) {
        std::thread::sleep(self.busy.mul_f64(times).min(most));
    }

    /// A product for three seconds; the samples are those of the last third.
    fn sustained(&mut self, shape: Shape) -> Result<Vec<f64>, Refusal> {
        self.fill_arena(Contents::Normal(Format::Bf16))?;
        self.spoil_kv();
        let call = self.library.prepare(&self.device, Format::Bf16, shape, 1)?;
        let mut turn = 0;
        let (arena, scratch, kv) = (&self.arena, &self.scratch, &self.kv);
        let mut body = || {
            turn += 1;
            call.run(0, turn, arena, scratch, kv)
        };
        body()?;
        self.device.wait()?;
        let graph = self.device.graph(16, &mut body)?;
        let mut samples = Vec::new();
        let begun = Instant::now();
        // A made-up driver takes no time; the count ends it there.
        while begun.elapsed() < Duration::from_secs(3) && samples.len() < 2000 {
            samples.push(self.device.replay(&graph, 0, 1)?[0] / 16.0);
            if samples.len() % 4 == 0 {
                // The stream works again while the instruments are read.
                super::device::said("cuGraphLaunch", graph.launch())?;
                self.panel.read_under_load(true);
                self.device.wait()?;
            }
        }
        drop(call);
        self.busy = begun.elapsed();
        Ok(samples.split_off(samples.len() * 2 / 3))
    }

    /// Ends the measurement.
    pub(super) fn close(mut self) -> (Software, Instruments) {
        self.panel.read_at_end();
        (self.software, self.panel.readings)
    }
}

impl Machine for Bench<'_> {
    fn time(&mut self, point: Point) -> Result<Vec<f64>, Refusal> {
        let Some(shape) = point.large_product() else {
            return self.measure(point);
        };
        let (times, most) = if shape == SENTINEL_GEMM {
            SENTINEL_REST
        } else {
            REST
        };
        self.rest(times, most);
        let begun = Instant::now();
        let samples = self.measure(point);
        self.busy = begun.elapsed();
        samples
    }

    fn elapsed_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn goes_on(&mut self, done: usize) -> bool {
        (self.goes_on)(done)
    }
}

impl Bench<'_> {
    fn measure(&mut self, point: Point) -> Result<Vec<f64>, Refusal> {
        match point {
            Point::Stream(stream, bytes) => bandwidth::stream(self, stream, bytes),
            Point::Chase(bytes) => bandwidth::chase(self, bytes),
            Point::Gemm(format, shape) => {
                let samples = self.products(format, shape, Contents::Normal(format), 1);
                if shape == SENTINEL_GEMM {
                    self.panel.read_under_load(false);
                }
                samples
            }
            Point::GemmBest(format, shape) => self.products(format, shape, Contents::Normal(format), 8),
            Point::GemmZeros(shape) => self.products(Format::Bf16, shape, Contents::Zeros, 1),
            Point::GemmSustained(shape) => self.sustained(shape),
            Point::Decode {
                batch,
                context,
                group,
            } => attention::decode(self, batch, context, group),
            Point::KvRead { batch, context } => attention::read(self, batch, context),
            Point::Prefill(tokens) => attention::prefill(self, tokens),
            Point::EagerSubmit => launch::eager(self, false),
            Point::EagerGap => launch::eager(self, true),
            Point::GraphNode(nodes, wide) => launch::nodes(self, nodes, wide),
            Point::GraphLaunch => launch::graph(self),
            Point::Sync => launch::round_trip(self),
            Point::Link(Way::Both, bytes) => link::both(self, bytes),
            Point::Link(way, bytes) => link::copies(self, way, bytes),
            Point::Pieces => link::pieces(self),
            Point::Pageable(bytes) => link::pageable(self, bytes),
            Point::ZeroCopy(bytes) => link::zero_copy(self, bytes),
            Point::Disk(bytes, depth) => {
                let folder = self.disk.clone();
                let folder = folder.ok_or_else(|| Refusal::Unsupported("no folder was named".to_owned()))?;
                disk::read(&mut self.file, &folder, bytes, depth, self.seed)
            }
            Point::PeerCopy(from, to, bytes) => {
                let samples = self.peers.copy(from, to, bytes);
                super::device::bind(&self.device.context)?;
                // Another GPU that is taken or full is no reason to give up on this one.
                samples.map_err(|refusal| match refusal {
                    Refusal::Fatal(error) => Refusal::Unsupported(error.to_string()),
                    other => other,
                })
            }
        }
    }

    /// A product by the best of the library's first `algorithms` answers.
    fn products(
        &mut self,
        format: Format,
        shape: Shape,
        contents: Contents,
        algorithms: usize,
    ) -> Result<Vec<f64>, Refusal> {
        self.fill_arena(contents)?;
        self.spoil_kv();
        let call = self.library.prepare(&self.device, format, shape, algorithms)?;
        let mut best: Option<(f64, Vec<f64>)> = None;
        let mut refused = None;
        for which in 0..call.algorithms() {
            let turn = &mut self.turn;
            let (arena, scratch, kv) = (&self.arena, &self.scratch, &self.kv);
            let mut body = || {
                *turn += 1;
                call.run(which, *turn, arena, scratch, kv)
            };
            let samples = match self.device.time(&mut body) {
                Ok(samples) => samples,
                Err(Refusal::Unsupported(why)) => {
                    refused = Some(why);
                    continue;
                }
                Err(fatal) => return Err(fatal),
            };
            let median = Estimate::of(&samples).map_or(f64::INFINITY, |estimate| estimate.value);
            if best.as_ref().is_none_or(|(least, _)| median < *least) {
                best = Some((median, samples));
            }
        }
        let why = || Refusal::Unsupported(refused.unwrap_or_else(|| "no algorithm".to_owned()));
        best.map(|(_, samples)| samples).ok_or_else(why)
    }
}

fn cuda_driver() -> String {
    let mut version = 0;
    // SAFETY: a live integer.
    unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut version) };
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn host_cpu() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} cores", std::env::consts::ARCH)
}

/// Linux names a hypervisor among the CPU's features.
fn virtualised() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

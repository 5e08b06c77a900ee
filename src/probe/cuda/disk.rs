//! Reads of a file past the page cache, several in flight.

use std::path::Path;

use crate::probe::course::Refusal;

/// Bytes of the file: more than most disks' own caches.
#[cfg(target_os = "linux")]
const FILE: u64 = 2 << 30;

/// Seconds a block, blocks of `bytes` with `depth` in flight, for a second at most.
#[cfg(target_os = "linux")]
pub(super) fn read(
    made: &mut Option<TemporaryFile>,
    folder: &Path,
    bytes: u64,
    depth: u64,
    seed: u64,
) -> Result<Vec<f64>, Refusal> {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    let refused = |error: std::io::Error| Refusal::Unsupported(format!("disk: {error}"));
    if made.is_none() {
        *made = Some(TemporaryFile::make(folder, seed).map_err(refused)?);
    }
    let opened = &made.as_ref().expect("made above").direct;
    let blocks = FILE / bytes;
    let mut samples = Vec::new();
    let begun = Instant::now();
    while samples.len() < 9 && (samples.len() < 3 || begun.elapsed() < Duration::from_secs(1)) {
        // Sixteen blocks for each reader, a different stretch of the file each time.
        let (first, count) = (AtomicU64::new(samples.len() as u64 * 16 * depth), 16 * depth);
        let end = first.load(Ordering::Relaxed) + count;
        let started = Instant::now();
        let outcome: Result<(), std::io::Error> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..depth)
                .map(|_| {
                    scope.spawn(|| {
                        use std::os::unix::fs::FileExt;
                        let mut buffer = Aligned::new(bytes as usize);
                        loop {
                            let block = first.fetch_add(1, Ordering::Relaxed);
                            if block >= end {
                                return Ok(());
                            }
                            opened.read_exact_at(buffer.bytes(), block % blocks * bytes)?;
                        }
                    })
                })
                .collect();
            readers.into_iter().try_for_each(|reader| {
                reader
                    .join()
                    .unwrap_or_else(|_| Err(std::io::Error::other("a reader panicked")))
            })
        });
        outcome.map_err(refused)?;
        samples.push(started.elapsed().as_secs_f64() / count as f64);
    }
    Ok(samples)
}

/// Elsewhere there is no common way past the page cache.
#[cfg(not(target_os = "linux"))]
pub(super) fn read(
    _made: &mut Option<TemporaryFile>,
    _folder: &Path,
    _bytes: u64,
    _depth: u64,
    _seed: u64,
) -> Result<Vec<f64>, Refusal> {
    Err(Refusal::Unsupported("disks are read on Linux only".to_owned()))
}

/// A buffer whose start a disk accepts.
#[cfg(target_os = "linux")]
struct Aligned {
    memory: Vec<u8>,
    bytes: usize,
}

#[cfg(target_os = "linux")]
impl Aligned {
    const TO: usize = 4096;

    fn new(bytes: usize) -> Aligned {
        Aligned {
            memory: vec![0; bytes + Self::TO],
            bytes,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let offset = self.memory.as_ptr().align_offset(Self::TO);
        &mut self.memory[offset..offset + self.bytes]
    }
}

/// A file of random bytes without a name: it was removed once it was open, so that no end of the program leaves it behind.
#[cfg(target_os = "linux")]
pub(super) struct TemporaryFile {
    direct: std::fs::File,
}

#[cfg(target_os = "linux")]
impl TemporaryFile {
    fn make(folder: &Path, seed: u64) -> std::io::Result<TemporaryFile> {
        let path = folder.join(format!(".plimsoll-probe-{}.bin", std::process::id()));
        let made = fill(&path, seed).and_then(|()| open_direct(&path));
        std::fs::remove_file(&path)?;
        made.map(|direct| TemporaryFile { direct })
    }
}

#[cfg(target_os = "linux")]
fn fill(path: &Path, seed: u64) -> std::io::Result<()> {
    use rand::{Rng, SeedableRng};
    use std::io::Write;
    let mut file = std::fs::File::create(path)?;
    // Random content: a disk may compress, or know zeros without reading them. One block over and over, its number in
    // front, is random enough for any that does not look for repetitions, and costs no second.
    let mut block = vec![0_u8; 8 << 20];
    rand::rngs::ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut block);
    for turn in 0..FILE / block.len() as u64 {
        block[..8].copy_from_slice(&turn.to_le_bytes());
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// `O_DIRECT`, whose number differs between architectures.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let direct = if cfg!(target_arch = "aarch64") {
        0o200_000
    } else {
        0o40_000
    };
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)
}

/// Elsewhere there is none.
#[cfg(not(target_os = "linux"))]
pub(super) struct TemporaryFile;

//! The outside world as this module sees it: bytes by name, and the scenarios inside the program.

/// Who opens files. The shell reads the disk; tests give texts.
pub trait Files {
    /// The bytes of a file, or why there are none.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;

    /// The bytes of a trace: a file's, or a folder's files as one archive. Only a disk has folders.
    fn read_trace(&self, path: &str) -> Result<Vec<u8>, String> {
        self.read(path)
    }

    /// Whether something is at a path, readable or not. Only a disk has what is not.
    fn is_there(&self, _path: &str) -> bool {
        false
    }

    /// A path from the root; `None` where there is no working folder to begin at. Only a disk has one.
    fn whole_path(&self, _path: &str) -> Option<String> {
        None
    }

    /// Whether a path is that of a folder. Only a disk has any.
    fn is_folder(&self, _path: &str) -> bool {
        false
    }
}

/// Whether a path is that of standard input, by the sign for it or by its place.
pub(super) fn is_standard_input(path: &str) -> bool {
    matches!(path, "-" | "/dev/stdin")
}

/// The text of a file; else what to say of its path, `cannot be read`, and why.
pub(super) fn text_of(path: &str, files: &dyn Files) -> Result<String, (&'static str, String)> {
    let bytes = files.read(path).map_err(|error| ("cannot be read", error))?;
    decoded(bytes).map_err(|what| (what, path.to_owned()))
}

/// The text that bytes are; else what to say of them.
pub(super) fn decoded(bytes: Vec<u8>) -> Result<String, &'static str> {
    let is_utf_16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    String::from_utf8(bytes).map_err(|_| match is_utf_16 {
        true => "is UTF-16 text: save it as UTF-8",
        false => "is not text",
    })
}

/// A world without files.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("there is no file `{path}`"))
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Scenarios and workloads inside the program, by name, in the order of listings.
        pub const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*];
    };
}

shipped!(
    "quickstart",
    "course-week1",
    "course-week1-sglang",
    "course-week2-latency",
    "course-week2-throughput",
    "matrix-a",
    "matrix-b",
    "matrix-c",
    "matrix-d",
    "matrix-e",
    "matrix-f",
    "chunked-prefill",
    "no-chunked-prefill",
    "prefix-cold",
    "prefix-warm",
    "prefix-lpm",
    "prefix-caching",
    "multi-turn",
    "radix-cache",
    "queue-shared",
    "queue-unique",
    "chunk-sizes",
    "burst",
    "ideal-queue",
    "memoryless-queue",
    "dp-router",
    "dp-attention",
    "kv-events",
    "failover",
    "static-batching",
    "continuous-batching",
    "v0-prefill-stall",
    "speculative",
    "lmcache-cold",
    "lmcache-warm",
    "lmcache-restart",
    "gateway",
    "gateway-classes",
    "load-shaping",
    "load-shaping-mixed",
    "pd-input-length",
    "pd-together",
    "pd-failover",
    "rate-limit",
    "autoscale",
    "workloads/azure-conv-2023",
    "workloads/azure-code-2023",
);

/// A file of the name in the folder `scenarios`, with its text, where it comes from, and whether it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// As messages name it.
    pub name: String,
    /// All of it.
    pub text: String,
    /// It was read from the disk instead of the one inside the program.
    is_on_disk: bool,
}

impl Shipped {
    /// That another one than that inside the program is used.
    pub(super) fn note(&self) -> Option<String> {
        let name = &self.name;
        self.is_on_disk
            .then(|| format!("{name} on disk is used instead of the one inside the program"))
    }
}

/// Finds a shipped scenario or workload; a file of that name on disk wins.
#[must_use]
pub fn find(name: &str, files: &dyn Files) -> Option<Shipped> {
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    let stem = stem.strip_prefix("scenarios/").unwrap_or(stem);
    let path = format!("scenarios/{stem}.toml");
    let inside = SHIPPED.iter().find(|(known, _)| *known == stem)?.1;
    let on_disk = files.read(&path).ok();
    let on_disk = on_disk.and_then(|bytes| String::from_utf8(bytes).ok());
    let other = on_disk.filter(|text| text != inside);
    Some(Shipped {
        name: path,
        is_on_disk: other.is_some(),
        text: other.unwrap_or_else(|| inside.to_string()),
    })
}

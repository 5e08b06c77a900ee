//! Wrappings that traces come in: gzip and tar. Told by their first bytes, not by a file's name.

use std::io::Read;

use super::error::{Place, Problem};

/// A named file inside an archive.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// A tar archive is a chain of blocks of this size.
const TAR_BLOCK: usize = 512;

/// Unpacks gzip (several members too); `None` where the bytes are not gzip.
pub(super) fn gunzip(bytes: &[u8], limit: u64) -> Option<Result<Vec<u8>, Problem>> {
    if !bytes.starts_with(b"\x1f\x8b") {
        return None;
    }
    let mut unpacked = Vec::new();
    let outcome = flate2::read::MultiGzDecoder::new(bytes)
        .take(limit + 1)
        .read_to_end(&mut unpacked);
    Some(match outcome {
        Ok(_) if unpacked.len() as u64 > limit => Err(Problem::new(
            Place::File,
            "",
            format!("unpacks to more than {} MB", limit / 1_000_000),
            "cut it into parts",
        )),
        Ok(_) => Ok(unpacked),
        Err(error) => {
            let after = unpacked.len();
            let what = if error.kind() == std::io::ErrorKind::UnexpectedEof {
                format!("the gzip stream is cut off after {after} bytes of text")
            } else {
                format!("the gzip stream is damaged after {after} bytes of text: {error}")
            };
            Err(Problem::new(
                Place::File,
                "",
                what,
                "fetch the file again; `gzip -t FILE` tests it",
            ))
        }
    })
}

/// Whether the bytes are a POSIX or GNU tar archive.
pub(super) fn is_tar(bytes: &[u8]) -> bool {
    bytes.len() >= TAR_BLOCK && &bytes[257..262] == b"ustar"
}

/// The regular files of a tar archive, in its order.
///
/// Reads the plain headers that archives of small files have (POSIX ustar with its prefix field, GNU); links, folders
/// and extended headers are passed over.
pub(super) fn untar(bytes: &[u8]) -> Result<Vec<Member>, Problem> {
    let mut members = Vec::new();
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + TAR_BLOCK) {
        if header.iter().all(|&b| b == 0) {
            return Ok(members);
        }
        if !is_tar(header) {
            return Err(damaged(format!("there is no tar header at byte {at}")));
        }
        let size = octal(&header[124..136])
            .ok_or_else(|| damaged(format!("the tar header at byte {at} has no size")))?;
        let name = match (text(&header[345..500]), text(&header[..100])) {
            (prefix, name) if prefix.is_empty() => name,
            (prefix, name) => format!("{prefix}/{name}"),
        };
        let start = at + TAR_BLOCK;
        let content = start.checked_add(size).and_then(|end| bytes.get(start..end));
        let content = content.ok_or_else(|| damaged(format!("the archive is cut off inside `{name}`")))?;
        if matches!(header[156], b'0' | 0) {
            members.push(Member {
                name,
                bytes: content.to_vec(),
            });
        }
        at = start + size.next_multiple_of(TAR_BLOCK);
    }
    match bytes.len().saturating_sub(at) {
        0 => Ok(members),
        rest => Err(damaged(format!(
            "the archive ends with {rest} bytes that are no tar header"
        ))),
    }
}

/// Number in a header field: octal digits with blanks or a NUL around.
fn octal(field: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    usize::from_str_radix(digits, 8).ok()
}

/// Text in a header field, up to the first NUL.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn damaged(what: String) -> Problem {
    Problem::new(
        Place::File,
        "",
        what,
        "fetch the archive again; `tar tf FILE` tests it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_unpacked_and_a_cut_one_is_told() {
        let packed = gzip(b"hello, hello, hello, hello");
        assert_eq!(
            gunzip(&packed, 100).unwrap().unwrap(),
            b"hello, hello, hello, hello"
        );
        assert!(gunzip(b"hello", 100).is_none());
        assert!(
            gunzip(&packed[..packed.len() - 9], 100)
                .unwrap()
                .unwrap_err()
                .what
                .contains("cut off")
        );
        assert!(
            gunzip(&packed, 10)
                .unwrap()
                .unwrap_err()
                .what
                .contains("more than")
        );
    }

    #[test]
    fn a_cut_archive_names_the_file_that_is_cut() {
        let mut tar = vec![0u8; 1024];
        tar[..5].copy_from_slice(b"a.csv");
        tar[124..135].copy_from_slice(b"00000000012");
        tar[156] = b'0';
        tar[257..262].copy_from_slice(b"ustar");
        tar[512..522].copy_from_slice(b"0123456789");
        let members = untar(&tar).unwrap();
        assert_eq!(
            (members[0].name.as_str(), members[0].bytes.as_slice()),
            ("a.csv", b"0123456789".as_slice())
        );
        assert!(
            untar(&tar[..515])
                .unwrap_err()
                .what
                .contains("cut off inside `a.csv`")
        );
    }
}

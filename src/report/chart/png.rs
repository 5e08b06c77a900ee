//! The smallest PNG writer that does: 8-bit RGB, one compressed stream, no filters (flat colours deflate well).

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// Bit depth 8, colour type RGB, deflate, adaptive filters, not interlaced.
const EIGHT_BIT_RGB: [u8; 5] = [8, 2, 0, 0, 0];

/// Encodes rows of red, green and blue bytes.
pub(super) fn encode(width: u32, pixels: &[u8]) -> Vec<u8> {
    let row = width as usize * 3;
    let height = (pixels.len() / row) as u32;
    let mut file = SIGNATURE.to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend(EIGHT_BIT_RGB);
    chunk(&mut file, *b"IHDR", &header);

    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::best());
    for line in pixels.chunks_exact(row) {
        deflate
            .write_all(&[0])
            .and_then(|()| deflate.write_all(line))
            .expect("a vector takes every write");
    }
    chunk(
        &mut file,
        *b"IDAT",
        &deflate.finish().expect("a vector takes every write"),
    );
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], content: &[u8]) {
    file.extend((content.len() as u32).to_be_bytes());
    file.extend(name);
    file.extend(content);
    let mut check = flate2::Crc::new();
    check.update(&name);
    check.update(content);
    file.extend(check.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn an_image_decodes_to_the_pixels_that_went_in() {
        let pixels = [255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7];
        let file = encode(2, &pixels);
        assert_eq!(&file[16..24], &[0, 0, 0, 2, 0, 0, 0, 2], "width and height");
        let length = u32::from_be_bytes(file[33..37].try_into().unwrap()) as usize;
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(&file[41..41 + length])
            .read_to_end(&mut rows)
            .unwrap();
        assert_eq!(rows, [0, 255, 0, 0, 0, 255, 0, 0, 0, 0, 255, 9, 8, 7]);
    }
}

//! Frames of the append log: length, checksum, content.

/// CRC-32 (IEEE 802.3), eight bytes a step, so that the checksum is not what holds the log back.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of `content`.
pub fn checksum(content: &[u8]) -> u32 {
    let mut crc = !0u32;
    let (steps, rest) = content.as_chunks::<8>();
    for step in steps {
        let low = u32::from_le_bytes([step[0], step[1], step[2], step[3]]) ^ crc;
        let at = |table: usize, byte: u32| TABLES[table][(byte & 0xff) as usize];
        let high = |n: usize| u32::from(step[n]);
        crc = at(7, low) ^ at(6, low >> 8) ^ at(5, low >> 16) ^ at(4, low >> 24);
        crc ^= at(3, high(4)) ^ at(2, high(5)) ^ at(1, high(6)) ^ at(0, high(7));
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    !crc
}

/// Appends a frame around `content`.
pub fn put(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(
        &u32::try_from(content.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    out.extend_from_slice(&checksum(content).to_le_bytes());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn the_checksum_is_the_standard_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
        assert_eq!(checksum(b""), 0);
        assert_eq!(
            checksum(b"The quick brown fox jumps over the lazy dog"),
            0x414F_A339
        );
    }
}

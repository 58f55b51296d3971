//! Where frames begin and end in the bytes of an HTTP/2 connection.
//!
//! Reads the heads of frames (RFC 9113, 4.1) and, of a GOAWAY, which stream it names; refuses to
//! know what they mean.

/// What a client says first (RFC 9113, 3.4).
const PREFACE_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;

/// How much of a frame has passed.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Head,
    Whole,
}

pub(super) struct Frame {
    pub(super) part: Part,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    /// Head and payload.
    pub(super) bytes: u64,
    /// Of a GOAWAY.
    pub(super) last_stream: u32,
}

/// Finds frames in bytes that come in pieces.
#[derive(Clone, Default)]
pub(super) struct Scanner {
    preface_left: usize,
    head: [u8; 9],
    head_filled: usize,
    payload_left: usize,
    /// The payload's first bytes, which of a GOAWAY name the last stream.
    first: [u8; 4],
    first_filled: usize,
}

impl Scanner {
    pub(super) fn of_client() -> Scanner {
        Scanner {
            preface_left: PREFACE_BYTES,
            ..Scanner::default()
        }
    }

    pub(super) fn take(&mut self, mut bytes: &[u8], mut passes: impl FnMut(&Frame)) {
        let preface = self.preface_left.min(bytes.len());
        self.preface_left -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            if self.head_filled < self.head.len() {
                let taken = bytes.len().min(self.head.len() - self.head_filled);
                self.head[self.head_filled..][..taken].copy_from_slice(&bytes[..taken]);
                self.head_filled += taken;
                bytes = &bytes[taken..];
                if self.head_filled == self.head.len() {
                    let [a, b, c, ..] = self.head;
                    self.payload_left = u32::from_be_bytes([0, a, b, c]) as usize;
                    self.first_filled = 0;
                    passes(&self.frame(Part::Head));
                    self.end_if_whole(&mut passes);
                }
                continue;
            }
            let taken = bytes.len().min(self.payload_left);
            let kept = taken.min(self.first.len() - self.first_filled);
            self.first[self.first_filled..][..kept].copy_from_slice(&bytes[..kept]);
            self.first_filled += kept;
            self.payload_left -= taken;
            bytes = &bytes[taken..];
            self.end_if_whole(&mut passes);
        }
    }

    fn end_if_whole(&mut self, passes: &mut impl FnMut(&Frame)) {
        if self.payload_left == 0 {
            passes(&self.frame(Part::Whole));
            self.head_filled = 0;
        }
    }

    fn frame(&self, part: Part) -> Frame {
        let [a, b, c, kind, flags, id @ ..] = self.head;
        let without_reserved = |bytes| u32::from_be_bytes(bytes) & 0x7fff_ffff;
        Frame {
            part,
            kind,
            flags,
            stream: without_reserved(id),
            bytes: u64::from(u32::from_be_bytes([0, a, b, c])) + self.head.len() as u64,
            last_stream: without_reserved(self.first),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame as it stands on the wire.
    pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn frames_are_found_in_pieces_of_any_size() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[]));
        bytes.extend(frame(HEADERS, END_STREAM, 1, b"head"));
        bytes.extend(frame(DATA, 0, 0x8000_0003, &[0; 300]));
        bytes.extend(frame(GOAWAY, 0, 0, &[0x80, 0, 0, 5, 0, 0, 0, 0, b'x']));
        for size in 1..bytes.len() {
            let (mut scanner, mut seen) = (Scanner::of_client(), Vec::new());
            for piece in bytes.chunks(size) {
                scanner.take(piece, |frame| match frame.part {
                    Part::Head => seen.push((frame.kind, frame.stream, frame.bytes, 0)),
                    Part::Whole if frame.kind == GOAWAY => {
                        seen.push((frame.kind, frame.stream, frame.bytes, frame.last_stream));
                    }
                    Part::Whole => {}
                });
            }
            let expected = [
                (SETTINGS, 0, 9, 0),
                (HEADERS, 1, 13, 0),
                (DATA, 3, 309, 0),
                (GOAWAY, 0, 18, 0),
                (GOAWAY, 0, 18, 5),
            ];
            assert_eq!(seen, expected, "in pieces of {size}");
        }
    }
}

//! Lines of a plain or gzipped stream, with their numbers.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;

use crate::error::{DataError, clip};
use crate::sentence::LineEnd;

/// The longest line that is read, without its end: 1 MiB. A file that is no text can
/// have no line end at all, and would otherwise be read into memory whole.
pub const MAX_LINE_BYTES: usize = 1 << 20;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The first bytes, which were looked at, and the rest.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

enum Input<R: Read> {
    Plain(BufReader<Peeked<R>>),
    /// A gzip file may have several members, one after the other.
    Gzip(Box<BufReader<MultiGzDecoder<Peeked<R>>>>),
}

pub(crate) struct Lines<R: Read> {
    input: Input<R>,
    file: String,
    number: usize,
    /// Bytes before the next line.
    offset: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// Looks at the first two bytes for gzip's magic number.
    pub(crate) fn new(mut reader: R, file: &str) -> Result<Self, DataError> {
        let mut start = Vec::with_capacity(GZIP_MAGIC.len());
        reader
            .by_ref()
            .take(GZIP_MAGIC.len() as u64)
            .read_to_end(&mut start)
            .map_err(|source| DataError::Read { file: file.to_owned(), source })?;
        let is_gzip = start == GZIP_MAGIC;
        let peeked = Cursor::new(start).chain(reader);
        let input = if is_gzip {
            Input::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(peeked))))
        } else {
            Input::Plain(BufReader::new(peeked))
        };
        Ok(Self { input, file: file.to_owned(), number: 0, offset: 0, buffer: Vec::new() })
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The number of the last line that was read; 0 before the first.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The next line without its end (and, for the first, without a byte order mark), or `None`
    /// after the last.
    pub(crate) fn next(&mut self) -> Result<Option<(String, LineEnd)>, DataError> {
        self.buffer.clear();
        let input: &mut dyn BufRead = match &mut self.input {
            Input::Plain(input) => input,
            Input::Gzip(input) => input,
        };
        // One byte beyond the longest line and its CRLF is enough to know that it is too long.
        let most = MAX_LINE_BYTES as u64 + 3;
        let n_bytes = match input.take(most).read_until(b'\n', &mut self.buffer) {
            Ok(n) => n,
            Err(source) => return Err(self.read_error(source)),
        };
        if n_bytes == 0 {
            return Ok(None);
        }
        self.number += 1;

        let (mut bytes, end) = match self.buffer.as_slice() {
            [line @ .., b'\r', b'\n'] => (line, LineEnd::CrLf),
            [line @ .., b'\n'] => (line, LineEnd::Lf),
            line => (line, LineEnd::Missing),
        };
        if bytes.len() > MAX_LINE_BYTES {
            let text = clip(&String::from_utf8_lossy(&bytes[..400]));
            return Err(DataError::LongLine { file: self.file.clone(), line: self.number, text });
        }
        let mut start = self.offset;
        if self.number == 1
            && let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK)
        {
            bytes = rest;
            start += BYTE_ORDER_MARK.len() as u64;
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(error) => {
                return Err(DataError::NotUtf8 {
                    file: self.file.clone(),
                    line: self.number,
                    byte: start + error.valid_up_to() as u64,
                    text: clip(&String::from_utf8_lossy(bytes)),
                });
            }
        };
        self.offset += n_bytes as u64;
        Ok(Some((text, end)))
    }

    fn read_error(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let file = self.file.clone();
        let is_damage = matches!(source.kind(), InvalidData | InvalidInput | UnexpectedEof);
        match self.input {
            Input::Gzip(_) if is_damage => {
                DataError::CorruptGzip { file, line: self.number, source }
            }
            _ => DataError::Read { file, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(String, LineEnd)>, DataError> {
        let mut lines = Lines::new(bytes, "f")?;
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push(line);
        }
        Ok(found)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn line_ends_and_byte_order_mark() {
        let (lf, crlf, missing) = (LineEnd::Lf, LineEnd::CrLf, LineEnd::Missing);
        assert_eq!(all(b"").unwrap(), []);
        assert_eq!(
            all(b"\xef\xbb\xbfa\r\n\nb\rc").unwrap(),
            [("a".to_owned(), crlf), (String::new(), lf), ("b\rc".to_owned(), missing)]
        );
        assert_eq!(all(b"a").unwrap(), [("a".to_owned(), missing)]);
    }

    #[test]
    fn gzip_is_known_by_its_bytes() {
        let text = b"one\ntwo\n";
        assert_eq!(all(&gzip(text)).unwrap(), all(text).unwrap());
        // Two members are one file.
        let joined = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(all(&joined).unwrap(), all(text).unwrap());
    }

    #[test]
    fn damaged_gzip() {
        let whole = gzip("some words\n".repeat(1000).as_bytes());
        for cut in [2, 5, 12, whole.len() / 2, whole.len() - 1] {
            let error = all(&whole[..cut]).unwrap_err();
            assert!(matches!(error, DataError::CorruptGzip { .. }), "cut at {cut}: {error:?}");
        }
        let mut changed = whole.clone();
        let checksum = whole.len() - 8;
        changed[checksum] ^= 1;
        let error = all(&changed).unwrap_err();
        assert!(matches!(error, DataError::CorruptGzip { line: 1000, .. }), "{error:?}");
    }

    #[test]
    fn bad_utf8_is_located() {
        let error = all(b"\xef\xbb\xbfab\r\nc\xe9d\n").unwrap_err();
        assert!(matches!(error, DataError::NotUtf8 { line: 2, byte: 8, .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "f, line 2: not UTF-8 at byte 8 of the file: \"c\u{fffd}d\"; convert it first, for \
             example with iconv -f latin1 -t utf-8"
        );
    }

    #[test]
    fn long_lines_are_refused_without_reading_them_whole() {
        let longest = vec![b'x'; MAX_LINE_BYTES];
        for end in ["", "\n", "\r\n"] {
            assert_eq!(all(&[&longest, end.as_bytes()].concat()).unwrap().len(), 1);
            let longer = [&longest, "x".as_bytes(), end.as_bytes()].concat();
            let error = all(&[b"first\n", longer.as_slice()].concat()).unwrap_err();
            assert!(matches!(error, DataError::LongLine { line: 2, .. }), "{error:?}");
        }
        // A stream without end: this returns.
        let mut endless = Lines::new(io::repeat(0), "zeros").unwrap();
        assert!(matches!(endless.next(), Err(DataError::LongLine { line: 1, .. })));
    }
}

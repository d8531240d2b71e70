//! A message is one line.

use bytes::{BufMut, BytesMut};
use memchr::memchr2;

/// Replaces line ends by blanks. In JSON text they stand between tokens only, where a blank does as well: inside of
/// strings they are escaped.
pub(crate) fn blank_line_ends(json: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr2(b'\r', b'\n', &json[from..]) {
        json[from + at] = b' ';
        from += at + 1;
    }
}

/// Adds JSON text to a line.
pub(crate) fn put_on_one_line(line: &mut BytesMut, json: &[u8]) {
    let start = line.len();
    line.put_slice(json);
    blank_line_ends(&mut line[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_become_blanks() {
        let mut line = BytesMut::from(&b"[\n"[..]);
        put_on_one_line(&mut line, b"{\r\n\"a\":\r1}\n");
        assert_eq!(line, &b"[\n{  \"a\": 1} "[..], "what stood there stays");
    }
}

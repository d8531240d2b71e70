//! A number that stands for some bytes, the same in every build and on every machine.
//!
//! It tells bytes apart that differ by chance or by mistake; nobody who chooses them is kept from making two that
//! agree. FNV-1a, 64 bits: `std`'s hasher is faster and may change with the compiler, but these numbers are read by
//! another process, perhaps of another version.

pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_it_is_everywhere() {
        // From the list of the algorithm's authors.
        assert_eq!(fingerprint(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fingerprint(b"foobar"), 0x8594_4171_f739_67e8);
    }
}

//! JSON text in blocks of sixty-four bytes: what stands where, as one bit for each byte.
//!
//! Most of a message is text we do not look into. A walk that looks at one byte after the other
//! pays for all of them; here a block is compared at once with the bytes that mean something, and
//! the walk goes from one of those to the next.

use memchr::memchr2;
use wide::u8x16;

/// Bytes looked at together: as many as there are bits in a mask.
pub(super) const BLOCK: usize = 64;

/// After this many blocks of text without a quote or backslash, `memchr` is worth setting up.
const CLEAN_BLOCKS: u32 = 4;

/// One block after the other, and what is known about the one that was read last.
///
/// The masks have the first byte in the lowest bit.
pub(super) struct Blocks<'a> {
    text: &'a [u8],
    /// Where the block begins.
    pub start: usize,
    /// Quotes at either end of a string.
    pub quotes: u64,
    /// Backslashes, wherever they stand.
    pub backslashes: u64,
    /// Brackets outside strings; and backslashes, which do not belong there.
    pub brackets: u64,
    /// All ones if the next block begins inside a string, else zero.
    inside: u64,
    /// One if the next block begins with a byte that is escaped, else zero.
    escaped: u64,
    /// Blocks since the last quote or backslash.
    clean: u32,
    /// Whether all that was read is known to be ASCII.
    ascii: bool,
}

impl<'a> Blocks<'a> {
    /// The first block of `text`, from `start` on, where no string may be open.
    pub fn new(text: &'a [u8], start: usize) -> Blocks<'a> {
        let mut blocks = Blocks {
            text,
            start,
            quotes: 0,
            backslashes: 0,
            brackets: 0,
            inside: 0,
            escaped: 0,
            clean: 0,
            ascii: true,
        };
        blocks.read();
        blocks
    }

    /// Reads the next block; `None` if there is none, or the rest is a string without an end.
    #[inline]
    pub fn advance(&mut self) -> Option<()> {
        self.start += BLOCK;
        if self.start >= self.text.len() {
            return None;
        }
        if self.clean >= CLEAN_BLOCKS {
            self.skip_text()?;
        }
        self.read();
        Some(())
    }

    /// The bits of the block from this position of the text on; `None` if it lies behind it.
    #[inline]
    pub fn from(&self, at: usize) -> Option<u64> {
        // Less than nothing: the text before this block was skipped.
        let bit = at.saturating_sub(self.start);
        (bit < BLOCK).then(|| u64::MAX << bit)
    }

    /// Where the string around this position ends, if it does in this block, and whether it has
    /// an escape from there on.
    #[inline]
    pub fn string_end(&self, at: usize) -> Option<(usize, bool)> {
        let ahead = self.from(at)?;
        let quotes = self.quotes & ahead;
        if quotes == 0 {
            return None;
        }
        let end = self.start + quotes.trailing_zeros() as usize + 1;
        let before = (quotes & quotes.wrapping_neg()) - 1;
        Some((end, self.backslashes & ahead & before != 0))
    }

    /// The same where it ends in a later block, which is then read; `None` if it does not end.
    #[inline(never)]
    pub fn next_string_end(&mut self, at: usize) -> Option<(usize, bool)> {
        let mut escaped = false;
        loop {
            let ahead = self.from(at).unwrap_or(0);
            escaped |= self.backslashes & ahead != 0;
            self.advance()?;
            if let Some((end, also)) = self.string_end(at) {
                return Some((end, escaped | also));
            }
        }
    }

    /// Whether all of the text is known to be ASCII. Text that `memchr` went over is not.
    pub fn is_ascii(&self) -> bool {
        let rest = self.text.get(self.start + BLOCK..);
        self.ascii && rest.is_none_or(<[u8]>::is_ascii)
    }

    #[cold]
    fn skip_text(&mut self) -> Option<()> {
        self.clean = 0;
        self.ascii = false;
        self.start += memchr2(b'"', b'\\', &self.text[self.start..])?;
        Some(())
    }

    #[inline]
    fn read(&mut self) {
        let rest = &self.text[self.start..];
        match rest.first_chunk() {
            Some(block) => self.compare(block),
            None => {
                let mut block = [b' '; BLOCK];
                block[..rest.len()].copy_from_slice(rest);
                self.compare(&block);
            }
        }
    }

    fn compare(&mut self, block: &[u8; BLOCK]) {
        let (parts, _) = block.as_chunks();
        let parts: [u8x16; BLOCK / 16] = std::array::from_fn(|i| u8x16::new(parts[i]));
        let beyond = (parts[0] | parts[1]) | (parts[2] | parts[3]);
        self.ascii &= beyond.to_bitmask() == 0;
        self.backslashes = mask(parts.map(|part| part.simd_eq(u8x16::splat(b'\\'))));
        self.quotes = mask(parts.map(|part| part.simd_eq(u8x16::splat(b'"'))));
        if self.backslashes | self.escaped != 0 {
            self.quotes &= !self.escaped_bytes();
        }
        let mut inside = self.inside;
        if self.quotes != 0 {
            inside ^= up_to_the_next(self.quotes);
            // A shift of the sign: the last bit goes on in the next block.
            self.inside = (inside as i64 >> 63) as u64;
        }
        self.brackets = 0;
        self.clean += 1;
        if inside != u64::MAX {
            self.brackets = (brackets(parts) | self.backslashes) & !inside;
        }
        if (self.quotes | self.backslashes | !inside) != 0 {
            self.clean = 0;
        }
    }

    /// The bytes with a backslash before them that is not itself escaped.
    ///
    /// In a run of backslashes every other one escapes, whichever place the run begins at. The
    /// subtraction carries through each run and so tells where it ends and whether at an odd
    /// distance, for all runs at once (Langdale and Lemire, 2019, as `simdjson` does it now).
    #[inline]
    fn escaped_bytes(&mut self) -> u64 {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let escaping = self.backslashes & !self.escaped;
        let behind = (escaping << 1 | ODD).wrapping_sub(escaping) ^ ODD;
        let escaped = behind ^ (self.backslashes | self.escaped);
        self.escaped = (behind & self.backslashes) >> 63;
        escaped
    }
}

#[inline]
fn mask(parts: [u8x16; BLOCK / 16]) -> u64 {
    let [a, b, c, d] = parts.map(|part| u64::from(part.to_bitmask()));
    (a | b << 16) | (c | d << 16) << 32
}

/// The brackets of a block. Square and curly ones differ in one bit only.
#[inline]
fn brackets(parts: [u8x16; BLOCK / 16]) -> u64 {
    mask(parts.map(|part| {
        let curly = part | u8x16::splat(b'{' ^ b'[');
        curly.simd_eq(u8x16::splat(b'{')) | curly.simd_eq(u8x16::splat(b'}'))
    }))
}

/// From every odd bit that is set up to, and without, the next.
#[inline]
fn up_to_the_next(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Positions of the quotes at the ends of strings, and of what is a bracket or a backslash
    /// outside them.
    type Found = (Vec<usize>, Vec<usize>);

    fn one_by_one(text: &[u8]) -> Found {
        let (mut quotes, mut brackets) = (Vec::new(), Vec::new());
        let (mut inside, mut escaped) = (false, false);
        for (at, byte) in text.iter().enumerate() {
            if *byte == b'"' && !escaped {
                quotes.push(at);
                inside = !inside;
            }
            if !inside && b"{}[]\\".contains(byte) {
                brackets.push(at);
            }
            escaped = *byte == b'\\' && !escaped;
        }
        (quotes, brackets)
    }

    fn in_blocks(text: &[u8]) -> (Found, bool) {
        let mut blocks = Blocks::new(text, 0);
        let (mut quotes, mut brackets) = (Vec::new(), Vec::new());
        loop {
            for bit in 0..BLOCK {
                let at = blocks.start + bit;
                quotes.extend((blocks.quotes >> bit & 1 == 1).then_some(at));
                brackets.extend((blocks.brackets >> bit & 1 == 1).then_some(at));
            }
            if blocks.advance().is_none() {
                return ((quotes, brackets), blocks.is_ascii());
            }
        }
    }

    /// Where each string ends and whether it has an escape, asked for as the walk does.
    fn strings(text: &[u8], quotes: &[usize]) -> Vec<(usize, bool)> {
        let mut blocks = Blocks::new(text, 0);
        let string = |quotes: &[usize]| {
            let at = quotes[0] + 1;
            let end = blocks.string_end(at);
            end.or_else(|| blocks.next_string_end(at)).expect("an end")
        };
        quotes.chunks_exact(2).map(string).collect()
    }

    #[test]
    fn long_text_is_skipped_and_not_called_ascii() {
        for (len, end) in (0..1000).flat_map(|len| [(len, "\\\"\""), (len, "\"")]) {
            let text = format!("[\"{}{end},{{", "x".repeat(len));
            let (found, ascii) = in_blocks(text.as_bytes());
            assert_eq!(found, one_by_one(text.as_bytes()), "{len}");
            let skips = len > BLOCK * (CLEAN_BLOCKS as usize + 2);
            assert!(!(skips && ascii), "{len}");
            let reads_all = len < BLOCK * CLEAN_BLOCKS as usize;
            assert!(ascii || !reads_all, "{len}");
        }
    }

    #[test]
    fn text_with_escapes_is_not_skipped() {
        for len in 0..500 {
            let (escapes, backslashes) = ("\\n".repeat(len), "\\".repeat(len));
            for text in [format!("\"{escapes}\",{{"), format!("{backslashes},{{")] {
                let (found, _) = in_blocks(text.as_bytes());
                assert_eq!(found, one_by_one(text.as_bytes()), "{len}");
            }
        }
    }

    #[test]
    fn a_string_has_the_escapes_within_it_and_no_others() {
        for x in (0..200).map(|len| "x".repeat(len)) {
            for escapes in [["", r"\n", ""], [r"\n", "", r"\n"]] {
                let text = escapes.map(|e| format!("\"{x}{e}{x}\"")).join(",");
                let (quotes, _) = one_by_one(text.as_bytes());
                let found = strings(text.as_bytes(), &quotes);
                let has_escape = |i: usize| !escapes[i].is_empty();
                let expected = [0, 1, 2].map(|i| (quotes[2 * i + 1] + 1, has_escape(i)));
                assert_eq!(found, expected, "{text}");
            }
        }
    }

    #[test]
    fn no_letter_beyond_ascii_goes_unnoticed_nor_do_two() {
        for (one, other) in (0..BLOCK).flat_map(|one| (0..BLOCK).map(move |other| (one, other))) {
            let mut text = [b' '; BLOCK];
            (text[one], text[other]) = (0xff, 0xff);
            assert!(!in_blocks(&text).1, "{one} {other}");
        }
    }

    #[test]
    fn a_backslash_at_the_end_of_a_block_escapes_one_at_the_beginning_of_the_next() {
        let before = format!("\"{}", "x".repeat(BLOCK - 2));
        let text = format!("{before}\\\\\"{}\"{{", "y".repeat(BLOCK - 2));
        let (found, _) = in_blocks(text.as_bytes());
        assert_eq!(found, one_by_one(text.as_bytes()));
    }

    #[test]
    fn a_string_without_an_end_has_none() {
        for len in 0..1000 {
            let text = format!("\"{}", "x".repeat(len));
            assert_eq!(Blocks::new(text.as_bytes(), 0).next_string_end(1), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn blocks_show_what_the_bytes_do(pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(prop::sample::select(&b"\"\\{}[]a:"[..]), 0..20),
                prop::sample::select(&[b'\\', b'"', b'x', 0xc3][..])
                    .prop_flat_map(|byte| (0..200usize).prop_map(move |n| vec![byte; n])),
                (0..1000usize).prop_map(|n| vec![b'x'; n]),
            ], 0..10))
        {
            let text = pieces.concat();
            let (found, ascii) = in_blocks(&text);
            prop_assert_eq!(found, one_by_one(&text));
            prop_assert!(!ascii || text.is_ascii());
        }
    }
}

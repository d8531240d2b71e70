//! Walking over JSON text without building anything.
//!
//! A [`Cursor`] goes once, forwards, over the bytes. [`Cursor::object`] visits the members of an
//! object we look into; [`Cursor::value`] steps over a value we do not. Nothing recurses: a value
//! stepped over keeps its open brackets in a fixed bit stack, so no input can exhaust the stack.
//!
//! Only structure is judged: brackets match, strings end, members are `key: value` separated by
//! commas. What stands in a scalar is the receiver's business (Python servers write `NaN`).

use memchr::memchr2;
use wide::u8x16;

/// Deepest nesting of a message that is passed on. Receivers recurse; this is far above anything
/// real and far below where they break.
pub const MAX_DEPTH: usize = 512;

/// A range of the line. Nothing we look at is empty, so an empty span means: not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn is_some(self) -> bool {
        self.end > self.start
    }

    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    pub fn get(self, text: &[u8]) -> Option<&[u8]> {
        self.is_some().then(|| self.of(text))
    }
}

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It ends too early.
    Cut,
    /// A byte that cannot stand there.
    Unexpected(usize),
}

type Step<T = ()> = Result<T, Broken>;

/// A string as found in the text, quotes included.
#[derive(Clone, Copy)]
pub(super) struct Quoted<'a> {
    pub json: &'a [u8],
    pub escaped: bool,
}

pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Objects and arrays entered and not left.
    depth: usize,
    /// Whether any bracket stood deeper than [`MAX_DEPTH`]. The walk goes on: the id may follow.
    pub too_deep: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor {
            text,
            at: 0,
            depth: 0,
            too_deep: false,
        }
    }

    /// The next byte that is not white space.
    pub fn peek(&mut self) -> Step<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Broken::Cut)
    }

    pub fn unexpected<T>(&self) -> Step<T> {
        Err(Broken::Unexpected(self.at))
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Step {
        match self.peek() {
            Ok(_) => self.unexpected(),
            Err(_) => Ok(()),
        }
    }

    /// Visits an object: `member` is called with each key and must consume the value.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Quoted<'a>) -> Step) -> Step<Span> {
        self.items(b'{', b'}', |cursor| {
            if cursor.peek()? != b'"' {
                return cursor.unexpected();
            }
            let key = cursor.string()?;
            if cursor.peek()? != b':' {
                return cursor.unexpected();
            }
            cursor.at += 1;
            cursor.peek()?;
            member(cursor, key)
        })
    }

    /// Visits an array: `item` is called at each element and must consume it.
    pub fn array(&mut self, item: impl FnMut(&mut Self) -> Step) -> Step<Span> {
        self.items(b'[', b']', item)
    }

    fn items(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Step,
    ) -> Step<Span> {
        if self.peek()? != open {
            return self.unexpected();
        }
        let start = self.at;
        self.at += 1;
        self.depth += 1;
        if self.peek()? != close {
            loop {
                item(self)?;
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        self.peek()?;
                    }
                    byte if byte == close => break,
                    _ => return self.unexpected(),
                }
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(self.since(start))
    }

    /// Steps over one value of any kind.
    pub fn value(&mut self) -> Step<Span> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => self.nested()?,
            _ => self.scalar()?,
        }
        Ok(self.since(start))
    }

    fn since(&self, start: usize) -> Span {
        Span {
            start: start as u32,
            end: self.at as u32,
        }
    }

    fn scalar(&mut self) -> Step {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|&b| ends_scalar(b));
        match len {
            Some(0) => self.unexpected(),
            Some(len) => {
                self.at += len;
                Ok(())
            }
            // It may have gone on: `"id":12` cut from `"id":123`.
            None => Err(Broken::Cut),
        }
    }

    /// Steps over a string; the cursor stands on its opening quote.
    fn string(&mut self) -> Step<Quoted<'a>> {
        let start = self.at;
        let (end, escaped) = string_end(self.text, start).ok_or(Broken::Cut)?;
        self.at = end;
        Ok(Quoted {
            json: &self.text[start..end],
            escaped,
        })
    }

    /// Steps over an object or array; the cursor stands on its opening bracket.
    fn nested(&mut self) -> Step {
        // Locals: the compiler keeps them in registers, and most of a large message goes by here.
        let text = self.text;
        let mut at = self.at;
        let mut depth = self.depth;
        let mut braces = Braces::default();
        loop {
            let byte = *text.get(at).ok_or(Broken::Cut)?;
            match byte {
                b'"' => {
                    at = string_end(text, at).ok_or(Broken::Cut)?.0;
                    continue;
                }
                b'{' | b'[' => {
                    braces.set(depth, byte == b'{');
                    depth += 1;
                    self.too_deep |= depth > MAX_DEPTH;
                }
                b'}' | b']' => {
                    depth -= 1;
                    if !braces.agrees(depth, byte == b'}') {
                        return Err(Broken::Unexpected(at));
                    }
                    if depth == self.depth {
                        self.at = at + 1;
                        return Ok(());
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// Bytes looked at together.
const BLOCK: usize = 16;

/// After this many blocks without a quote or backslash `memchr` is worth setting up.
const CLEAN_BLOCKS: usize = 8;

/// Where the string whose opening quote is at `start` ends, and whether it has escapes.
///
/// Text is full of escapes every few words, where a search that is set up anew after each would
/// spend most of its time: all quotes and backslashes of a block are found at once.
#[inline]
fn string_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let (quote, backslash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
    let mut escaped = false;
    let mut clean = 0;
    let mut at = start + 1;
    'blocks: while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let block = u8x16::new(*block);
        let mut hits = (block.simd_eq(quote) | block.simd_eq(backslash)).to_bitmask();
        clean = if hits == 0 { clean + 1 } else { 0 };
        while hits != 0 {
            let hit = hits.trailing_zeros() as usize;
            if text[at + hit] == b'"' {
                return Some((at + hit + 1, escaped));
            }
            escaped = true;
            if hit == BLOCK - 1 {
                at += BLOCK + 1;
                continue 'blocks;
            }
            // The escaped byte means nothing, whatever it is.
            hits &= !(0b11 << hit);
        }
        at += BLOCK;
        if clean == CLEAN_BLOCKS {
            clean = 0;
            at += memchr2(b'"', b'\\', text.get(at..)?)?;
        }
    }
    loop {
        match *text.get(at)? {
            b'"' => return Some((at + 1, escaped)),
            b'\\' => {
                escaped = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
}

fn ends_scalar(byte: u8) -> bool {
    matches!(
        byte,
        b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']' | b' ' | b'\t' | b'\r' | b'\n'
    )
}

/// For each depth down to [`MAX_DEPTH`]: was it opened by a brace? Deeper than that only the
/// number of brackets is kept; such a message is refused anyway.
#[derive(Default)]
struct Braces([u64; MAX_DEPTH / 64]);

impl Braces {
    fn set(&mut self, depth: usize, brace: bool) {
        if let Some(word) = self.0.get_mut(depth / 64) {
            let bit = 1 << (depth % 64);
            *word = if brace { *word | bit } else { *word & !bit };
        }
    }

    fn agrees(&self, depth: usize, brace: bool) -> bool {
        match self.0.get(depth / 64) {
            Some(word) => (word >> (depth % 64) & 1 == 1) == brace,
            None => true,
        }
    }
}

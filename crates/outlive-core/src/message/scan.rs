//! Walking over JSON text without building anything.
//!
//! A [`Cursor`] goes once, forwards, over the bytes. [`Cursor::object`] visits the members of an
//! object we look into; [`Cursor::value`] steps over a value we do not, from bracket to bracket.
//! Nothing recurses: a value stepped over keeps its open brackets in a fixed bit stack, so no
//! input can exhaust the stack.
//!
//! Only structure is judged: brackets match, strings end, members are `key: value` separated by
//! commas. What stands in a scalar is the receiver's business (Python servers write `NaN`).

use super::block::{BLOCK, Blocks};
use super::id::text;

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
    pub fn new(start: usize, len: usize) -> Span {
        Span {
            start: start as u32,
            end: (start + len) as u32,
        }
    }

    pub fn is_some(self) -> bool {
        self.end > self.start
    }

    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// The same bytes in a text that has `by` more before them; nothing stays nothing.
    pub fn moved_by(self, by: u32) -> Span {
        match self.is_some() {
            true => Span {
                start: self.start + by,
                end: self.end + by,
            },
            false => self,
        }
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
pub(super) struct Quoted<'a> {
    json: &'a [u8],
    escaped: bool,
}

impl Quoted<'_> {
    /// What `tell` makes of what it stands for. A string that stands for nothing (a bad escape) is
    /// empty.
    #[inline]
    pub fn told_by<T>(&self, tell: impl FnOnce(&[u8]) -> T) -> T {
        match self.escaped {
            false => tell(&self.json[1..self.json.len() - 1]),
            true => tell(&unescaped(self.json)),
        }
    }
}

pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    blocks: Blocks<'a>,
    /// Objects and arrays entered and not left.
    depth: usize,
    /// Whether any bracket stood deeper than [`MAX_DEPTH`]. The walk goes on: the id may follow.
    pub too_deep: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor::inside(text, 0, 0)
    }

    /// A cursor that stands at `at` already, in `depth` objects or arrays, but in no string. Nothing
    /// before is looked at.
    pub fn inside(text: &'a [u8], at: usize, depth: usize) -> Cursor<'a> {
        Cursor {
            text,
            at,
            blocks: Blocks::new(text, at),
            depth,
            too_deep: false,
        }
    }

    /// Objects and arrays entered and not left.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether all from where it started is known to be ASCII, once it has been walked over.
    pub fn is_ascii(&self) -> bool {
        self.blocks.is_ascii()
    }

    /// The next byte that is not white space.
    #[inline]
    pub fn peek(&mut self) -> Step<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if byte > b' ' || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Broken::Cut)
    }

    /// Steps over the next byte that is not white space, which must be this one.
    #[inline]
    fn expect(&mut self, byte: u8) -> Step {
        if self.peek()? != byte {
            return self.unexpected();
        }
        self.at += 1;
        Ok(())
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
    #[inline]
    pub fn object(&mut self, member: impl FnMut(&mut Self, Quoted<'a>) -> Step) -> Step<Span> {
        self.peek()?;
        let start = self.at;
        if self.open(b'{')? {
            self.members(member)?;
        }
        Ok(self.since(start))
    }

    /// The same in an object that has been opened, from the next member on.
    #[inline]
    pub fn members(&mut self, mut member: impl FnMut(&mut Self, Quoted<'a>) -> Step) -> Step {
        self.items(b'}', |cursor| {
            if cursor.peek()? != b'"' {
                return cursor.unexpected();
            }
            let key = cursor.string()?;
            cursor.expect(b':')?;
            member(cursor, key)
        })
    }

    /// Visits an array: `item` is called at each element and must consume it.
    pub fn array(&mut self, item: impl FnMut(&mut Self) -> Step) -> Step {
        match self.open(b'[')? {
            true => self.items(b']', item),
            false => Ok(()),
        }
    }

    /// Steps over an opening bracket. If nothing is in it, also over the closing one; then false.
    #[inline]
    pub fn open(&mut self, bracket: u8) -> Step<bool> {
        self.expect(bracket)?;
        // In ASCII a closing bracket is the next but one.
        let empty = self.peek()? == bracket + 2;
        match empty {
            true => self.at += 1,
            false => self.depth += 1,
        }
        Ok(!empty)
    }

    /// Visits what has been opened, from the next item to the closing bracket.
    #[inline]
    fn items(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Step) -> Step {
        loop {
            item(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                byte if byte == close => break,
                _ => return self.unexpected(),
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
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
    #[inline]
    fn string(&mut self) -> Step<Quoted<'a>> {
        let start = self.at;
        let (end, escaped) = match self.blocks.string_end(start + 1) {
            Some(end) => end,
            None => self.blocks.next_string_end(start + 1).ok_or(Broken::Cut)?,
        };
        self.at = end;
        let json = &self.text[start..end];
        Ok(Quoted { json, escaped })
    }

    /// Steps over an object or array; the cursor stands on its opening bracket.
    fn nested(&mut self) -> Step {
        let mut depth = self.depth;
        let mut braces = Braces::default();
        let mut from = self.at;
        loop {
            let blocks = &self.blocks;
            if let Some(ahead) = blocks.from(from) {
                let mut brackets = blocks.brackets & ahead;
                while brackets != 0 {
                    let at = blocks.start + brackets.trailing_zeros() as usize;
                    brackets &= brackets - 1;
                    match self.text[at] {
                        open @ (b'{' | b'[') => {
                            braces.set(depth, open == b'{');
                            depth += 1;
                            self.too_deep |= depth > MAX_DEPTH;
                        }
                        close @ (b'}' | b']') => {
                            depth -= 1;
                            if !braces.agrees(depth, close == b'}') {
                                return Err(Broken::Unexpected(at));
                            }
                            if depth == self.depth {
                                self.at = at + 1;
                                return Ok(());
                            }
                        }
                        _ => return Err(Broken::Unexpected(at)),
                    }
                }
                from = blocks.start + BLOCK;
            }
            self.blocks.advance().ok_or(Broken::Cut)?;
        }
    }
}

#[cold]
fn unescaped(json: &[u8]) -> Vec<u8> {
    text(json).unwrap_or_default().into_owned().into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_walked_over_is_known_to_be_ascii_or_not() {
        for (text, ascii) in [(r#"{"a":[1,"b"]}"#, true), (r#"{"a":[1,"é"]}"#, false)] {
            let mut cursor = Cursor::new(text.as_bytes());
            cursor.value().expect("an object");
            assert_eq!(cursor.is_ascii(), ascii, "{text}");
        }
    }
}

//! Reading the envelope of a line that is not kept.

use bytes::Bytes;
use memchr::memchr2;

use super::{BOM, TooLong};
use crate::message::Id;

/// Longest key or id that is looked at, quotes and escapes included. Longer ones are no key of
/// ours, and no id anybody sends.
pub(super) const TOKEN_LIMIT: usize = 4 * 1024;

/// An automaton over the bytes of one line that can stop and go on anywhere. It holds one token.
#[derive(Debug)]
pub(super) struct Skim {
    len: u64,
    /// Whether a byte order mark may still stand here, and how much of it has.
    bom: Option<usize>,
    place: Place,
    /// Open brackets.
    depth: u64,
    /// What the value being read at depth 1 is.
    role: Role,
    token: Vec<u8>,
    id_json: Option<Vec<u8>>,
    has_method: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the opening brace.
    Start,
    /// Between tokens.
    Between,
    /// In a string.
    Text,
    /// In a string, after a backslash.
    Escape,
    /// In a number or literal of the top level.
    Scalar,
    /// Past the object, or in something that is none: nothing more is believed.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    /// A key has been read; its colon comes next.
    Colon(Member),
    Value(Member),
    /// A value has been read; a comma or the end comes next.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Id,
    Method,
    Other,
}

impl Default for Skim {
    fn default() -> Skim {
        Skim {
            len: 0,
            bom: Some(0),
            place: Place::Start,
            depth: 0,
            role: Role::Key,
            token: Vec::new(),
            id_json: None,
            has_method: false,
        }
    }
}

impl Skim {
    pub fn feed(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while let Some(&byte) = bytes.first() {
            if self.place == Place::Lost {
                return;
            }
            if self.place == Place::Text {
                let run = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                self.keep(&bytes[..run]);
                bytes = &bytes[run..];
                let Some(&byte) = bytes.first() else { return };
                self.keep(&[byte]);
                if byte == b'\\' {
                    self.place = Place::Escape;
                } else {
                    self.place = Place::Between;
                    self.string_ended();
                }
            } else {
                self.step(byte);
            }
            bytes = &bytes[1..];
        }
    }

    pub fn finish(self) -> TooLong {
        let id_json = self.id_json.unwrap_or_default();
        let id = Id::read(&id_json).filter(|id| *id != Id::Null);
        TooLong {
            id_json: match id {
                Some(_) => id_json.into(),
                None => Bytes::new(),
            },
            id,
            has_method: self.has_method,
            len: self.len,
        }
    }

    fn step(&mut self, byte: u8) {
        match self.place {
            Place::Start => self.start(byte),
            Place::Between => self.between(byte),
            Place::Escape => {
                self.keep(&[byte]);
                self.place = Place::Text;
            }
            Place::Scalar => match byte {
                b',' | b'}' | b' ' | b'\t' | b'\r' => {
                    self.place = Place::Between;
                    self.value_ended();
                    self.between(byte);
                }
                b':' | b'"' | b'{' | b'[' | b']' => self.place = Place::Lost,
                _ => self.keep(&[byte]),
            },
            Place::Text | Place::Lost => {}
        }
    }

    fn start(&mut self, byte: u8) {
        match (byte, self.bom) {
            (byte, Some(seen)) if BOM.get(seen) == Some(&byte) => self.bom = Some(seen + 1),
            (_, Some(1 | 2)) => self.place = Place::Lost,
            (b' ' | b'\t' | b'\r', _) => self.bom = None,
            (b'{', _) => {
                self.place = Place::Between;
                self.depth = 1;
            }
            _ => self.place = Place::Lost,
        }
    }

    fn between(&mut self, byte: u8) {
        if self.depth > 1 {
            match byte {
                b'"' => self.place = Place::Text,
                b'{' | b'[' => self.depth += 1,
                b'\\' => self.place = Place::Lost,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 1 {
                        self.value_ended();
                    }
                }
                _ => {}
            }
            return;
        }
        match (byte, self.role) {
            (b' ' | b'\t' | b'\r', _) => {}
            (b'"', Role::Key | Role::Value(_)) => {
                self.token.clear();
                self.token.push(byte);
                self.place = Place::Text;
            }
            (b':', Role::Colon(member)) => self.role = Role::Value(member),
            (b',', Role::Done) => self.role = Role::Key,
            (b'{' | b'[', Role::Value(_)) => {
                self.token.clear();
                self.depth = 2;
            }
            (b',' | b':' | b'{' | b'}' | b'[' | b']', _) => self.place = Place::Lost,
            (_, Role::Value(_)) => {
                self.token.clear();
                self.token.push(byte);
                self.place = Place::Scalar;
            }
            _ => self.place = Place::Lost,
        }
    }

    fn string_ended(&mut self) {
        if self.depth > 1 {
            return;
        }
        if self.role != Role::Key {
            return self.value_ended();
        }
        let member = match Id::read(&self.token) {
            Some(Id::Text(key)) if &*key == "id" => Member::Id,
            Some(Id::Text(key)) if &*key == "method" => Member::Method,
            _ => Member::Other,
        };
        self.role = Role::Colon(member);
    }

    fn value_ended(&mut self) {
        if self.token.len() > TOKEN_LIMIT {
            self.token.clear();
        }
        match self.role {
            // Brackets leave no token: an id that is one is no id.
            Role::Value(Member::Id) => self.id_json = Some(std::mem::take(&mut self.token)),
            Role::Value(Member::Method) => self.has_method = true,
            _ => {}
        }
        self.role = Role::Done;
    }

    /// Keeps bytes of a token at the top level, up to one more than the limit.
    fn keep(&mut self, bytes: &[u8]) {
        if self.depth == 1 {
            let room = (TOKEN_LIMIT + 1).saturating_sub(self.token.len());
            self.token
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}

//! How the parts of a snapshot are written: whole numbers in as few bytes as they take (LEB128), text and messages as
//! they are behind their length, what may be missing behind a byte that says so. Around all of it a frame: what it is,
//! its version and its length, and at the end a fingerprint.

use std::time::Duration;

use bytes::Bytes;

use super::ResumeError;
use crate::fingerprint::fingerprint;
use crate::message::{Id, Kind, Message};
use crate::time::Time;

/// What can be read.
pub(crate) type Read<T> = Result<T, ResumeError>;

/// No number that counts something is larger: there is always room to count on.
const MOST: u64 = u64::MAX / 4;

/// The length of what stands in the frame.
type Len = u32;
/// The fingerprint at its end.
const SUM: usize = size_of::<u64>();

/// What `write` writes, in a frame.
pub(crate) fn seal(
    magic: &[u8],
    version: u8,
    now: Time,
    write: impl FnOnce(&mut Writer),
) -> Vec<u8> {
    let header = magic.len() + 1 + size_of::<Len>();
    let mut out = Writer::new(now);
    out.bytes.extend_from_slice(magic);
    out.bytes.push(version);
    out.bytes.extend_from_slice(&[0; size_of::<Len>()]);
    write(&mut out);
    let mut bytes = out.bytes;
    // What is longer is refused by whoever reads it.
    let len = Len::try_from(bytes.len() - header).unwrap_or(Len::MAX);
    bytes[header - size_of::<Len>()..header].copy_from_slice(&len.to_le_bytes());
    let sum = fingerprint(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// What `read` makes of what stands in a frame, all of which it has to read.
pub(crate) fn unseal<T>(
    magic: &[u8],
    version: u8,
    bytes: &[u8],
    read: impl FnOnce(&mut Reader) -> Read<T>,
) -> Read<T> {
    let known = bytes.iter().zip(magic).all(|(byte, magic)| byte == magic);
    if !known {
        return Err(ResumeError::NotASnapshot);
    }
    match bytes.get(magic.len()) {
        Some(it) if *it == version => {}
        Some(other) => return Err(ResumeError::UnknownVersion(*other)),
        None => return Err(ResumeError::Truncated),
    }
    let header = magic.len() + 1 + size_of::<Len>();
    let len = bytes.get(magic.len() + 1..header);
    let len = len.and_then(|len| len.try_into().ok());
    let len = len.map(Len::from_le_bytes).ok_or(ResumeError::Truncated)?;
    let end = header + len as usize;
    let sum = bytes.get(end..end + SUM).ok_or(ResumeError::Truncated)?;
    if bytes.len() > end + SUM || sum != fingerprint(&bytes[..end]).to_le_bytes() {
        return Err(ResumeError::Damaged);
    }
    let mut body = Reader::new(Bytes::copy_from_slice(&bytes[header..end]));
    let it = read(&mut body)?;
    match body.bytes.is_empty() {
        true => Ok(it),
        false => Err(ResumeError::Malformed("its end")),
    }
}

/// Writes. Moments are written as the time from or to `now`.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    now: Time,
}

impl Writer {
    fn new(now: Time) -> Writer {
        let bytes = Vec::new();
        Writer { bytes, now }
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.bytes.push(flag.into());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A number whose bits are all used.
    pub(crate) fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn id(&mut self, id: &Id) {
        self.text(&id.to_json());
    }

    pub(crate) fn message(&mut self, message: &Message) {
        self.bytes(message.bytes());
    }

    pub(crate) fn duration(&mut self, duration: Duration) {
        self.number(u64::try_from(duration.as_nanos()).unwrap_or(MOST).min(MOST));
    }

    /// A moment that is over.
    pub(crate) fn past(&mut self, moment: Time) {
        self.duration(self.now - moment);
    }

    /// A moment that is to come.
    pub(crate) fn coming(&mut self, moment: Time) {
        self.duration(moment - self.now);
    }

    pub(crate) fn maybe<T>(&mut self, it: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.flag(it.is_some());
        if let Some(it) = it {
            write(self, it);
        }
    }

    pub(crate) fn all<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, T),
    ) {
        self.number(items.len() as u64);
        items.for_each(|item| write(self, item));
    }
}

/// Reads what was written, and takes nothing for granted. It keeps no more than it was given: lists grow as they are
/// read, whatever their length says.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: Bytes,
    /// The moment at which it was written.
    pub(crate) now: Time,
}

impl Reader {
    fn new(bytes: Bytes) -> Reader {
        let now = Time::ZERO;
        Reader { bytes, now }
    }

    fn byte(&mut self, what: &'static str) -> Read<u8> {
        let byte = self.bytes.first().copied();
        let byte = byte.ok_or(ResumeError::Malformed(what))?;
        let _ = self.bytes.split_to(1);
        Ok(byte)
    }

    pub(crate) fn number(&mut self, what: &'static str) -> Read<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte(what)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // One way to write a number: as few bytes as it takes.
                let shortest = byte > 0 || shift == 0;
                let fits = shortest && number <= MOST;
                return fits.then_some(number).ok_or(ResumeError::Malformed(what));
            }
        }
        Err(ResumeError::Malformed(what))
    }

    /// A number that counts a few.
    pub(crate) fn few(&mut self, what: &'static str) -> Read<u32> {
        let number = self.number(what)?;
        let few = u32::try_from(number).ok().filter(|few| *few <= super::MANY);
        few.ok_or(ResumeError::Malformed(what))
    }

    pub(crate) fn flag(&mut self, what: &'static str) -> Read<bool> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ResumeError::Malformed(what)),
        }
    }

    pub(crate) fn bytes(&mut self, what: &'static str) -> Read<Bytes> {
        let len = self.number(what)?;
        let len = usize::try_from(len).ok();
        let len = len.filter(|len| *len <= self.bytes.len());
        Ok(self
            .bytes
            .split_to(len.ok_or(ResumeError::Malformed(what))?))
    }

    pub(crate) fn word(&mut self, what: &'static str) -> Read<u64> {
        let word = self.bytes.first_chunk().copied();
        let word = word.ok_or(ResumeError::Malformed(what))?;
        let _ = self.bytes.split_to(size_of::<u64>());
        Ok(u64::from_le_bytes(word))
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Read<String> {
        let bytes = self.bytes(what)?;
        String::from_utf8(bytes.into()).map_err(|_| ResumeError::Malformed(what))
    }

    pub(crate) fn id(&mut self, what: &'static str) -> Read<Id> {
        let bytes = self.bytes(what)?;
        Id::read(&bytes).ok_or(ResumeError::Malformed(what))
    }

    /// A message of this kind, on one line.
    pub(crate) fn message(&mut self, kind: Kind, what: &'static str) -> Read<Message> {
        let bytes = self.bytes(what)?;
        let broken = bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        // A copy: it may be kept for as long as the session lives, and the snapshot need not be.
        let message = Message::read(Bytes::copy_from_slice(&bytes)).ok();
        let message = message.filter(|message| message.kind() == kind && !broken);
        message.ok_or(ResumeError::Malformed(what))
    }

    /// A message of this kind and method.
    pub(crate) fn message_of(
        &mut self,
        kind: Kind,
        method: &str,
        what: &'static str,
    ) -> Read<Message> {
        let message = self.message(kind, what)?;
        match message.is(method) {
            true => Ok(message),
            false => Err(ResumeError::Malformed(what)),
        }
    }

    pub(crate) fn duration(&mut self, what: &'static str) -> Read<Duration> {
        self.number(what).map(Duration::from_nanos)
    }

    pub(crate) fn past(&mut self, what: &'static str) -> Read<Time> {
        let ago = self.duration(what)?;
        Ok(self.now - ago)
    }

    pub(crate) fn coming(&mut self, what: &'static str) -> Read<Time> {
        let left = self.duration(what)?;
        Ok(self.now + left)
    }

    pub(crate) fn maybe<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Reader) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.flag(what)? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn all<T>(
        &mut self,
        what: &'static str,
        read: impl Fn(&mut Reader) -> Read<T>,
    ) -> Read<Vec<T>> {
        let len = self.number(what)?;
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(read(self)?);
        }
        Ok(items)
    }
}

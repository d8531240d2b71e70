//! An offer as bytes, for the catalogue on disk.
//!
//! The frame is that of a [snapshot](crate::snapshot): a mark, a byte for the version, the length of the rest, the
//! rest, and a fingerprint of all that, which finds damage and is no signature. Entries are in it by their bytes, and
//! are read as if a server had just sent them.

use std::collections::HashSet;
use std::fmt;

use super::offer::{Item, LONGEST_VERSION, MOST_BYTES, Offer, object};
use crate::catalog::MOST_ITEMS;
use crate::protocol::List;
use crate::snapshot::ResumeError;
use crate::snapshot::codec::{self, Read, Reader, Writer};

const MAGIC: &[u8] = b"mcp offer";
const VERSION: u8 = 1;
/// No offer takes more bytes, with its frame and the lengths of its entries.
const LONGEST: usize = MOST_BYTES + (4 << 20);

/// Why bytes are no offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfferError {
    /// These bytes are something else.
    NotAnOffer,
    /// It was written in a later version of the format.
    UnknownVersion(u8),
    /// Its end is missing.
    Truncated,
    /// Its bytes are not those that were written.
    Damaged,
    /// It is whole, and says something that no offer does: about what.
    Malformed(&'static str),
    /// It has more of something than an offer has: of what.
    TooLarge(&'static str),
}

impl fmt::Display for OfferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferError::NotAnOffer => f.write_str("this is not what a server offers"),
            OfferError::UnknownVersion(version) => write!(
                f,
                "the offer has version {version} of the format, and this program knows version {VERSION}"
            ),
            OfferError::Truncated => f.write_str("the end of the offer is missing"),
            OfferError::Damaged => f.write_str("the offer is damaged"),
            OfferError::Malformed(what) => {
                write!(f, "the offer makes no sense: {what} cannot be read")
            }
            OfferError::TooLarge(what) => write!(f, "the offer has too many {what}"),
        }
    }
}

impl std::error::Error for OfferError {}

impl From<ResumeError> for OfferError {
    fn from(error: ResumeError) -> OfferError {
        match error {
            ResumeError::NotASnapshot => OfferError::NotAnOffer,
            ResumeError::UnknownVersion(version) => OfferError::UnknownVersion(version),
            ResumeError::Truncated => OfferError::Truncated,
            ResumeError::Damaged => OfferError::Damaged,
            ResumeError::Malformed(what) => OfferError::Malformed(what),
            ResumeError::TooLarge(what) => OfferError::TooLarge(what),
        }
    }
}

impl Offer {
    /// The offer as bytes, for a file.
    pub fn encode(&self) -> Vec<u8> {
        codec::seal(MAGIC, VERSION, crate::Time::ZERO, |out| self.write(out))
    }

    /// Reads what [`encode`](Offer::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Offer, OfferError> {
        if bytes.len() > LONGEST {
            return Err(OfferError::TooLarge("bytes"));
        }
        Ok(codec::unseal(MAGIC, VERSION, bytes, Offer::read)?)
    }

    fn write(&self, out: &mut Writer) {
        out.text(&self.protocol_version);
        out.bytes(&self.server_info);
        out.bytes(&self.capabilities);
        out.maybe(self.instructions.as_deref(), Writer::text);
        out.flag(self.cut);
        for list in &self.lists {
            out.maybe(list.as_deref(), |out, items| {
                out.all(items.iter(), |out, item| out.bytes(item.json()));
            });
        }
    }

    fn read(from: &mut Reader) -> Read<Offer> {
        let protocol_version = from.text("its version")?;
        let server_info = from.bytes("serverInfo")?;
        let capabilities = from.bytes("its capabilities")?;
        let instructions = from.maybe("its instructions", |from| from.text("its instructions"))?;
        let mut offer = Offer::new(
            &protocol_version,
            &server_info,
            &capabilities,
            instructions.as_deref(),
        );
        // An offer is nothing but what it was made of.
        let kept = offer.instructions() == instructions.as_deref()
            && protocol_version.len() <= LONGEST_VERSION
            && [server_info, capabilities]
                .iter()
                .all(|json| object(json) == json);
        if !kept {
            return Err(ResumeError::Malformed("what the server is"));
        }
        offer.cut = from.flag("its bounds")?;
        for list in List::ALL {
            let items = from.maybe("a list", |from| {
                let items = from.all("an entry", |from| {
                    let json = from.bytes("an entry")?;
                    let whole = !json.contains(&b'\n') && !json.contains(&b'\r');
                    let item = Item::read(list, json).filter(|_| whole);
                    item.ok_or(ResumeError::Malformed("an entry"))
                })?;
                let distinct: HashSet<&str> = items.iter().map(Item::key).collect();
                match (distinct.len() == items.len(), items.len() <= MOST_ITEMS) {
                    (false, _) => Err(ResumeError::Malformed("an entry that is there twice")),
                    (_, false) => Err(ResumeError::TooLarge("entries in a list")),
                    _ => Ok(items.into()),
                }
            })?;
            offer.lists[list as usize] = items;
        }
        match offer.size() <= MOST_BYTES {
            true => Ok(offer),
            false => Err(ResumeError::TooLarge("bytes")),
        }
    }
}

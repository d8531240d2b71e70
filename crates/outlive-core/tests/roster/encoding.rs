//! Offers as bytes.

use outlive_core::protocol::List;
use outlive_core::roster::{Offer, OfferError};
use proptest::prelude::*;

use crate::servers::{item, offer};

fn example() -> Offer {
    let lists = offer(&[
        (
            List::Tools,
            &[r#"{"name":"a", "x" : 1}"#, r#"{"y":[],"name":"b"}"#],
        ),
        (List::Templates, &[]),
    ]);
    let whole = Offer::new(
        "2025-11-25",
        br#"{"name":"s"}"#,
        lists.capabilities(),
        Some("Ask first."),
    );
    List::ALL
        .iter()
        .fold(whole, |whole, list| match lists.list(*list) {
            Some(items) => whole.with_list(*list, items.to_vec()),
            None => whole,
        })
}

/// What stands in a frame: the format, written down a second time.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = b"mcp offer\x01".to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn body(offer: &Offer) -> Vec<u8> {
    let bytes = offer.encode();
    bytes[b"mcp offer\x01".len() + 4..bytes.len() - 8].to_vec()
}

#[test]
fn what_is_written_is_read_again() {
    for offer in [example(), offer(&[]), Offer::new("", b"", b"", None)] {
        assert_eq!(Offer::decode(&offer.encode()), Ok(offer.clone()));
        assert_eq!(sealed(&body(&offer)), offer.encode());
    }
    let cut = offer(&[]).with_list(
        List::Prompts,
        (0..100_001)
            .map(|at| item(List::Prompts, &format!(r#"{{"name":"{at}"}}"#)))
            .collect(),
    );
    assert!(Offer::decode(&cut.encode()).expect("an offer").is_cut());
}

#[test]
fn a_reason_is_told_for_what_cannot_be_read() {
    let bytes = example().encode();
    assert_eq!(Offer::decode(b"{}"), Err(OfferError::NotAnOffer));
    assert_eq!(
        Offer::decode(&bytes[..bytes.len() - 1]),
        Err(OfferError::Truncated)
    );
    assert_eq!(Offer::decode(b""), Err(OfferError::Truncated));
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    assert_eq!(Offer::decode(&damaged), Err(OfferError::Damaged));
    let mut newer = bytes.clone();
    newer[b"mcp offer".len()] = 2;
    assert_eq!(Offer::decode(&newer), Err(OfferError::UnknownVersion(2)));
    let mut longer = body(&example());
    longer.push(0);
    assert_eq!(
        Offer::decode(&sealed(&longer)),
        Err(OfferError::Malformed("its end"))
    );
    let snapshot = b"outlive\x01\0\0\0\0";
    assert_eq!(Offer::decode(snapshot), Err(OfferError::NotAnOffer));
}

#[test]
fn an_entry_that_is_there_twice_is_refused() {
    let twice = body(&offer(&[(
        List::Tools,
        &[r#"{"name":"a"}"#, r#"{"name":"b"}"#],
    )]));
    let at = twice
        .windows(3)
        .position(|three| three == b"\"b\"")
        .expect("the second");
    let mut twice = twice;
    twice[at + 1] = b'a';
    assert_eq!(
        Offer::decode(&sealed(&twice)),
        Err(OfferError::Malformed("an entry that is there twice"))
    );
}

#[test]
fn an_entry_on_two_lines_is_refused() {
    let mut bytes = body(&offer(&[(List::Tools, &[r#"{"name": "a"}"#])]));
    let at = bytes.windows(2).position(|two| two == b": ");
    bytes[at.expect("a blank") + 1] = b'\n';
    let refused = Err(OfferError::Malformed("an entry"));
    assert_eq!(Offer::decode(&sealed(&bytes)), refused);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_what_is_read_is_written_alike(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = body(&example());
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        for bytes in [bytes.clone(), sealed(&bytes)] {
            if let Ok(offer) = Offer::decode(&bytes) {
                prop_assert_eq!(offer.encode(), bytes);
            }
        }
    }

    #[test]
    fn no_junk_makes_it_panic(junk in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Offer::decode(&junk);
        let _ = Offer::decode(&sealed(&junk));
    }
}

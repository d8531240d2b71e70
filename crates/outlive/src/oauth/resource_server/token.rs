//! What a client has shown, taken apart.

use outlive_core::verifier::{Claims, LONGEST_TOKEN, Refusal, TokenHead, TokenId};

use super::signature::bytes;

/// A token that a client has shown.
pub(super) enum Shown {
    /// A signed one (JWT).
    Signed(Signed),
    /// One that says nothing to us.
    Opaque(TokenId),
}

/// A signed token. Nothing that it says is to be believed before its signature was checked.
pub(super) struct Signed {
    pub(super) head: TokenHead,
    pub(super) claims: Claims,
    /// What is signed.
    pub(super) message: String,
    pub(super) signature: Vec<u8>,
}

impl Shown {
    pub(super) fn read(token: &str) -> Result<Shown, Refusal> {
        if token.len() > LONGEST_TOKEN {
            return Err(Refusal::TooLong);
        }
        let opaque = || {
            let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
            let digest = digest.as_ref().try_into();
            Ok(Shown::Opaque(TokenId(digest.expect("256 bits"))))
        };
        let mut parts = token.splitn(4, '.');
        let (Some(head), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return opaque();
        };
        let Some(head) = bytes(head).filter(|head| head.starts_with(b"{")) else {
            return opaque();
        };
        let head = TokenHead::read(&head)?;
        let read = bytes(claims).ok_or(Refusal::Malformed)?;
        let claims = Claims::read(&read)?;
        let message = token[..token.len() - signature.len() - 1].to_owned();
        Ok(Shown::Signed(Signed {
            head,
            claims,
            message,
            signature: bytes(signature).ok_or(Refusal::Malformed)?,
        }))
    }
}

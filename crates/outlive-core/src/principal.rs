//! Who a request comes from.

use std::fmt;

/// Who a request comes from, as far as credentials tell. Two requests with the same token have the same principal.
/// Sessions, servers that are kept for a client, logs and metrics go by it; it says nothing about the token itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(pub u64);

impl Principal {
    /// Whoever comes, where no credentials are asked for.
    pub const ANYONE: Principal = Principal(0);
}

/// The word for it in logs and metrics: `anyone`, or `token-2` for the second token there has been.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Principal::ANYONE => f.write_str("anyone"),
            Principal(number) => write!(f, "token-{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_a_word_that_is_no_secret() {
        assert_eq!(Principal::ANYONE.to_string(), "anyone");
        assert_eq!(Principal(2).to_string(), "token-2");
    }
}

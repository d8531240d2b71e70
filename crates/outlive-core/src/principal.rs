//! Who a request comes from.

use std::fmt;

/// Who a request comes from, as far as credentials tell. Two requests with the same token have the same principal.
/// Sessions, servers that are kept for a client, logs and metrics go by it; it says nothing about the token itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Principal {
    /// Whoever comes, where no credentials are asked for.
    Anyone,
    /// Whoever shows this token, the how-manieth there has been.
    Token(u64),
    /// Whom an identity provider has vouched for, under a number that lasts while they are known here. A token that was
    /// refreshed belongs to the same one.
    User(u64),
    /// Whom the program has found out by itself, under a number of its own.
    Caller(u64),
}

/// The word for it in logs and metrics: `anyone`, `token-2` for the second token there has been, `user-3`, or
/// `caller-7`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Principal::Anyone => f.write_str("anyone"),
            Principal::Token(number) => write!(f, "token-{number}"),
            Principal::User(number) => write!(f, "user-{number}"),
            Principal::Caller(number) => write!(f, "caller-{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_a_word_that_is_no_secret() {
        assert_eq!(Principal::Anyone.to_string(), "anyone");
        assert_eq!(Principal::Token(2).to_string(), "token-2");
        assert_eq!(Principal::User(3).to_string(), "user-3");
        assert_eq!(Principal::Caller(7).to_string(), "caller-7");
    }
}

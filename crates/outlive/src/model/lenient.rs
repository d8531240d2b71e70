//! How single values are read and written where serde's own way is too strict.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serializer};

/// An integer, however the peer's language writes one: `1`, `1.0`, `1e3`. What does not fit is
/// the nearest that does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Integer(i64);

impl From<Integer> for i64 {
    fn from(integer: Integer) -> i64 {
        integer.0
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Integer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }

            fn visit_i64<E: Error>(self, n: i64) -> Result<Integer, E> {
                Ok(Integer(n))
            }

            fn visit_u64<E: Error>(self, n: u64) -> Result<Integer, E> {
                Ok(Integer(i64::try_from(n).unwrap_or(i64::MAX)))
            }

            fn visit_f64<E: Error>(self, n: f64) -> Result<Integer, E> {
                Ok(Integer(n as i64))
            }
        }
        // `any`: asked for an `i64`, a buffered float would be refused before we see it.
        deserializer.deserialize_any(Reader)
    }
}

/// Reads an integer.
pub(super) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Integer::deserialize(deserializer).map(i64::from)
}

/// Reads an integer that may be `null`.
pub(super) fn optional_integer<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    Option::<Integer>::deserialize(deserializer).map(|n| n.map(i64::from))
}

/// Takes `null` for an absent field.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Tells `null` from an absent field: a field that is there is `Some`, whatever it holds.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Writes a number without a fraction as an integer: a progress of 5 should not become 5.0 on its
/// way through us.
pub(super) fn write_number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        serializer.serialize_i64(*number as i64)
    } else {
        serializer.serialize_f64(*number)
    }
}

/// [`write_number`] for a number that may be absent.
pub(super) fn write_optional_number<S: Serializer>(
    number: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => write_number(number, serializer),
        None => serializer.serialize_none(),
    }
}

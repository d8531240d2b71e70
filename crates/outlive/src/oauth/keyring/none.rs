//! No keyring: this program was built without one.

use super::{Entry, Extent, Trouble};

fn absent() -> Trouble {
    Trouble::Absent("this program was built without one".into())
}

pub(super) fn get(_: &Entry, _: Extent) -> Result<Option<Vec<u8>>, Trouble> {
    Err(absent())
}

pub(super) fn set(_: &Entry, _: &[u8]) -> Result<(), Trouble> {
    Err(absent())
}

pub(super) fn delete(_: &Entry) -> Result<(), Trouble> {
    Err(absent())
}

//! Keychain, by the bindings that TLS needs anyway.

use security_framework::base::Error;
use security_framework::passwords::{
    delete_generic_password, get_generic_password, set_generic_password,
};

use super::{Entry, Extent, Trouble};

/// `errSecItemNotFound`.
const NOT_FOUND: i32 = -25300;
/// `errSecNoSuchKeychain`, `errSecNoDefaultKeychain`, `errSecNotAvailable`.
const ABSENT: [i32; 3] = [-25294, -25307, -25291];
/// `errSecInteractionNotAllowed`, `errSecAuthFailed`, `errSecUserCanceled`.
const LOCKED: [i32; 3] = [-25308, -25293, -128];

fn service(entry: &Entry) -> String {
    format!("outlive: login at {}", entry.server)
}

fn trouble(error: Error) -> Trouble {
    match error.code() {
        code if LOCKED.contains(&code) => Trouble::Locked,
        code if ABSENT.contains(&code) => Trouble::Absent(error.to_string()),
        _ => Trouble::Broken(error.to_string()),
    }
}

pub(super) fn get(entry: &Entry, _: Extent) -> Result<Option<Vec<u8>>, Trouble> {
    match get_generic_password(&service(entry), &entry.name) {
        Ok(secret) => Ok(Some(secret)),
        Err(error) if error.code() == NOT_FOUND => Ok(None),
        Err(error) => Err(trouble(error)),
    }
}

pub(super) fn set(entry: &Entry, secret: &[u8]) -> Result<(), Trouble> {
    set_generic_password(&service(entry), &entry.name, secret).map_err(trouble)
}

pub(super) fn delete(entry: &Entry) -> Result<(), Trouble> {
    match delete_generic_password(&service(entry), &entry.name) {
        Err(error) if error.code() != NOT_FOUND => Err(trouble(error)),
        _ => Ok(()),
    }
}

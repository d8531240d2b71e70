//! Credential Manager: generic credentials of this user on this machine.

use std::io;
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_NO_SUCH_LOGON_SESSION, ERROR_NOT_FOUND};
use windows_sys::Win32::Security::Credentials::{
    CRED_PERSIST_LOCAL_MACHINE, CRED_TYPE_GENERIC, CREDENTIALW, CredDeleteW, CredFree, CredReadW,
    CredWriteW,
};

use super::{Entry, Extent, Trouble};

/// A text as Windows takes it.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn target(entry: &Entry) -> Vec<u16> {
    wide(&format!("outlive/{}", entry.name))
}

/// Why the last call failed; none if there is no such credential.
fn trouble() -> Option<Trouble> {
    let error = io::Error::last_os_error();
    match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_NOT_FOUND) => None,
        // A service, or a login over the network without the user's password.
        Some(ERROR_NO_SUCH_LOGON_SESSION) => Some(Trouble::Absent(error.to_string())),
        _ => Some(Trouble::Broken(error.to_string())),
    }
}

pub(super) fn get(entry: &Entry, _: Extent) -> Result<Option<Vec<u8>>, Trouble> {
    let target = target(entry);
    let mut found: *mut CREDENTIALW = ptr::null_mut();
    // SAFETY: `target` ends with a zero, and `found` is where the call puts what it allocates.
    #[expect(unsafe_code)]
    let read = unsafe { CredReadW(target.as_ptr(), CRED_TYPE_GENERIC, 0, &raw mut found) };
    if read == 0 {
        return trouble().map_or(Ok(None), Err);
    }
    // SAFETY: the call has succeeded, so `found` is a credential of its own making, whose blob has the size it says,
    // until it is freed, which happens once, below.
    #[expect(unsafe_code)]
    let secret = unsafe {
        let credential = &*found;
        let length = credential.CredentialBlobSize as usize;
        let secret = match credential.CredentialBlob.is_null() {
            true => Vec::new(),
            false => std::slice::from_raw_parts(credential.CredentialBlob, length).to_vec(),
        };
        CredFree(found.cast());
        secret
    };
    Ok(Some(secret))
}

pub(super) fn set(entry: &Entry, secret: &[u8]) -> Result<(), Trouble> {
    let mut target = target(entry);
    let mut about = wide(&format!("outlive: login at {}", entry.server));
    // The longest comment (CRED_MAX_STRING_LENGTH); it ends with a zero.
    about.truncate(255);
    about.push(0);
    let mut user = wide("outlive");
    let mut secret = secret.to_vec();
    let credential = CREDENTIALW {
        Type: CRED_TYPE_GENERIC,
        TargetName: target.as_mut_ptr(),
        Comment: about.as_mut_ptr(),
        CredentialBlobSize: u32::try_from(secret.len()).unwrap_or(u32::MAX),
        CredentialBlob: secret.as_mut_ptr(),
        Persist: CRED_PERSIST_LOCAL_MACHINE,
        UserName: user.as_mut_ptr(),
        ..Default::default()
    };
    // SAFETY: all that `credential` points to lives until the call is over, texts end with a zero, and the blob is as
    // long as it says.
    #[expect(unsafe_code)]
    match unsafe { CredWriteW(&raw const credential, 0) } {
        0 => Err(trouble().unwrap_or_else(|| Trouble::Absent("there is no such place".into()))),
        _ => Ok(()),
    }
}

pub(super) fn delete(entry: &Entry) -> Result<(), Trouble> {
    let target = target(entry);
    // SAFETY: `target` ends with a zero.
    #[expect(unsafe_code)]
    match unsafe { CredDeleteW(target.as_ptr(), CRED_TYPE_GENERIC, 0) } {
        0 => trouble().map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

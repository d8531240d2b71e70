//! The published versions of the protocol.

use super::Era;

/// The versions with a handshake, oldest first.
pub const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The version without a handshake.
pub const MODERN: &str = "2026-07-28";

/// The first version whose clients know events without a message, and so a stream that is ended early to be resumed.
pub const PRIMED: &str = "2025-11-25";

/// The era of a version; `None` if we do not know the version.
pub fn era(version: &str) -> Option<Era> {
    match version {
        MODERN => Some(Era::Modern),
        version if LEGACY.contains(&version) => Some(Era::Legacy),
        _ => None,
    }
}

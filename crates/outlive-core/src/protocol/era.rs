//! The two families of protocol versions.

use serde::{Deserialize, Serialize};

use super::version;
use crate::message::Message;

/// The two families of protocol versions. A connection may carry both; a request is of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: a handshake, then a session that has state.
    Legacy,
    /// From 2026-07-28 on: every request carries what it needs.
    Modern,
}

impl Era {
    /// The era of a message from a client.
    pub fn of(message: &Message) -> Era {
        match message.is_modern() {
            true => Era::Modern,
            false => Era::Legacy,
        }
    }

    /// The newest version of this era.
    pub const fn newest(self) -> &'static str {
        match self {
            Era::Legacy => version::LEGACY[version::LEGACY.len() - 1],
            Era::Modern => version::MODERN,
        }
    }
}

//! Where sessions are kept, as a setting says it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use outlive::store::{FileStore, Store};
use serde_json::json;

use crate::log::Log;

/// How long the process that has the store may take to end: an upgrade starts the next one while it drains.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long after one attempt the next is made.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the store that a setting names; none if sessions are kept in memory only.
pub fn open(setting: &str, log: &Log) -> Result<Option<Arc<dyn Store>>, String> {
    let directory = match setting.split_once(':') {
        None if setting == "memory" => return Ok(None),
        Some(("file", directory)) if !directory.is_empty() => directory,
        _ => {
            let wanted = "`memory` or `file:DIR` is wanted, for example file:/var/lib/outlive";
            return Err(format!("store is {setting:?}: {wanted}"));
        }
    };
    let (begun, mut told) = (Instant::now(), false);
    loop {
        match FileStore::open(directory) {
            Ok(store) => return Ok(Some(Arc::new(store))),
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                if !std::mem::replace(&mut told, true) {
                    let sentence = format!("{error}; waiting for it to end");
                    log.note(&sentence, "store_busy", json!({ "store": setting }));
                }
                sleep(PAUSE);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(format!(
                    "{error}, and has not ended within {} s; stop it, or give this one another directory",
                    PATIENCE.as_secs()
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

//! Where sessions are kept, as a setting says it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use outlive::store::{FileStore, RedisStore, Store};
use serde_json::json;

use crate::listen::ServeSettings;
use crate::log::Log;

/// How long the process that has the store may take to end: an upgrade starts the next one while it drains.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long after one attempt the next is made.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the store that a setting names; none if sessions are kept in memory only.
pub fn open(settings: &ServeSettings, log: &Log) -> Result<Option<Arc<dyn Store>>, String> {
    match settings.store.split_once(':') {
        None if settings.store == "memory" => Ok(None),
        Some(("file", directory)) if !directory.is_empty() => open_directory(directory, log),
        Some((scheme, _)) if scheme.starts_with("redis") || scheme.starts_with("valkey") => {
            open_redis(settings)
        }
        // What was given is not told: it may have a password in it.
        _ => Err(
            "store is none of those that there are: `memory`, `file:DIR` (for example file:/var/lib/outlive) or \
             `redis://HOST:PORT` is wanted"
                .into(),
        ),
    }
}

/// A Redis is connected to when it is needed: one that is away for a moment keeps nobody from starting.
fn open_redis(settings: &ServeSettings) -> Result<Option<Arc<dyn Store>>, String> {
    let store = RedisStore::open(&settings.store).map_err(|error| format!("store: {error}"))?;
    let mut store = store.with_lease(settings.lease);
    if let Some(password) = password(settings)? {
        store = store.with_password(password);
    }
    Ok(Some(Arc::new(store)))
}

fn password(settings: &ServeSettings) -> Result<Option<String>, String> {
    let Some(file) = &settings.store_password_file else {
        return Ok(settings.store_password.clone());
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        format!(
            "store-password-file: cannot read {}: {error}",
            file.display()
        )
    })?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("store-password-file: {} is empty", file.display())),
        password => Ok(Some(password.to_owned())),
    }
}

fn open_directory(directory: &str, log: &Log) -> Result<Option<Arc<dyn Store>>, String> {
    let setting = format!("file:{directory}");
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

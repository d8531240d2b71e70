//! Where logins are kept: a folder that only the user can read, with a file for each server.
//!
//! A file is replaced whole or not at all (written beside, synced, renamed), so that whoever reads it needs no lock.
//! What cannot be read is no login: a person is asked again, and nothing breaks. Beside each file is one that is locked
//! by whoever exchanges something; the kernel gives that lock back when its owner dies.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::login::{Grant, GrantId};
use reqwest::Url;
use ring::digest;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::discovery::canonical;

/// The ending of a login.
const ENDING: &str = "login";
/// Whoever waits for the lock looks this often.
const LOOK: Duration = Duration::from_millis(40);

/// Where logins are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenStore {
    /// In this folder.
    Folder(PathBuf),
    /// Nowhere: they end with the process, and no other process shares them.
    Memory,
}

/// A login as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) server: String,
    pub(super) client: Client,
    pub(super) token_endpoint: String,
    pub(super) resource: String,
    pub(super) grant: Option<KeptGrant>,
}

/// A grant, with its secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptGrant {
    pub(super) id: u64,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// Milliseconds since 1970.
    pub(super) issued: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
    #[serde(default)]
    pub(super) in_doubt: bool,
    #[serde(default)]
    pub(super) by_login: bool,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

impl KeptGrant {
    /// The same without its secrets.
    pub(super) fn grant(&self) -> Grant {
        Grant {
            id: GrantId(self.id),
            issued: Duration::from_millis(self.issued),
            expires: self.expires.map(Duration::from_millis),
            renewable: self.refresh_token.is_some(),
            in_doubt: self.in_doubt,
            by_login: self.by_login,
            scopes: self.scopes.clone(),
        }
    }
}

/// What is known of a login that is kept; never its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLogin {
    /// The server.
    pub server: String,
    /// Who has let us in.
    pub issuer: String,
    /// Who we are there.
    pub client_id: String,
    /// The scopes that were asked for.
    pub scopes: Vec<String>,
    /// When its access token expires, since 1970, if that was told.
    pub expires: Option<Duration>,
    /// It is renewed by itself.
    pub renewable: bool,
}

/// The place of one login.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: PathBuf,
    name: String,
}

impl TokenStore {
    pub(super) fn place(&self, server: &Url) -> Option<Place> {
        let TokenStore::Folder(folder) = self else {
            return None;
        };
        let hash = digest::digest(&digest::SHA256, canonical(server).as_bytes());
        let name = hash.as_ref()[..12]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(Place {
            folder: folder.clone(),
            name,
        })
    }

    /// All logins that are kept, by server.
    pub fn logins(&self) -> io::Result<Vec<StoredLogin>> {
        let TokenStore::Folder(folder) = self else {
            return Ok(Vec::new());
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == ENDING)
                && let Some(Kept {
                    server,
                    client,
                    grant: Some(grant),
                    ..
                }) = read(&path)
            {
                all.push(StoredLogin {
                    server,
                    issuer: client.issuer,
                    client_id: client.id,
                    renewable: grant.refresh_token.is_some(),
                    expires: grant.expires.map(Duration::from_millis),
                    scopes: grant.scopes,
                });
            }
        }
        all.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(all)
    }
}

impl Place {
    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// The login there is; none if there is none, or none that can be read.
    pub(super) fn load(&self) -> Option<Kept> {
        read(&self.file(ENDING))
    }

    pub(super) fn save(&self, kept: &Kept) -> io::Result<()> {
        make_folder(&self.folder)?;
        let beside = self.file(&format!("new-{}", std::process::id()));
        let text = serde_json::to_vec_pretty(kept)?;
        let written = private(&beside, true).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        let replaced = written.and_then(|()| fs::rename(&beside, self.file(ENDING)));
        if replaced.is_err() {
            let _ = fs::remove_file(&beside);
        }
        replaced
    }

    /// Forgets the login. Whether there was one.
    pub(super) fn remove(&self) -> io::Result<bool> {
        match fs::remove_file(self.file(ENDING)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock; it is given back when it is dropped.
    pub(super) async fn lock(&self) -> io::Result<File> {
        make_folder(&self.folder)?;
        let file = private(&self.file("lock"), false)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

fn read(path: &Path) -> Option<Kept> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// A file that only this user can read.
fn private(path: &Path, anew: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(anew);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(token: &str) -> Kept {
        Kept {
            server: "https://a.example/mcp".into(),
            client: Client {
                issuer: "https://as.example".into(),
                id: "me".into(),
                secret: None,
                method: "none".into(),
                redirect_uri: None,
            },
            token_endpoint: "https://as.example/token".into(),
            resource: "https://a.example/mcp".into(),
            grant: Some(KeptGrant {
                id: 1,
                access_token: token.into(),
                refresh_token: Some("r".into()),
                issued: 1,
                expires: Some(2),
                in_doubt: false,
                by_login: true,
                scopes: Vec::new(),
            }),
        }
    }

    #[tokio::test]
    async fn a_login_is_kept_for_this_user_alone_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::Folder(folder.path().join("a").join("logins"));
        let place = store
            .place(&"https://a.example/mcp".parse().unwrap())
            .unwrap();
        assert!(place.load().is_none() && store.logins().unwrap().is_empty());
        place.save(&kept("hunter66")).unwrap();
        place.save(&kept("hunter77")).unwrap();
        assert_eq!(
            place.load().unwrap().grant.unwrap().access_token,
            "hunter77"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(
                (mode(&place.folder), mode(&place.file(ENDING))),
                (0o700, 0o600)
            );
        }
        let logins = store.logins().unwrap();
        assert_eq!(logins[0].server, "https://a.example/mcp");
        assert!(!format!("{logins:?}").contains("hunter"));
        fs::write(place.file(ENDING), "{\"server\": tr").unwrap();
        assert!(place.load().is_none(), "what is damaged is no login");
        assert!(place.remove().unwrap() && !place.remove().unwrap());
    }

    #[tokio::test]
    async fn one_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::Folder(folder.path().into());
        let place = store
            .place(&"https://a.example/mcp".parse().unwrap())
            .unwrap();
        let lock = place.lock().await.unwrap();
        let other = tokio::time::timeout(LOOK * 5, place.lock()).await;
        assert!(other.is_err(), "it is taken");
        drop(lock);
        place.lock().await.unwrap();
    }
}

//! The backup beside a file, and the file written whole or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use outlive_hosts::{Action, Edited, load};

use super::target::Target;
use crate::system;

/// At most this many backups are kept beside a file.
const MAX_BACKUPS: usize = 20;

/// The backups beside a file, the latest first.
#[derive(Debug)]
pub struct Backups {
    /// The file itself, where a link leads to it.
    file: PathBuf,
    found: Vec<(PathBuf, String)>,
}

impl Backups {
    pub fn beside(path: &Path) -> Backups {
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let names = (1..=MAX_BACKUPS).rev().map(|number| name(&file, number));
        let found = names.filter_map(|path| Some((path.clone(), load(&path).ok()?)));
        Backups {
            found: found.collect(),
            file,
        }
    }

    pub fn texts(&self) -> Vec<String> {
        self.found.iter().map(|(_, text)| text.clone()).collect()
    }

    /// The first name that is free.
    fn free(&self) -> Result<PathBuf, String> {
        let mut names = (1..=MAX_BACKUPS).map(|number| name(&self.file, number));
        names.find(|path| !path.exists()).ok_or_else(|| {
            format!(
                "{} has {MAX_BACKUPS} backups: remove those that you do not need",
                self.file.display()
            )
        })
    }
}

/// `mcp.json.outlive-backup`, `mcp.json.outlive-backup.2` and so on.
fn name(file: &Path, number: usize) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".outlive-backup");
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// Puts the edited text in the place of the file. Before something is wrapped a backup is made, whose name is
/// returned; when everything is as it was before, the backup of that is removed.
pub fn replace(
    target: &Target,
    edited: &Edited,
    backups: &Backups,
) -> Result<Option<PathBuf>, String> {
    let file = &backups.file;
    let unwritten =
        |error: io::Error| format!("{} cannot be written: {error}", target.path.display());
    let metadata = fs::metadata(file).map_err(unwritten)?;
    if metadata.permissions().readonly() {
        return Err(format!(
            "{} is read-only: it has not been touched",
            target.path.display()
        ));
    }
    let is_wrapping = edited.servers.iter().any(|it| it.action == Action::Wrapped);
    let backup = match is_wrapping {
        false => None,
        true => match backups.found.iter().find(|(_, text)| *text == target.text) {
            Some((path, _)) => Some(path.clone()),
            None => {
                let path = backups.free()?;
                create(&path, &target.text, &metadata).map_err(unwritten)?;
                Some(path)
            }
        },
    };
    let is_new = |path: &&PathBuf| !backups.found.iter().any(|(found, _)| found == *path);
    if let Err(error) = exchange(file, &target.text, &edited.text, &metadata) {
        // If somebody else has changed it, they may rely on this backup.
        let is_same = fs::read(file).is_ok_and(|text| text == target.text.as_bytes());
        if let Some(path) = backup.as_ref().filter(is_new).filter(|_| is_same) {
            let _ = fs::remove_file(path);
        }
        return Err(unwritten(error));
    }
    if !is_wrapping {
        // What is in others may be nowhere else.
        let done = backups
            .found
            .iter()
            .filter(|(_, text)| *text == edited.text);
        for (path, _) in done {
            let _ = fs::remove_file(path);
        }
    }
    Ok(backup)
}

/// Writes the new text beside the file and renames it into place, unless the file has changed meanwhile.
fn exchange(file: &Path, old: &str, new: &str, metadata: &Metadata) -> io::Result<()> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".outlive-{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let exchanged =
        create(&draft, new, metadata).and_then(|()| match fs::read(file)? == old.as_bytes() {
            true => fs::rename(&draft, file),
            false => Err(io::Error::other(
                "somebody else has changed it just now; try again",
            )),
        });
    if exchanged.is_err() {
        let _ = fs::remove_file(&draft);
    }
    exchanged
}

/// Creates a file that nobody may read who could not read the original.
fn create(path: &Path, text: &str, like: &Metadata) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true);
    let mut file: File = system::private_file(options).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| {
        system::chown_like(&file, like)?;
        file.set_permissions(like.permissions())?;
        file.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

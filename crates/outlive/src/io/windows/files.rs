//! Files that only their user can read, and what can be told of one without reading it.
//!
//! On Windows a file inherits who may read it from its directory, and what a user keeps is in a directory of theirs:
//! there is nothing to be set for each file.

#[cfg(feature = "gateway")]
use std::fs::{DirBuilder, OpenOptions};
use std::os::windows::fs::MetadataExt;
use std::path::Path;

/// What can be told of a file without reading it.
pub(crate) type Stamp = (u64, u64, u64);

/// The stamp of a file: another one when it was written to or replaced.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let data = std::fs::metadata(path).ok()?;
    Some((
        data.creation_time(),
        data.last_write_time(),
        data.file_size(),
    ))
}

/// Makes directories that nobody else can look into.
#[cfg(feature = "gateway")]
pub(crate) fn private_directories() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder
}

/// Makes files that nobody else can read.
#[cfg(feature = "gateway")]
pub(crate) fn private_files() -> OpenOptions {
    OpenOptions::new()
}

/// Makes sure that what a directory lists survives a loss of power. The file system's journal does.
#[cfg(feature = "gateway")]
pub(crate) fn sync_directory(_directory: &Path) -> std::io::Result<()> {
    Ok(())
}

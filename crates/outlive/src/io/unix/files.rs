//! Files that only their user can read, and what can be told of one without reading it.

use std::fs;
#[cfg(feature = "gateway")]
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::MetadataExt;
#[cfg(feature = "gateway")]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// What can be told of a file without reading it.
pub(crate) type Stamp = (u64, u64, i64, i64, u64);

/// The stamp of a file: another one when it was written to or replaced.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    let (at, nanos) = (data.mtime(), data.mtime_nsec());
    Some((data.dev(), data.ino(), at, nanos, data.size()))
}

/// Makes directories that nobody else can look into.
#[cfg(feature = "gateway")]
pub(crate) fn private_directories() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

/// Makes files that nobody else can read.
#[cfg(feature = "gateway")]
pub(crate) fn private_files() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes sure that what a directory lists survives a loss of power.
#[cfg(feature = "gateway")]
pub(crate) fn sync_directory(directory: &Path) -> std::io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

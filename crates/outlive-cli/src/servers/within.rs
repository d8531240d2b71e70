//! Files of servers that are being served around us.
//!
//! A server of a file may start outlive again, through a shell or a launcher, and for the same file: each would start
//! the next one, without end. So whatever a server starts is told which files are served above it.

use std::env;
use std::ffi::OsString;
use std::path::{self, Path, PathBuf};

use super::Servers;

/// The variable that names these files, as `PATH` names directories.
pub const VARIABLE: &str = "OUTLIVE_WITHIN";

impl Servers {
    /// What is wrong with serving them here, if something is.
    pub(super) fn check_within(&self) -> Result<(), String> {
        let real = |it: &PathBuf| it.canonicalize().ok();
        let around = around(env::var_os(VARIABLE));
        let around: Vec<PathBuf> = around.iter().filter_map(real).collect();
        let is_around = |it: &PathBuf| real(it).is_some_and(|it| around.contains(&it));
        match self.files().into_iter().find(is_around) {
            None => Ok(()),
            Some(file) => Err(format!(
                "{} is served by the outlive that has started this one (cyclic): name another file, or remove the \
                 server that starts outlive for it",
                file.display()
            )),
        }
    }

    /// What the variable is for their servers; none if a path cannot be told in it.
    pub(super) fn within(&self) -> Option<OsString> {
        let mut files = around(env::var_os(VARIABLE));
        files.extend(self.files());
        match files.is_empty() {
            true => None,
            false => env::join_paths(files).ok(),
        }
    }

    /// The files that they come from, by the names they were given: where a link leads may change with each edit (a
    /// mounted ConfigMap, say), and a server whose surroundings change is started anew. One that is a pipe has no name
    /// that anybody could use again.
    fn files(&self) -> Vec<PathBuf> {
        let is_pipe = |it: &Path| it.metadata().is_ok_and(|about| !about.is_file());
        let files = self.look.paths().filter(|it| !is_pipe(it));
        files.filter_map(|it| path::absolute(it).ok()).collect()
    }
}

fn around(value: Option<OsString>) -> Vec<PathBuf> {
    value.map_or_else(Vec::new, |it| env::split_paths(&it).collect())
}

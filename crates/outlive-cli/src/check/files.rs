//! Reports that are written into files.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use outlive_check::sheet::{Sheet, html, junit};

/// Where reports go besides standard output.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Write a report for build servers: a broken must is a failure
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write a page for people: matrix, verdicts, transcripts to open
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Files {
    /// Whether they can be written, asked before minutes are spent on what goes into them. Those that were not there
    /// before are gone with what is returned, unless it is [kept](Drafts::keep).
    pub fn try_all(&self) -> Result<Drafts, String> {
        let mut drafts = Drafts::default();
        for file in [&self.junit, &self.html].into_iter().flatten() {
            let is_new = !file.exists();
            let open = OpenOptions::new().append(true).create(true).open(file);
            open.map_err(|error| unwritable(file, &error))?;
            if is_new {
                drafts.0.push(file.clone());
            }
        }
        Ok(drafts)
    }

    /// Writes them.
    pub fn write(&self, sheet: &Sheet) -> Result<(), String> {
        if let Some(file) = &self.junit {
            write(file, &junit(sheet))?;
        }
        if let Some(file) = &self.html {
            write(file, &html(std::slice::from_ref(sheet)))?;
        }
        Ok(())
    }
}

/// Files that are still empty: nobody should find them where nothing was played.
#[derive(Debug, Default)]
pub struct Drafts(Vec<PathBuf>);

impl Drafts {
    /// They are written now.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Writes a report into a file.
pub fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> String {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => format!(
            "{} cannot be written: there is no folder {}",
            file.display(),
            folder.display()
        ),
        _ => format!("{} cannot be written: {error}", file.display()),
    }
}

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
    /// Whether they can be written, asked before minutes are spent on what goes into them.
    pub fn try_all(&self) -> Result<(), String> {
        [&self.junit, &self.html]
            .into_iter()
            .flatten()
            .try_for_each(|file| {
                let open = OpenOptions::new().append(true).create(true).open(file);
                open.map(drop).map_err(|error| unwritable(file, &error))
            })
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

/// Writes a report into a file.
pub fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> String {
    format!("{} cannot be written: {error}", file.display())
}

//! Reports side by side: programs, versions, or yesterday and today.

use std::path::PathBuf;

use outlive_check::sheet::{Sheet, html, markdown, picture, text};

use super::files::write;

/// Options of `outlive check compare`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// What `--json` printed, each in a file; `NAME=FILE` gives it the name it stands under
    #[arg(value_name = "[NAME=]FILE", required = true)]
    reports: Vec<String>,

    /// Write one page with all of them
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the matrix as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print the matrix in Markdown
    #[arg(long)]
    markdown: bool,
}

const EXAMPLES: &str = "\
Examples:
  outlive check server --json -- python old.py > old.json
  outlive check server --json -- python new.py > new.json
  outlive check compare before=old.json after=new.json --html matrix.html";

impl Args {
    /// Writes the files and returns what is to be printed.
    pub fn compare(&self) -> Result<String, String> {
        let sheets: Result<Vec<Sheet>, String> = self.reports.iter().map(|r| read(r)).collect();
        let sheets = sheets?;
        if let Some(file) = &self.html {
            write(file, &html(&sheets))?;
        }
        if let Some(file) = &self.svg {
            write(file, &picture(&sheets))?;
        }
        Ok(match self.markdown {
            true => markdown(&sheets),
            false => text(&sheets),
        })
    }
}

fn read(named: &str) -> Result<Sheet, String> {
    let (name, file) = match named.split_once('=') {
        Some((name, file)) => (Some(name), file),
        None => (None, named),
    };
    let document =
        std::fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
    let mut sheet = Sheet::read(&document).map_err(|why| format!("{file} is {why}"))?;
    if let Some(name) = name {
        sheet.name = name.to_owned();
    }
    Ok(sheet)
}

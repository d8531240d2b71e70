//! `outlive man`: the manual, one page for each command.
//!
//! The pages are made from the definition that the flags are read with, so they cannot differ from it. Examples and
//! tables of exit codes keep their lines. A page has no date: it belongs to a version, which it names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

/// Where the pages go.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder to write the pages to; it is made if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages; why they cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let folder = &args.folder;
    pages(crate::cli(), folder)
        .map_err(|error| format!("cannot write the manual to {}: {error}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn pages(cli: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    page(&cli, folder)
}

/// Writes the page of this command and of those below it.
fn page(command: &Command, folder: &Path) -> io::Result<()> {
    let shown = |command: &&Command| !command.is_hide_set();
    for below in command.get_subcommands().filter(shown) {
        page(below, folder)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    // What follows the help is written below: as a part of the page its lines would be filled.
    let man = Man::new(command.clone().name(name.to_owned()).after_long_help(""));
    let mut text = title(name).into_bytes();
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|below| shown(&below)) {
        man.render_subcommands_section(&mut text)?;
    }
    let mut text = tidy(&String::from_utf8_lossy(&text));
    if let Some(after) = command.get_after_long_help() {
        text += &sections(&after.to_string());
    }
    fs::write(folder.join(format!("{name}.1")), text)
}

/// The first line of a page: its name, its section, no date, what it belongs to.
fn title(name: &str) -> String {
    let name = name.to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} 1 \"\" \"outlive {version}\" \"Manual of outlive\"\n")
}

/// Takes away line breaks beside an empty line, which breaks the line already.
fn tidy(page: &str) -> String {
    page.replace("\n.br\n\n.br\n", "\n\n")
}

/// What follows a help text, as sections of a page: `Examples:` and lines below it.
fn sections(after: &str) -> String {
    let mut page = String::new();
    for section in after.split("\n\n") {
        let (title, lines) = section.split_once(":\n").unwrap_or(("Notes", section));
        page += &format!(".SH {}\n.nf\n", title.to_uppercase());
        for line in lines.lines() {
            page += &(literal(line) + "\n");
        }
        page += ".fi\n";
    }
    page
}

/// A line that shows as it is written.
fn literal(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_help_text_keeps_its_lines() {
        let page = sections("Examples:\n  outlive run -- cat\n.x\n\nExit codes:\n  0   well");
        let expected = ".SH EXAMPLES\n.nf\n  outlive run \\-\\- cat\n\\&.x\n.fi\n.SH EXIT CODES\n.nf\n  0   well\n.fi\n";
        assert_eq!(page, expected);
    }
}

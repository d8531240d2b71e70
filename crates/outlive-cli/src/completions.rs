//! `outlive completions`: what a shell needs to complete this program's commands and flags.
//!
//! The scripts are made from the definition that the flags are read with, so they cannot differ from it.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::terminal::print;

/// What follows the help.
pub const EXAMPLES: &str = "\
Examples:
  outlive completions bash > ~/.local/share/bash-completion/completions/outlive
  outlive completions zsh > ~/.zfunc/_outlive              # with fpath+=~/.zfunc before compinit
  outlive completions fish > ~/.config/fish/completions/outlive.fish
  outlive completions powershell >> $PROFILE";

/// For which shell.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell that is to read the script.
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli(), "outlive", &mut script);
    // A shell that reads only the beginning has what it wanted.
    print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

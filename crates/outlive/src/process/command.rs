//! The command that starts a server.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use outlive_core::cause::StartFailure;

use crate::process::programs;
use crate::secrets::Secrets;

/// Longer labels are cut: they stand in sentences.
const LABEL: usize = 200;

/// A program, its arguments, and what it finds around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// The program, as a path or as a name to be found in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set in addition to those of this process.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs; `None`: where this process does.
    pub cwd: Option<PathBuf>,
}

impl Command {
    /// A command with these arguments, in the surroundings of this process.
    pub fn new(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Command {
        Command {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
        }
    }

    /// The same command with one more argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Command {
        self.args.push(arg.into());
        self
    }

    /// The same command with a variable set.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Command {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same command, run in this directory.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Command {
        self.cwd = Some(cwd.into());
        self
    }

    /// The command as a person would type it, secrets masked, cut where it becomes too long
    /// for a sentence.
    pub fn label(&self, secrets: &Secrets) -> String {
        let words = [&self.program].into_iter().chain(&self.args);
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let masked = secrets.mask_words(words.iter().map(|word| &**word));
        let quoted: Vec<String> = masked.iter().map(|word| quote(word)).collect();
        let mut label = quoted.join(" ");
        if let Some((end, _)) = label.char_indices().nth(LABEL) {
            label.truncate(end);
            label.push('…');
        }
        label
    }

    /// The file that will be executed, if there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let base = self.cwd.clone().unwrap_or_default();
        if programs::is_path(&self.program) {
            return programs::executable(base.join(&self.program));
        }
        let path = self.variable("PATH").unwrap_or_default();
        env::split_paths(&path)
            .find_map(|dir| programs::executable(base.join(dir).join(Path::new(&self.program))))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        let is_it = |given: &OsStr| programs::is_same_variable(given, OsStr::new(name));
        let ours = self.env.iter().rev().find(|(given, _)| is_it(given));
        ours.map(|(_, value)| value.clone())
            .or_else(|| env::var_os(name))
    }

    /// What is not there, and why it may be looked for in vain.
    pub(crate) fn missing(&self) -> StartFailure {
        let program = self.program.to_string_lossy();
        let words = if program.contains("://") {
            "an address begins with http:// or https://"
        } else if program.contains(char::is_whitespace) && !programs::may_have_blanks(&self.program)
        {
            "there is no such program; its name has blanks in it: give the program and each argument as a word of its own"
        } else if programs::is_path(&self.program) {
            return StartFailure::NoFile;
        } else {
            return StartFailure::NotFound;
        };
        StartFailure::Other(words.into())
    }
}

/// A program without arguments.
impl From<&str> for Command {
    fn from(program: &str) -> Command {
        Command::new(program, [] as [&str; 0])
    }
}

/// A program without arguments.
impl From<&Path> for Command {
    fn from(program: &Path) -> Command {
        Command::new(program, [] as [&str; 0])
    }
}

/// A word as a shell would take it back.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,*".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(words: &[&str]) -> String {
        let command = Command::new(words[0], &words[1..]);
        command.label(&Secrets::of(&command))
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        assert_eq!(
            label(&["npx", "-y", "@scope/server@1.2", "--dir=/tmp"]),
            "npx -y @scope/server@1.2 --dir=/tmp"
        );
        assert_eq!(label(&["sh", "-c", "echo it's"]), r"sh -c 'echo it'\''s'");
        assert_eq!(label(&["a", ""]), "a ''");
    }

    #[test]
    fn secrets_in_arguments_are_masked() {
        assert_eq!(
            label(&["server", "--api-key", "hunter22", "hunter22x"]),
            "server --api-key *** ***x"
        );
        assert_eq!(label(&["server", "--token=hunter22"]), "server --token=***");
        assert_eq!(
            label(&["docker", "-e", "DB_PASSWORD=hunter22"]),
            "docker -e DB_PASSWORD=***"
        );
    }

    #[test]
    fn a_long_command_is_cut_at_a_character() {
        let long = label(&["x", &"é".repeat(500)]);
        assert_eq!(long.chars().count(), LABEL + 1);
        assert!(long.ends_with("é…"));
    }
}

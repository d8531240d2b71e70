//! Which file is meant, and what is written in front of its servers.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use outlive_hosts::{Format, Host, Platform, Shape, is_outlive, load};

/// A file to be edited.
#[derive(Debug)]
pub struct Target {
    pub path: PathBuf,
    pub text: String,
    pub format: Format,
    pub shape: Shape,
}

impl Target {
    /// The file of a host, or the one that was named.
    pub fn find(host: Option<Host>, named: Option<&Path>) -> Result<Target, String> {
        let path = match (named, host) {
            (Some(path), _) => path.to_owned(),
            (None, Some(host)) => own_file(host)?,
            (None, None) => return Err("neither a host nor a file is named".into()),
        };
        // One that is waited for, like a pipe, cannot be written back either.
        if path.metadata().is_ok_and(|it| !it.is_file()) {
            return Err(format!("{} is not a file", path.display()));
        }
        let format = Format::of(&path);
        let text = load(&path).map_err(|error| error.to_string())?;
        let shape = match host {
            Some(host) => host.shape(),
            None => Shape::of(&text, format).map_err(|error| error.in_file(&path).to_string())?,
        };
        Ok(Target {
            path,
            text,
            format,
            shape,
        })
    }
}

/// The file of the user's own that a host reads.
fn own_file(host: Host) -> Result<PathBuf, String> {
    let files = host.files(Platform::current(), |name| std::env::var(name).ok());
    let Some(first) = files.first().cloned() else {
        return Err(format!(
            "{}: HOME is not set, so nobody knows where its file is; --file names it",
            host.name()
        ));
    };
    files.into_iter().find(|file| file.exists()).ok_or_else(|| {
        format!(
            "{}: there is no file {}; --file names another",
            host.name(),
            first.display()
        )
    })
}

/// The names of hosts, for the command line.
pub fn hosts() -> impl TypedValueParser<Value = Host> {
    PossibleValuesParser::new(Host::ALL.map(Host::name))
        .try_map(|name| Host::named(&name).ok_or("there is no such host"))
}

/// What may be written in front of servers: something that can be recognised later.
pub fn program(text: &str) -> Result<String, String> {
    match is_outlive(text) {
        true => Ok(text.to_owned()),
        false => Err(
            "its file name has to be outlive, or `outlive unwrap` would not recognise it".into(),
        ),
    }
}

/// The full path of this program: as the PATH has it, where that leads here, or else as the system has it.
pub fn this_program() -> Result<String, String> {
    let this = std::env::current_exe();
    let this = this.map_err(|error| format!("this program does not know its own name: {error}"))?;
    let is_this = |path: &PathBuf| path.canonicalize().ok() == this.canonicalize().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("outlive"))
        .find(|file| file.is_file())
        .filter(is_this);
    let path = on_path.unwrap_or_else(|| this.clone());
    let text = path
        .to_str()
        .ok_or("the path of this program is no UTF-8: --program names another")?;
    program(text).map_err(|why| format!("{text}: {why}; --program names another"))
}

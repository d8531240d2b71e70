//! The server behind `outlive run URL`: what is tested is the program, and its own login.

use std::env;
use std::path::PathBuf;

use outlive::Command;
use serde_json::Value;

use super::Result;

/// A document that says who we are, for servers that look it up.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The command that reaches the server, if `CONFORMANCE_THROUGH` names the program.
pub fn command(url: &str, scenario: &str, context: &Value) -> Result<Option<Command>> {
    let Some(program) = env::var_os("CONFORMANCE_THROUGH") else {
        return Ok(None);
    };
    let text = |name: &str| context[name].as_str();
    let mut args = vec!["run", "--token-store", "none", "--login-timeout", "20s"];
    args.extend(["--client-id", text("client_id").unwrap_or(CLIENT_DOCUMENT)]);
    if scenario.starts_with("auth/client-credentials") {
        args.extend(["--login", "machine"]);
    }
    let key = key_file();
    let shown = key.to_str().ok_or("a folder whose name is not UTF-8")?;
    if let Some(pem) = text("private_key_pem") {
        std::fs::write(&key, pem)?;
        args.extend(["--client-key", shown]);
    }
    args.push(url);
    let command = Command::new(program, args);
    Ok(Some(match text("client_secret") {
        Some(secret) => command.env("OUTLIVE_CLIENT_SECRET", secret),
        None => command,
    }))
}

/// The private key that a scenario gives us, for as long as it runs.
fn key_file() -> PathBuf {
    env::temp_dir().join(format!("outlive-conformance-{}.pem", std::process::id()))
}

/// Removes what [`command`] has written.
pub fn clean_up() {
    let _ = std::fs::remove_file(key_file());
}

//! What shells and `man` make of `outlive completions` and `outlive man`.
//!
//! Bash is needed; `zsh`, `fish`, `man` and `mandoc` are asked where they are installed.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn outlive(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(arguments)
        .output()
        .expect("it runs")
}

fn script(shell: &str) -> String {
    let output = outlive(&["completions", shell]);
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).expect("a script is text")
}

/// What a program prints when it reads this; nothing if it is not installed.
fn read_by(program: &str, arguments: &[&str], text: &str) -> Option<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // One that does not read to the end says why with its exit code.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    Some(child.wait_with_output().expect("it ends"))
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.len() - 1;
        let ask = format!(
            "{}\nCOMP_WORDS=({line}{blank})\nCOMP_CWORD={at}\n_outlive outlive '{}' '{}'\necho \"${{COMPREPLY[@]}}\"\n",
            script("bash"),
            words[at],
            words[at - 1],
            blank = if words[at].is_empty() { "''" } else { "" },
        );
        let output = read_by("bash", &["--norc", "-s"], &ask).expect("bash is installed");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    };
    assert_eq!(complete("outlive comp"), "completions");
    assert_eq!(complete("outlive run --request-t"), "--request-timeout");
    assert_eq!(complete("outlive run --retry "), "never safe always");
    assert_eq!(complete("outlive check ser"), "server");
}

#[test]
fn zsh_and_fish_can_read_their_scripts() {
    for shell in ["zsh", "fish"] {
        if let Some(output) = read_by(shell, &["-n"], &script(shell)) {
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && words.is_empty(),
                "{shell}: {words}"
            );
        }
    }
    let ask = script("fish") + "\ncomplete -C 'outlive run --request-t'\n";
    if let Some(output) = read_by("fish", &["--no-config"], &ask) {
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(answer.starts_with("--request-timeout\t"), "{answer}");
    }
}

#[test]
fn every_shell_has_a_script_and_no_other_word_is_one() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = script(shell);
        assert!(script.contains("request-timeout"), "{shell}");
        assert!(
            !script.contains("demo-server,"),
            "{shell}: a hidden command is shown"
        );
    }
    let refused = outlive(&["completions", "tcsh"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("bash, elvish, fish, powershell, zsh")
    );
}

#[test]
fn every_command_has_a_page_that_man_renders_without_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("share/man1");
    let written = outlive(&["man", path.to_str().expect("text")]);
    assert!(written.status.success());
    let mut names: Vec<String> = fs::read_dir(&path)
        .expect("the folder was made")
        .map(|page| {
            page.expect("a page")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    for name in [
        "outlive.1",
        "outlive-run.1",
        "outlive-serve.1",
        "outlive-check-server.1",
    ] {
        assert!(
            names.iter().any(|page| page == name),
            "no {name} in {names:?}"
        );
    }
    assert!(
        !names.iter().any(|page| page.contains("demo-server")),
        "{names:?}"
    );
    for name in &names {
        let page = fs::read_to_string(path.join(name)).expect("a page");
        if let Some(output) = read_by("mandoc", &["-T", "lint", "-W", "warning"], &page) {
            let words = String::from_utf8_lossy(&output.stdout).into_owned();
            let warnings: Vec<&str> = words
                .lines()
                .filter(|line| !line.contains("missing date"))
                .collect();
            assert!(warnings.is_empty(), "{name}: {warnings:?}");
        }
        if let Some(output) = read_by("man", &["--warnings", "-l", "-"], &page) {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success() && words.is_empty(),
                "{name}: {words}"
            );
        }
    }
    let page = fs::read_to_string(path.join("outlive-run.1")).expect("a page");
    assert!(page.contains("OUTLIVE_REQUEST_TIMEOUT"), "{page}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    let refused = outlive(&["man", file.join("below").to_str().expect("text")]);
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("cannot write the manual to"), "{words}");
}

//! The other side of `outlive check`: programs that pass every scenario, and a switch for each way
//! to fail one.
//!
//! A scenario is worth having if it can fail. `check-peer server` is a server without faults, on
//! pipes (`check-peer web`: over HTTP), `check-peer client` a client (`web-client`: with the defects of one
//! over HTTP);
//! `check-peer server --defect dies-on-cancel` is the same server with exactly that one. The tests hold
//! a table of which defect breaks which scenario.

mod client;
mod defects;
mod proxy;
mod server;
mod web;

use std::process::ExitCode;

use defects::Defects;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let role = args.next().unwrap_or_default();
    if role == "defects" {
        let names = defects::of(&args.next().unwrap_or_default());
        names
            .unwrap_or_default()
            .iter()
            .for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    // A proxy is told its server after its defects.
    let words: Vec<String> = args.collect();
    let (words, server) = match words.iter().position(|word| word == "--") {
        Some(at) => (words[..at].to_vec(), &words[at + 1..]),
        None => (words.clone(), &[][..]),
    };
    match (role.as_str(), Defects::parse(&role, words.into_iter())) {
        ("server", Ok(defects)) => server::main(defects),
        ("client" | "web-client", Ok(defects)) => client::main(defects),
        ("web", Ok(defects)) => web::main(defects),
        ("proxy", Ok(defects)) if !server.is_empty() => proxy::main(defects, server),
        (_, Ok(_)) => refuse("this role is not written"),
        (_, Err(why)) => refuse(&why),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("check-peer: {why}");
    ExitCode::from(2)
}

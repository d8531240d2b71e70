//! The other side of `outlive check`: programs that pass every scenario, and a switch for each way
//! to fail one.
//!
//! A scenario is worth having if it can fail. `check-peer server` is a server without faults;
//! `check-peer server --defect dies-on-cancel` is the same server with exactly that one. The tests hold
//! a table of which defect breaks which scenario.

mod defects;
mod server;

use std::process::ExitCode;

use defects::Defects;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let role = args.next().unwrap_or_default();
    let parsed = Defects::parse(args);
    match (role.as_str(), parsed) {
        ("server", Ok(defects)) => server::main(defects),
        ("defects", _) => {
            for name in defects::NAMES {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        (_, Err(why)) => refuse(&why),
        (_, Ok(_)) => refuse("usage: check-peer server [--defect NAME]"),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("check-peer: {why}");
    ExitCode::from(2)
}

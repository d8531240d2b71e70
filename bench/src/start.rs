//! What the program costs before it has done anything: its size, and the time it takes to start.
//!
//! A host starts its servers one after the other and waits for each, and people start `outlive` by hand. The mark is a
//! Rust program that does nothing: the kernel and the loader take that long whatever a program is. All are started in
//! turns, and medians are compared.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::contender::{Contender, Programs};
use crate::host::Host;
use crate::matrix::median;
use crate::target::{Bound, Target};

/// Starts of each program.
const STARTS: usize = 200;
/// Handshakes with each server.
const HANDSHAKES: usize = 60;

/// Megabytes of the program, without symbols.
const MOST_MEGABYTES: f64 = 8.0;
/// `--version`, in times of a program that does nothing.
const MOST_FOR_VERSION: f64 = 3.0;
/// What `run` adds to the start of a server, in times of a program that does nothing.
const MOST_FOR_RUN: f64 = 5.0;

/// Measures, prints, and says what became of the promises.
pub fn measure(programs: &Programs) -> io::Result<Vec<Target>> {
    let nothing = programs.echo.with_file_name("nothing");
    let none: [OsString; 0] = [];
    let mut starts = [Vec::new(), Vec::new()];
    for _ in 0..STARTS {
        starts[0].push(run(&nothing.clone().into_os_string(), &none)?);
        starts[1].push(run(
            &programs.outlive.clone().into_os_string(),
            &["--version".into()],
        )?);
    }
    let mut handshakes = [Vec::new(), Vec::new()];
    for _ in 0..HANDSHAKES {
        for (contender, took) in [programs.direct(), programs.outlive()]
            .iter()
            .zip(&mut handshakes)
        {
            took.push(handshake(contender)?);
        }
    }
    let [nothing, version] = starts.map(middle);
    let [direct, through] = handshakes.map(middle);
    let megabytes = fs::metadata(&programs.outlive)?.len() as f64 / 1e6;
    println!("size of the program        {megabytes:8.2} MB");
    println!("a program that does nothing{nothing:8.2} ms");
    println!("outlive --version          {version:8.2} ms");
    println!("a server's handshake       {direct:8.2} ms");
    println!("the same through run       {through:8.2} ms");
    let at_most = |what, most, measured| Target::new(what, Bound::AtMost(most), measured);
    Ok(vec![
        at_most("size of the program, MB", MOST_MEGABYTES, megabytes),
        at_most(
            "`--version`, × a program that does nothing",
            MOST_FOR_VERSION,
            version / nothing,
        ),
        at_most(
            "what `run` adds to a server's start, × a program that does nothing",
            MOST_FOR_RUN,
            (through - direct) / nothing,
        ),
    ])
}

fn middle(values: Vec<f64>) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// From the start of a program to its end, in milliseconds.
fn run(program: &OsString, args: &[OsString]) -> io::Result<f64> {
    let start = Instant::now();
    let mut command = Command::new(program);
    let status = command.args(args).stdout(Stdio::null()).status()?;
    let took = start.elapsed();
    match status.success() {
        true => Ok(took.as_secs_f64() * 1e3),
        false => Err(io::Error::other(format!("{program:?} ended with {status}"))),
    }
}

/// From the start of a server to its answer to `initialize`, in milliseconds.
fn handshake(contender: &Contender) -> io::Result<f64> {
    let start = Instant::now();
    let mut host = Host::spawn(contender, Stdio::null())?;
    host.initialize()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

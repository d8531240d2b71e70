//! The fuzz targets as ordinary tests: their corpora, and bytes that are drawn from seeds, the same in every run.
//!
//! Each module is the body of the target of its name in `fuzz/fuzz_targets`, which runs it with libFuzzer.

mod bytes;
mod envelope;
mod server;
mod session;
mod snapshot;
mod sse;
mod switch;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Inputs that are drawn for each target.
const DRAWN: u64 = 1500;

/// SplitMix64: small, fast, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Runs a target with one input, and says which it was if that fails.
fn try_one(target: fn(&[u8]), input: &[u8], which: &str) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        panic!("{which}: {}", input.escape_ascii());
    }
}

fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let mut corpus: Vec<(String, Vec<u8>)> = fs::read_dir(&folder)
        .expect("a corpus")
        .map(|entry| entry.expect("a file").path())
        .map(|path| {
            (
                path.display().to_string(),
                fs::read(&path).expect("readable"),
            )
        })
        .collect();
    corpus.sort();
    assert!(
        corpus.len() >= 20,
        "{} has {} inputs",
        folder.display(),
        corpus.len()
    );
    for (path, input) in &corpus {
        try_one(target, input, path);
    }
    for seed in 0..DRAWN {
        let mut dice = Dice(seed);
        // Two halves of what was found, joined and with some bytes changed; every fourth is all luck.
        let mut input: Vec<u8> = match seed % 4 {
            0 => (0..dice.below(300)).map(|_| dice.next() as u8).collect(),
            _ => {
                let (left, right) = (dice.below(corpus.len()), dice.below(corpus.len()));
                let (left, right) = (&corpus[left].1, &corpus[right].1);
                let (to, from) = (dice.below(left.len()), dice.below(right.len()));
                [&left[..to], &right[from..]].concat()
            }
        };
        for _ in 0..dice.below(4) {
            let at = dice.below(input.len());
            let byte = dice.next() as u8;
            if let Some(old) = input.get_mut(at) {
                *old = byte;
            }
        }
        try_one(target, &input, &format!("seed {seed}"));
    }
}

#[test]
fn envelope() {
    run("envelope", envelope::run);
}

#[test]
fn server() {
    run("server", server::run);
}

#[test]
fn session() {
    run("session", session::run);
}

#[test]
fn snapshot() {
    run("snapshot", snapshot::run);
}

#[test]
fn sse() {
    run("sse", sse::run);
}

#[test]
fn switch() {
    run("switch", switch::run);
}

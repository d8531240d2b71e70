//! A run over many seeds.

use std::collections::BTreeMap;

use crate::random::number;

/// Checks the schedules of all seeds: what broke, by invariant, and what the schedules have come across.
/// `OUTLIVE_SCHEDULES` is how many there are, of which a world that takes its time runs one in `share`;
/// `OUTLIVE_FIRST_SEED` is where they begin.
pub fn check_all<S>(
    world: &str,
    share: u64,
    check: impl Fn(u64) -> Result<S, (u8, String)>,
    mut see: impl FnMut(S),
) -> BTreeMap<u8, String> {
    let schedules = number("OUTLIVE_SCHEDULES").unwrap_or(20_000) / share;
    let from = number("OUTLIVE_FIRST_SEED").unwrap_or(0);
    let mut broken = BTreeMap::new();
    for seed in from..from + schedules {
        let _named = NamedInPanic(seed);
        match check(seed) {
            Ok(seen) => see(seen),
            Err((invariant, story)) => drop(broken.entry(invariant).or_insert(story)),
        }
    }
    println!(
        "{world}: {schedules} schedules, {} invariants broken",
        broken.len()
    );
    broken
}

/// Says which seed it was, should its schedule panic.
struct NamedInPanic(u64);

impl Drop for NamedInPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the schedule of seed {} panicked", self.0);
        }
    }
}

//! Schedules of random steps: how they are drawn, and how one that fails is made short.

/// SplitMix64: small, fast, and the same everywhere.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}

/// The smallest schedule found that still fails: steps are taken away, in ever smaller runs, for as long as the failure
/// remains.
pub fn shrink<S: Clone>(mut schedule: Vec<S>, fails: impl Fn(&[S]) -> bool) -> Vec<S> {
    let mut run = schedule.len() / 2;
    while run > 0 {
        let mut at = 0;
        while at + run <= schedule.len() {
            let mut shorter = schedule.clone();
            shorter.drain(at..at + run);
            match fails(&shorter) {
                true => schedule = shorter,
                false => at += run,
            }
        }
        run /= 2;
    }
    schedule
}

/// A number that a variable has, if it is set.
pub fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is not a number: {value}")))
}

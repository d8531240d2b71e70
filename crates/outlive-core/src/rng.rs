//! Randomness from an injected seed (SplitMix64): enough for jitter, and reproducible.

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A duration between zero and `most`, evenly spread ("full jitter").
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        most.mul_f64(fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_and_spreads() {
        let mut rng = Rng::new(7);
        let most = Duration::from_secs(1);
        let drawn: Vec<_> = (0..1000).map(|_| rng.up_to(most)).collect();
        assert!(drawn.iter().all(|d| *d <= most));
        let mean = drawn.iter().sum::<Duration>() / 1000;
        assert!(mean > most * 2 / 5 && mean < most * 3 / 5, "{mean:?}");
        assert_eq!(
            Rng::new(7).up_to(most),
            drawn[0],
            "the same seed draws the same"
        );
    }
}

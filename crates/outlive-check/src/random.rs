//! Random moments that can be had again.

use std::time::Duration;

/// SplitMix64: good enough to scatter moments, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence for a scenario under a seed, whatever else runs.
    pub fn new(seed: u64, scenario: &str) -> Random {
        let mut state = seed;
        for byte in scenario.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Random(state)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match end as u64 {
            0 => 0,
            end => (self.bits() % end) as usize,
        }
    }

    /// A time shorter than `end`.
    pub fn moment(&mut self, end: Duration) -> Duration {
        end.mul_f64((self.bits() >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

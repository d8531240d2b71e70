//! One processor for a client, the middle and its servers.
//!
//! One call at a time goes from process to process, and most of its time is what the kernel takes to wake the next one.
//! Where that one runs is the kernel's choice, made once and kept for long: on two processors the same two programs
//! were seen at ratios from 0.97 to 1.35. On one processor there is nothing to choose.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// While it lives, this thread and what it starts have one processor.
pub struct OneProcessor(CpuSet);

impl OneProcessor {
    pub fn pin() -> io::Result<OneProcessor> {
        let all = sched_getaffinity(None)?;
        // The first one has most of the interrupts.
        let last = (0..CpuSet::MAX_CPU).rev().find(|it| all.is_set(*it));
        let mut one = CpuSet::new();
        one.set(last.unwrap_or_default());
        sched_setaffinity(None, &one)?;
        Ok(OneProcessor(all))
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

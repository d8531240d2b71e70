//! Nothing that processes do holds up the thread that carries messages, though it is the only one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outlive::Error;
use outlive::cause::{Exit, Reason};
use serde_json::json;

use crate::rig::hydra::Hydra;
use crate::rig::{Rig, until, within};

/// Something else that the runtime has to do all the time.
#[derive(Clone)]
struct Ticker {
    begun: Instant,
    /// When it was last done, and the longest time it was not.
    last: Arc<Mutex<(Instant, Duration)>>,
}

impl Ticker {
    async fn start() -> Ticker {
        let begun = Instant::now();
        let last = Arc::new(Mutex::new((begun, Duration::ZERO)));
        let ticker = Ticker { begun, last };
        let ticks = ticker.clone();
        tokio::spawn(async move {
            loop {
                ticks.tick();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        tokio::task::yield_now().await;
        ticker
    }

    fn tick(&self) -> Duration {
        let mut last = self.last.lock().unwrap();
        last.1 = last.1.max(last.0.elapsed());
        last.0 = Instant::now();
        last.1
    }

    /// For no more than half of all the time it was kept from being done.
    #[track_caller]
    fn was_not_stalled(&self) {
        let (longest, all) = (self.tick(), self.begun.elapsed());
        assert!(longest < all / 2, "stalled for {longest:?} of {all:?}");
    }
}

fn rig() -> Rig {
    let short = Duration::from_millis(10);
    Rig::legacy().policy(|policy| {
        policy.stop_grace = short;
        policy.term_grace = short;
        policy.drain = short;
    })
}

/// FM-05: a tree that takes long to end does not stop the runtime, and the call that was running is told how its
/// server ended.
#[tokio::test]
async fn fm_05_a_tree_that_is_slow_to_end_stalls_nobody_and_hides_no_exit_status() {
    let rig = rig();
    let client = rig.connect().await;
    let hydra = Hydra::of(rig.pid());
    let ticker = Ticker::start().await;
    let lost = within(client.call("crash", json!({ "code": 3 }))).await;
    ticker.was_not_stalled();
    drop(hydra);
    let Err(Error::ConnectionLost { cause, .. }) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(cause.reason, Reason::Exited(Exit::Code(3)));
}

/// FM-67: nor does the end of a client, closed or dropped.
#[tokio::test]
async fn fm_67_the_end_of_a_client_stalls_nobody() {
    for close in [true, false] {
        let rig = rig();
        let client = rig.connect().await;
        let server = rig.pid();
        let hydra = Hydra::of(server);
        let ticker = Ticker::start().await;
        match close {
            true => within(client.close()).await,
            false => drop(client),
        }
        until("its end", || {
            (!std::fs::exists(format!("/proc/{server}")).unwrap_or(true)).then_some(())
        })
        .await;
        ticker.was_not_stalled();
        drop(hydra);
    }
}

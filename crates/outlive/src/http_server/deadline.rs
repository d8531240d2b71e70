//! How long an answer is waited for, without setting an alarm for each.
//!
//! Most answers come long before the deadline. An alarm that rings before all others has to be told to the
//! thread that sleeps until the next one, which costs a system call and wakes that thread; done for each request
//! this is dearer than the rest of it. So a connection has one alarm. It is left alone when an answer comes, and
//! when it rings too early for the request that is waiting now, it is set again.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The alarm of one connection.
#[derive(Default)]
pub(crate) struct DeadlineTimer(Mutex<Option<Pin<Box<Sleep>>>>);

/// One wait for an answer.
pub(crate) struct Waiting<'a> {
    deadline: &'a DeadlineTimer,
    bound: Duration,
    /// When it ends; not known before it has begun.
    due: Option<Instant>,
}

impl DeadlineTimer {
    /// Waits for so long, from the first look on. Of two waits at the same time only one is noticed.
    pub(crate) fn wait(&self, bound: Duration) -> Waiting<'_> {
        Waiting {
            deadline: self,
            bound,
            due: None,
        }
    }
}

impl Waiting<'_> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| Instant::now() + self.bound);
        let mut alarm = self
            .deadline
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while alarm.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::sleep;

    use super::*;

    #[test]
    fn an_alarm_that_was_set_for_another_wait_ends_none() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let deadline = DeadlineTimer::default();
            let mut answered = deadline.wait(Duration::from_millis(20));
            poll_fn(|cx| Poll::Ready(answered.poll(cx).is_pending())).await;
            sleep(Duration::from_millis(10)).await;

            let begun = Instant::now();
            let bound = Duration::from_millis(50);
            let mut waiting = deadline.wait(bound);
            poll_fn(|cx| waiting.poll(cx)).await;
            assert!(begun.elapsed() >= bound, "{:?}", begun.elapsed());
        });
    }
}

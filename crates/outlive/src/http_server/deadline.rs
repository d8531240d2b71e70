//! How long a head, a body or an answer is waited for, without setting an alarm for each.
//!
//! Most of what is waited for comes long before the deadline. An alarm that rings before all others has to be told to
//! the thread that sleeps until the next one, which costs a system call and wakes that thread; done for each request
//! this is dearer than the rest of it. So a connection has one alarm, since it waits for one thing at a time. It is
//! left alone when that comes, and when it rings too early for what is waited for now, it is set again.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant as StdInstant};

use hyper::rt;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// The alarm of one connection.
#[derive(Default)]
pub(crate) struct DeadlineTimer(Mutex<Option<Alarm>>);

struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// Whom it wakes.
    waker: Waker,
}

/// One wait.
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

    fn poll_until(&self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alarm) = &*alarm
            && alarm.sleep.deadline() <= due
            && alarm.waker.will_wake(cx.waker())
            && !alarm.sleep.is_elapsed()
        {
            // It rings early enough, and whoever asks is woken then.
            return Poll::Pending;
        }
        let Alarm { sleep, waker } = alarm.get_or_insert_with(|| Alarm {
            sleep: Box::pin(sleep_until(due)),
            waker: cx.waker().clone(),
        });
        waker.clone_from(cx.waker());
        if sleep.deadline() > due {
            sleep.as_mut().reset(due);
        }
        // Whoever has used up its turn would be told to come again, and the alarm would not be set.
        let mut poll = |sleep: &mut Pin<Box<Sleep>>| pin!(unconstrained(sleep.as_mut())).poll(cx);
        while poll(sleep).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Waiting<'_> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| Instant::now() + self.bound);
        self.deadline.poll_until(due, cx)
    }
}

/// The alarm of a connection as the timer of its HTTP implementation, which bounds the time of a head with it.
pub(super) struct HeadTimer(pub(super) Arc<DeadlineTimer>);

impl rt::Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(StdInstant::now() + duration)
    }

    fn sleep_until(&self, due: StdInstant) -> Pin<Box<dyn rt::Sleep>> {
        let (deadline, due) = (self.0.clone(), due.into());
        Box::pin(HeadWait { deadline, due })
    }
}

/// One wait for a head.
struct HeadWait {
    deadline: Arc<DeadlineTimer>,
    due: Instant,
}

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.deadline.poll_until(self.due, cx)
    }
}

impl rt::Sleep for HeadWait {}

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

    #[test]
    fn a_short_wait_does_not_wait_for_the_alarm_of_a_long_one() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let deadline = DeadlineTimer::default();
            let mut come = deadline.wait(Duration::from_secs(3600));
            poll_fn(|cx| Poll::Ready(come.poll(cx).is_pending())).await;
            let mut waiting = deadline.wait(Duration::from_millis(10));
            let short = poll_fn(|cx| waiting.poll(cx));
            let rung = tokio::time::timeout(Duration::from_secs(60), short).await;
            assert!(rung.is_ok());
        });
    }
}

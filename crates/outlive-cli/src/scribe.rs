//! A writer that never makes its user wait.
//!
//! Our standard error may be a pipe that the host does not read; a log file may lie on a slow
//! disk. The session must not stand still for either (FM-29), so a thread does the writing. What
//! does not fit into its queue is dropped and counted.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Lines that may wait to be written.
const QUEUE: usize = 1024;

/// How long a reader that does not read may delay our end.
const FAREWELL: Duration = Duration::from_millis(500);

/// Writes lines in the background. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct Scribe {
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    queue: Mutex<Option<SyncSender<String>>>,
    lost: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scribe {
    /// A scribe that writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> std::io::Result<Scribe> {
        let (sender, receiver) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let thread = thread::Builder::new()
            .name("scribe".into())
            .stack_size(64 << 10)
            .spawn(move || write(out, receiver, &counter))?;
        Ok(Scribe {
            desk: Arc::new(Desk {
                queue: Mutex::new(Some(sender)),
                lost,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// Writes a line, given without its end, when there is room for it.
    pub fn line(&self, line: &str) {
        let queue = self
            .desk
            .queue
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(queue) = &*queue else { return };
        if let Err(TrySendError::Full(_)) = queue.try_send(format!("{line}\n")) {
            self.desk.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is written, but not for ever.
    pub fn finish(&self) {
        let lock = |poisoned: std::sync::PoisonError<_>| poisoned.into_inner();
        self.desk.queue.lock().unwrap_or_else(lock).take();
        let thread = self
            .desk
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        let begun = Instant::now();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && begun.elapsed() < FAREWELL
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes what comes, several lines at once where they are there. Whoever does not want to
/// read it cannot be told so; what cannot be written is forgotten.
fn write(mut out: impl Write, lines: Receiver<String>, lost: &AtomicU64) {
    while let Ok(mut text) = lines.recv() {
        text.extend(lines.try_iter().take(QUEUE));
        let _ = out.write_all(text.as_bytes());
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ = writeln!(
                out,
                "outlive: {missing} lines were lost because they were not read"
            );
        }
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_are_written_in_order_before_the_end() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let scribe = Scribe::new(writer).unwrap();
        for i in 0..100 {
            scribe.line(&i.to_string());
        }
        scribe.finish();
        drop(scribe);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, (0..100).map(|i| format!("{i}\n")).collect::<String>());
    }

    #[test]
    fn a_reader_that_does_not_read_loses_lines_and_is_told() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let scribe = Scribe::new(writer).unwrap();
        let line = "x".repeat(1000);
        for _ in 0..3 * QUEUE {
            scribe.line(&line);
        }
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        scribe.finish();
        drop(scribe);
        let text = reading.join().unwrap().unwrap();
        assert!(text.contains("lines were lost"));
        assert!(text.lines().filter(|seen| **seen == line).count() >= QUEUE);
    }
}

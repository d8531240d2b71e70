//! A writer that never makes its user wait.
//!
//! Our standard error may be a pipe that the host does not read; a log file may lie on a slow
//! disk. The session must not stand still for either (FM-29), so a thread does the writing. What
//! does not fit into its queue is dropped and counted.

use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes that may wait to be written.
const QUEUE: usize = 8 << 20;

/// Lines written together.
const AT_ONCE: usize = 1024;

/// How long a reader that does not read may delay our end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes lines in the background. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    queue: Mutex<Option<Sender<String>>>,
    load: Arc<Load>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How much there is to write, and what was too much.
#[derive(Debug, Default)]
struct Load {
    /// Bytes in the queue.
    waiting: AtomicUsize,
    /// Lines that were dropped and not told of yet.
    lost: AtomicU64,
}

impl LogWriter {
    /// A log writer that writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> std::io::Result<LogWriter> {
        let (sender, receiver) = channel();
        let load = Arc::new(Load::default());
        let theirs = Arc::clone(&load);
        let thread = thread::Builder::new()
            .name("log_writer".into())
            .stack_size(64 << 10)
            .spawn(move || write(out, receiver, &theirs))?;
        Ok(LogWriter {
            queue: Arc::new(Queue {
                queue: Mutex::new(Some(sender)),
                load,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// Writes a line, given without its end, when there is room for it.
    pub fn line(&self, line: &str) {
        let queue = self
            .queue
            .queue
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(queue) = &*queue else { return };
        let load = &self.queue.load;
        let size = line.len() + 1;
        if load.waiting.fetch_add(size, Ordering::Relaxed) + size > QUEUE {
            load.waiting.fetch_sub(size, Ordering::Relaxed);
            load.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let _ = queue.send(format!("{line}\n"));
    }

    /// Waits until everything is written, but not for ever.
    pub fn finish(&self) {
        let lock = |poisoned: std::sync::PoisonError<_>| poisoned.into_inner();
        self.queue.queue.lock().unwrap_or_else(lock).take();
        let thread = self
            .queue
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        let begun = Instant::now();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && begun.elapsed() < FLUSH_TIMEOUT
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes what comes, several lines at once where they are there. Whoever does not want to
/// read it cannot be told so; what cannot be written is forgotten.
fn write(mut out: impl Write, lines: Receiver<String>, load: &Load) {
    while let Ok(mut text) = lines.recv() {
        text.extend(lines.try_iter().take(AT_ONCE));
        let _ = out.write_all(text.as_bytes());
        load.waiting.fetch_sub(text.len(), Ordering::Relaxed);
        let missing = load.lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ = writeln!(
                out,
                "outlive: {} lost: more came than was read",
                outlive_check::counted(usize::try_from(missing).unwrap_or(usize::MAX), "line")
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
        let log_writer = LogWriter::new(writer).unwrap();
        for i in 0..100 {
            log_writer.line(&i.to_string());
        }
        log_writer.finish();
        drop(log_writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, (0..100).map(|i| format!("{i}\n")).collect::<String>());
    }

    #[test]
    fn a_reader_that_does_not_read_loses_lines_and_is_told() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let log_writer = LogWriter::new(writer).unwrap();
        let line = "x".repeat(1000);
        for _ in 0..3 * QUEUE / line.len() {
            log_writer.line(&line);
        }
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        log_writer.finish();
        drop(log_writer);
        let text = reading.join().unwrap().unwrap();
        assert!(text.contains(" lines lost: "));
        assert!(text.lines().filter(|seen| **seen == line).count() >= QUEUE / line.len() / 2);
    }
}

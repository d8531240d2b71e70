//! What the two programs that are compared have in common: how they are told what to do, how calls
//! are made and timed, and how allocations are counted.
//!
//! Each program is both a server (`serve …`) and a client of it. The client reads one order per line
//! on its standard input, `BYTES IN_FLIGHT MILLISECONDS`, carries it out, and answers with a line of
//! six numbers: calls, nanoseconds, the 50th and the 99th percentile of a call in nanoseconds, and the
//! allocations made meanwhile on the client's and on the server's side.

mod allocations;

use std::io::{self, BufRead, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use allocations::{Counting, allocations};
use tokio::runtime::{Builder, Runtime};

/// An order is carried out with this many calls at least.
const LEAST_CALLS: usize = 20;

/// A failure of any kind.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A client of the echo server.
pub trait Echo: Send + Sync + 'static {
    /// Calls the tool `echo`; the length of the text that came back.
    fn echo(&self, text: &str) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// The tool `allocations`: how many the server has made.
    fn allocations(&self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// The same kind for everybody: the one of `#[tokio::main]`, or one thread.
pub fn runtime(kind: &str) -> io::Result<Runtime> {
    let mut builder = match kind {
        "one" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().build()
}

/// This program as a server, with these arguments.
pub fn server(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").args(arguments);
    Ok(command)
}

/// Carries out orders until there are no more.
pub async fn obey<E: Echo>(client: E) -> Result<(), Failure> {
    let client = Arc::new(client);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let order: Vec<usize> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [bytes, in_flight, milliseconds] = order[..] else {
            return Err(format!("no order: {line}").into());
        };
        let text = text(bytes);
        let time = Duration::from_millis(milliseconds as u64);
        let ours = allocations();
        let theirs = client.allocations().await?;
        let (took, mut each) = calls(&client, text, in_flight, time).await?;
        let (ours, theirs) = (allocations() - ours, client.allocations().await? - theirs);
        each.sort_unstable();
        let percentile = |percent: usize| each[(each.len() - 1) * percent / 100].as_nanos();
        println!(
            "{} {} {} {} {ours} {theirs}",
            each.len(),
            took.as_nanos(),
            percentile(50),
            percentile(99),
        );
        io::stdout().flush()?;
    }
    Ok(())
}

/// As many tasks as there are calls in flight, each making one call after the other.
async fn calls<E: Echo>(
    client: &Arc<E>,
    text: Arc<str>,
    in_flight: usize,
    time: Duration,
) -> Result<(Duration, Vec<Duration>), Failure> {
    let start = Instant::now();
    let least = LEAST_CALLS.div_ceil(in_flight);
    let tasks: Vec<_> = (0..in_flight)
        .map(|_| {
            let (client, text) = (client.clone(), text.clone());
            tokio::spawn(async move {
                let mut each = Vec::with_capacity(1 << 16);
                while each.len() < least || start.elapsed() < time {
                    let call = Instant::now();
                    let length = client.echo(&text).await?;
                    each.push(call.elapsed());
                    if length != text.len() {
                        return Err(format!("{length} bytes came back of {}", text.len()).into());
                    }
                }
                Ok::<_, Failure>(each)
            })
        })
        .collect();
    let mut each = Vec::new();
    for task in tasks {
        each.extend(task.await??);
    }
    Ok((start.elapsed(), each))
}

/// Like source code: an escape every 25 bytes, and now and then a letter outside ASCII.
fn text(bytes: usize) -> Arc<str> {
    const LINE: &str = "let größe = \"x\".len() + 7;\nif a < b && c { return a + bc; }\n";
    let mut text: String = LINE.chars().cycle().take(bytes).collect();
    while text.len() > bytes {
        text.pop();
    }
    text.extend(std::iter::repeat_n('.', bytes - text.len()));
    text.into()
}

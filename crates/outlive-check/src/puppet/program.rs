//! The program that a client under test starts as its server.

use std::io;
use std::process::exit;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::frames::{Order, Report};
use crate::system::Deafness;

/// The check cannot be reached.
const LOST: i32 = 70;

/// Is a puppet of the check that listens at `address`, until that lets go or says otherwise.
pub fn main(address: &str) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let why = match runtime {
        Ok(runtime) => runtime.block_on(async {
            match obey(address).await {
                // Here, because the end of the runtime would wait for a read of standard input.
                Ok(status) => exit(status.into()),
                Err(error) => error,
            }
        }),
        Err(error) => error,
    };
    eprintln!("outlive check: {why}");
    exit(LOST)
}

async fn obey(address: &str) -> io::Result<u8> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let (mut from, mut to) = socket.into_split();
    Report::Hello(std::process::id()).write(&mut to).await?;
    let (order, mut orders) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(Some(next)) = Order::read(&mut from).await {
            if order.send(next).is_err() {
                return;
            }
        }
    });
    let (mut stdin, mut stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let mut buffer = vec![0; 64 << 10];
    let mut reading = true;
    let mut deafness = Deafness::default();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                None => return Ok(0),
                Some(Order::Out(bytes)) => say(&mut stdout, &bytes).await,
                Some(Order::Err(bytes)) => say(&mut tokio::io::stderr(), &bytes).await,
                Some(Order::Exit(status)) => return Ok(status),
                Some(Order::IgnoreTerm) => deafness.begin()?,
                Some(Order::StopReading) => reading = false,
            },
            read = stdin.read(&mut buffer), if reading => match read {
                Ok(n) if n > 0 => Report::Input(buffer[..n].to_vec()).write(&mut to).await?,
                _ => {
                    reading = false;
                    Report::Eof.write(&mut to).await?;
                }
            },
        }
    }
}

/// Whoever does not read it does not hear it; the check sees by other means what came of that.
async fn say(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    if to.write_all(bytes).await.is_ok() {
        let _ = to.flush().await;
    }
}

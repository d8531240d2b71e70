//! What the check and a puppet say to each other: a kind, a length, bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a puppet is told to do.
#[derive(Debug)]
pub enum Order {
    /// Write this to standard output.
    Out(Vec<u8>),
    /// Write this to standard error.
    Err(Vec<u8>),
    /// Exit.
    Exit(u8),
    /// Do not die of SIGTERM.
    IgnoreTerm,
    /// Read no more of standard input.
    StopReading,
}

/// What a puppet tells.
#[derive(Debug)]
pub enum Report {
    /// It was started; its process id.
    Hello(u32),
    /// This came on standard input.
    Input(Vec<u8>),
    /// Standard input has ended.
    Eof,
}

impl Order {
    /// Sends it.
    pub async fn write(self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        match self {
            Order::Out(bytes) => write(to, b'o', &bytes).await,
            Order::Err(bytes) => write(to, b'e', &bytes).await,
            Order::Exit(status) => write(to, b'x', &[status]).await,
            Order::IgnoreTerm => write(to, b't', &[]).await,
            Order::StopReading => write(to, b's', &[]).await,
        }
    }

    /// Receives one; `None` when there are no more.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Order>> {
        let Some((kind, bytes)) = read(from).await? else {
            return Ok(None);
        };
        match (kind, bytes.as_slice()) {
            (b'o', _) => Ok(Some(Order::Out(bytes))),
            (b'e', _) => Ok(Some(Order::Err(bytes))),
            (b'x', [status]) => Ok(Some(Order::Exit(*status))),
            (b't', _) => Ok(Some(Order::IgnoreTerm)),
            (b's', _) => Ok(Some(Order::StopReading)),
            _ => Err(unknown()),
        }
    }
}

impl Report {
    /// Sends it.
    pub async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        match self {
            Report::Hello(pid) => write(to, b'h', &pid.to_le_bytes()).await,
            Report::Input(bytes) => write(to, b'i', bytes).await,
            Report::Eof => write(to, b'z', &[]).await,
        }
    }

    /// Receives one; `None` when there are no more.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Report>> {
        let Some((kind, bytes)) = read(from).await? else {
            return Ok(None);
        };
        match (kind, bytes.as_slice()) {
            (b'h', pid) => {
                let pid = pid.try_into().map_err(|_| unknown())?;
                Ok(Some(Report::Hello(u32::from_le_bytes(pid))))
            }
            (b'i', _) => Ok(Some(Report::Input(bytes))),
            (b'z', _) => Ok(Some(Report::Eof)),
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> io::Error {
    io::Error::other("not a puppet's language")
}

async fn write(to: &mut (impl AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| unknown())?;
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.push(kind);
    frame.extend(length.to_le_bytes());
    frame.extend(bytes);
    to.write_all(&frame).await
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(u8, Vec<u8>)>> {
    let kind = match from.read_u8().await {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = from.read_u32_le().await?;
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes).await?;
    match bytes.len() == length as usize {
        true => Ok(Some((kind, bytes))),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

//! What the system is told about a connection over TCP.

use std::mem::size_of_val;
use std::os::windows::io::AsRawSocket;
use std::time::Duration;

use tokio::net::TcpStream;
use windows_sys::Win32::Networking::WinSock::{SIO_KEEPALIVE_VALS, WSAIoctl, tcp_keepalive};

/// Has the system find out when a client is gone (FM-24). For one that does not read there is no limit of the system's.
pub(crate) fn watch(stream: &TcpStream, unread: Duration) {
    // Each may fail: the connection works without it.
    let _ = stream.set_nodelay(true);
    let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let keepalive = tcp_keepalive {
        onoff: 1,
        keepalivetime: millis(unread / 2),
        keepaliveinterval: millis(unread / 8),
    };
    let mut returned = 0;
    // SAFETY: the socket is open, and both structures live for as long as the call takes.
    #[expect(unsafe_code)]
    unsafe {
        WSAIoctl(
            stream.as_raw_socket() as usize,
            SIO_KEEPALIVE_VALS,
            (&raw const keepalive).cast(),
            size_of_val(&keepalive) as u32,
            std::ptr::null_mut(),
            0,
            &raw mut returned,
            std::ptr::null_mut(),
            None,
        );
    }
}

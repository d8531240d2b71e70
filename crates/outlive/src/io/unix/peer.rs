//! What the system is told about a connection over TCP.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Has the system find out when a client is gone, or does not read (FM-24).
pub(crate) fn watch(stream: &TcpStream, unread: Duration) {
    // Each may fail: the connection works without it.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    #[cfg(target_os = "linux")]
    {
        let _ = sockopt::set_tcp_keepidle(stream, unread / 2);
        let _ = sockopt::set_tcp_keepintvl(stream, unread / 8);
        let millis = u32::try_from(unread.as_millis()).unwrap_or(u32::MAX);
        let _ = sockopt::set_tcp_user_timeout(stream, millis);
    }
    // macOS has no time limit for what is not acknowledged; its probes are as frequent as they can be.
    #[cfg(target_os = "macos")]
    let _ = sockopt::set_tcp_keepintvl(stream, unread / 8);
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    let _ = unread;
}

//! What the console tells this process.
//!
//! Ctrl-C and Ctrl-Break, and the ends of the console, of the user's session and of the system, all end it. Nothing
//! corresponds to `SIGHUP`.

use std::io;
use std::task::{Context, Poll};

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End the session.
    Stop,
    /// Put a new server under the session. Windows has no signal for it.
    #[allow(dead_code, reason = "Unix has one")]
    Restart,
}

/// The signals that have arrived.
#[derive(Debug)]
pub(crate) struct Signals {
    ctrl_c: CtrlC,
    ctrl_break: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            ctrl_c: ctrl_c()?,
            ctrl_break: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        // Each is asked, so that each wakes us.
        let told = [
            self.ctrl_c.poll_recv(cx),
            self.ctrl_break.poll_recv(cx),
            self.close.poll_recv(cx),
            self.logoff.poll_recv(cx),
            self.shutdown.poll_recv(cx),
        ];
        match told.iter().any(Poll::is_ready) {
            true => Poll::Ready(Signal::Stop),
            false => Poll::Pending,
        }
    }
}

//! A connection to the bus of the user's session (D-Bus), for the few calls that a keyring takes.
//!
//! It is as much of the protocol as these need: a socket of this machine, `EXTERNAL` authentication, method calls one
//! after the other, and one signal. Everything is bounded: what a bus says in size and number, and the whole of it in
//! time. What cannot be understood is the end of the connection, never of the program.

mod address;
#[cfg(test)]
pub(super) mod peer;

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Trouble;
use super::marshal::{Body, Reader};
use address::{Place, places};

/// The longest message that is read; those that a keyring sends have some hundred bytes.
const LONGEST: usize = 1 << 20;
/// So many messages that are for nobody here are skipped.
const MOST_SKIPPED: usize = 1000;
/// The longest line of the authentication.
const LONGEST_LINE: usize = 1024;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

/// Errors by which a bus says that there is no such service, and that none can be started.
const NOBODY: [&str; 3] = [
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.Spawn.",
];
const TOO_LATE: [&str; 3] = [
    "org.freedesktop.DBus.Error.NoReply",
    "org.freedesktop.DBus.Error.TimedOut",
    "org.freedesktop.DBus.Error.Timeout",
];
const IS_LOCKED: &str = "org.freedesktop.Secret.Error.IsLocked";

fn junk() -> Trouble {
    Trouble::Broken("the message bus says what cannot be understood".into())
}

/// A method of an object.
pub(super) struct Target<'a> {
    pub(super) service: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
}

/// A message as it comes in.
#[derive(Debug, Default)]
pub(super) struct Reply {
    kind: u8,
    little: bool,
    to: Option<u32>,
    path: String,
    member: String,
    error: String,
    signature: String,
    body: Vec<u8>,
}

impl Reply {
    /// What it holds, if that has this signature.
    pub(super) fn read<T>(
        &self,
        signature: &str,
        read: impl FnOnce(&mut Reader) -> Option<T>,
    ) -> Result<T, Trouble> {
        match self.signature == signature {
            true => self.read_first(signature, read),
            false => Err(junk()),
        }
    }

    /// What it holds first, if that has this signature.
    pub(super) fn read_first<T>(
        &self,
        signature: &str,
        read: impl FnOnce(&mut Reader) -> Option<T>,
    ) -> Result<T, Trouble> {
        let mut reader = Reader {
            bytes: &self.body,
            at: 0,
            little: self.little,
        };
        let fits = self.signature.starts_with(signature);
        fits.then(|| read(&mut reader)).flatten().ok_or_else(junk)
    }

    /// The fields of its head, of which there are a few that matter.
    fn read_fields(&mut self, fields: &[u8]) -> Option<()> {
        let mut reader = Reader {
            bytes: fields,
            at: 0,
            little: self.little,
        };
        while reader.at < fields.len() {
            reader.align(8)?;
            let field = reader.byte()?;
            match reader.signature()?.as_str() {
                "u" => {
                    let number = reader.number()?;
                    if field == 5 {
                        self.to = Some(number);
                    }
                }
                "g" => {
                    let signature = reader.signature()?;
                    if field == 8 {
                        self.signature = signature;
                    }
                }
                "s" | "o" => {
                    let text = reader.text()?;
                    match field {
                        1 => self.path = text,
                        3 => self.member = text,
                        4 => self.error = text,
                        _ => {}
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }
}

/// A connection to the bus.
pub(super) struct Bus {
    stream: UnixStream,
    serial: u32,
    /// Nothing is waited for any longer.
    deadline: Instant,
    /// Signals that came before they were waited for.
    signals: Vec<Reply>,
}

impl Bus {
    /// Connects to the user's bus, and is done with everything at that time.
    pub(super) fn open(deadline: Instant) -> Result<Bus, Trouble> {
        let address = env::var("DBUS_SESSION_BUS_ADDRESS").ok();
        let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        // Hosts pass hardly any variables on to their servers; this is where most systems have it.
        let usual = format!("/run/user/{}/bus", rustix::process::getuid().as_raw());
        let places = match address.filter(|it| !it.is_empty()) {
            Some(address) => places(&address, runtime.as_deref()),
            None => {
                let runtime = runtime.map(|it| Place::Path(it.join("bus")));
                runtime
                    .into_iter()
                    .chain([Place::Path(usual.into())])
                    .collect()
            }
        };
        let mut why = "there is no session bus".to_owned();
        for place in places {
            match place.connect(deadline) {
                Ok(stream) => return Bus::over(stream, deadline),
                Err(Errno::AGAIN) => return Err(Trouble::Silent),
                Err(error) => why = format!("no session bus answers: {error}"),
            }
        }
        Err(Trouble::Absent(why))
    }

    /// Greets the bus at the other end.
    pub(super) fn over(stream: UnixStream, deadline: Instant) -> Result<Bus, Trouble> {
        let mut bus = Bus {
            stream,
            serial: 0,
            deadline,
            signals: Vec::new(),
        };
        let user = rustix::process::getuid().as_raw().to_string();
        let user: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        bus.write(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        if !bus.line()?.starts_with("OK") {
            return Err(Trouble::Absent("the session bus does not let us in".into()));
        }
        bus.write(b"BEGIN\r\n")?;
        bus.ask_bus("Hello", "", &Body::default())?;
        Ok(bus)
    }

    /// From now on nothing is waited for longer than this.
    pub(super) fn until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Asks for signals that fit this rule.
    pub(super) fn listen(&mut self, rule: &str) -> Result<(), Trouble> {
        let mut body = Body::default();
        body.text(rule);
        self.ask_bus("AddMatch", "s", &body).map(drop)
    }

    fn ask_bus(&mut self, member: &str, signature: &str, body: &Body) -> Result<Reply, Trouble> {
        let target = Target {
            service: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member,
        };
        self.call(&target, signature, body)
    }

    /// Calls a method, and waits for what it returns.
    pub(super) fn call(
        &mut self,
        target: &Target,
        signature: &str,
        body: &Body,
    ) -> Result<Reply, Trouble> {
        self.serial += 1;
        let serial = self.serial;
        if body.0.len() > LONGEST {
            return Err(Trouble::Broken("that is too much to be kept".into()));
        }
        let mut head = Body(vec![b'l', CALL, 0, 1]);
        head.number(body.0.len());
        head.number(serial as usize);
        head.array(8, |head| {
            for (field, kind, text) in [
                (1, "o", target.path),
                (2, "s", target.interface),
                (3, "s", target.member),
                (6, "s", target.service),
            ] {
                head.align(8);
                head.0.push(field);
                head.variant(|head| head.text(text), kind);
            }
            if !signature.is_empty() {
                head.align(8);
                head.0.push(8);
                head.variant(|head| head.signature(signature), "g");
            }
        });
        head.align(8);
        head.0.extend_from_slice(&body.0);
        self.write(&head.0)?;
        for _ in 0..MOST_SKIPPED {
            let reply = self.message()?;
            match reply.kind {
                RETURN if reply.to == Some(serial) => return Ok(reply),
                ERROR if reply.to == Some(serial) => return Err(refusal(&reply)),
                SIGNAL if self.signals.len() < 16 => self.signals.push(reply),
                _ => {}
            }
        }
        Err(junk())
    }

    /// Waits for a signal of an object.
    pub(super) fn signal(
        &mut self,
        path: &str,
        member: &str,
        deadline: Instant,
    ) -> Result<Reply, Trouble> {
        let is_it = |it: &Reply| it.path == path && it.member == member;
        if let Some(at) = self.signals.iter().position(is_it) {
            return Ok(self.signals.remove(at));
        }
        self.deadline = deadline;
        for _ in 0..MOST_SKIPPED {
            let message = self.message()?;
            if message.kind == SIGNAL && is_it(&message) {
                return Ok(message);
            }
        }
        Err(junk())
    }

    fn message(&mut self) -> Result<Reply, Trouble> {
        let fixed = self.read(16)?;
        let little = match fixed[0] {
            b'l' => true,
            b'B' => false,
            _ => return Err(junk()),
        };
        let mut reader = Reader {
            bytes: &fixed,
            at: 4,
            little,
        };
        let numbers = [reader.length(), reader.length(), reader.length()];
        let [Some(body), Some(_), Some(fields)] = numbers else {
            return Err(junk());
        };
        if fixed[3] != 1 || body > LONGEST || fields > LONGEST {
            return Err(junk());
        }
        let mut reply = Reply {
            kind: fixed[1],
            little,
            ..Reply::default()
        };
        let head = self.read(fields.next_multiple_of(8))?;
        reply.read_fields(&head[..fields]).ok_or_else(junk)?;
        reply.body = self.read(body)?;
        Ok(reply)
    }

    /// A line of the authentication.
    fn line(&mut self) -> Result<String, Trouble> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() > LONGEST_LINE {
                return Err(junk());
            }
            line.extend(self.read(1)?);
        }
        String::from_utf8(line).map_err(|_| junk())
    }

    /// How long may still be waited.
    fn left(&self) -> Result<Duration, Trouble> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(Trouble::Silent),
            false => Ok(left),
        }
    }

    fn read(&mut self, length: usize) -> Result<Vec<u8>, Trouble> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let left = self.left()?;
            let waiting = self.stream.set_read_timeout(Some(left));
            match waiting.and_then(|()| self.stream.read(&mut bytes[filled..])) {
                Ok(0) => return Err(Trouble::Broken("the message bus has left".into())),
                Ok(read) => filled += read,
                Err(error) => going_on(&error)?,
            }
        }
        Ok(bytes)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            let left = self.left()?;
            let waiting = self.stream.set_write_timeout(Some(left));
            match waiting.and_then(|()| self.stream.write(bytes)) {
                Ok(0) => return Err(Trouble::Broken("the message bus has left".into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) => going_on(&error)?,
            }
        }
        Ok(())
    }
}

/// Whether reading or writing goes on after this.
fn going_on(error: &std::io::Error) -> Result<(), Trouble> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(Trouble::Silent),
        _ => Err(Trouble::Broken(error.to_string())),
    }
}

/// What an error means that a method returns.
fn refusal(reply: &Reply) -> Trouble {
    let named = |names: &[&str]| names.iter().any(|it| reply.error.starts_with(it));
    if named(&NOBODY) {
        return Trouble::Absent("no program offers one".into());
    }
    if named(&TOO_LATE) {
        return Trouble::Silent;
    }
    if reply.error == IS_LOCKED {
        return Trouble::Locked;
    }
    let shown = |it: &char| it.is_ascii_graphic();
    Trouble::Broken(reply.error.chars().filter(shown).take(100).collect())
}

//! Where the bus of a session is: `unix:path=…`, and the other ways in which its address may be written.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Where a bus is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path(PathBuf),
    #[cfg(target_os = "linux")]
    Abstract(Vec<u8>),
}

impl Place {
    /// Connects; a bus that takes nobody is not waited for longer than this.
    pub(super) fn connect(&self, deadline: Instant) -> rustix::io::Result<UnixStream> {
        let address = match self {
            Place::Path(path) => SocketAddrUnix::new(path)?,
            #[cfg(target_os = "linux")]
            Place::Abstract(name) => SocketAddrUnix::new_abstract_name(name)?,
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        net::connect(&socket, &address)?;
        Ok(socket.into())
    }
}

/// The places that an address names; those of other kinds than sockets of this machine are left out.
pub(super) fn places(address: &str, runtime: Option<&Path>) -> Vec<Place> {
    let mut found = Vec::new();
    for one in address.split(';') {
        let Some(pairs) = one.strip_prefix("unix:") else {
            continue;
        };
        for (key, value) in pairs.split(',').filter_map(|it| it.split_once('=')) {
            let Some(value) = unescape(value) else {
                continue;
            };
            match key {
                "path" => found.push(Place::Path(OsString::from_vec(value).into())),
                #[cfg(target_os = "linux")]
                "abstract" => found.push(Place::Abstract(value)),
                "runtime" if value == b"yes" => {
                    found.extend(runtime.map(|it| Place::Path(it.join("bus"))));
                }
                _ => {}
            }
        }
    }
    found
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_specification_has_them() {
        let runtime = PathBuf::from("/run/user/7");
        let read = |address: &str| places(address, Some(&runtime));
        let path = |path: &str| Place::Path(path.into());
        assert_eq!(read("unix:path=/a/b,guid=12"), [path("/a/b")]);
        assert_eq!(read("tcp:host=x,port=1;unix:path=/a%20b"), [path("/a b")]);
        assert_eq!(read("unix:runtime=yes"), [path("/run/user/7/bus")]);
        for nothing in [
            "",
            "unix:",
            "unix:path",
            "unix:path=%4",
            "unix:path=%zz",
            "launchd:env=X",
        ] {
            assert_eq!(read(nothing), [], "{nothing}");
        }
    }
}

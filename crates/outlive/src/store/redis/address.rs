//! Where a Redis is, as a URL says it.
//!
//! Nothing here tells what it has read in an error: a password may stand anywhere in it.

use std::fmt;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use percent_encoding::percent_decode_str;

use super::StoreError;

/// The forms that are understood.
const FORMS: &str = "redis://HOST:6379, rediss://HOST:6379 (encrypted), redis+sentinel://HOST:26379,HOST:26379/MASTER or \
     redis+cluster://HOST:6379,HOST:6379 is wanted";

/// How the servers are to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One server.
    Alone,
    /// The nodes are sentinels, which know where the server of this name is.
    Sentinel(String),
    /// The nodes are some of a cluster.
    Cluster,
}

/// Where a Redis is, and who we are to it.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) kind: Kind,
    pub(super) nodes: Vec<(String, u16)>,
    pub(super) tls: bool,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

impl Address {
    pub(super) fn read(url: &str) -> Result<Address, StoreError> {
        let wrong = |why: &str| StoreError::new(format!("the address of the Redis {why}; {FORMS}"));
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| wrong("has no scheme"))?;
        let (engine, mode) = scheme
            .split_once('+')
            .map_or((scheme, ""), |(engine, mode)| (engine, mode));
        let tls = match engine {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(wrong("has another scheme")),
        };
        if rest.contains(['?', '#']) {
            return Err(wrong(
                "has a `?` or a `#`, which is to be written as %3F or %23 in a password",
            ));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let port = match mode {
            "sentinel" => 26379,
            _ => 6379,
        };
        let nodes = hosts.split(',').map(|node| host_and_port(node, port));
        let nodes: Option<Vec<(String, u16)>> = nodes.collect();
        let nodes = nodes.ok_or_else(|| {
            wrong(
                "has no host, or a port that is not a number; a password with `/`, `@` or `:` writes them as %2F, %40 \
                 and %3A",
            )
        })?;
        let mut path = path.trim_end_matches('/').split('/');
        let kind = match mode {
            "" if nodes.len() == 1 => Kind::Alone,
            "" => {
                return Err(wrong(
                    "has several hosts, but not whether they are sentinels or a cluster",
                ));
            }
            "cluster" => Kind::Cluster,
            "sentinel" => match path.next() {
                None | Some("") => {
                    return Err(wrong("does not name the master that the sentinels watch"));
                }
                Some(master) => Kind::Sentinel(
                    decoded(master).ok_or_else(|| wrong("has a master that is not UTF-8"))?,
                ),
            },
            _ => return Err(wrong("has another scheme")),
        };
        let database = match path.next() {
            None | Some("") => 0,
            Some(number) => number
                .parse::<u16>()
                .map_err(|_| wrong("has a database that is not a number"))?
                .into(),
        };
        if path.next().is_some() {
            return Err(wrong("goes on behind the database"));
        }
        if kind == Kind::Cluster && database != 0 {
            return Err(wrong("names a database, and a cluster has only one"));
        }
        let mut address = Address {
            kind,
            nodes,
            tls,
            username: None,
            password: None,
            database,
        };
        if let Some(user) = user {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let text = |text: &str| match text {
                "" => Ok(None),
                text => decoded(text)
                    .map(Some)
                    .ok_or_else(|| wrong("has a user or a password that is not UTF-8")),
            };
            (address.username, address.password) = (text(name)?, text(password)?);
        }
        Ok(address)
    }

    /// The nodes, as the library takes them.
    pub(super) fn addresses(&self) -> impl Iterator<Item = ConnectionAddr> {
        self.nodes.iter().map(|(host, port)| match self.tls {
            false => ConnectionAddr::Tcp(host.clone(), *port),
            true => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
        })
    }

    /// The same, with who we are to them.
    pub(super) fn connections(&self) -> Result<Vec<ConnectionInfo>, ::redis::RedisError> {
        let mut who = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_lib_name("outlive", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            who = who.set_username(username);
        }
        if let Some(password) = &self.password {
            who = who.set_password(password);
        }
        let infos = self
            .addresses()
            .map(IntoConnectionInfo::into_connection_info);
        infos
            .map(|info| Ok(info?.set_redis_settings(who.clone())))
            .collect()
    }

    /// The text without the password, should that be in it.
    pub(super) fn mask(&self, text: String) -> String {
        match self.password.as_deref() {
            None | Some("") => text,
            Some(password) => text.replace(password, "***"),
        }
    }
}

/// Whom we ask, in words, for errors. Never who we are to it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Alone => f.write_str("Redis at ")?,
            Kind::Sentinel(master) => write!(f, "Redis {master:?} of the sentinels at ")?,
            Kind::Cluster => f.write_str("the Redis cluster at ")?,
        }
        for (n, (host, port)) in self.nodes.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match host.contains(':') {
                true => write!(f, "{comma}[{host}]:{port}")?,
                false => write!(f, "{comma}{host}:{port}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.into_owned())
}

fn host_and_port(text: &str, otherwise: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                port.strip_prefix(':').or(port.is_empty().then_some(""))?,
            )
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    let port = match port {
        "" => otherwise,
        port => port.parse().ok().filter(|port| *port != 0)?,
    };
    (!host.is_empty() && host.chars().all(is_plain)).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let read = |url| Address::read(url).expect("an address");
        let alone = read("redis://10.0.0.9");
        assert_eq!((alone.kind.clone(), alone.tls), (Kind::Alone, false));
        assert_eq!(alone.nodes, [("10.0.0.9".to_owned(), 6379)]);
        assert_eq!(alone.to_string(), "Redis at 10.0.0.9:6379");
        let encrypted = read("rediss://ann:p%40ss%2Fw@[::1]:7000/3");
        assert_eq!((encrypted.tls, encrypted.database), (true, 3));
        assert_eq!(encrypted.username.as_deref(), Some("ann"));
        assert_eq!(encrypted.password.as_deref(), Some("p@ss/w"));
        assert_eq!(encrypted.to_string(), "Redis at [::1]:7000");
        let sentinel = read("redis+sentinel://:pw@h1,h2:2/mymaster/1");
        assert_eq!(sentinel.kind, Kind::Sentinel("mymaster".into()));
        assert_eq!(
            sentinel.nodes,
            [("h1".to_owned(), 26379), ("h2".to_owned(), 2)]
        );
        assert_eq!((sentinel.username.clone(), sentinel.database), (None, 1));
        let cluster = read("valkeys+cluster://h1:1,h2:2/");
        assert_eq!((cluster.kind, cluster.tls), (Kind::Cluster, true));
    }

    #[test]
    fn an_address_that_makes_no_sense_is_refused_without_telling_it() {
        for url in [
            "s3cret",
            "http://s3cret@h",
            "redis://:s3cret/x@h:1",
            "redis://:s3cret@",
            "redis://:s3cret@h:0",
            "redis://:s3cret@h:70000",
            "redis://:s3cret@h1,h2",
            "redis://:s3cret@h/x",
            "redis://:s3cret@h/1/2",
            "redis://:s3cret@h?protocol=resp3",
            "redis://:s3cret#@h",
            "redis://:%ff s3cret@h",
            "redis+sentinel://:s3cret@h",
            "redis+cluster://:s3cret@h/2",
            "redis+s3cret://h",
            "redis://[s3cret]",
        ] {
            let why = Address::read(url).expect_err(url).to_string();
            assert!(
                !why.contains("s3cret") && why.contains("redis://HOST"),
                "{url}: {why}"
            );
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let address = Address::read("redis://ann:s3cret@h").expect("an address");
        assert!(!format!("{address} {address:?}").contains("s3cret"));
        assert!(!format!("{address} {address:?}").contains("ann"));
        assert_eq!(address.mask("it was s3cret".into()), "it was ***");
    }
}

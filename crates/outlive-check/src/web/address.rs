//! Where a server over HTTP is.

/// The parts of an `http://` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl Address {
    /// From a URL. What is wrong with it, for a person to read.
    pub fn parse(url: &str) -> Result<Address, String> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!(
                "{url}: only http:// addresses can be tested; put the server where no TLS stands in between"
            ));
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let split = match authority.rfind(':') {
            Some(at) if !authority[at..].contains(']') => Some(authority.split_at(at)),
            _ => None,
        };
        let (host, port) = match split {
            Some((host, port)) => (
                host,
                port[1..]
                    .parse()
                    .map_err(|_| format!("{url}: there is no such port"))?,
            ),
            None => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(format!("{url}: there is no host in it"));
        }
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        Ok(Address {
            host: host.to_owned(),
            port,
            path,
        })
    }

    /// As it stands in `Host`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = |host: &str, port, path: &str| Address {
            host: host.into(),
            port,
            path: path.into(),
        };
        assert_eq!(
            Address::parse("http://a.b:1/mcp?x=1"),
            Ok(address("a.b", 1, "/mcp?x=1"))
        );
        assert_eq!(
            Address::parse("http://[::1]:8000/mcp"),
            Ok(address("::1", 8000, "/mcp"))
        );
        assert_eq!(
            Address::parse("http://localhost"),
            Ok(address("localhost", 80, "/"))
        );
        for bad in ["https://a", "http://", "http://a:b/", "http://a:99999"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(address("::1", 8, "/").authority(), "[::1]:8");
    }
}

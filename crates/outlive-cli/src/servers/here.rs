//! Addresses that lead back to us.

use std::net::{IpAddr, Ipv4Addr};

/// What is said of a server at such an address.
pub const WHY: &str = "its address is that of this gateway, which would call itself (cyclic)";

/// Whether a client that connects to `url` reaches what listens at `listen`, as far as that can be told from the words.
pub fn is_here(url: &str, listen: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let default = match scheme {
        "https" => "443",
        _ => "80",
    };
    let (host, port) = host_and_port(authority, default);
    let (our_host, our_port) = host_and_port(listen, "");
    if port != our_port || port == "0" {
        return false;
    }
    match (address(host), address(our_host)) {
        // Who listens everywhere is at every address of this machine; this one is sure to be.
        (Some(ip), Some(ours)) => {
            ip == ours || (ours.is_unspecified() && (ip.is_loopback() || ip.is_unspecified()))
        }
        _ => host.eq_ignore_ascii_case(our_host),
    }
}

fn host_and_port<'a>(authority: &'a str, default: &'a str) -> (&'a str, &'a str) {
    match authority.rsplit_once(':') {
        // An IPv6 address without a port ends with a bracket.
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, default),
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.eq_ignore_ascii_case("localhost") {
        true => Some(Ipv4Addr::LOCALHOST.into()),
        false => host.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_ours_by_host_and_port() {
        for (url, listen, is_it) in [
            ("http://127.0.0.1:8620/mcp", "127.0.0.1:8620", true),
            ("http://localhost:8620", "127.0.0.1:8620", true),
            ("http://u:p@localhost:8620?x", "localhost:8620", true),
            ("http://127.0.0.1:8620/mcp", "0.0.0.0:8620", true),
            ("http://[::1]:8620/mcp", "[::1]:8620", true),
            ("http://[::1]/mcp", "[::1]:80", true),
            ("https://example.com/mcp", "example.com:443", true),
            ("http://127.0.0.1:8621/mcp", "127.0.0.1:8620", false),
            ("http://example.com:8620/mcp", "127.0.0.1:8620", false),
            ("http://127.0.0.1:0/mcp", "127.0.0.1:0", false),
            ("http://10.0.0.1:8620/mcp", "127.0.0.1:8620", false),
        ] {
            assert_eq!(is_here(url, listen), is_it, "{url} {listen}");
        }
    }
}

//! Where metadata may lead us.
//!
//! A server names its authorization server, and that names its endpoints; we fetch what they name. A server somewhere
//! else could so make us ask services that only this machine or this network can reach. Such an address is refused,
//! unless the server itself is as near, or the user has allowed it. A name is judged by the addresses it stands for, at
//! the moment of the connection; and a server whose name stands for another kind of address than at first (DNS
//! rebinding) is from then on as far away as can be. One whose name has always stood for several kinds may be asked at
//! all of them, and leads us where everybody can be.
//!
//! A proxy is where the user leads us, and no server: it may be anywhere. What is asked through one is judged before, by
//! what its name stands for here. A name that stands for nothing here is the proxy's affair, which looks it up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use tokio::time::timeout;

/// Where there is a proxy, names may stand for nothing here, and take long to say so.
const LOOK_UP: Duration = Duration::from_secs(3);
/// The variables that name proxies.
const PROXIES: [&str; 6] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
];

/// Who can reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Everybody.
    Public,
    /// This network.
    Private,
    /// This machine.
    Loopback,
    /// This wire; also what nobody should ask for metadata (multicast).
    Link,
}

impl Reach {
    fn of(address: IpAddr) -> Reach {
        match address {
            IpAddr::V4(address) => Reach::of_v4(address),
            IpAddr::V6(address) => Reach::of_v6(address),
        }
    }

    fn of_v4(it: Ipv4Addr) -> Reach {
        let shared = it.octets()[0] == 100 && it.octets()[1] & 0xc0 == 64;
        // For protocols (RFC 6890) and for measurements (RFC 2544): nobody on the Internet has these.
        let own_use = matches!(it.octets(), [192, 0, 0, _] | [198, 18 | 19, ..]);
        match it {
            _ if it.is_loopback() || it.octets()[0] == 0 => Reach::Loopback,
            _ if it.is_link_local() || it.is_multicast() || it.octets()[0] >= 240 => Reach::Link,
            _ if it.is_private() || shared || own_use => Reach::Private,
            _ => Reach::Public,
        }
    }

    fn of_v6(it: Ipv6Addr) -> Reach {
        let parts = it.segments();
        let inner = |high: u16, low: u16| {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            Reach::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match parts {
            _ if it.is_loopback() || it.is_unspecified() => Reach::Loopback,
            // An IPv4 address in another dress: mapped, compatible, translated, NAT64, 6to4.
            [0, 0, 0, 0, 0, 0xffff, high, low] => inner(high, low),
            [0, 0, 0, 0, 0, 0, high, low] => inner(high, low),
            [0, 0, 0, 0, 0xffff, 0, high, low] => inner(high, low),
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
            [0x64, 0xff9b, 1, .., high, low] => inner(high, low),
            [0x2002, high, low, ..] => inner(high, low),
            [first, ..] if first & 0xffc0 == 0xfe80 || first & 0xff00 == 0xff00 => Reach::Link,
            // For a site, by the newer rule and by the older one.
            [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Reach::Private,
            _ => Reach::Public,
        }
    }

    /// What an address says by itself; none if it is a name.
    pub(super) fn of_host(url: &Url) -> Option<Reach> {
        let host = url.host_str()?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = host.trim_end_matches('.');
        if host == "localhost" || host.ends_with(".localhost") {
            return Some(Reach::Loopback);
        }
        host.parse::<IpAddr>().ok().map(Reach::of)
    }

    /// Whether a server that is this near may lead us there.
    fn may_lead_to(self, there: Reach) -> bool {
        match there {
            Reach::Public => true,
            Reach::Private => matches!(self, Reach::Private | Reach::Loopback),
            Reach::Loopback => self == Reach::Loopback,
            Reach::Link => self == Reach::Link,
        }
    }
}

/// Decides where a server may lead us.
#[derive(Debug)]
pub(super) struct Guard {
    server: Url,
    seen: Mutex<Seen>,
    /// The user lets it lead anywhere.
    open: bool,
    /// The hosts of the proxies that the user has named.
    proxies: Vec<String>,
}

/// What the name of a server has stood for.
#[derive(Debug)]
struct Seen {
    /// Every kind of address there was at first. Once there was another: none but those that everybody can reach.
    kinds: Vec<Reach>,
    /// How near the server is.
    near: Reach,
}

impl Seen {
    fn at_first(kinds: Vec<Reach>) -> Seen {
        let near = together(&kinds);
        Seen { kinds, near }
    }
}

impl Guard {
    /// The guard of this server; a name is looked up.
    pub(super) async fn of(server: &Url, open: bool) -> Guard {
        let variables = PROXIES.iter().filter_map(|it| std::env::var(it).ok());
        let proxies: Vec<String> = variables.filter_map(|it| proxy_host(&it)).collect();
        let kinds = match Reach::of_host(server) {
            Some(near) => vec![near],
            None => {
                let host = server.host_str().unwrap_or_default().to_owned();
                let found = look_up(&host, !proxies.is_empty()).await;
                found.iter().map(|it| Reach::of(it.ip())).collect()
            }
        };
        Guard {
            server: server.clone(),
            seen: Mutex::new(Seen::at_first(kinds)),
            open,
            proxies,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which of the addresses that a name stands for now may be asked.
    fn allowed(&self, name: &str, found: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut seen = self.seen();
        let own = self.server.host_str() == Some(name);
        let mut kinds = found.iter().map(|it| Reach::of(it.ip()));
        let unchanged = own && kinds.all(|it| seen.kinds.contains(&it));
        if own && !unchanged {
            // Whoever gives their name another meaning leads us nowhere but away, also when it has the first one again.
            *seen = Seen::at_first(vec![Reach::Public]);
        }
        let near = seen.near;
        let fits = |there: Reach| self.open || unchanged || near.may_lead_to(there);
        let found = found.iter().copied();
        found.filter(|it| fits(Reach::of(it.ip()))).collect()
    }

    /// Whether this is the host of a proxy that the user has named.
    fn is_proxy(&self, name: &str) -> bool {
        self.proxies.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Why an address is not asked, if it is not: as [`Guard::check`], and, where a proxy may be what looks its name up,
    /// by what that stands for here.
    pub(super) async fn check_name(&self, url: &Url) -> Result<(), String> {
        self.check(url)?;
        let host = url.host_str().unwrap_or_default();
        if self.proxies.is_empty() || Reach::of_host(url).is_some() {
            return Ok(());
        }
        self.check_found(host, &look_up(host, true).await)
    }

    /// Why a name is not asked that stands for this, if it is not.
    fn check_found(&self, name: &str, found: &[SocketAddr]) -> Result<(), String> {
        match found.is_empty() || !self.allowed(name, found).is_empty() {
            true => Ok(()),
            false => Err(self.refusal(name)),
        }
    }

    /// Why an address is not asked, if it is not: by how it is written. Names are judged when they are looked up.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let own = url.origin() == self.server.origin();
        let shown = match url.has_host() {
            true => url.origin().ascii_serialization(),
            false => format!("{}:…", url.scheme()),
        };
        match url.scheme() {
            "https" => {}
            // OAuth 2.1 wants TLS for everybody but this machine; a server that has none cannot have more.
            "http" if own || Reach::of_host(url) == Some(Reach::Loopback) || self.open => {}
            _ => return Err(format!("{shown} is not asked: it is not https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "{shown} is not asked: there are credentials in its address"
            ));
        }
        match Reach::of_host(url) {
            Some(there) if !own && !self.open && !self.seen().near.may_lead_to(there) => {
                Err(self.refusal(&shown))
            }
            _ => Ok(()),
        }
    }

    fn refusal(&self, shown: &str) -> String {
        format!(
            "{shown} is not asked: the server led us to an address that only this machine or network can reach \
             (if that is right, allow it with --allow-private-login)"
        )
    }
}

/// The host that a variable names as a proxy.
fn proxy_host(variable: &str) -> Option<String> {
    let whole = match variable.contains("://") {
        true => variable.to_owned(),
        false => format!("http://{variable}"),
    };
    Url::parse(&whole).ok()?.host_str().map(str::to_owned)
}

/// What a name stands for here; nothing, if that cannot be said, or not soon enough for somebody who need not know.
async fn look_up(host: &str, bounded: bool) -> Vec<SocketAddr> {
    let found = async {
        let found = lookup_host((host, 443)).await;
        found.map(Iterator::collect).unwrap_or_default()
    };
    match bounded {
        true => timeout(LOOK_UP, found).await.unwrap_or_default(),
        false => found.await,
    }
}

/// How near somebody is who has all these addresses. What is here and there is nowhere in particular.
fn together(all: &[Reach]) -> Reach {
    match all {
        [first, rest @ ..] if rest.iter().all(|it| it == first) => *first,
        _ => Reach::Public,
    }
}

/// Looks up names, and leaves out the addresses we are not to be led to.
pub(super) struct Resolver(pub(super) Arc<Guard>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let found: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            // Whoever is to be asked through it was judged before.
            if guard.is_proxy(name.as_str()) {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let allowed = guard.allowed(name.as_str(), &found);
            if allowed.is_empty() && !found.is_empty() {
                return Err(guard.refusal(name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_known_in_every_dress() {
        for (address, reach) in [
            ("127.0.0.1", Reach::Loopback),
            ("0.0.0.0", Reach::Loopback),
            ("10.1.2.3", Reach::Private),
            ("172.31.0.1", Reach::Private),
            ("192.168.0.1", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("169.254.169.254", Reach::Link),
            ("224.0.0.1", Reach::Link),
            ("8.8.8.8", Reach::Public),
            ("::1", Reach::Loopback),
            ("::", Reach::Loopback),
            ("fe80::1", Reach::Link),
            ("fd00::1", Reach::Private),
            ("::ffff:169.254.169.254", Reach::Link),
            ("64:ff9b::a00:1", Reach::Private),
            ("2002:7f00:1::", Reach::Loopback),
            ("::127.0.0.1", Reach::Loopback),
            ("::ffff:0:10.0.0.1", Reach::Private),
            ("64:ff9b:1::7f00:1", Reach::Loopback),
            ("fec0::1", Reach::Private),
            ("192.0.0.192", Reach::Private),
            ("198.19.0.1", Reach::Private),
            ("255.255.255.255", Reach::Link),
            ("240.0.0.1", Reach::Link),
            ("100.100.100.200", Reach::Private),
            ("fd00:ec2::254", Reach::Private),
            ("2606:4700::1111", Reach::Public),
        ] {
            assert_eq!(Reach::of(address.parse().unwrap()), reach, "{address}");
        }
    }

    #[tokio::test]
    async fn a_server_leads_no_nearer_than_it_is() {
        let table = [
            ("https://8.8.8.8/mcp", "https://1.1.1.1/token", true),
            ("https://8.8.8.8/mcp", "https://10.0.0.1/token", false),
            ("https://8.8.8.8/mcp", "https://127.0.0.1/token", false),
            ("https://8.8.8.8/mcp", "https://[::1]/token", false),
            ("https://8.8.8.8/mcp", "http://localhost:8080/token", false),
            (
                "https://8.8.8.8/mcp",
                "https://169.254.169.254/latest",
                false,
            ),
            ("https://8.8.8.8/mcp", "https://localhost./token", false),
            ("https://8.8.8.8/mcp", "https://a.localhost/token", false),
            // 127.0.0.1 and 169.254.169.254, in other letters.
            ("https://8.8.8.8/mcp", "https://2130706433/token", false),
            ("https://8.8.8.8/mcp", "https://0x7f.1/token", false),
            ("https://8.8.8.8/mcp", "https://0177.0.0.1/token", false),
            ("https://8.8.8.8/mcp", "https://127.1/token", false),
            ("https://8.8.8.8/mcp", "https://2852039166/latest", false),
            (
                "https://8.8.8.8/mcp",
                "https://[::ffff:7f00:1]/token",
                false,
            ),
            (
                "https://8.8.8.8/mcp",
                "https://[::ffff:169.254.169.254]/",
                false,
            ),
            ("https://8.8.8.8/mcp", "http://1.1.1.1/token", false),
            ("https://8.8.8.8/mcp", "https://me@1.1.1.1/token", false),
            ("https://8.8.8.8/mcp", "file:///etc/passwd", false),
            ("http://10.0.0.1/mcp", "https://10.0.0.2/token", true),
            ("http://10.0.0.1/mcp", "http://10.0.0.1/token", true),
            ("http://10.0.0.1/mcp", "https://169.254.169.254/", false),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", true),
            ("http://127.0.0.1:1/mcp", "https://169.254.169.254/", false),
        ];
        for (server, there, allowed) in table {
            let guard = Guard::of(&server.parse().unwrap(), false).await;
            let checked = guard.check(&there.parse().unwrap());
            assert_eq!(checked.is_ok(), allowed, "{server} -> {there}: {checked:?}");
        }
        let open = Guard::of(&"https://8.8.8.8/mcp".parse().unwrap(), true).await;
        assert!(
            open.check(&"https://10.0.0.1/token".parse().unwrap())
                .is_ok()
        );
    }

    /// DNS rebinding: a name that stands for this machine while it is judged, and for somebody else when it is asked;
    /// and the other way round.
    #[tokio::test]
    async fn a_name_that_changes_its_meaning_leads_nowhere_near() {
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let (here, wire, there) = (
            address("127.0.0.1"),
            address("169.254.169.254"),
            address("8.8.8.8"),
        );
        let guard = |kinds: &[Reach]| Guard {
            server: "https://evil.example/mcp".parse().unwrap(),
            seen: Mutex::new(Seen::at_first(kinds.to_vec())),
            open: false,
            proxies: Vec::new(),
        };
        let local = "http://127.0.0.1:8080/token".parse().unwrap();
        let it = guard(&[Reach::Loopback]);
        assert!(it.check(&local).is_ok(), "who is here may lead here");
        assert_eq!(it.allowed("evil.example", &[here]), [here]);
        assert_eq!(it.allowed("evil.example", &[there]), [there]);
        assert!(it.check(&local).is_err(), "it is not here after all");
        assert_eq!(it.allowed("evil.example", &[here, there]), [there]);
        assert_eq!(it.allowed("evil.example", &[here]), [], "nor here again");
        assert_eq!(it.allowed("other.example", &[here, wire]), []);
        let it = guard(&[Reach::Public]);
        assert_eq!(it.allowed("evil.example", &[here, wire]), []);
        assert_eq!(it.allowed("evil.example", &[there]), [there]);
        // One that has always been in two places, and is now in a third.
        let near = address("10.0.0.1");
        let it = guard(&[Reach::Private, Reach::Public]);
        assert_eq!(it.allowed("evil.example", &[there, near, here]), [there]);
        assert_eq!(it.allowed("evil.example", &[there, near]), [there]);
        // One that was nowhere at first.
        let it = guard(&[]);
        assert_eq!(it.allowed("evil.example", &[near, there]), [there]);
    }

    /// A server in the local network has an address of the wire beside its own, or one that everybody can reach.
    #[tokio::test]
    async fn a_server_in_two_places_may_be_asked_at_both() {
        for (one, other) in [
            ("192.168.1.5", "fe80::1234"),
            ("192.168.1.5", "2606:4700::1111"),
        ] {
            let both = [one, other].map(|it| SocketAddr::new(it.parse().unwrap(), 0));
            let kinds = both.iter().map(|it| Reach::of(it.ip())).collect();
            let it = Guard {
                server: "https://nas.local/mcp".parse().unwrap(),
                seen: Mutex::new(Seen::at_first(kinds)),
                open: false,
                proxies: Vec::new(),
            };
            assert_eq!(it.allowed("nas.local", &both), both);
            assert_eq!(it.allowed("nas.local", &both[..1]), both[..1]);
            assert_eq!(it.allowed("nas.local", &both), both, "as at first");
            let led = it.allowed("other.example", &both[..1]);
            assert_eq!(led, [], "it is nowhere in particular");
        }
    }

    /// A proxy is named by the user, and may be near; whoever is asked through it may not be nearer than the server.
    #[tokio::test]
    async fn a_proxy_is_no_place_that_a_server_leads_to() {
        for (variable, host) in [
            ("http://proxy.corp:3128", Some("proxy.corp")),
            ("proxy.corp:3128", Some("proxy.corp")),
            ("https://me:secret@Proxy.Corp", Some("proxy.corp")),
            ("10.0.0.1:3128", Some("10.0.0.1")),
            ("", None),
        ] {
            assert_eq!(proxy_host(variable).as_deref(), host, "{variable}");
        }
        let it = Guard {
            server: "https://mcp.example/mcp".parse().unwrap(),
            seen: Mutex::new(Seen::at_first(vec![Reach::Public])),
            open: false,
            proxies: vec!["localhost".into()],
        };
        let it = Arc::new(it);
        let name = |text: &str| text.parse::<Name>().unwrap();
        let proxy = Resolver(it.clone()).resolve(name("localhost")).await;
        assert!(proxy.is_ok_and(|mut all| all.next().is_some()));
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let (near, there) = (address("10.0.0.1"), address("8.8.8.8"));
        assert!(it.check_found("login.corp", &[near]).is_err());
        assert!(it.check_found("localhost", &[near]).is_err());
        assert!(it.check_found("login.example", &[there]).is_ok());
        assert!(it.check_found("known.to.the.proxy", &[]).is_ok());
        let near = "https://10.0.0.1/token".parse().unwrap();
        assert!(it.check_name(&near).await.is_err());
    }
}
